"""MaxCompute functions that DuckDB lacks or defines differently, as DuckDB macros.

sqlglot supports Hive's functions; where MaxCompute has its own (units of dates, ``wm_concat``,
``to_char`` …) the parser keeps the call, which becomes a call of a macro ``mc_…`` from here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from odps_nb import sql_parser
from odps_nb.local import faults

FAR = "a time is beyond nanoseconds"
CUT = (
    "a time has digits below a microsecond and another one is out of the range of nanoseconds,"
    " SQL of the embedded service works with one of the two"
)
"""What a query says that read text with nanoseconds and found a year such as 9999."""

# units as people write them -> parts of DuckDB
_PART = """CASE lower({part})
    WHEN 'yyyy' THEN 'year' WHEN 'year' THEN 'year' WHEN 'yy' THEN 'year'
    WHEN 'mm' THEN 'month' WHEN 'month' THEN 'month' WHEN 'mon' THEN 'month'
    WHEN 'dd' THEN 'day' WHEN 'day' THEN 'day'
    WHEN 'hh' THEN 'hour' WHEN 'hour' THEN 'hour' WHEN 'mi' THEN 'minute'
    WHEN 'ss' THEN 'second' WHEN 'ff3' THEN 'millisecond' WHEN 'week' THEN 'week'
    ELSE error('unknown unit ' || {part}) END"""

_FORMAT = re.compile("yyyy|mm|dd|hh24|hh|mi|ss|ff3|%", re.IGNORECASE)
_STRFTIME = {
    "yyyy": "%Y",
    "mm": "%m",
    "dd": "%d",
    "hh24": "%H",
    "hh": "%H",
    "mi": "%M",
    "ss": "%S",
    "ff3": "%g",
    "%": "%%",
}

# A long division with three digits a step: HUGEINT holds 38 digits, the remainder is below b.
_QUOTIENT = (
    "mc_digits(x) AS CAST(replace(CAST(CAST(x AS DECIMAL(38, 18)) AS VARCHAR), '.', '')"
    " AS HUGEINT)",
    "mc_left(a, b) AS (a % b) * 1000",
    *(
        f"mc_left{n}(a, b) AS mc_left({f'mc_left{n - 1}(a, b)' if n > 1 else 'a'}, b)"
        for n in range(1, 7)
    ),
    "mc_long_division(a, b) AS (a // b) * 1000000000000000000"
    + "".join(f" + (mc_left{n}(a, b) // b) * {10 ** (18 - 3 * n)}" for n in range(1, 7)),
    "mc_quotient(a, b) AS CAST(mc_long_division(mc_digits(a), nullif(mc_digits(b), 0))"
    " AS DECIMAL(38, 0)) * CAST('0.000000000000000001' AS DECIMAL(19, 18))",
)

# Products of the parts before and after the point: each fits into HUGEINT if the whole one does.
# p and q are the powers of ten of the scales of a and b, the others lead to the scale wanted.
_PRODUCT = (
    "mc_unscaled(x) AS CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "mc_rounded(x, unit) AS (x + sign(x) * (unit // 2)) // unit",
    "mc_product(x, y, p, q, unit, to_a, to_b, over) AS list_transform([{'a': x, 'b': y}], lambda r:"
    " (r.a // p) * (r.b // q) * unit + (r.a // p) * (r.b % q) * to_b"
    " + (r.a % p) * (r.b // q) * to_a + mc_rounded((r.a % p) * (r.b % q), over))[1]",
)

# Between instants in UTC (TIMESTAMP) and the clock of a zone. Of an hour that the clocks repeat the
# first one is meant, as in Python; those that take any time keep its nanoseconds.
_ZONES = (
    "mc_clock(t, zone) AS timezone(zone, CAST(t AS TIMESTAMPTZ))",
    "mc_first(c, zone) AS c - (mc_clock(c - INTERVAL 1 DAY, zone) - (c - INTERVAL 1 DAY))",
    "mc_utc(c, zone) AS CASE WHEN mc_clock(mc_first(c, zone), zone) = c THEN mc_first(c, zone)"
    " ELSE CAST(timezone(zone, c) AS TIMESTAMP) END",
    "mc_instant(x, zone) AS x + (mc_utc(CAST(x AS TIMESTAMP), zone) - CAST(x AS TIMESTAMP))",
    "mc_local(x, zone) AS x + (mc_clock(CAST(x AS TIMESTAMP), zone) - CAST(x AS TIMESTAMP))",
    "mc_time(x) AS x + INTERVAL 0 SECOND",  # a date is its midnight
    "mc_same(c, t, zone) AS c - (mc_clock(t, zone) - t)",
    "mc_back_utc(c, t, zone) AS CASE WHEN mc_clock(mc_same(c, t, zone), zone) = c"
    " THEN mc_same(c, t, zone) ELSE mc_utc(c, zone) END",
    "mc_back(x, source, zone) AS x + (mc_back_utc(CAST(x AS TIMESTAMP), CAST(source AS TIMESTAMP),"
    " zone) - CAST(x AS TIMESTAMP))",
    # text may name its own zone, which the cast to TIMESTAMP leaves out
    r"mc_has_zone(s) AS regexp_matches(s, ':\d\d(\.\d+)?\s*([A-Za-z]|[+-]\d\d(:?\d\d)?\s*$)')",
    # of text that is no time x is null or an error, which null + x would not raise
    "mc_text(x, s, zone) AS CASE WHEN TRY_CAST(s AS TIMESTAMP) IS NULL THEN x"
    " ELSE x + (CASE WHEN mc_has_zone(s)"
    " THEN CAST(TRY_CAST(regexp_replace(s, ' +([+-]\\d)', '\\1') AS TIMESTAMPTZ) AS TIMESTAMP)"
    " ELSE mc_utc(TRY_CAST(s AS TIMESTAMP), zone) END - TRY_CAST(s AS TIMESTAMP)) END",
    "mc_within(t) AS CASE WHEN t < TIMESTAMP '0001-01-01 00:00:00'"
    " OR t >= TIMESTAMP '10000-01-01 00:00:00' THEN error('a time of the session is before the"
    " year 1 or after the year 9999 in UTC') ELSE t END",
    "mc_near(s) AS CASE WHEN TRY_CAST(s AS TIMESTAMP) NOT BETWEEN TIMESTAMP '1677-09-22 00:00:00'"
    f" AND TIMESTAMP '2262-04-11 00:00:00' THEN error('{FAR}') ELSE s END",
    rf"mc_micro(s) AS CASE WHEN regexp_matches(s, '\.\d{{6}}\d*[1-9]')"
    f" THEN error('{CUT}') ELSE s END",
)

MACROS = (
    "mc_getdate() AS CAST(get_current_timestamp() AS TIMESTAMP_MS)",
    "mc_now() AS mc_getdate()",
    "mc_from_unixtime(n) AS CAST(make_timestamp(CAST(n AS BIGINT) * 1000000) AS TIMESTAMP_MS)",
    f"mc_datediff(a, b) AS date_diff('day', CAST(b AS DATE), CAST(a AS DATE)),"
    f" (a, b, part) AS date_diff({_PART.format(part='part')}, CAST(b AS TIMESTAMP),"
    " CAST(a AS TIMESTAMP))",
    f"mc_dateadd(d, n, part) AS CAST(CAST(d AS TIMESTAMP) + CASE {_PART.format(part='part')}"
    " WHEN 'year' THEN to_years(CAST(n AS INTEGER)) WHEN 'month' THEN to_months(CAST(n AS INTEGER))"
    " WHEN 'day' THEN to_days(CAST(n AS INTEGER)) WHEN 'hour' THEN to_hours(n)"
    " WHEN 'minute' THEN to_minutes(n) WHEN 'second' THEN to_seconds(n)"
    " WHEN 'millisecond' THEN to_milliseconds(n) END AS TIMESTAMP_MS)",
    "mc_date_add(d, n) AS CAST(d AS DATE) + CAST(n AS INTEGER)",
    "mc_date_sub(d, n) AS CAST(d AS DATE) - CAST(n AS INTEGER)",
    "mc_add_months(d, n) AS CAST(CAST(d AS DATE) + to_months(CAST(n AS INTEGER)) AS DATE)",
    f"mc_datepart(d, part) AS CASE {_PART.format(part='part')} WHEN 'year' THEN"
    " year(CAST(d AS TIMESTAMP)) WHEN 'month' THEN month(CAST(d AS TIMESTAMP))"
    " WHEN 'day' THEN day(CAST(d AS TIMESTAMP)) WHEN 'hour' THEN hour(CAST(d AS TIMESTAMP))"
    " WHEN 'minute' THEN minute(CAST(d AS TIMESTAMP))"
    " WHEN 'second' THEN second(CAST(d AS TIMESTAMP)) END",
    f"mc_datetrunc(d, part) AS CAST(date_trunc({_PART.format(part='part')},"
    " CAST(d AS TIMESTAMP)) AS TIMESTAMP_MS)",
    f"mc_trunc(d, part) AS CAST(date_trunc({_PART.format(part='part')}, CAST(d AS DATE)) AS DATE)",
    "mc_trunc_time(d, part) AS left(strftime(CAST(d AS TIMESTAMP), '%Y-%m-%d %H:00:00'),"
    " CASE lower(part) WHEN 'year' THEN 4 WHEN 'month' THEN 7 WHEN 'day' THEN 10"
    " WHEN 'hour' THEN 19 ELSE error('unknown unit ' || part) END)",
    "mc_lastday(d) AS CAST(last_day(CAST(d AS DATE)) AS TIMESTAMP_MS)",
    # of the same day, or of two last days, without a fraction; else a month has 31 days
    "mc_is_last(d) AS CAST(d AS DATE) = last_day(d)",
    "mc_into_month(d) AS day(d) * 86400 + epoch(d - date_trunc('day', d))",
    "mc_months(x, y) AS (year(x) - year(y)) * 12 + month(x) - month(y) + CASE"
    " WHEN day(x) = day(y) OR (mc_is_last(x) AND mc_is_last(y)) THEN CAST(0 AS DOUBLE)"
    " ELSE (mc_into_month(x) - mc_into_month(y)) / 2678400 END",
    "mc_months_between(x, y) AS mc_months(CAST(x AS TIMESTAMP), CAST(y AS TIMESTAMP))",
    "mc_weekday(d) AS isodow(CAST(d AS DATE)) - 1",
    "mc_unix_timestamp() AS CAST(epoch(get_current_timestamp()) AS BIGINT),"
    " (d) AS CAST(epoch(CAST(d AS TIMESTAMP)) AS BIGINT)",
    "mc_to_millis(d) AS epoch_ms(CAST(d AS TIMESTAMP))",
    "mc_to_date(x, form) AS CAST(strptime(CAST(x AS VARCHAR), form) AS TIMESTAMP_MS)",
    "mc_to_char(x) AS CAST(x AS VARCHAR), (x, form) AS strftime(CAST(x AS TIMESTAMP), form)",
    *_ZONES,
    # the first and the last nanosecond are infinite to DuckDB
    "mc_micros(x) AS CASE WHEN isfinite(x) THEN CAST(x AS TIMESTAMP)"
    " WHEN x < TIMESTAMP '1970-01-01 00:00:00' THEN TIMESTAMP '1677-09-21 00:12:43.145224'"
    " WHEN x IS NOT NULL THEN TIMESTAMP '2262-04-11 23:47:16.854775' END",
    "mc_cut(x) AS trunc(x)",
    "mc_whole(x) AS CASE WHEN regexp_matches(x, '[.eE]')"
    " THEN TRY_CAST(trunc(TRY_CAST(x AS DOUBLE)) AS BIGINT) ELSE TRY_CAST(x AS BIGINT) END",
    *_QUOTIENT,
    *_PRODUCT,
    "mc_once(n) AS n = 1 OR error('a row of the table is matched by ' || n ||"
    " ' rows of the source')",
    "mc_valid_json(x) AS CASE WHEN json_valid(CAST(x AS VARCHAR)) THEN CAST(x AS VARCHAR) END",
    "mc_json_list(x) AS CASE WHEN len(x) > 0 THEN CAST(to_json(x) AS VARCHAR) END",
    "mc_tolower(x) AS lower(x)",
    "mc_toupper(x) AS upper(x)",
    "mc_lengthb(x) AS octet_length(encode(x))",
    "mc_isnull(x) AS x IS NULL",
    "mc_wm_concat(separator, x) AS string_agg(CAST(x AS VARCHAR), separator)",
    "mc_char_matchcount(a, b) AS length(b) - length(translate(b, a, ''))",
    "mc_keyvalue(x, k) AS split_part(list_filter(string_split(x, ';'),"
    " lambda p: starts_with(p, k || ':'))[1], ':', 2),"
    " (x, s, t, k) AS split_part(list_filter(string_split(x, s),"
    " lambda p: starts_with(p, k || t))[1], t, 2)",
)
_NAMES = frozenset(macro.split("(")[0] for macro in MACROS)
# known to sqlglot's Hive, but with fewer arguments or another result than here
_OWN = ("DATEDIFF", "DATE_ADD", "DATE_SUB", "ADD_MONTHS", "TRUNC", "TO_CHAR", "UNIX_TIMESTAMP")


@cache
def maxcompute_dialect() -> Any:
    """Return the sqlglot dialect for MaxCompute SQL."""
    from sqlglot import exp

    hive = sql_parser.hive()
    known = {key: make for key, make in hive.Parser.FUNCTIONS.items() if key not in _OWN}
    plain, formatted = known["TO_DATE"], known["FROM_UNIXTIME"]

    def to_date(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 2:  # a DATETIME; its format is not one of Hive's: mm is a month
            return exp.Anonymous(this="TO_DATE", expressions=arguments)
        return plain(arguments, dialect)

    def from_unixtime(arguments: list[Any], dialect: Any) -> Any:
        if len(arguments) == 1:  # a DATETIME, where Hive has text
            return exp.Anonymous(this="FROM_UNIXTIME", expressions=arguments)
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
    from sqlglot import exp

    _respell(query)
    for call in list(query.find_all(exp.Anonymous)):
        name = f"mc_{call.name.lower()}"
        if name not in _NAMES:
            continue
        first = call.expressions[0] if call.expressions else None
        if name == "mc_wm_concat" and isinstance(first, exp.Distinct):
            if len(call.expressions) != 1 or len(first.expressions) != 2:
                raise faults.parse_failed("WM_CONCAT takes a separator and a value")
            separator, value = first.expressions
            call.set("this", "string_agg")
            call.set("expressions", [exp.Distinct(expressions=[value]), separator])
            continue
        if name in ("mc_to_char", "mc_to_date") and len(call.expressions) == 2:
            _check_format(call.expressions[1], call.name.upper())
        call.set("this", name)


def _respell(query: Any) -> None:
    """Replace the calls of functions that the parser knows, and DuckDB has otherwise."""
    from sqlglot import exp

    for call in list(query.find_all(exp.Quantile)):  # PERCENTILE, which interpolates
        value = call.this
        for one in value.expressions if isinstance(value, exp.Distinct) else [value]:
            one.replace(exp.cast(one.copy(), "double"))
        arguments = [call.this, call.args["quantile"]]
        call.replace(exp.Anonymous(this="quantile_cont", expressions=arguments))
    for call in query.find_all(exp.ArraySort):
        if isinstance(call.expression, exp.Lambda):
            raise faults.lacks("ARRAY_SORT with a comparator", is_sure=True)
    for call in list(query.find_all(exp.WithinGroup)):
        _order_texts(call)
    for call in list(query.find_all(exp.MonthsBetween)):
        arguments = [call.this, call.expression]
        call.replace(exp.Anonymous(this="mc_months_between", expressions=arguments))
    for call in query.find_all(exp.TimeToStr):
        if isinstance(form := call.args["format"], exp.Literal):
            form.set("this", form.this.replace("SSS", "%g"))  # Hive's parser knows no milliseconds
    for call in list(query.find_all(exp.JSONExtractScalar)):
        _read_json(call)


def _order_texts(within: Any) -> None:
    """Write ``wm_concat(separator, x) within group (order by y)`` as DuckDB does."""
    from sqlglot import exp

    call, order = within.this, within.expression
    is_concat = isinstance(call, exp.Anonymous) and call.name.lower() == "wm_concat"
    if is_concat and order and len(call.expressions) == 2:
        separator, value = call.expressions
        ordered = exp.Order(this=separator, expressions=order.expressions)
        texts = [exp.cast(value, "TEXT"), ordered]
        within.replace(exp.Anonymous(this="string_agg", expressions=texts))


def _read_json(call: Any) -> None:
    """Make NULL of text that is no JSON, and one text of what a path with ``[*]`` finds."""
    from sqlglot import exp

    call.set("this", exp.Anonymous(this="mc_valid_json", expressions=[call.this]))
    if call.expression.find(exp.JSONPathWildcard) is not None:
        found = exp.JSONExtract(this=call.this, expression=call.expression)
        call.replace(exp.Anonymous(this="mc_json_list", expressions=[found]))


def join_lateral_views(query: Any) -> None:
    """Write each LATERAL VIEW as a lateral join, in place, which takes MAPs and OUTER as well."""
    from sqlglot import exp

    for select in query.find_all(exp.Select):
        _name_exploded(select)
        laterals = select.args.get("laterals") or []
        while laterals and (values := _exploded(laterals[0])):
            view = laterals.pop(0)
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
    from sqlglot import exp

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


def _exploded(view: Any) -> list[Any]:
    """Return the lists that a LATERAL VIEW puts side by side; empty where it is something else."""
    return _lists_of(view.this, len(view.alias_column_names)) if view.args.get("view") else []


def _lists_of(function: Any, named: int) -> list[Any]:
    """Return the lists that EXPLODE or POSEXPLODE puts side by side; empty for another function."""
    from sqlglot import exp

    def call(name: str, *values: Any) -> Any:
        return exp.Anonymous(this=name, expressions=[one.copy() for one in values])

    if type(function) not in (exp.Explode, exp.Posexplode):
        return []
    value = function.this
    if type(function) is exp.Posexplode:
        return [call("range", call("len", value)), value] if named == 2 else []
    if named == 2:
        return [call("map_keys", value), call("map_values", value)]
    return [value] if named == 1 else []


def _check_format(form: Any, function: str) -> None:
    """Convert a format such as ``yyyy-mm-dd hh:mi:ss`` to DuckDB's; it must be a constant."""
    from sqlglot import exp

    if not (isinstance(form, exp.Literal) and form.is_string):
        raise faults.parse_failed(f"the format of {function} must be a string literal here")
    form.set("this", _FORMAT.sub(lambda found: _STRFTIME[found[0].lower()], form.this))
