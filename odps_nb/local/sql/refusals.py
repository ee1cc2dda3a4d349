"""Says in our words what the SQL parser and DuckDB refuse, with the place and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from odps_nb.errors import InvalidRequestError
from odps_nb.local import faults
from odps_nb.local.sql.macros import FAR
from odps_nb.local.sql.tokenizer import is_keyword
from odps_nb.terms import shorten
from odps_nb.wire.calls.errors import with_advice

_SHOWN = 200


class FarTime(InvalidRequestError):
    """The query read text with nanoseconds, which have no such year; it runs in microseconds."""


_NEAR, _NEAR_WORD = 0.6, 0.7
_WORDS = (
    *("select", "from", "where", "group", "order", "having", "limit", "join", "left", "right"),
    *("inner", "full", "cross", "union", "distinct", "between", "partition", "lateral", "case"),
)


# Built-in functions of MaxCompute, which tell one that the embedded service lacks from a misspelled
# name. Written from memory, not compared with the vendor's manual name by name.
_FUNCTIONS = """
    abs acos add_months aggregate all_match any_match any_value approx_distinct arg_max arg_min
    array array_append array_contains array_distinct array_except array_intersect array_join
    array_max array_min array_normalize array_position array_product array_reduce array_remove
    array_repeat array_sort array_union arrays_overlap arrays_zip ascii asin atan atan2 avg
    base64 bin bit_count bitwise_and_agg bitwise_or_agg bitwise_xor_agg bround cast cbrt ceil
    ceiling char_matchcount chr coalesce collect_list collect_set combinations compress concat
    concat_ws conv corr cos cosh cot count count_if covar_pop covar_samp crc32 cume_dist
    current_date current_timestamp current_timezone date_add date_format date_sub dateadd
    datediff datepart datetrunc day dayofmonth dayofweek dayofyear decode decompress degrees
    dense_rank e encode exp explode extract factorial field filter find_in_set first_value
    flatten floor fnv_hash format_number from_json from_unixtime from_utc_timestamp
    get_idcard_age get_idcard_birthday get_idcard_sex get_json_object get_user_id getdate
    greatest hash hex histogram hour if index initcap inline instr is_encoding isdate isnan
    isnull json_array json_array_agg json_array_append json_contains json_contains_path
    json_depth json_exists json_extract json_format json_keys json_length json_object
    json_object_agg json_parse json_pretty json_quote json_remove json_search json_set json_size
    json_tuple json_type json_unquote json_valid json_value keyvalue keyvalue_tuple kurtosis lag
    last_day last_value lastday lead least length lengthb ln locate log log10 log2 lower lpad
    ltrim map map_agg map_concat map_entries map_filter map_from_arrays map_from_entries
    map_keys map_union map_union_sum map_values map_zip_with mask_hash max max_by max_pt md5
    median min min_by minute month months_between multimap_agg multimap_from_entries
    named_struct negative next_day ngrams now nth_value ntile nullif numeric_histogram nvl nvl2
    ordinal overlay parse_url parse_url_tuple partition_exists percent_rank percentile
    percentile_approx pi posexplode positive pow power quarter radians rand rank reduce
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope repeat replace reverse rint
    round row_number rpad rtrim sample second sequence sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned shuffle sign sin sinh size skewness slice sort_array soundex space split
    split_part sqrt stack stddev stddev_samp str_to_map strpos struct substr substring
    substring_index sum table_exists tan tanh to_char to_date to_json to_millis to_utc_timestamp
    tolower toupper trans_array trans_cols transform transform_keys transform_values translate
    trim trunc trunc_time typeof unbase64 unhex unique_id unix_timestamp upper url_decode
    url_encode uuid var_samp variance weekday weekofyear width_bucket wm_concat year zip_with
"""
_MAXCOMPUTE = frozenset(_FUNCTIONS.split())


@dataclass(frozen=True, slots=True)
class QueryNames:
    """The names of a query: places (line, column) by name in lower case, and those known."""

    columns: Mapping[str, tuple[int, int]]
    functions: Mapping[str, tuple[int, int]]
    known_columns: tuple[str, ...] = ()
    known_tables: tuple[str, ...] = ()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``check the spelling: did you mean x?`` if a name is near, else an empty text."""
    by_key = {one.casefold(): one for one in known}
    by_key.pop(name.casefold(), None)  # it is there, but not at this place
    near = get_close_matches(name.casefold(), by_key, n=1, cutoff=_NEAR)
    return f"check the spelling: did you mean {by_key[near[0]]}?" if near else ""


def unreadable(error: Any, text: str) -> Exception:
    """Return the error for a text that sqlglot cannot parse."""
    first = error.errors[0] if getattr(error, "errors", None) else {}
    said = str(first.get("description", error)).splitlines()[0]
    word = str(first.get("highlight") or "")
    line = first.get("line") or 1
    # sqlglot names the end of the word, the service its beginning
    column = max(1, (first.get("col") or 1) - max(1, len(word)) + 1)
    before, at = _word_before(text, line, column)
    for one, place in ((before, at), (word, column)):
        near = get_close_matches(one.lower(), _WORDS, n=1, cutoff=_NEAR_WORD)
        if near and said.startswith("Invalid expression") and not is_keyword(one.upper()):
            return faults.parse_failed(
                f"{one!r} is not expected here",
                at=(line, place),
                advice=f"check the spelling: did you mean {near[0].upper()}?",
            )
    return faults.parse_failed(_parser_words(said, word), at=(line, column))


def _word_before(text: str, line: int, column: int) -> tuple[str, int]:
    lines = text.split("\n")
    head = lines[line - 1][: column - 1].rstrip() if line <= len(lines) else ""
    found = re.search(r"[A-Za-z_]+\Z", head)
    return (found[0], found.start() + 1) if found else ("", column)


def _parser_words(said: str, word: str) -> str:
    if said.startswith("Expecting"):
        return f"expected {said.removeprefix('Expecting ')}, found {word!r}"
    if said.startswith("Required keyword"):
        return f"an expression is missing after {word!r}"
    if found := re.search(r"arguments \((\d+)\) is greater than .* \((\d+)\)", said):
        return f"the function takes at most {found[2]} arguments, not {found[1]}"
    if "cannot take it apart" in said:
        return said
    return f"{word!r} is not expected here" if word else "the text cannot be read"


_QUOTED = r"[\"']([^\"']+)[\"']"
Refusal = Callable[[re.Match[str], QueryNames], Exception]


def refusal(said: str, names: QueryNames) -> Exception:
    """Return the error for what DuckDB says of a query, in the words of this service."""
    kind, _, rest = said.partition(": ")
    if not kind.endswith("Error"):
        kind, rest = "Error", said
    for pattern, answer in _KNOWN:
        if found := re.search(pattern, rest):
            return answer(found, names)
    plain = _plain(rest)
    if kind in ("Parser Error", "Binder Error", "Catalog Error"):
        return _semantic(f"the query cannot be run: {plain}")
    if kind == "Out of Memory Error":  # DuckDB's text is about its settings
        return faults.invalid("ODPS-0121095: the query needs more memory than it may have")
    what, advice = _KINDS.get(kind, ("the query failed", "write it in another way"))
    return _failure(f"{what}: {plain}", advice)


_KINDS = {
    "Conversion Error": ("a value cannot be converted", "cast it to the other type, or filter it"),
    "Out of Range Error": ("a value is out of range", "cast to a wider type, or filter such rows"),
    "Invalid Input Error": ("a value is not valid", "check the arguments and the rows"),
}


def _semantic(message: str, at: tuple[int, int] = (1, 1), advice: str = "") -> Exception:
    return faults.parse_failed(
        f"Semantic analysis exception - {message}",
        at=at,
        advice=advice or "check the names, types and clauses of the query",
    )


def _failure(message: str, advice: str) -> Exception:
    return faults.invalid(with_advice(f"ODPS-0121095: {message}", advice))


def _says(message: str, advice: str, *, plain: bool = False) -> Refusal:
    """Refuse a query; ``{0}`` is the first group of the pattern, and the name that is marked.

    With ``plain`` the groups are types.
    """

    def answer(found: re.Match[str], names: QueryNames) -> Exception:
        groups = [_plain(group) for group in found.groups()] if plain else found.groups()
        at = names.columns.get(groups[0].casefold(), (1, 1)) if groups else (1, 1)
        return _semantic(message.format(*groups), at, advice.format(*groups))

    return answer


def _fails(message: str, advice: str) -> Refusal:
    """Say that a value cannot be computed; ``{0}`` is the first group of the pattern."""
    return lambda found, _names: _failure(message.format(*found.groups()), advice)


def _no_column(found: re.Match[str], names: QueryNames) -> Exception:
    name = found[1]
    shown = ", ".join(dict.fromkeys(names.known_columns))
    listed = f"check the name: the columns are {shorten(shown, _SHOWN)}" if shown else ""
    if name.casefold() in map(str.casefold, names.known_columns):
        listed = "check that the subquery or table in FROM gives it under this name"
    advice = did_you_mean(name, names.known_columns) or listed
    return _semantic(
        f"there is no column {name}", names.columns.get(name.casefold(), (1, 1)), advice
    )


def _no_table(found: re.Match[str], names: QueryNames) -> Exception:
    name = found[1].rpartition(".")[2]
    listed = f"check the names in FROM: {shorten(', '.join(names.known_tables), _SHOWN)}"
    return _semantic(
        f"there is no table or alias {name} in FROM",
        names.columns.get(name.casefold(), (1, 1)),
        did_you_mean(name, names.known_tables) or listed,
    )


def _no_function(found: re.Match[str], names: QueryNames) -> Exception:
    from odps_nb.local.sql.functions import function_names

    name = found[1]
    at = names.functions.get(name.casefold(), (1, 1))
    is_sure = name.casefold() in _MAXCOMPUTE
    if not is_sure and (advice := did_you_mean(name, function_names() & _MAXCOMPUTE)):
        return _semantic(f"there is no function {name}", at, advice)
    return faults.lacks(f"function {name}", is_sure=is_sure, at=at)


def _arguments(found: re.Match[str], names: QueryNames) -> Exception:
    name = found[1].removeprefix("mc_")
    known = name.casefold() in names.functions
    return _semantic(
        f"{'the' if known else 'a'} function {name} does not take these arguments",
        names.functions.get(name.casefold(), (1, 1)),
        "check the number and the types of its arguments",
    )


def _not_converted(found: re.Match[str], _names: QueryNames) -> Exception:
    kind = _DUCK_NAMES.get(found[2].split("(")[0], found[2])
    return _failure(
        f"the value {found[1]!r} cannot be converted to {kind}",
        "compare values of one type, or cast the text where it can be cast",
    )


_DUCK_NAMES = {
    **dict.fromkeys(("INT64", "UINT64", "HUGEINT", "UHUGEINT", "INT128"), "BIGINT"),
    **dict.fromkeys(("INT32", "INTEGER", "INTEGER_LITERAL"), "INT"),
    **dict.fromkeys(("VARCHAR", "STRING_LITERAL"), "STRING"),
    **{"INT8": "TINYINT", "INT16": "SMALLINT", "BOOL": "BOOLEAN"},
    **{"TIMESTAMP_MS": "DATETIME", "TIMESTAMP_NS": "TIMESTAMP"},
}
_OPERANDS = _says(
    "the operator {0} does not take these types: {1}",
    "cast one side to the type of the other",
    plain=True,
)
_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (
        f"{FAR}|Could not convert Timestamp to higher precision",
        lambda _found, _names: FarTime(
            with_advice(f"ODPS-0121095: {FAR}", "filter such rows"), status=400
        ),
    ),
    (
        r"does not fit in precision|Decimal value|for Decimal d:|to type DECIMAL\(38,"
        r"|Overflow in (?:HUGEINT|\w+ of (?:DECIMAL|INT128))|cast value -?\d+ to DECIMAL\(38,",
        lambda _found, _names: faults.lacks("DECIMAL of more than 38 digits in SQL", is_sure=True),
    ),
    (rf"Referenced column {_QUOTED} not found", _no_column),
    (rf"does not have a column named {_QUOTED}", _no_column),
    (rf"Referenced table {_QUOTED} not found", _no_table),
    (
        rf"Ambiguous reference to column name {_QUOTED}",
        _says("the column {0} is in several tables", "write the table before it, such as a.{0}"),
    ),
    (r"Function with name (\w+) does not exist", _no_function),
    (r"Macro (\w+)\(\) does not support", _arguments),
    (r"No function matches the given name and argument types [\"']([a-z_0-9]+)\(", _arguments),
    (r"argument types [\"']([^\w\s(]+)\((.*?)\)[\"']", _OPERANDS),
    (r"best candidate function for the function call [\"'](\w+)\(", _arguments),
    (
        r"Unimplemented type for cast \(([^>]+) -> ([^)]+)\)",
        _says("{0} cannot be cast to {1}", "compare and cast values of related types", plain=True),
    ),
    (
        rf"column {_QUOTED} must appear in the GROUP BY",
        _says(
            "the column {0} is neither grouped nor aggregated",
            "add it to GROUP BY, or write an aggregate such as max({0})",
        ),
    ),
    (
        rf"Could not find key {_QUOTED} in struct",
        _says("the STRUCT has no member {0}", "check the members in the schema of the table"),
    ),
    (
        r"STRUCT to STRUCT cast must have",
        _says(
            "a STRUCT has other members than the one that it is cast to",
            "write named_struct('name', value) with the members of the column",
        ),
    ),
    (
        r"aggregate function calls cannot be nested",
        _says("an aggregate stands inside of another one", "write the inner one in a subquery"),
    ),
    (
        r"WHERE clause cannot contain aggregates",
        _says("WHERE cannot hold an aggregate", "write the condition in HAVING"),
    ),
    (
        r"Set operations can only apply",
        _says("the queries of UNION have different numbers of columns", "make them the same"),
    ),
    (
        r"GROUP BY term out of range|ORDER term out of range",
        _says("a number names no column of the query", "check the numbers of GROUP BY, ORDER BY"),
    ),
    (
        r"UNNEST\(\) can only be applied to lists",
        _says("EXPLODE takes an ARRAY or a MAP", "check the type of its argument"),
    ),
    (
        r"duplicate key",
        _fails(
            "the embedded service computes no MAP that has a key twice",
            "read such columns with table.read(), which gives these maps as they are",
        ),
    ),
    (
        r"unicode|UTF-?8",
        _fails(
            "this function of the embedded service takes no text that is not UTF-8; reads, "
            "comparisons and groups do",
            "filter such rows, or compute on what table.read(text='binary') gives",
        ),
    ),
    (
        r"Division by zero",
        _fails("a number is divided by zero", "write nullif(divisor, 0), or filter such rows"),
    ),
    (
        r"(?:[Dd]ate|timestamp)(?: field value)? out of range: \"?([\d :.-]+)",
        _fails("there is no date {0}", "check the text, or filter such rows"),
    ),
    (
        r"LIMIT/OFFSET cannot be negative",
        _says("LIMIT and OFFSET cannot be negative", "write a number from 0 on"),
    ),
    (r"best candidate function for the function call [\"']([^\w\s(]+)\((.*?)\)[\"']", _OPERANDS),
    (
        r"Could not parse string \"(.*?)\" according to format",
        _fails(
            "the text {0!r} is not a date of the format of TO_DATE",
            "check the format, such as 'yyyy-mm-dd', or filter such rows",
        ),
    ),
    (r"[Cc]ould not convert string '((?:[^'])*)' to ([\w()]+)", _not_converted),
)


def _plain(text: str) -> str:
    """Return what DuckDB says without the names that only it knows."""
    text = re.sub(r" when casting from source column (\w+)", r" (in the column \1)", text)
    text = re.sub(r"\b(\w+)\[\]", r"ARRAY<\1>", text)
    text = re.sub(r"\bmc_(?=\w)", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\b__\w+", "the table", text).strip().rstrip("!")
    for duck, name in _DUCK_NAMES.items():
        text = re.sub(rf"\b{duck}\b", name, text)
    return text[:500]
