"""Parses calls of MaxCompute's functions, and rewrites them for DuckDB (see `function_table`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from odps_nb import sql_parser
from odps_nb.local import errors
from odps_nb.local.sql.function_table import FUNCTIONS, MISSING
from odps_nb.local.sql.refusals import did_you_mean
from odps_nb.local.sql.rewrites import REWRITES, check_fraction
from odps_nb.local.sql.trees import CALLED, TEXTS, call, cast, place_of, wrap

if TYPE_CHECKING:  # `types_of_query` uses the dialect
    from odps_nb.local.sql.types_of_query import Types

_STRFTIME = {
    **{"yyyy": "%Y", "mm": "%m", "dd": "%d", "hh24": "%H", "hh": "%H", "mi": "%M"},
    **{"ss": "%S", "ff3": "%g", "sss": "%g", "%": "%%"},
}
_FORMAT = re.compile("yyyy|mm|dd|hh24|hh|mi|ss|ff3|%", re.IGNORECASE)
_DIGITS = {"yyyy": 4, "ff3": 3}
"""Number of digits of a part of a format; the other parts have two."""
_CASTS = {
    **{name: name for name in ("INT", "BIGINT", "DOUBLE", "DATE")},
    **{"DATETIME": "TIMESTAMP_MS"},
}
_INTERNAL = ("mc_once",)  # part of the text that `changes` generates for MERGE


@cache
def maxcompute_dialect() -> Any:
    """Return the sqlglot dialect for MaxCompute SQL, which knows only the functions listed."""
    hive = sql_parser.hive().Parser
    by_parser = {name.upper() for name, function in FUNCTIONS.items() if function.how == "parser"}
    builders = {key: make for key, make in hive.FUNCTIONS.items() if key in by_parser}
    builders |= _rules(hive.FUNCTIONS)
    attributes = {
        # STRUCT names fields without an alias col1, col2, …, even columns (manual)
        "_to_prop_eq": lambda _, value, index: _field(f"col{index + 1}", value),
        "FUNCTIONS": {key: partial(_build, key.lower(), make) for key, make in builders.items()},
        **{key: _only(getattr(hive, key), by_parser) for key in _SYNTAX},
    }
    parser = type("Parser", (hive,), attributes)
    tokenizer = sql_parser.hive().Tokenizer
    words = {w: kind for w, kind in tokenizer.KEYWORDS.items() if w not in _OTHER_TYPES}
    own = {"KEYWORDS": words, "HEX_STRINGS": [("x'", "'"), ("X'", "'")]}
    parts = {"Parser": parser, "Tokenizer": type("Tokenizer", (tokenizer,), own)}
    return type("MaxCompute", (sql_parser.hive(),), parts)


_OF_OTHERS = """
BOOL BPCHAR BYTE BYTEA CHARACTER CLOB DEC FIXED FLOAT4 FLOAT8 INT1 INT16 INT2 INT32 INT4 INT64 INT8
INTEGER LONG LONGVARCHAR NUMBER NUMERIC REAL SHORT STR TEXT TIMESTAMPNTZ VARBINARY VARCHAR2
"""
_OTHER_TYPES = {
    *_OF_OTHERS.split(),
    *("CHAR VARYING", "CHARACTER VARYING", "DOUBLE PRECISION"),
}
"""Type names that sqlglot reads and that columns of MaxCompute cannot have. INT8 is ambiguous."""


_SYNTAX = (
    *("FUNCTION_PARSERS", "NO_PAREN_FUNCTIONS", "NO_PAREN_FUNCTION_PARSERS"),
    "SUBQUERY_PREDICATES",
)


def _only(known: dict[Any, Any], names: set[str]) -> dict[Any, Any]:
    """Return the listed functions among the parser's functions with a special syntax."""
    return {
        key: builder
        for key, builder in known.items()
        if (key if isinstance(key, str) else key.name) in {*names, "CASE"}
    }


#: Arguments that must be constant according to MaxCompute's manual, and what they mean.
_CONSTANT = {
    "date_trunc": (slice(1), "unit"),
    "encode": (slice(1, 2), "encoding"),
    "regexp_extract": (slice(2, 3), "number of a group"),
    "regexp_instr": (slice(4, 5), "return option"),
    "round": (slice(1, 2), "number of decimal places"),
    "sha2": (slice(1, 2), "length"),
}
_VARYING = "odps_nb_varying"
"""Key in a node's ``meta``; the value describes an argument that must be constant but is not."""
_MISREAD = "odps_nb_misread"
"""Key in a node's ``meta``; the value is an unsupported unit or part of a format (`_misread`)."""


def _build(name: str, make: Callable[..., Any], arguments: list[Any], dialect: Any) -> Any:
    """Return the node of a call, marked with the name of the function."""
    unknown = _misread(name, arguments)
    positions, what = _CONSTANT.get(name, (slice(0), ""))
    varies = any(
        argument.find(exp.Column, exp.Subquery)
        or (what == "format" and not isinstance(argument, (exp.Literal, exp.Null)))
        for argument in arguments[positions]
    )
    try:
        node = make(arguments)
    except TypeError:  # as in sqlglot: some builders need the dialect
        node = make(arguments, dialect=dialect)
    node.meta[CALLED] = name
    if varies:
        node.meta[_VARYING] = what
    if unknown:
        node.meta[_MISREAD] = unknown
    return node


_UNITS = re.compile("year|quarter|month|week|day|hour|minute|second")
_EXTRACTED = re.compile("year|month|day|hour|minute|second")
_PARTS = re.compile("yyyy|MM|dd|HH|hh|mm|mi|ss|SSS")  # of `date_format`
_TOKEN = re.compile(r"mi|([A-Za-z'])\1*")
_COUNTED = ("regexp_count", "regexp_instr", "regexp_substr")
_PATTERNS = (*_COUNTED, "regexp_extract", "regexp_replace")


def _misread(name: str, arguments: list[Any]) -> str:
    """Return a unit, path, pattern or number that would be misread; ``""`` if there is none."""
    if name == "date_trunc":
        units = [unit.name.lower() for unit in arguments[:1] if unit.is_string]
        return next((repr(unit) for unit in units if not _UNITS.fullmatch(unit)), "")
    second = arguments[1] if arguments[1:] and arguments[1].is_string else None
    if name in _PATTERNS and second is not None and not second.name:
        return "an empty pattern"
    if name == "get_json_object" and second is not None:
        path = second.name
        return f"the path {path!r}" if not path.startswith("$") or "[-" in path else ""
    if name in _COUNTED and any(isinstance(n, exp.Neg) or n.name == "0" for n in arguments[2:4]):
        return "a position or an occurrence below 1"
    return ""


def _rules(hive: dict[str, Any]) -> dict[str, Any]:
    """Return the builders of functions that sqlglot's Hive dialect defines differently."""

    def to_date(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 2:  # this form returns a DATETIME; mm is a month, unlike in Hive
            return call("to_date", *arguments)
        return hive["TO_DATE"](arguments, dialect)

    def from_unixtime(arguments: list[Any]) -> Any:  # returns a DATETIME; in Hive, text
        return call("from_unixtime", *arguments)

    def sequence(arguments: list[Any]) -> Any:
        whole = len(arguments) == 2
        return call("sequence", *arguments) if whole else hive["SEQUENCE"](arguments)

    def extreme(kind: Any, arguments: list[Any]) -> Any:
        value, result = arguments  # ARG_MAX has its arguments in the opposite order of MAX_BY
        return kind(this=result, expression=value)

    def named_struct(arguments: list[Any]) -> Any:
        names, values = arguments[::2], arguments[1::2]
        is_whole = len(names) == len(values) and all(name.is_string for name in names)
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
    """Raise an error for an unsupported function; mark calls that the parser does not know."""
    for node in query.walk():
        if (what := node.meta.get(_VARYING)) is not None:
            name = node.meta[CALLED].upper()
            raise errors.semantic(f"{name} requires a constant {what}", at=place_of(node))
        if (word := node.meta.get(_MISREAD)) is not None:
            name = node.meta[CALLED].upper()
            raise errors.lacks(f"{word} in {name}", is_sure=False, at=place_of(node))
    _check_syntax(query)
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
        if word := _misread(name, node.expressions):
            raise errors.lacks(f"{word} in {name.upper()}", is_sure=False, at=place_of(node))
    if (unnest := query.find(exp.Unnest)) is not None:
        raise errors.lacks_function("unnest", is_sure=False, at=place_of(unnest))


def _is_written(array: Any) -> bool:
    """Whether an ARRAY is neither a call nor a part of the call of MAP."""
    return CALLED not in array.meta and not isinstance(array.parent, exp.VarMap)


_REGEX_COLUMN: Final = re.compile(r"\.[*+]|\)\?")  # not the name sum(a)*2
_FOREIGN: tuple[tuple[Any, Callable[[Any], Any], str], ...] = (
    (exp.Array, _is_written, "an ARRAY in brackets"),
    (exp.Fetch, bool, "FETCH"),
    (exp.Group, lambda node: node.args.get("all"), "GROUP BY ALL"),
    (exp.Join, lambda node: node.method == "ASOF", "ASOF JOIN"),
    (exp.Limit, lambda node: node.expressions or node.args.get("limit_options"), "this LIMIT"),
    (exp.Query, lambda node: node.args.get("sample"), "USING SAMPLE"),
    (exp.SetOperation, lambda node: node.args.get("by_name"), "BY NAME"),
    (exp.Slice, bool, "a range in brackets"),
    (exp.Table, lambda node: node.args.get("when"), "AT"),
    (
        exp.Values,
        lambda node: not all(row.args.get("expressions", 1) for row in node.expressions),
        "an empty row",
    ),
)
"""Syntax of other databases that sqlglot reads: node type, test, and the name for the error."""
_ABSENT: tuple[tuple[Any, Callable[[Any], Any], str], ...] = (
    (exp.Column, lambda node: _REGEX_COLUMN.search(node.name), "columns by a regular expression"),
    (exp.QueryTransform, bool, "SELECT TRANSFORM"),
    (exp.TableSample, lambda node: node.args.get("bucket_numerator"), "a sample of buckets"),
)
"""Syntax of MaxCompute that the embedded service lacks (vendor's pages of SELECT)."""


def _check_syntax(query: Any) -> None:
    for node in query.walk():
        for kind, is_met, what in (*_FOREIGN, *_ABSENT):
            if isinstance(node, kind) and is_met(node):
                is_sure = (kind, is_met, what) in _ABSENT
                raise errors.lacks(what, is_sure=is_sure, at=place_of(node))
    for node in query.find_all(exp.RegexpLike):
        if node.expression.is_string and not node.expression.name:
            raise errors.semantic("RLIKE requires a pattern", at=place_of(node.expression))
    for node in query.find_all(exp.Exists):
        if not isinstance(node.this, exp.Query):
            raise errors.semantic(
                "EXISTS requires a query in parentheses",
                at=place_of(node.this),
                advice="for an ARRAY, write any_match(array, x -> …)",
            )
    for node in query.find_all(exp.Extract):
        if not _EXTRACTED.fullmatch(unit := node.name.lower()):
            raise errors.lacks(f"{unit.upper()} in EXTRACT", is_sure=False, at=place_of(node))


def translate_functions(query: Any, types: Types, blobs: Collection[str] = ()) -> None:
    """Replace calls with DuckDB's functions, and cast results to MaxCompute's types, in place.

    ``blobs`` are the lower-case names of BLOB columns, of which DuckDB sees only the references.
    """
    _respell(query)
    for node in reversed(list(query.walk(bfs=False))):  # inner nodes first
        if isinstance(node, exp.Bracket):
            _index(node, types)
        name = _OWN_SYNTAX.get(type(node)) or node.meta.get(CALLED, "")
        if blobs and name and FUNCTIONS[name].returns and name != "isnull":
            _refuse_blobs(node, name, blobs)
        if name == "date_format":
            node = _format_date(node, types)
        elif name in REWRITES:
            node = REWRITES[name](node, types)
        elif isinstance(node, exp.Anonymous) and name:
            _name_macro(node, name)
        function = FUNCTIONS.get(name)
        if function and function.how != "rule" and (kind := _CASTS.get(function.returns)):
            wrap(node, partial(cast, name=kind))


_OWN_SYNTAX = {exp.Chr: "chr", exp.Extract: "extract"}  # parsed without `_build`
_MAPS = {"map", "map_concat", "map_from_arrays", "map_from_entries", "str_to_map"}


def _index(node: Any, types: Types) -> None:
    """Rewrite the access to an element; sqlglot adds 1 to constant indexes of arrays only."""
    if types.name(node.this) == "MAP" or node.this.meta.get(CALLED) in _MAPS:
        wrap(node, lambda bracket: call("map_extract_value", bracket.this, *bracket.expressions))
    elif node.find(exp.Column) and not isinstance(node.expressions[0], exp.Literal):
        index = exp.paren(node.expressions[0].copy()) + 1
        wrap(node, lambda bracket: call("list_extract", bracket.this, index))


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
    arguments = node.expressions
    if name == "wm_concat" and arguments and isinstance(arguments[0], exp.Distinct):
        if len(arguments) != 1 or len(arguments[0].expressions) != 2:
            raise errors.semantic("WM_CONCAT requires a separator and a value")
        separator, value = arguments[0].expressions
        node.replace(call("string_agg", exp.Distinct(expressions=[value]), separator))
        return
    if name in ("to_char", "to_date", "isdate") and len(arguments) == 2:
        shape = _check_format(arguments[1], name.upper(), written=name == "to_char")
        if name != "to_char":
            node.append("expressions", exp.Literal.string(shape))
    if name == "format_number" and not (arguments[1:] and isinstance(arguments[1], exp.Literal)):
        raise errors.semantic(
            "FORMAT_NUMBER requires a constant number of decimal places", at=place_of(node)
        )
    if name == "from_unixtime" and len(arguments) == 2:
        raise errors.lacks(
            "FROM_UNIXTIME with a format",
            is_sure=True,
            at=place_of(node),
            advice="write to_char(from_unixtime(n), 'yyyy-mm-dd hh:mi:ss')",
        )
    node.set("this", f"mc_{name}")


def _respell(query: Any) -> None:
    """Replace nodes for which sqlglot generates SQL that differs in meaning from MaxCompute's."""
    for node in list(query.find_all(exp.Quantile)):  # PERCENTILE, which interpolates
        value = node.this
        values = value.expressions if isinstance(value, exp.Distinct) else [value]
        if None in values or node.args.get("quantile") is None:
            raise errors.semantic("PERCENTILE requires a column and a fraction")
        check_fraction(node, None)
        for argument in values:
            argument.replace(exp.cast(argument.copy(), "double"))
        node.replace(call("quantile_cont", node.this, node.args["quantile"]))
    for node in query.find_all(exp.ArraySort):
        if isinstance(node.expression, exp.Lambda):
            raise errors.lacks("ARRAY_SORT with a comparator", is_sure=True)
    for node in list(query.find_all(exp.WithinGroup)):
        _order_texts(node)
    for node in list(query.find_all(exp.JSONExtractScalar)):
        _read_json(node)


def _read_json(node: Any) -> None:
    """Make a call return NULL for invalid JSON, and one string for all matches of ``[*]``."""
    node.set("this", call("mc_valid_json", node.this))
    if node.expression.find(exp.JSONPathWildcard) is not None:
        extracted = exp.JSONExtract(this=node.this, expression=node.expression)
        node.replace(call("mc_json_list", extracted))


def _order_texts(within: Any) -> None:
    """Rewrite ``wm_concat(separator, x) within group (order by y)`` in DuckDB's syntax."""
    concat, order = within.this, within.expression
    is_concat = isinstance(concat, exp.Anonymous) and concat.name.lower() == "wm_concat"
    if is_concat and order and len(concat.expressions) == 2:
        separator, value = concat.expressions
        ordered = exp.Order(this=separator, expressions=order.expressions)
        within.replace(call("string_agg", exp.cast(value, "TEXT"), ordered))


def join_lateral_views(query: Any) -> None:
    """Rewrite each LATERAL VIEW (even of a MAP, or with OUTER) as a lateral join, in place."""
    for select in query.find_all(exp.Select):
        _name_exploded(select)
        laterals = select.args.get("laterals") or []
        while laterals and laterals[0].args.get("view"):
            view = laterals[0]
            if not (values := _lists_of(view.this, len(view.alias_column_names))):
                break
            laterals.pop(0)
            columns = exp.Select(expressions=[exp.Explode(this=value) for value in values])
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
    expressions: list[Any] = []
    for shown in select.expressions:
        if not isinstance(shown, exp.Aliases):
            expressions.append(shown)
        elif values := _lists_of(shown.this, len(shown.aliases)):
            named = zip(values, shown.aliases, strict=True)
            expressions += [
                exp.Alias(this=exp.Explode(this=value), alias=name) for value, name in named
            ]
        else:
            raise errors.lacks(f"{_name_of(shown.this)} with several aliases", is_sure=True)
    select.set("expressions", expressions)


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


def _check_format(form: Any, function: str, *, written: bool) -> str:
    """Convert a constant format (e.g. ``yyyy-mm-dd hh:mi:ss``) to DuckDB's format, or raise 400.

    Return a pattern of the texts that have this format. A format for reading must contain a year,
    and no part twice.
    """
    if isinstance(form, exp.Null):
        return ""
    if not (isinstance(form, exp.Literal) and form.is_string):
        raise errors.semantic(f"the format of {function} must be a string literal")
    text, shape, last = str(form.this), "", 0
    parts = [match for match in _FORMAT.finditer(text) if match[0] != "%"]
    names = [match[0].lower() for match in parts]
    if not written and ("yyyy" not in names or len({*names}) < len(names)):
        raise errors.lacks(f"the format {text!r} in {function}", is_sure=True, at=place_of(form))
    for match, name in zip(parts, names, strict=True):
        shape += f"{re.escape(text[last : match.start()])}\\d{{{_DIGITS.get(name, 2)}}}"
        last = match.end()
    form.set("this", _FORMAT.sub(lambda match: _STRFTIME[match[0].lower()], text))
    return shape + re.escape(text[last:])


def _format_date(node: Any, types: Types) -> Any:
    """Convert DATE_FORMAT, whose format has the parts of the MaxCompute V2.0 data type edition."""
    if len(arguments := node.expressions) != 2:
        raise errors.semantic("DATE_FORMAT requires a time and a format", at=place_of(node))
    if types.name(arguments[0]) in (*TEXTS, "DATE"):
        raise errors.lacks(
            "DATE_FORMAT of text or of a DATE",
            is_sure=True,
            at=place_of(node),
            advice="write to_char(cast(d as datetime), 'yyyymmdd')",
        )
    form = arguments[1]
    if not isinstance(form, (exp.Literal, exp.Null)):
        raise errors.semantic("DATE_FORMAT requires a constant format", at=place_of(node))
    words = [match[0] for match in _TOKEN.finditer(form.name if form.is_string else "")]
    if word := next((word for word in words if not _PARTS.fullmatch(word)), ""):
        raise errors.lacks(f"{word!r} in DATE_FORMAT", is_sure=False, at=place_of(node))
    if isinstance(form, exp.Literal):
        text = form.this.replace("%", "%%")
        form.set("this", _TOKEN.sub(lambda match: _STRFTIME[match[0].lower()], text))
    node.set("this", "mc_date_format")
    return node
