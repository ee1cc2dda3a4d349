"""Parses MaxCompute's functions, and writes those that DuckDB has otherwise.

sqlglot supports Hive's functions; where MaxCompute has its own (units of dates, ``wm_concat``,
``to_char`` …) the parser keeps the call, which becomes a call of a macro ``mc_…`` of `macros`.
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
# known to sqlglot's Hive, but with fewer arguments or another result than here
_OWN = ("DATEDIFF", "DATE_ADD", "DATE_SUB", "ADD_MONTHS", "TRUNC", "TO_CHAR", "UNIX_TIMESTAMP")


@cache
def maxcompute_dialect() -> Any:
    """Return the sqlglot dialect for MaxCompute SQL."""
    hive = sql_parser.hive()
    known = {key: make for key, make in hive.Parser.FUNCTIONS.items() if key not in _OWN}
    plain, formatted = known["TO_DATE"], known["FROM_UNIXTIME"]

    def to_date(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 2:  # a DATETIME; its format is not one of Hive's: mm is a month
            return call("TO_DATE", *arguments)
        return plain(arguments, dialect)

    def from_unixtime(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 1:  # a DATETIME, where Hive has text
            return call("FROM_UNIXTIME", *arguments)
        return formatted(arguments, dialect)

    known["TO_DATE"], known["FROM_UNIXTIME"] = to_date, from_unixtime
    known["VECTOR"] = known["ARRAY"]
    parser = type("Parser", (hive.Parser,), {"FUNCTIONS": known})
    return type("MaxCompute", (hive,), {"Parser": parser})


@cache
def function_names() -> frozenset[str]:
    """Return the names of the functions that the parser knows or that are defined here."""
    own = (name.removeprefix("mc_") for name in _NAMES)
    return frozenset({*own, *(name.lower() for name in maxcompute_dialect().Parser.FUNCTIONS)})


def translate_functions(query: Any) -> None:
    """Replace the calls of MaxCompute's own functions by their macros, in place."""
    _respell(query)
    for node in list(query.find_all(exp.Anonymous)):
        name, given = f"mc_{node.name.lower()}", node.expressions
        if name not in _NAMES:
            continue
        if name == "mc_wm_concat" and given and isinstance(given[0], exp.Distinct):
            if len(given) != 1 or len(given[0].expressions) != 2:
                raise faults.parse_failed("WM_CONCAT takes a separator and a value")
            separator, value = given[0].expressions
            node.replace(call("string_agg", exp.Distinct(expressions=[value]), separator))
            continue
        if name in ("mc_to_char", "mc_to_date") and len(given) == 2:
            _check_format(given[1], node.name.upper())
        node.set("this", name)


def _respell(query: Any) -> None:
    """Replace the calls of functions that the parser knows, and DuckDB has otherwise."""
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
            form.set("this", form.this.replace("SSS", "%g"))  # Hive's parser knows no milliseconds
    for node in list(query.find_all(exp.JSONExtractScalar)):
        _read_json(node)


def _read_json(node: Any) -> None:
    """Make NULL of text that is no JSON, and one text of what a path with ``[*]`` finds."""
    node.set("this", call("mc_valid_json", node.this))
    if node.expression.find(exp.JSONPathWildcard) is not None:
        found = exp.JSONExtract(this=node.this, expression=node.expression)
        node.replace(call("mc_json_list", found))


def _order_texts(within: Any) -> None:
    """Write ``wm_concat(separator, x) within group (order by y)`` as DuckDB does."""
    concat, order = within.this, within.expression
    is_concat = isinstance(concat, exp.Anonymous) and concat.name.lower() == "wm_concat"
    if is_concat and order and len(concat.expressions) == 2:
        separator, value = concat.expressions
        ordered = exp.Order(this=separator, expressions=order.expressions)
        within.replace(call("string_agg", exp.cast(value, "TEXT"), ordered))


def join_lateral_views(query: Any) -> None:
    """Write each LATERAL VIEW as a lateral join, in place, which takes MAPs and OUTER as well."""
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
    """Write ``explode(map) as (k, v)`` of a SELECT as two lists side by side."""
    found: list[Any] = []
    for shown in select.expressions:
        if not isinstance(shown, exp.Aliases):
            found.append(shown)
        elif values := _lists_of(shown.this, len(shown.aliases)):
            named = zip(values, shown.aliases, strict=True)
            found += [exp.Alias(this=exp.Explode(this=one), alias=name) for one, name in named]
        else:
            raise faults.lacks(f"{_name_of(shown.this)} with several names", is_sure=True)
    select.set("expressions", found)


def _name_of(function: Any) -> str:
    name = function.name if function.key == "anonymous" else function.sql_name()
    return str(name).upper()


def _lists_of(function: Any, named: int) -> list[Any]:
    """Return the lists that EXPLODE or POSEXPLODE puts side by side; empty for another function."""
    value = function.this
    if type(function) is exp.Posexplode and named == 2:
        return [call("range", call("len", value.copy())), value.copy()]
    if type(function) is exp.Explode and named == 2:
        return [call("map_keys", value.copy()), call("map_values", value.copy())]
    return [value] if type(function) is exp.Explode and named == 1 else []


def _check_format(form: Any, function: str) -> None:
    """Convert a format such as ``yyyy-mm-dd hh:mi:ss`` to DuckDB's; it must be a constant."""
    if not (isinstance(form, exp.Literal) and form.is_string):
        raise faults.parse_failed(f"the format of {function} must be a string literal here")
    form.set("this", _FORMAT.sub(lambda found: _STRFTIME[found[0].lower()], form.this))
