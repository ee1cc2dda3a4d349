"""Says in our words what the SQL parser and DuckDB refuse, with the place and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from odps_nb.errors import InvalidRequestError
from odps_nb.local import faults
from odps_nb.local.sql.function_names import MAXCOMPUTE
from odps_nb.local.sql.functions import FAR, function_names
from odps_nb.local.sql.tokenizer import is_keyword
from odps_nb.wire.calls.errors import with_advice

_SHOWN = 200


class FarTime(InvalidRequestError):
    """The query read text with nanoseconds, which have no such year; it runs in microseconds."""


_NEAR, _NEAR_WORD = 0.6, 0.7
_WORDS = (
    *("select", "from", "where", "group", "order", "having", "limit", "join", "left", "right"),
    *("inner", "full", "cross", "union", "distinct", "between", "partition", "lateral", "case"),
)


@dataclass(frozen=True, slots=True)
class Names:
    """Where the names of a query stand, and which ones there are.

    Places are line and column, by the name in lower case.
    """

    columns: Mapping[str, tuple[int, int]]
    functions: Mapping[str, tuple[int, int]]
    known_columns: tuple[str, ...] = ()
    known_tables: tuple[str, ...] = ()


def names_of(query: Any) -> Names:
    """Return the places of the names in a query as it was parsed."""
    from sqlglot import exp

    columns: dict[str, tuple[int, int]] = {}
    functions: dict[str, tuple[int, int]] = {}
    for node in query.walk():
        if isinstance(node, exp.Identifier):
            columns.setdefault(node.name.casefold(), place_of(node))
        elif isinstance(node, exp.Anonymous):
            functions.setdefault(node.name.casefold(), place_of(node))
        elif isinstance(node, exp.Func):
            functions.setdefault(node.sql_name().casefold(), place_of(node))
    aliases = (one.alias for one in query.find_all(exp.Alias))
    tables = (one.alias_or_name for one in query.find_all(exp.Table, exp.Subquery, exp.CTE))
    return Names(
        columns,
        functions,
        known_columns=tuple(filter(None, aliases)),
        known_tables=tuple(filter(None, tables)),
    )


def place_of(node: Any) -> tuple[int, int]:
    """Return line and column of a node's first character; 1, 1 if it is not known."""
    meta = node.meta
    if "col" not in meta:
        return 1, 1
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


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
                line=line,
                column=place,
                advice=f"check the spelling: did you mean {near[0].upper()}?",
            )
    return faults.parse_failed(_parser_words(said, word), line=line, column=column)


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


def refusal(said: str, names: Names) -> Exception:
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
    return faults.invalid(with_advice(f"ODPS-0121095: {what}: {plain}", advice))


_KINDS = {
    "Conversion Error": ("a value cannot be converted", "cast it to the other type, or filter it"),
    "Out of Range Error": ("a value is out of range", "cast to a wider type, or filter such rows"),
    "Invalid Input Error": ("a value is not valid", "check the arguments and the rows"),
}


def _semantic(message: str, at: tuple[int, int] = (1, 1), advice: str = "") -> Exception:
    return faults.parse_failed(
        f"Semantic analysis exception - {message}",
        line=at[0],
        column=at[1],
        advice=advice or "check the names, types and clauses of the query",
    )


def _no_column(found: re.Match[str], names: Names) -> Exception:
    name = found[1]
    shown = ", ".join(dict.fromkeys(names.known_columns))
    listed = f"check the name: the columns are {_cut(shown)}" if shown else ""
    if name.casefold() in map(str.casefold, names.known_columns):
        listed = "check that the subquery or table in FROM gives it under this name"
    return _semantic(
        f"there is no column {name}",
        names.columns.get(name.casefold(), (1, 1)),
        did_you_mean(name, names.known_columns) or listed,
    )


def _no_table(found: re.Match[str], names: Names) -> Exception:
    name = found[1].rpartition(".")[2]
    return _semantic(
        f"there is no table or alias {name} in FROM",
        names.columns.get(name.casefold(), (1, 1)),
        did_you_mean(name, names.known_tables)
        or f"check the names in FROM: {_cut(', '.join(names.known_tables))}",
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].rpartition(', ')[0]}, …"


def _no_function(found: re.Match[str], names: Names) -> Exception:
    name = found[1]
    line, column = names.functions.get(name.casefold(), (1, 1))
    if name.casefold() in MAXCOMPUTE:
        return faults.lacks(f"function {name}", is_sure=True, line=line, column=column)
    if advice := did_you_mean(name, function_names() & MAXCOMPUTE):
        return _semantic(f"there is no function {name}", (line, column), advice)
    return faults.lacks(f"function {name}", is_sure=False, line=line, column=column)


def _arguments(found: re.Match[str], names: Names) -> Exception:
    name = found[1].removeprefix("mc_")
    known = name.casefold() in names.functions
    return _semantic(
        f"{'the' if known else 'a'} function {name} does not take these arguments",
        names.functions.get(name.casefold(), (1, 1)),
        "check the number and the types of its arguments",
    )


def _no_cast(found: re.Match[str], _names: Names) -> Exception:
    given, wanted = _plain(found[1]), _plain(found[2])
    return _semantic(
        f"{given} cannot be cast to {wanted}", advice="compare and cast values of related types"
    )


def _operands(found: re.Match[str], _names: Names) -> Exception:
    kinds = _plain(found[2]).replace("INTEGER_LITERAL", "INT").replace("STRING_LITERAL", "STRING")
    return _semantic(
        f"the operator {found[1]} does not take these types: {kinds}",
        advice="cast one side to the type of the other",
    )


def _ambiguous(found: re.Match[str], names: Names) -> Exception:
    name = found[1]
    return _semantic(
        f"the column {name} is in several tables",
        names.columns.get(name.casefold(), (1, 1)),
        f"write the table before it, such as a.{name}",
    )


def _not_grouped(found: re.Match[str], names: Names) -> Exception:
    name = found[1]
    return _semantic(
        f"the column {name} is neither grouped nor aggregated",
        names.columns.get(name.casefold(), (1, 1)),
        f"add it to GROUP BY, or write an aggregate such as max({name})",
    )


def _no_member(found: re.Match[str], names: Names) -> Exception:
    name = found[1]
    return _semantic(
        f"the STRUCT has no member {name}",
        names.columns.get(name.casefold(), (1, 1)),
        "check the members in the schema of the table",
    )


def _fixed(message: str, advice: str) -> Callable[[re.Match[str], Names], Exception]:
    return lambda _found, _names: _semantic(message, advice=advice)


def _not_converted(found: re.Match[str], _names: Names) -> Exception:
    kind = _DUCK_NAMES.get(found[2].split("(")[0], found[2])
    return faults.invalid(
        with_advice(
            f"ODPS-0121095: the value {found[1]!r} cannot be converted to {kind}",
            "compare values of one type, or cast the text where it can be cast",
        )
    )


_DUCK_NAMES = {
    **{f"INT{bits}": name for bits, name in ((8, "TINYINT"), (16, "SMALLINT"), (64, "BIGINT"))},
    **{"BOOL": "BOOLEAN", "UINT64": "BIGINT", "UHUGEINT": "BIGINT"},
    **{
        "INT32": "INT",
        "INTEGER": "INT",
        "VARCHAR": "STRING",
        "HUGEINT": "BIGINT",
        "INT128": "BIGINT",
    },
    **{"TIMESTAMP_MS": "DATETIME", "TIMESTAMP_NS": "TIMESTAMP"},
}
_TWICE = "ODPS-0121095: the embedded service computes no MAP that has a key twice"
_READ = "read such columns with table.read(), which gives these maps as they are"
_NOT_UTF8 = (
    "ODPS-0121095: this function of the embedded service takes no text that is not UTF-8; reads, "
    "comparisons and groups do"
)
_BYTES = "filter such rows, or compute on what table.read(text='binary') gives"


def _far() -> Exception:
    return FarTime(with_advice(f"ODPS-0121095: {FAR}", "filter such rows"), status=400)


_KNOWN: tuple[tuple[str, Callable[[re.Match[str], Names], Exception]], ...] = (
    (f"{FAR}|Could not convert Timestamp to higher precision", lambda _found, _names: _far()),
    (
        r"does not fit in precision|Decimal value|for Decimal d:|to type DECIMAL\(38,"
        r"|Overflow in (?:HUGEINT|\w+ of (?:DECIMAL|INT128))|cast value -?\d+ to DECIMAL\(38,",
        lambda _found, _names: faults.lacks("DECIMAL of more than 38 digits in SQL", is_sure=True),
    ),
    (rf"Referenced column {_QUOTED} not found", _no_column),
    (rf"does not have a column named {_QUOTED}", _no_column),
    (rf"Referenced table {_QUOTED} not found", _no_table),
    (rf"Ambiguous reference to column name {_QUOTED}", _ambiguous),
    (r"Function with name (\w+) does not exist", _no_function),
    (r"Macro (\w+)\(\) does not support", _arguments),
    (r"No function matches the given name and argument types [\"']([a-z_0-9]+)\(", _arguments),
    (r"argument types [\"']([^\w\s(]+)\((.*?)\)[\"']", _operands),
    (r"best candidate function for the function call [\"'](\w+)\(", _arguments),
    (r"Unimplemented type for cast \(([^>]+) -> ([^)]+)\)", _no_cast),
    (rf"column {_QUOTED} must appear in the GROUP BY", _not_grouped),
    (rf"Could not find key {_QUOTED} in struct", _no_member),
    (
        r"STRUCT to STRUCT cast must have",
        _fixed(
            "a STRUCT has other members than the one that it is cast to",
            "write named_struct('name', value) with the members of the column",
        ),
    ),
    (
        r"aggregate function calls cannot be nested",
        _fixed("an aggregate stands inside of another one", "write the inner one in a subquery"),
    ),
    (
        r"WHERE clause cannot contain aggregates",
        _fixed("WHERE cannot hold an aggregate", "write the condition in HAVING"),
    ),
    (
        r"Set operations can only apply",
        _fixed("the queries of UNION have different numbers of columns", "make them the same"),
    ),
    (
        r"GROUP BY term out of range|ORDER term out of range",
        _fixed("a number names no column of the query", "check the numbers of GROUP BY, ORDER BY"),
    ),
    (
        r"UNNEST\(\) can only be applied to lists",
        _fixed("EXPLODE takes an ARRAY or a MAP", "check the type of its argument"),
    ),
    (r"duplicate key", lambda _found, _names: faults.invalid(with_advice(_TWICE, _READ))),
    (
        r"unicode|UTF-?8",
        lambda _found, _names: faults.invalid(with_advice(_NOT_UTF8, _BYTES)),
    ),
    (
        r"Division by zero",
        lambda _found, _names: faults.invalid(
            with_advice(
                "ODPS-0121095: a number is divided by zero",
                "write nullif(divisor, 0), or filter such rows",
            )
        ),
    ),
    (
        r"(?:[Dd]ate|timestamp)(?: field value)? out of range: \"?([\d :.-]+)",
        lambda found, _names: faults.invalid(
            with_advice(
                f"ODPS-0121095: there is no date {found[1]}",
                "check the text, or filter such rows",
            )
        ),
    ),
    (
        r"LIMIT/OFFSET cannot be negative",
        _fixed("LIMIT and OFFSET cannot be negative", "write a number from 0 on"),
    ),
    (r"best candidate function for the function call [\"']([^\w\s(]+)\((.*?)\)[\"']", _operands),
    (
        r"Could not parse string \"(.*?)\" according to format",
        lambda found, _names: faults.invalid(
            with_advice(
                f"ODPS-0121095: the text {found[1]!r} is not a date of the format of TO_DATE",
                "check the format, such as 'yyyy-mm-dd', or filter such rows",
            )
        ),
    ),
    (r"[Cc]ould not convert string '((?:[^'])*)' to ([\w()]+)", _not_converted),
)
_OURS = re.compile(r"\bmc_(?=\w)", re.IGNORECASE)
_TABLES = re.compile(r"\b__\w+")


def _plain(text: str) -> str:
    """Return what DuckDB says without the names that only it knows."""
    text = re.sub(r" when casting from source column (\w+)", r" (in the column \1)", text)
    text = re.sub(r"\b(\w+)\[\]", r"ARRAY<\1>", text)
    text = _TABLES.sub("the table", _OURS.sub("", text)).strip().rstrip("!")
    for duck, name in _DUCK_NAMES.items():
        text = re.sub(rf"\b{duck}\b", name, text)
    return text[:500]
