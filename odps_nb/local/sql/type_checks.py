"""Refuses casts, conditions and mixed types that MaxCompute refuses, and DuckDB does not.

Sources: the vendor's manual, *Data type conversion*, *CAST* and *Operators*.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import (
    BYTES,
    REALS,
    TEXTS,
    WHOLE,
    choices,
    looked_up,
    members_of,
    operands,
    place_of,
    type_name,
    united,
)
from odps_nb.local.sql.types_of_query import TIMES, Types

_FAMILIES = {
    **dict.fromkeys((*WHOLE, *REALS), "number"),
    **dict.fromkeys(TEXTS, "text"),
    **dict.fromkeys(BYTES, "bytes"),
    **dict.fromkeys(TIMES, "time"),
    **{"BOOLEAN": "boolean", "ARRAY": "array", "LIST": "array", "MAP": "map", "STRUCT": "struct"},
}
_RELATED = (
    *({"text", family} for family in ("number", "bytes", "time", "boolean")),
    {"number", "boolean"},
)
_KNOWN = {*_FAMILIES, "JSON"} - {"VARBINARY"}
"""Types that a cast may have as its target."""
_APART = ("boolean", "array", "map", "struct")
"""Families whose values are not combined with values of other families."""
_SPELLED = {
    **{"TEXT": "STRING", "VARCHAR": "STRING", "TIMESTAMPNTZ": "TIMESTAMP_NTZ"},
    **{"LIST": "ARRAY", "VARBINARY": "BLOB"},
}


def check_casts(query: Any, types: Types) -> None:
    """Raise 400 for casts that MaxCompute refuses (manual: CAST), where DuckDB returns NULL."""
    for node in query.find_all(exp.Cast):
        for kind in node.to.find_all(exp.DataType):
            if (name := type_name(kind)) not in _KNOWN:
                what = f"a cast to {_SPELLED.get(name, name) or kind.sql()}"
                raise errors.lacks(what, is_sure=False, at=place_of(node.this))
        names = types.name(node.this), type_name(node.to)
        families = {family for family in map(_FAMILIES.get, names) if family is not None}
        if is_unixtime(*names):
            continue
        _check_members((types.members(node.this), members_of(node.to)), [node])
        if len(families) == 2 and families not in _RELATED:
            source, target = (_SPELLED.get(name, name) for name in names)
            raise errors.semantic(
                f"{source} cannot be cast to {target}",
                at=place_of(node),
                advice="for seconds since 1970, use from_unixtime() and unix_timestamp()"
                if families == {"number", "time"}
                else "cast only between related types",
            )


def is_unixtime(source: str, target: str) -> bool:
    """Whether a cast converts seconds since 1970 to a time (pyodps, live test of SQLAlchemy)."""
    return source in WHOLE and target == "TIMESTAMP"


def check_conditions(query: Any, types: Types) -> None:
    """Raise 400 for conditions that are not BOOLEAN, and for types that MaxCompute does not mix.

    Sources: *Data type conversion* (no implicit conversion from or to BOOLEAN), *Operators* (IN).
    """
    for node in query.walk():
        for value in _conditions(node):
            if _family(value, types) not in ("", "boolean"):
                raise errors.semantic(
                    f"a condition must be BOOLEAN, not {_spelled(value, types)}",
                    at=place_of(value),
                    advice="write a comparison, such as n <> 0",
                )
        if isinstance(node, exp.In) and not _has_items(node):
            raise errors.parse_failed("IN requires at least one value", at=place_of(node.this))
        if isinstance(node, exp.Bracket) and _family(node.this, types) == "text":
            raise errors.semantic(
                f"{_spelled(node.this, types)} has no elements",
                at=place_of(node.this),
                advice="write substr(text, position, 1)",
            )
        for values in (*operands(node), *looked_up(node), choices(node)):
            _check_mixed(values, types)
    for _, columns in united(query):
        for column in columns:
            _check_mixed(column, types)


def check_aliases(query: Any, types: Types) -> None:
    """Raise 400 for a WHERE with an alias of its SELECT, which DuckDB accepts."""
    for select in query.find_all(exp.Select):
        where, joins = select.args.get("where"), select.args.get("joins") or ()
        if where is None or any(join.args.get("using") or join.method for join in joins):
            continue  # sqlglot also replaces the columns of USING
        aliases = {one.alias.casefold() for one in select.expressions if isinstance(one, exp.Alias)}
        for column in where.find_all(exp.Column):
            is_named = not column.table and column.name.casefold() in aliases
            if is_named and column.parent_select is select and types.is_alias(column):
                raise errors.semantic(
                    f"column {column.name} cannot be resolved",
                    at=place_of(column.this),
                    advice="WHERE cannot use an alias of SELECT: repeat the expression, or filter "
                    "in an outer query",
                )


def _check_mixed(values: Sequence[Any], types: Types) -> None:
    mixed = {family: value for value in values if (family := _family(value, types))}
    apart = next((family for family in _APART if family in mixed), None)
    if apart is not None and len(mixed) > 1:
        raise errors.semantic(
            f"{_spelled(mixed[apart], types)} cannot be combined with "
            + next(_spelled(mixed[name], types) for name in mixed if name != apart),
            at=next((at for at in map(place_of, values) if at != (1, 1)), (1, 1)),
            advice="cast one side to the type of the other side"
            if apart == "boolean"
            else "combine only values of the same type; to_json(…) converts them to text",
        )
    _check_members(map(types.members, values), values)


def _check_members(found: Iterable[frozenset[str]], nodes: Sequence[Any]) -> None:
    """Raise 400 for STRUCTs with different members, which DuckDB fills with NULLs or drops."""
    if len({members for members in found if members}) > 1:
        raise errors.semantic(
            "a STRUCT is cast to a type with different members",
            at=next((at for at in map(place_of, nodes) if at != (1, 1)), (1, 1)),
            advice="write named_struct('name', value) with the same members",
        )


def _conditions(node: Any) -> list[Any]:
    if isinstance(node, (exp.Where, exp.Having, exp.Not)):
        return [node.this]
    if isinstance(node, exp.Connector):
        return [node.left, node.right]
    if isinstance(node, exp.If):  # also a WHEN, whose operand may have any type in `case x when`
        is_compared = isinstance(node.parent, exp.Case) and node.parent.args.get("this") is not None
        return [] if is_compared else [node.this]
    if isinstance(node, exp.Join) and isinstance(node.args.get("on"), exp.Expression):
        return [node.args["on"]]
    return []


def _has_items(node: Any) -> bool:
    return any(node.args.get(key) for key in ("expressions", "query", "unnest", "field"))


def _family(value: Any, types: Types) -> str:
    return "" if isinstance(value, exp.Null) else _FAMILIES.get(types.name(value), "")


def _spelled(value: Any, types: Types) -> str:
    name = types.name(value)
    return _SPELLED.get(name, name)
