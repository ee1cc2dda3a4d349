"""SQL of the embedded service runs only the listed functions, with the results of the manual."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from odps_nb.errors import InvalidRequestError, NotFoundError, QueryError
from odps_nb.local.sql.function_table import FUNCTIONS, MISSING
from odps_nb.local.sql.functions import maxcompute_dialect
from odps_nb.local.sql.query import parse_query, translate
from odps_nb.local.sql.trees import BYTES, REALS, TEXTS, WHOLE
from odps_nb.local.sql.types_of_query import TIMES, types_of
from tests.local.sql.function_examples import EXAMPLES
from tests.support.service.peer import Peer

ARROW = {
    **{"INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()},
    **{"TEXT": pa.string(), "DATE": pa.date32()},
}
#: Tests of a column's type, by the types that `types_of` infers; a wrong one refuses valid queries.
KINDS: dict[tuple[str, ...], Callable[[pa.DataType], bool]] = {
    (*WHOLE, *REALS): lambda kind: any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    ),
    TEXTS: pa.types.is_string,
    BYTES: pa.types.is_binary,
    TIMES: pa.types.is_temporal,
    ("BOOLEAN",): pa.types.is_boolean,
    ("ARRAY", "LIST"): pa.types.is_list,
    ("MAP",): pa.types.is_map,
    ("STRUCT",): pa.types.is_struct,
}
OF_TABLES = {"max_pt"}
"""Functions that need a table; `test_daily_statements` has their examples."""


def plain(value: Any) -> Any:
    """A value with its times as text."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return str(value) if isinstance(value, date) else value


def equal(found: Any, wanted: Any) -> bool:
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(equal, found, wanted))
    if isinstance(found, float) and isinstance(wanted, float):
        return math.isclose(found, wanted, rel_tol=1e-12, abs_tol=1e-12)
    return type(found) is type(wanted) and bool(found == wanted)


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.gate(70)
def test_a_function_returns_the_documented_result(peer: Peer, name: str) -> None:
    whole = [text for text, _ in EXAMPLES[name] if text.startswith("select")]
    alone = [text for text, _ in EXAMPLES[name] if text not in whole]
    columns = ", ".join(f"{text} as c{n}" for n, text in enumerate(alone))
    read = [peer.query(f"{text};").column(0) for text in whole]
    read += peer.query(f"select {columns};").columns if alone else []
    wanted = dict(EXAMPLES[name])
    for text, column in zip([*whole, *alone], read, strict=True):
        values = plain(column.to_pylist())
        found = values[0] if len(values) == 1 else values
        assert equal(found, wanted[text]), f"{text} is {found!r}, not {wanted[text]!r}"
        kind = ARROW.get(FUNCTIONS[name].returns)
        if kind is not None and re.fullmatch(rf"{name}\(.*\)", text):
            assert column.type == kind, text
        query = text if text in whole else f"select {text}"
        (inferred,) = types_of(parse_query(query), {}).results
        is_kind = next((test for names, test in KINDS.items() if inferred in names), None)
        assert is_kind is None or column.type == pa.null() or is_kind(column.type), (text, inferred)


CONSTANT = re.compile(
    r"(?:(?:date|datetime|timestamp(?:_ntz)?) )?'(?:[^'\\]|\\.)*'"
    r"|(?<![\w.-])-?\d+(?:\.\d+)?(?:BD|[LSY])?(?![.\w])"
)
REFUSED = r"requires a (number and a )?constant|must be a string literal|each with a constant name"


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.gate(70)
def test_a_function_returns_the_same_for_columns_or_requires_a_constant(
    peer: Peer, name: str
) -> None:
    """DuckDB and sqlglot treat constant arguments of some functions differently from columns.

    Columns of whole numbers are BIGINT, like most in MaxCompute.
    """
    for text, wanted in EXAMPLES[name]:
        constants = dict.fromkeys(CONSTANT.findall(text))
        if text.startswith("select") or not constants or " as " in text:
            continue
        names = {one: f"c{number}" for number, one in enumerate(constants)}
        typed = {one: f"{one}L" if one.lstrip("-").isdigit() else one for one in names}
        columns = ", ".join(f"{typed[one]} as {name}" for one, name in names.items())
        lifted = CONSTANT.sub(lambda found: names[found[0]], text)  # noqa: B023
        query = f"select {lifted} from (select {columns}) as given;"
        try:
            found = plain(peer.query(query).column(0).to_pylist())
        except QueryError as error:
            found = [str(error)]
        text = str(found[0])
        assert equal(found, [wanted]) or re.search(REFUSED, text), f"{lifted} is {text}"


def test_every_function_has_examples() -> None:
    assert EXAMPLES.keys() == FUNCTIONS.keys() - OF_TABLES
    assert [name for name, examples in EXAMPLES.items() if len(examples) < 2] == []
    assert MISSING & FUNCTIONS.keys() == set()
    parser = maxcompute_dialect().Parser
    known = {
        *(*parser.FUNCTIONS, *parser.FUNCTION_PARSERS, *parser.NO_PAREN_FUNCTION_PARSERS),
        *(token.name for token in (*parser.NO_PAREN_FUNCTIONS, *parser.SUBQUERY_PREDICATES)),
    }
    by_parser = {name.upper() for name, one in FUNCTIONS.items() if one.how == "parser"}
    assert by_parser - known == set()


@pytest.mark.parametrize("form", ["select {}", "select `{}`", "select 1 from {}"])
@pytest.mark.parametrize("arguments", ["()", "(1)", "('a', 'b')"])
@pytest.mark.gate(2)
def test_functions_of_the_engine_that_are_not_listed_do_not_run(form: str, arguments: str) -> None:
    listed = duckdb.sql("select distinct function_name from duckdb_functions()").fetchall()
    names = {name for (name,) in listed if re.fullmatch(r"[a-z_]\w*", name)} - FUNCTIONS.keys()
    assert len(names) > 400
    passed = []
    for name in sorted(names | MISSING):
        query = form.format(name) + arguments
        try:
            passed.append(translate(query, find=no_table, latest=no_table).sql)
        except (InvalidRequestError, NotFoundError):
            continue
    assert passed == []


def no_table(*_: Any) -> Any:
    raise NotFoundError("there are no tables", status=404, code="NoSuchObject")


OVER = "over (order by x) from values (1) t (x)"
PATTERNS = ("regexp_count", "regexp_extract", "regexp_instr", "regexp_substr")


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        *(
            (f"extract({unit} from getdate())", f"{unit} in EXTRACT")
            for unit in ("DOW", "DAYOFWEEK")
        ),
        *(
            (f"date_trunc('{unit}', getdate())", f"'{unit}' in DATE_TRUNC")
            for unit in ("era", "dow")
        ),
        *(
            (f"date_format(getdate(), '{form}')", f"'{form}' in DATE_FORMAT")
            for form in ("u", "Q", "DDD", "yyyyy", "z", "S", "YYYY", "d", "a")
        ),
        *(
            (f"date_format({value}, 'yyyy')", "DATE_FORMAT of text or of a DATE")
            for value in ("'2024-01-31'", "date '2024-01-31'")
        ),
        ("date_format(getdate(), \"HH'h'\")", "in DATE_FORMAT"),
        ("date_format(getdate(), concat('yyyy', 'MM'))", "requires a constant format"),
        ("from_unixtime(0, 'yyyy')", "FROM_UNIXTIME with a format"),
        ("extract(week from getdate())", "WEEK in EXTRACT"),
        *(
            (f"to_date('2024-01-31', '{form}')", "the format '.*' in TO_DATE")
            for form in ("mm-dd", "yyyy-yyyy")
        ),
        *(
            (f"to_date('{text}', 'yyyy-mm-dd')", "does not have the format of TO_DATE")
            for text in ("2024-1-31", "2024-01-31 10:00:00", "")
        ),
        *((f"{name}('abc', '')", "an empty pattern") for name in PATTERNS),
        ("regexp_replace('abc', '', 'x')", "an empty pattern"),
        ("'abc' rlike ''", "RLIKE requires a pattern"),
        *(
            (f"{name}('abc', 'b', {place})", "a position or an occurrence below 1")
            for name in ("regexp_count", "regexp_instr", "regexp_substr")
            for place in (0, -1)
        ),
        ("instr('abc', 'b', 1, 0)", "INSTR requires"),
        ("instr('abc', 'b', 0)", "INSTR requires"),
        ("locate('b', 'abc', 0)", "LOCATE requires"),
        *((f"chr({code})", "CHR requires a code from 0 to 127") for code in (-1, 128)),
        ("ascii('\u00e9')", "ASCII requires"),
        ("lpad('abc', -1, 'x')", "LPAD and RPAD require"),
        ("rpad('abc', 5)", "does not accept these arguments"),
        ("split('abc', '')", "SPLIT requires a separator"),
        ("substring_index('abc', '', 1)", "SUBSTRING_INDEX requires a separator"),
        ("concat_ws(',', array('a', null))", "an array with NULL elements"),
        ("concat('a', true)", "BOOLEAN is not converted to text"),
        ("'a' || true", "BOOLEAN is not converted to text"),
        ("to_json(map('a', null))", "TO_JSON of NULLs"),
        ("get_json_object('{}', 'a')", "the path 'a'"),
        ("get_json_object('[1]', '$[-1]')", "the path"),
        ("format_number(1.5, -1)", "constant number of decimal places"),
        ("format_number(1.5, 19)", "0 to 18 decimal places"),
        ("bin(1.5)", "BIN requires an integer"),
        ("factorial(2.5)", "FACTORIAL requires an integer"),
        ("exp(1000)", "out of range"),
        ("pow(10, 400)", "out of range"),
        ("dateadd(date '2024-01-31', 1, 'hh')", "a DATE has no unit hh"),
        ("add_months('9999-12-31', 1)", "after the year 9999"),
        ("date '2024-01-31' - date '2024-01-30'", "difference of DATE and DATE"),
        ("date '2024-01-31' + 1", "sum or difference of DATE and INT"),
        ("cast(cast('0000-01-01' as date) as string)", "before the year 1"),
        *((f"lag(x, {n}) {OVER}", "the offset of LAG must be a constant") for n in (0, -1, "x")),
        *(
            (f"lead(x, 1, {default}) {OVER}", "the default of LEAD must have the type")
            for default in ("2.5", "'a'")
        ),
        (f"count(distinct x) {OVER}", "COUNT with DISTINCT does not support ORDER BY"),
        *(
            (text, "BOOLEAN cannot be combined with INT")
            for text in ("1 = true", "true in (1, 2)", "if(true, 1, false)", "coalesce(true, 1)")
        ),
        ("'true' = true", "BOOLEAN cannot be combined with STRING"),
        *(
            (text, "ARRAY cannot be combined with STRING")
            for text in ("array(1) = '[1]'", "nvl(array(1), '[1]')", "array(1) in ('[1]')")
        ),
        ("map('a', 1) = '{a=1}'", "MAP cannot be combined with STRING"),
        *((f"{name}(array('a'))", "ARRAY is not converted to text") for name in ("upper", "md5")),
        *(
            (text, "a STRUCT is cast to a type with different members")
            for text in (
                "cast(named_struct('a', 1, 'b', 2) as struct<a:int>)",
                "cast(array(named_struct('a', 1)) as array<struct<a:int,b:int>>)",
                "nvl(named_struct('a', 1), named_struct('b', 2))",
                "named_struct('a', 1) union all select named_struct('b', 2)",
            )
        ),
        ("cast('1' as uuid)", "a cast to UUID"),
        ("cast('a' as blob)", "a cast to BLOB"),
        ("cast(array('1') as array<timestamptz>)", "a cast to TIMESTAMPTZ"),
        ("exists(array(1, 2), x -> x = 2)", "EXISTS requires a query"),
        *(
            (text, "a condition must be BOOLEAN, not INT")
            for text in ("if(1, 2, 3)", "case when 1 then 2 end", "not 1", "1 and true")
        ),
        ("x from values (1) t (x) where x", "a condition must be BOOLEAN, not INT"),
        ("1 in ()", "IN requires at least one value"),
        ("0x1F", "0x1F is not a number"),
        ("datepart(getdate(), 'week')", "unknown unit week"),
        ("slice(array(1), 0, 1)", "SLICE requires"),
        ("7.9 div 2", "DIV of numbers that are not integers"),
        ("7BD div 2", "DIV of numbers that are not integers"),
        ("'7.9' div 2", "DIV of numbers that are not integers"),
        ("sum(x) from values (true) t (x)", "SUM requires numbers"),
        ("avg(x) from values (date '2024-01-01') t (x)", "AVG requires numbers"),
        *(
            (
                f"{name}(x, -0.1) from values (1) t (x)",
                "fraction of a percentile must be 0 to 1",
            )
            for name in ("percentile", "percentile_approx")
        ),
        ("slice(array(1), 1, -1)", "SLICE requires"),
    ],
)
def test_an_argument_that_duckdb_interprets_differently_is_refused(
    peer: Peer, call: str, refusal: str
) -> None:
    with pytest.raises(QueryError, match=refusal):
        peer.query(f"select {call};")


@pytest.mark.parametrize("name", ["hash", "LEFT", "read_text", "list_sum", "no_such", "mc_whole"])
def test_a_function_that_is_not_listed_is_refused_by_name(peer: Peer, name: str) -> None:
    refusal = rf"ODPS-0130071:\[1,8\].* does not support function {name.lower()}; MaxCompute"
    with pytest.raises(QueryError, match=refusal):
        peer.query(f"select {name}(1);")
