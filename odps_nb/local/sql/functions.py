"""Parses MaxCompute's functions, and rewrites those that differ in DuckDB.

sqlglot supports Hive's functions. Calls to functions that only MaxCompute has (date units,
``wm_concat``, ``to_char`` …) are replaced with calls to the ``mc_…`` macros in `macros`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from sqlglot import exp

from odps_nb import sql_parser
from odps_nb.local import faults
from odps_nb.local.sql.macros import MACROS
from odps_nb.local.sql.trees import call

_STRFTIME = {
    **{"yyyy": "%Y", "mm": "%m", "dd": "%d", "hh24": "%H", "hh": "%H", "mi": "%M"},
    **{"ss": "%S", "ff3": "%g", "%": "%%"},
}
_FORMAT = re.compile("|".join(_STRFTIME), re.IGNORECASE)
_NAMES = frozenset(macro.split("(")[0] for macro in MACROS)
# Functions that have fewer arguments or a different result in sqlglot's Hive dialect.
_OWN = ("DATEDIFF", "DATE_ADD", "DATE_SUB", "ADD_MONTHS", "TRUNC", "TO_CHAR", "UNIX_TIMESTAMP")


@cache
def maxcompute_dialect() -> Any:
    """Return the sqlglot dialect for MaxCompute SQL."""
    hive = sql_parser.hive()
    known = {key: make for key, make in hive.Parser.FUNCTIONS.items() if key not in _OWN}
    plain, formatted = known["TO_DATE"], known["FROM_UNIXTIME"]

    def to_date(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 2:  # this form returns a DATETIME; mm is a month, unlike in Hive
            return call("TO_DATE", *arguments)
        return plain(arguments, dialect)

    def from_unixtime(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 1:  # this form returns a DATETIME; in Hive, it returns text
            return call("FROM_UNIXTIME", *arguments)
        return formatted(arguments, dialect)

    known["TO_DATE"], known["FROM_UNIXTIME"] = to_date, from_unixtime
    known["VECTOR"] = known["ARRAY"]
    parser = type("Parser", (hive.Parser,), {"FUNCTIONS": known})
    return type("MaxCompute", (hive,), {"Parser": parser})


@cache
def function_names() -> frozenset[str]:
    """Return the names of the functions known to the parser or defined here."""
    own = (name.removeprefix("mc_") for name in _NAMES)
    return frozenset({*own, *(name.lower() for name in maxcompute_dialect().Parser.FUNCTIONS)})


def translate_functions(query: Any) -> None:
    """Replace calls to MaxCompute-specific functions with macro calls, in place."""
    _respell(query)
    for node in list(query.find_all(exp.Anonymous)):
        name, given = f"mc_{node.name.lower()}", node.expressions
        if name not in _NAMES:
            continue
        if name == "mc_wm_concat" and given and isinstance(given[0], exp.Distinct):
            if len(given) != 1 or len(given[0].expressions) != 2:
                raise faults.semantic("WM_CONCAT requires a separator and a value")
            separator, value = given[0].expressions
            node.replace(call("string_agg", exp.Distinct(expressions=[value]), separator))
            continue
        if name in ("mc_to_char", "mc_to_date") and len(given) == 2:
            _check_format(given[1], node.name.upper())
        node.set("this", name)


def _respell(query: Any) -> None:
    """Replace calls to functions that the parser knows but that DuckDB defines differently."""
    for node in list(query.find_all(exp.Quantile)):  # PERCENTILE, which interpolates
        value = node.this
        for one in value.expressions if isinstance(value, exp.Distinct) else [value]:
            one.replace(exp.cast(one.copy(), "double"))
        node.replace(call("quantile_cont", node.this, node.args["quantile"]))
    for node in query.find_all(exp.ArraySort):
        if isinstance(node.expression, exp.Lambda):
            raise faults.lacks("ARRAY_SORT with a comparator", is_sure=True)
    for node in list(query.find_all(exp.WithinGroup)):
        _order_texts(node)
    for node in list(query.find_all(exp.MonthsBetween)):
        node.replace(call("mc_months_between", node.this, node.expression))
    for node in query.find_all(exp.TimeToStr):
        if isinstance(form := node.args["format"], exp.Literal):
            form.set("this", form.this.replace("SSS", "%g"))  # the Hive dialect lacks milliseconds
    for node in list(query.find_all(exp.JSONExtractScalar)):
        _read_json(node)


def _read_json(node: Any) -> None:
    """Make a call return NULL for invalid JSON, and one string for all matches of ``[*]``."""
    node.set("this", call("mc_valid_json", node.this))
    if node.expression.find(exp.JSONPathWildcard) is not None:
        found = exp.JSONExtract(this=node.this, expression=node.expression)
        node.replace(call("mc_json_list", found))


def _order_texts(within: Any) -> None:
    """Rewrite ``wm_concat(separator, x) within group (order by y)`` in DuckDB's syntax."""
    concat, order = within.this, within.expression
    is_concat = isinstance(concat, exp.Anonymous) and concat.name.lower() == "wm_concat"
    if is_concat and order and len(concat.expressions) == 2:
        separator, value = concat.expressions
        ordered = exp.Order(this=separator, expressions=order.expressions)
        within.replace(call("string_agg", exp.cast(value, "TEXT"), ordered))


def join_lateral_views(query: Any) -> None:
    """Rewrite each LATERAL VIEW (also of a MAP, or with OUTER) as a lateral join, in place."""
    for select in query.find_all(exp.Select):
        _name_exploded(select)
        laterals = select.args.get("laterals") or []
        while laterals and laterals[0].args.get("view"):
            view = laterals[0]
            if not (values := _lists_of(view.this, len(view.alias_column_names))):
                break
            laterals.pop(0)
            columns = exp.Select(expressions=[exp.Explode(this=one) for one in values])
            alias = view.args["alias"]
            joined = exp.Lateral(this=exp.Subquery(this=columns), view=False, alias=alias)
            kind = (
                {"side": "LEFT", "on": exp.true()} if view.args.get("outer") else {"kind": "CROSS"}
            )
            select.append("joins", exp.Join(this=joined, **kind))
        if laterals and not isinstance(laterals[0].this, (exp.Explode, exp.Posexplode)):
            raise faults.lacks(f"LATERAL VIEW {_name_of(laterals[0].this)}", is_sure=True)


def _name_exploded(select: Any) -> None:
    """Rewrite ``explode(map) as (k, v)`` in a SELECT as UNNEST of two lists."""
    found: list[Any] = []
    for shown in select.expressions:
        if not isinstance(shown, exp.Aliases):
            found.append(shown)
        elif values := _lists_of(shown.this, len(shown.aliases)):
            named = zip(values, shown.aliases, strict=True)
            found += [exp.Alias(this=exp.Explode(this=one), alias=name) for one, name in named]
        else:
            raise faults.lacks(f"{_name_of(shown.this)} with several aliases", is_sure=True)
    select.set("expressions", found)


def _name_of(function: Any) -> str:
    name = function.name if function.key == "anonymous" else function.sql_name()
    return str(name).upper()


def _lists_of(function: Any, named: int) -> list[Any]:
    """Return the lists that EXPLODE or POSEXPLODE unnests together; ``[]`` for other functions."""
    value = function.this
    if type(function) is exp.Posexplode and named == 2:
        return [call("range", call("len", value.copy())), value.copy()]
    if type(function) is exp.Explode and named == 2:
        return [call("map_keys", value.copy()), call("map_values", value.copy())]
    return [value] if type(function) is exp.Explode and named == 1 else []


def _check_format(form: Any, function: str) -> None:
    """Convert a constant format (e.g. ``yyyy-mm-dd hh:mi:ss``) to DuckDB's format, or raise 400."""
    if not (isinstance(form, exp.Literal) and form.is_string):
        raise faults.semantic(f"the format of {function} must be a string literal")
    form.set("this", _FORMAT.sub(lambda found: _STRFTIME[found[0].lower()], form.this))
