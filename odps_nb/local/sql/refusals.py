"""Converts errors of the SQL parser and DuckDB to service errors with positions and suggestions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.local.sql.macros import FAR
from odps_nb.terms import shorten

_SHOWN = 200


class FarTime(InvalidRequestError):
    """A time is outside the nanosecond range; the query must be rerun in microseconds."""


@dataclass(frozen=True, slots=True)
class QueryNames:
    """The names in a query: positions (line, column) by lower-case name, and known tables."""

    columns: Mapping[str, tuple[int, int]]
    functions: Mapping[str, tuple[int, int]]
    known_tables: tuple[str, ...] = ()


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return ``check the spelling: did you mean x?`` if a name is similar, else ``""``."""
    by_key = {candidate.casefold(): candidate for candidate in known}
    by_key.pop(name.casefold(), None)  # do not suggest the name itself
    letters = sorted(name.casefold())
    near = [key for key in by_key if sorted(key) == letters]
    near = near or get_close_matches(name.casefold(), by_key, n=1, cutoff=cutoff)
    return f"check the spelling: did you mean {by_key[near[0]]}?" if near else ""


def unreadable(error: Any, text: str) -> Exception:
    """Return the error for text that sqlglot cannot parse."""
    if place := re.search(r"Numeric string .* (\d+):(\d+)$", str(error.__cause__)):
        line, start = int(place[1]), int(place[2])  # in the line, and in the text
        return errors.parse_failed(
            "a constant X'…' has other characters than hexadecimal digits",
            at=(line, start - text.rfind("\n", 0, start)),
            advice="write two digits for each byte, such as X'0AFF'",
        )
    first = error.errors[0] if getattr(error, "errors", None) else {}
    message = str(first.get("description", error)).splitlines()[0]
    word = str(first.get("highlight") or "")
    line = first.get("line") or 1
    # sqlglot reports where the word ends; the service reports where it starts
    column = max(1, (first.get("col") or 1) - max(1, len(word)) + 1)
    return errors.parse_failed(_parser_words(message, word), at=(line, column))


def _parser_words(message: str, word: str) -> str:
    if message.startswith("Expecting"):
        return f"expected {message.removeprefix('Expecting ')}, found {word!r}"
    if message.startswith("Required keyword"):
        return f"an expression is missing after {word!r}"
    if match := re.search(r"arguments \((\d+)\) is greater than .* \((\d+)\)", message):
        return f"the function accepts at most {match[2]} arguments, not {match[1]}"
    if "all its arguments" in message:
        return message
    return f"{word!r} is not expected here" if word else "the text cannot be parsed"


_QUOTED = r"[\"']([^\"']+)[\"']"
Refusal = Callable[[re.Match[str], QueryNames], Exception]


def refusal(message: str, names: QueryNames) -> Exception:
    """Return the error for DuckDB's error message about a query."""
    kind, _, rest = message.partition(": ")
    if not kind.endswith("Error"):
        kind, rest = "Error", message
    for pattern, answer in _KNOWN:
        if match := re.search(pattern, rest):
            return answer(match, names)
    plain = _plain(rest)
    if kind in ("Parser Error", "Binder Error", "Catalog Error"):
        return _semantic(f"the query cannot be run: {plain}")
    if kind == "Out of Memory Error":  # DuckDB's own message suggests DuckDB settings
        return errors.invalid("ODPS-0121095: the query exceeded its memory limit")
    what, advice = _KINDS.get(kind, ("the query failed", "rewrite the query"))
    return _failure(f"{what}: {plain}", advice)


_KINDS = {
    "Conversion Error": ("a value cannot be converted", "cast it explicitly, or exclude such rows"),
    "Out of Range Error": ("a value is out of range", "cast to a wider type, or exclude such rows"),
    "Invalid Input Error": ("a value is not valid", "check the arguments and their values"),
}


def _semantic(message: str, at: tuple[int, int] = (1, 1), advice: str = "") -> Exception:
    advice = advice or "check the names, types and clauses of the query"
    return errors.semantic(message, at=at, advice=advice)


def _failure(message: str, advice: str) -> Exception:
    return errors.invalid(errors.with_advice(f"ODPS-0121095: {message}", advice))


def _says(message: str, advice: str, *, plain: bool = False) -> Refusal:
    """Return a factory of semantic errors.

    ``{0}`` in ``message`` and ``advice`` is the first group of the matched pattern, a name. The
    error refers to the position of that name. With ``plain``, the groups are types, not names.
    """

    def answer(match: re.Match[str], names: QueryNames) -> Exception:
        groups = [_plain(group) for group in match.groups()] if plain else match.groups()
        at = names.columns.get(groups[0].casefold(), (1, 1)) if groups else (1, 1)
        return _semantic(message.format(*groups), at, advice.format(*groups))

    return answer


def _fails(message: str, advice: str) -> Refusal:
    """Return a factory of computation errors; ``{0}`` is the first group of the matched pattern."""
    return lambda match, _names: _failure(message.format(*match.groups()), advice)


def _no_table(match: re.Match[str], names: QueryNames) -> Exception:
    name = match[1].rpartition(".")[2]
    listed = f"check the names in FROM: {shorten(', '.join(names.known_tables), _SHOWN)}"
    return _semantic(
        f"there is no table or alias {name} in FROM",
        names.columns.get(name.casefold(), (1, 1)),
        did_you_mean(name, names.known_tables) or listed,
    )


def _no_function(match: re.Match[str], names: QueryNames) -> Exception:
    at = names.functions.get(match[1].casefold(), (1, 1))
    return errors.lacks_function(match[1], is_sure=False, at=at)


def _arguments(match: re.Match[str], names: QueryNames) -> Exception:
    name = match[1].removeprefix("mc_")
    known = name.casefold() in names.functions
    return _semantic(
        f"{'the' if known else 'the internal'} function {name} does not accept these arguments",
        names.functions.get(name.casefold(), (1, 1)),
        "check the number and the types of its arguments",
    )


def _not_converted(match: re.Match[str], _names: QueryNames) -> Exception:
    kind = _DUCK_NAMES.get(match[2].split("(")[0], match[2])
    return _failure(
        f"the value {match[1]!r} cannot be converted to {kind}",
        "compare values of the same type, or cast only text that can be converted",
    )


_DUCK_NAMES = {
    **dict.fromkeys(("INT64", "UINT64", "HUGEINT", "UHUGEINT", "INT128"), "BIGINT"),
    **dict.fromkeys(("INT32", "INTEGER", "INTEGER_LITERAL"), "INT"),
    **dict.fromkeys(("VARCHAR", "STRING_LITERAL"), "STRING"),
    **{"BLOB": "BINARY", "INT8": "TINYINT", "INT16": "SMALLINT", "BOOL": "BOOLEAN"},
    **{"TIMESTAMP_MS": "DATETIME", "TIMESTAMP_NS": "TIMESTAMP"},
}
_NO_COLUMN = _says("column {0} cannot be resolved", "check the name of the column")
_OPERANDS = _says(
    "the operator {0} does not support these types: {1}",
    "cast one side to the type of the other side",
    plain=True,
)
_KNOWN: tuple[tuple[str, Refusal], ...] = (
    (
        f"{FAR}|Could not convert Timestamp to higher precision",
        lambda _found, _names: FarTime(
            errors.with_advice(f"ODPS-0121095: {FAR}", "filter such rows"), status=400
        ),
    ),
    (
        r"does not fit in precision|Decimal value|for Decimal d:|to type DECIMAL\(38,"
        r"|Overflow in (?:HUGEINT|\w+ of (?:DECIMAL|INT128))|cast value -?\d+ to DECIMAL\(38,",
        lambda _found, _names: errors.lacks("DECIMAL of more than 38 digits in SQL", is_sure=True),
    ),
    (rf"Referenced column {_QUOTED} not found", _NO_COLUMN),
    (rf"does not have a column named {_QUOTED}", _NO_COLUMN),
    (rf"Referenced table {_QUOTED} not found", _no_table),
    (
        rf"Ambiguous reference to column name {_QUOTED}",
        _says("the column {0} exists in several tables", "qualify it with a table, such as a.{0}"),
    ),
    (r"Function with name (\w+) does not exist", _no_function),
    (r"Macro (\w+)\(\) does not support", _arguments),
    (r"No function matches the given name and argument types [\"']([a-z_0-9]+)\(", _arguments),
    (r"argument types [\"']([^\w\s(]+)\((.*?)\)[\"']", _OPERANDS),
    (r"best candidate function for the function call [\"'](\w+)\(", _arguments),
    (
        r"Unimplemented type for cast \(([^>]+) -> ([^)]+)\)",
        _says(
            "{0} cannot be cast to {1}", "compare or cast only values of related types", plain=True
        ),
    ),
    (
        rf"column {_QUOTED} must appear in the GROUP BY",
        _says(
            "column reference {0} should appear in GROUP BY key",
            "add it to GROUP BY, or write an aggregate such as max({0})",
        ),
    ),
    (
        r"STRUCT to STRUCT cast must have",
        _says(
            "a STRUCT is cast to a type with different members",
            "write named_struct('name', value) with the members of the column",
        ),
    ),
    (
        r"UNNEST\(\) can only be applied to lists",
        _says("EXPLODE requires an ARRAY or a MAP", "check the type of its argument"),
    ),
    (
        r"duplicate key",
        _fails(
            "SQL in the embedded service does not support a MAP with duplicate keys",
            "read such columns with table.read(), which supports these maps",
        ),
    ),
    (
        r"unicode|UTF-?8",
        _fails(
            "this function of the embedded service does not support text that is not UTF-8; reads, "
            "comparisons and GROUP BY do",
            "exclude such rows, or compute on the result of table.read(text='binary')",
        ),
    ),
    (
        r"Max expression depth limit",
        _says("the query is nested too deeply", "replace ORs with IN (…), or split the query"),
    ),
    (
        r"Division by zero",
        _fails("division by zero", "write nullif(divisor, 0), or exclude such rows"),
    ),
    (r"best candidate function for the function call [\"']([^\w\s(]+)\((.*?)\)[\"']", _OPERANDS),
    (r"[Cc]ould not convert string '((?:[^'])*)' to ([\w()]+)", _not_converted),
)


def _plain(text: str) -> str:
    """Return DuckDB's message without generated names."""
    text = re.sub(r" when casting from source column (\w+)", r" (in the column \1)", text)
    text = re.sub(r"\b(\w+)\[\]", r"ARRAY<\1>", text)
    text = re.sub(r"\bmc_(?=\w)", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\b__\w+", "the table", text).strip().rstrip("!")
    for duck, name in _DUCK_NAMES.items():
        text = re.sub(rf"\b{duck}\b", name, text)
    return text[:500]
