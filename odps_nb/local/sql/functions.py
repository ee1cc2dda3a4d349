"""Parses calls of MaxCompute's functions, and rewrites them for DuckDB (see `function_table`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from odps_nb import sql_parser
from odps_nb.local import errors
from odps_nb.local.sql.function_table import FUNCTIONS, MISSING
from odps_nb.local.sql.refusals import did_you_mean
from odps_nb.local.sql.trees import CALLED, call, cast, place_of, wrap

if TYPE_CHECKING:  # `types_of_query` uses the dialect
    from odps_nb.local.sql.types_of_query import Types

_STRFTIME = {
    **{"yyyy": "%Y", "mm": "%m", "dd": "%d", "hh24": "%H", "hh": "%H", "mi": "%M"},
    **{"ss": "%S", "ff3": "%g", "%": "%%"},
}
_FORMAT = re.compile("|".join(_STRFTIME), re.IGNORECASE)
_CASTS = {
    **{name: name for name in ("INT", "BIGINT", "DOUBLE", "DATE")},
    **{"DATETIME": "TIMESTAMP_MS"},
}
_PLACES = 18
_INTERNAL = ("mc_once",)  # part of the text that `changes` generates for MERGE


@cache
def maxcompute_dialect() -> Any:
    """Return the sqlglot dialect for MaxCompute SQL, which knows only the functions listed."""
    hive = sql_parser.hive().Parser
    by_parser = {name.upper() for name, function in FUNCTIONS.items() if function.how == "parser"}
    builders = {key: make for key, make in hive.FUNCTIONS.items() if key in by_parser}
    builders |= _rules(hive.FUNCTIONS)
    attributes = {
        # STRUCT names the fields without an alias by number, also those of columns (manual: STRUCT)
        "_to_prop_eq": lambda _, value, place: _field(f"col{place + 1}", value),
        "FUNCTIONS": {key: partial(_build, key.lower(), make) for key, make in builders.items()},
        **{key: _only(getattr(hive, key), by_parser) for key in _SYNTAX},
    }
    parser = type("Parser", (hive,), attributes)
    return type("MaxCompute", (sql_parser.hive(),), {"Parser": parser})


_SYNTAX = (
    *("FUNCTION_PARSERS", "NO_PAREN_FUNCTIONS", "NO_PAREN_FUNCTION_PARSERS"),
    "SUBQUERY_PREDICATES",
)


def _only(known: dict[Any, Any], names: set[str]) -> dict[Any, Any]:
    """Return the parser's functions with a special syntax, without those not listed."""
    return {
        key: found
        for key, found in known.items()
        if (key if isinstance(key, str) else key.name) in {*names, "CASE"}
    }


#: Arguments that MaxCompute's manual requires to be constant, and what they are.
_CONSTANT = {
    "date_format": (slice(1, 2), "format"),
    "date_trunc": (slice(1), "unit"),
    "encode": (slice(1, 2), "encoding"),
    "regexp_extract": (slice(2, 3), "number of a group"),
    "regexp_instr": (slice(4, 5), "return option"),
    "round": (slice(1, 2), "number of decimal places"),
}
_VARYING = "odps_nb_varying"
"""Item of `meta` with the description of an argument that has to be constant and is not."""


def _build(name: str, make: Callable[..., Any], arguments: list[Any], dialect: Any) -> Any:
    """Return the node of a call, marked with the name of the function."""
    places, what = _CONSTANT.get(name, (slice(0), ""))
    varies = any(one.find(exp.Column, exp.Subquery) for one in arguments[places])
    try:
        found = make(arguments)
    except TypeError:  # as in sqlglot: some builders need the dialect
        found = make(arguments, dialect=dialect)
    found.meta[CALLED] = name
    if varies:
        found.meta[_VARYING] = what
    return found


def _rules(hive: dict[str, Any]) -> dict[str, Any]:
    """Return the builders of functions that sqlglot's Hive dialect defines differently."""

    def to_date(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 2:  # this form returns a DATETIME; mm is a month, unlike in Hive
            return call("to_date", *arguments)
        return hive["TO_DATE"](arguments, dialect)

    def from_unixtime(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 1:  # this form returns a DATETIME; in Hive, it returns text
            return call("from_unixtime", *arguments)
        return hive["FROM_UNIXTIME"](arguments, dialect)

    def sequence(arguments: list[Any]) -> Any:
        whole = len(arguments) == 2
        return call("sequence", *arguments) if whole else hive["SEQUENCE"](arguments)

    def extreme(kind: Any, arguments: list[Any]) -> Any:
        value, result = arguments  # MaxCompute's order; MAX_BY has the other one
        return kind(this=result, expression=value)

    def named_struct(arguments: list[Any]) -> Any:
        names, values = arguments[::2], arguments[1::2]
        is_whole = len(names) == len(values) and all(one.is_string for one in names)
        fields = zip(names, values, strict=True) if is_whole else ()
        return exp.Struct(expressions=[_field(name.this, value) for name, value in fields])

    return {
        "ARG_MAX": partial(extreme, exp.ArgMax),
        "ARG_MIN": partial(extreme, exp.ArgMin),
        "FROM_UNIXTIME": from_unixtime,
        "NAMED_STRUCT": named_struct,
        "REVERSE": hive["REVERSE"],
        "SEQUENCE": sequence,
        "STDDEV": exp.StddevPop.from_arg_list,
        "STDDEV_SAMP": exp.StddevSamp.from_arg_list,
        "TO_DATE": to_date,
        "VARIANCE": exp.VariancePop.from_arg_list,
        "VECTOR": hive["ARRAY"],
    }


def _field(name: str, value: Any) -> Any:
    return exp.PropertyEQ(this=exp.to_identifier(name), expression=value)


def check_functions(query: Any) -> None:
    """Raise 400 for a function that is not listed; mark the calls that the parser does not know."""
    for node in query.walk():
        if (what := node.meta.get(_VARYING)) is not None:
            name = node.meta[CALLED].upper()
            raise errors.semantic(f"{name} requires a constant {what}", at=place_of(node))
    for node in query.find_all(exp.Anonymous):
        name = node.name.lower()
        if name in _INTERNAL or node.find_ancestor(exp.Hint) is not None:
            continue
        if name not in FUNCTIONS:
            raise errors.lacks_function(
                name,
                is_sure=name in MISSING,
                at=place_of(node),
                advice="" if name in MISSING else did_you_mean(name, FUNCTIONS, cutoff=0.85),
            )
        node.meta[CALLED] = name
    if (unnest := query.find(exp.Unnest)) is not None:
        raise errors.lacks_function("unnest", is_sure=False, at=place_of(unnest))


def translate_functions(query: Any, types: Types, blobs: Collection[str] = ()) -> None:
    """Replace calls with what DuckDB runs, and cast results to MaxCompute's types, in place.

    ``blobs`` are the lower-case names of BLOB columns, of which DuckDB sees only the references.
    """
    _respell(query)
    for node in reversed(list(query.walk(bfs=False))):  # inner nodes first
        if isinstance(node, exp.Bracket):
            _index(node, types)
        name = "extract" if isinstance(node, exp.Extract) else node.meta.get(CALLED, "")
        if blobs and name and FUNCTIONS[name].returns and name != "isnull":
            _refuse_blobs(node, name, blobs)
        if name in _REWRITES:
            node = _REWRITES[name](node, types)
        elif isinstance(node, exp.Anonymous) and name:
            _name_macro(node, name)
        function = FUNCTIONS.get(name)
        if function and function.how != "rule" and (kind := _CASTS.get(function.returns)):
            wrap(node, partial(cast, name=kind))


_MAPS = {"map", "map_concat", "map_from_arrays", "map_from_entries", "str_to_map"}


def _index(node: Any, types: Types) -> None:
    """Rewrite the access to an element; sqlglot adds 1 to constant indexes of arrays only."""
    if types.name(node.this) == "MAP" or node.this.meta.get(CALLED) in _MAPS:
        wrap(node, lambda one: call("map_extract_value", one.this, *one.expressions))
    elif node.find(exp.Column) and not isinstance(node.expressions[0], exp.Literal):
        place = exp.paren(node.expressions[0].copy()) + 1
        wrap(node, lambda one: call("list_extract", one.this, place))


def _refuse_blobs(node: Any, name: str, blobs: Collection[str]) -> None:
    for value in node.iter_expressions():
        if isinstance(value, exp.Column) and value.name.casefold() in blobs:
            raise errors.lacks(
                f"{name.upper()} of a BLOB",
                is_sure=name == "lengthb",
                at=place_of(value.this),
                advice="read the blob in Python: table.read() returns its reference",
            )


def _name_macro(node: Any, name: str) -> None:
    given = node.expressions
    if name == "wm_concat" and given and isinstance(given[0], exp.Distinct):
        if len(given) != 1 or len(given[0].expressions) != 2:
            raise errors.semantic("WM_CONCAT requires a separator and a value")
        separator, value = given[0].expressions
        node.replace(call("string_agg", exp.Distinct(expressions=[value]), separator))
        return
    if name in ("to_char", "to_date", "isdate") and len(given) == 2:
        _check_format(given[1], name.upper())
    node.set("this", f"mc_{name}")


# -- functions whose translation depends on types or on syntax ------------------------------------


def _matched(node: Any, _types: Types, *, all_of: bool) -> Any:
    """Rewrite ALL_MATCH and ANY_MATCH, which are true and false for an empty array."""
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Lambda):
        raise errors.semantic(f"{node.name.upper()} requires an ARRAY and a function")
    array, function = node.expressions
    folded = call(
        "list_bool_and" if all_of else "list_bool_or",
        call(
            "list_prepend",
            exp.convert(all_of),
            exp.Transform(this=array, expression=function),
        ),
    )
    node.replace(folded)
    return folded


def _sampled(node: Any, _types: Types) -> Any:
    """Rewrite STDDEV_SAMP, which is 0 for one value."""
    whole = node
    while isinstance(whole.parent, (exp.Window, exp.Filter)) and whole.arg_key == "this":
        whole = whole.parent
    counted = whole.copy()
    inner = next(one for one in counted.walk() if isinstance(one, exp.StddevSamp))
    count = exp.Count(this=inner.this.copy())
    if inner is counted:
        counted = count
    else:
        inner.replace(count)
    zero = exp.Mul(
        this=exp.Nullif(this=counted, expression=exp.Literal.number(0)),
        expression=exp.cast(exp.Literal.number(0), "double"),
    )
    wrap(whole, lambda one: exp.Coalesce(this=one, expressions=[zero]))
    return node


def _reversed(node: Any, types: Types) -> Any:
    if types.name(node.this) in ("ARRAY", "LIST"):
        node.replace(reversed_ := call("list_reverse", node.this))
        return reversed_
    return node


def _sized(node: Any, types: Types) -> Any:
    if types.name(node.this) == "MAP":
        node.replace(size := call("cardinality", node.this))
        return size
    return node


def _truncated(node: Any, types: Types) -> Any:
    """Rewrite TRUNC of a number, or of a date with a unit (the Hive-compatible form)."""
    value, *rest = node.expressions or [None]
    places = rest[0] if rest else exp.Literal.number(0)
    number = places.this if isinstance(places, exp.Neg) else places
    if value is None or len(rest) > 1 or not isinstance(number, exp.Literal):
        raise errors.semantic(
            "TRUNC requires a number and a constant number of decimal places",
            at=place_of(node),
        )
    if number.is_string:
        node.set("this", "mc_trunc_date")
        return node
    digits = max(-_PLACES, min(_PLACES, int(number.this) * (-1 if number is not places else 1)))
    unit: Any = exp.Literal.number(10**-digits)
    if digits > 0:
        spelled = exp.Literal.string(f"1e-{digits}")
        unit = exp.cast(spelled, f"DECIMAL({digits + 1}, {digits})")
    if types.name(value) == "DECIMAL":
        rest_of = exp.Mod(this=value.copy(), expression=unit)
        made: Any = exp.paren(exp.Sub(this=value, expression=rest_of))
    else:
        made = call("mc_trunc", value, unit)
    node.replace(made)
    return made


def _lengthb(node: Any, types: Types) -> Any:
    is_binary = len(node.expressions) == 1 and types.name(node.expressions[0]) == "BINARY"
    node.set("this", "octet_length" if is_binary else "mc_lengthb")
    return node


def _extracted(node: Any, _types: Types) -> Any:
    pattern, group = node.expression, node.args.get("group")
    is_whole = isinstance(group, exp.Literal) and group.this == "0"
    if isinstance(pattern, exp.Literal) and "(" not in pattern.this and not is_whole:
        raise errors.semantic(
            "the pattern of REGEXP_EXTRACT has no group",
            at=place_of(pattern),
            advice="put parentheses around what to extract, or pass 0 for the whole match",
        )
    return node


def _replaced(node: Any, _types: Types) -> Any:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise errors.lacks("REGEXP_REPLACE of one occurrence", is_sure=True)
    return node


_REWRITES: dict[str, Callable[[Any, Any], Any]] = {
    "all_match": partial(_matched, all_of=True),
    "any_match": partial(_matched, all_of=False),
    "lengthb": _lengthb,
    "regexp_extract": _extracted,
    "regexp_replace": _replaced,
    "reverse": _reversed,
    "size": _sized,
    "stddev_samp": _sampled,
    "trunc": _truncated,
}


def _respell(query: Any) -> None:
    """Replace nodes whose SQL sqlglot generates differently from MaxCompute's meaning."""
    for node in list(query.find_all(exp.Quantile)):  # PERCENTILE, which interpolates
        value = node.this
        values = value.expressions if isinstance(value, exp.Distinct) else [value]
        if None in values or node.args.get("quantile") is None:
            raise errors.semantic("PERCENTILE requires a column and a fraction")
        for one in values:
            one.replace(exp.cast(one.copy(), "double"))
        node.replace(call("quantile_cont", node.this, node.args["quantile"]))
    for node in query.find_all(exp.ArraySort):
        if isinstance(node.expression, exp.Lambda):
            raise errors.lacks("ARRAY_SORT with a comparator", is_sure=True)
    for node in list(query.find_all(exp.WithinGroup)):
        _order_texts(node)
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
            raise errors.lacks(f"LATERAL VIEW {_name_of(laterals[0].this)}", is_sure=True)


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
            raise errors.lacks(f"{_name_of(shown.this)} with several aliases", is_sure=True)
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
        raise errors.semantic(f"the format of {function} must be a string literal")
    form.set("this", _FORMAT.sub(lambda found: _STRFTIME[found[0].lower()], form.this))
