"""Parses and formats the SQL and JSON of expressions that generate partition columns.

The table document contains the expression as JSON text: a post-order list of references, constants,
and calls whose arguments are the preceding items (``GenerateExpression`` in the Java and Go SDKs,
``odps/expressions`` in pyodps).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any

from odps_nb.schema import Column, Generated, PrimitiveType, TypeCode
from odps_nb.wire.control.table_limits import TIME_UNITS
from odps_nb.wire.json_fields import dump

_ARGUMENTS = {"trunc_time": 2, "current_timestamp_ntz": 0}
_TRUNC_TIME = re.compile(
    r"""\s* trunc_time \s* \( \s* (?: `(?P<quoted>(?:[^`]|``)+)` | (?P<source>[^\W\d]\w*) ) \s*
    , \s* (?: '(?P<unit>\w+)' | "(?P<other>\w+)" ) \s* \) \s*
    (?: as \s* (?: `(?P<name>(?:[^`]|``)+)` | (?P<plain>[^\W\d]\w*) ) \s* )?""",
    re.VERBOSE | re.IGNORECASE,
)


def truncated(source: str, unit: str) -> Generated:
    """Return the expression ``trunc_time(source, 'unit')``."""
    known = unit.lower() if unit.lower() in TIME_UNITS else ""
    text = f"trunc_time({_quoted(source)}, '{unit.lower()}')"
    return Generated(text=text, source=source if known else "", unit=known)


def parse_generated(text: str, taken: Iterable[str] = ()) -> Column | None:
    """Parse ``trunc_time(d, 'day') as pt`` in AUTO PARTITIONED BY; ``None`` for anything else.

    The column's type is STRING; without ``as``, the name is ``_pt_col_0_``, or the next number
    whose name is not ``taken`` by another column.
    """
    found = _TRUNC_TIME.fullmatch(text)
    if found is None:
        return None
    source = found["source"] or found["quoted"].replace("``", "`")
    name = found["plain"] or (found["name"] or "").replace("``", "`")
    if not name:
        known = {one.casefold() for one in taken}
        free = (f"_pt_col_{number}_" for number in itertools.count())
        name = next(one for one in free if one not in known)
    made = truncated(source, found["unit"] or found["other"])
    return Column(name=name, type=PrimitiveType(TypeCode.STRING), generated=made)


def encode_generated(generated: Generated, source: Column | None) -> str:
    """Return the JSON text of ``trunc_time(source, 'unit')``."""
    kind = source.type.code.name.lower() if source is not None else "timestamp"
    items = (
        {"leafExprDesc": {"reference": {"name": generated.source}, "type": kind}},
        {"leafExprDesc": {"constant": generated.unit, "type": "string"}},
        {"functionCall": {"name": "trunc_time", "parameterCount": 2, "type": "string"}},
    )
    return dump(items).decode()


def decode_generated(text: str) -> Generated:
    """Parse the JSON text; for expressions other than ``trunc_time``, keep only the SQL text."""
    try:
        items = json.loads(text)
        shown = _shown(items) or text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Generated(text=text)
    match items:
        case [
            {"leafExprDesc": {"reference": {"name": str(source)}}},
            {"leafExprDesc": {"constant": str(unit)}},
            {"functionCall": {"name": str(name)}},
        ] if name.lower() == "trunc_time":
            return truncated(source, unit)
    return Generated(text=shown)


def _shown(items: list[Any]) -> str:
    """Return the SQL text of a post-order expression."""
    stack: list[str] = []
    for item in items:
        if (call := item.get("functionCall")) is not None:
            known = _ARGUMENTS.get(call["name"].lower(), len(stack))
            count = call.get("parameterCount", known)
            first = len(stack) - count
            arguments, stack = stack[first:], stack[:first]
            stack.append(f"{call['name'].lower()}({', '.join(arguments)})")
        elif (leaf := item["leafExprDesc"]).get("reference"):
            stack.append(_quoted(leaf["reference"]["name"]))
        else:
            stack.append(f"'{leaf['constant']}'")
    return ", ".join(stack)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
