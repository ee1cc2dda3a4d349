"""Pushed-down conditions lose no rows: random conditions and joins, checked with DuckDB.

The property: over the rows that the sent conditions keep, a query returns the same result as over
all rows. DuckDB replaces Spark here, because it runs thousands of queries; `test_query.py`
uses Spark.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import AllOf, text_of
from odps_nb.local.duck import Duck
from odps_nb.local.reading.predicates import Predicate
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import parse_query
from odps_nb.spark.pushdown.plan import TableRead, plan_reads
from odps_nb.terms import TableName
from odps_nb.wire.type_text import parse_columns

#: Examples for each property. The grids of fixed cases below include all bugs found so far.
EXAMPLES = 1000 if os.environ.get("ODPS_NB_EXPLORE") else 80
TEXTS = ["", "a", "A", "it's", "back\\slash", 'say "x"', "ü", "👋", "a ", "%", "null", "b\ta"]
PATTERNS = ["%", "a%", "%a", "%ü%", "_", "a_", "", "%'%", "A", "%%", ".%", "%\t%", "👋"]
SCHEMA = TableSchema(
    columns=parse_columns("id bigint, n int, s string, d decimal(10,2), g boolean, w double")
)


def rows() -> list[dict[str, Any]]:
    """All texts, numbers and nulls, each combined with several others."""
    made = []
    for number in range(60):
        made.append(
            {
                "id": number,
                "n": None if number % 5 == 0 else number % 4 - 1,
                "s": None if number % 13 == 0 else TEXTS[number % len(TEXTS)],
                "d": None if number % 7 == 0 else Decimal(number % 9) / 4,
                "g": (None, True, False)[number % 3],
                "w": (None, float("nan"), 0.0, -0.0, float("inf"))[number % 5],
            }
        )
    return made


ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("s", pa.utf8()),
        ("d", pa.decimal128(10, 2)),
        ("g", pa.bool_()),
        ("w", pa.float64()),
    ]
)
ROWS = rows()
TABLE = pa.Table.from_pylist(ROWS, schema=ARROW)


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    made = Duck()
    yield made
    made.close()


def reads(text: str) -> dict[str, TableRead]:
    """The rows that are read, by the alias of each reference (all use one table here)."""
    query = parse_query(text)
    name = TableName(project="p", table="t")
    planned = plan_reads(query, dict.fromkeys(query.references, (name, SCHEMA)))
    return {ref.node.alias_or_name: read for ref, read in planned.items()}


# -- conditions, as pairs of Spark's text and DuckDB's ------------------------------------------


def quoted(text: str) -> tuple[str, str]:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'", "'" + text.replace("'", "''") + "'"


def same(text: str) -> tuple[str, str]:
    return text, text


signs = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "!="])
numbers = st.integers(-3, 4).map(str)
literals = {
    "n": numbers.map(same),
    "id": st.integers(-1, 70).map(lambda n: same(str(n))),
    "s": st.sampled_from([*TEXTS, "zzz"]).map(quoted),
    "d": st.sampled_from(["0.25", "1", "1.50", "-0.75", "0.125", "1e0"]).map(same),
    "g": st.sampled_from(["true", "false"]).map(same),
    "w": st.sampled_from(["0", "0.5", "1e3"]).map(same),
}


def glue(template: str, *parts: tuple[str, str]) -> tuple[str, str]:
    spark, ducks = zip(*parts, strict=True) if parts else ((), ())
    return template.format(*spark), template.format(*ducks)


@st.composite
def leaves(draw: st.DrawFn, qualifiers: tuple[str, ...] = ("",)) -> tuple[str, str]:
    name = draw(st.sampled_from(sorted(literals)))
    column = same(draw(st.sampled_from(qualifiers)) + name)
    value, other = draw(literals[name]), draw(literals[name])
    forms = [
        lambda: glue(f"{{}} {draw(signs)} {{}}", column, value),
        lambda: glue(f"{{}} {draw(signs)} {{}}", value, column),
        lambda: glue("{} is null", column),
        lambda: glue("{} is not null", column),
        lambda: glue("{} in ({}, {})", column, value, other),
        lambda: glue("{} not in ({}, {})", column, value, other),
        lambda: glue("{} in ({}, null)", column, value),
        lambda: glue("{} between {} and {}", column, value, other),
        lambda: glue("{} not between {} and {}", column, value, other),
        lambda: glue("coalesce({}, {}) = {}", column, value, other),
        lambda: glue(
            f"{draw(st.sampled_from(qualifiers))}s {draw(st.sampled_from(['', 'not ']))}like {{}}",
            quoted(draw(st.sampled_from(PATTERNS))),
        ),
        lambda: same(draw(st.sampled_from(qualifiers)) + "g"),
    ]
    return draw(st.sampled_from(forms))()


def conditions(qualifiers: tuple[str, ...] = ("",)) -> st.SearchStrategy[tuple[str, str]]:
    return st.recursive(
        leaves(qualifiers),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda two: glue("({} and {})", *two)),
            st.tuples(inner, inner).map(lambda two: glue("({} or {})", *two)),
            st.tuples(inner, inner).map(lambda two: glue("{} and {}", *two)),
            inner.map(lambda one: glue("not ({})", one)),
            inner.map(lambda one: glue("not {}", one)),
        ),
        max_leaves=6,
    )


@pytest.fixture(scope="module")
def everything() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.register("t", TABLE)
        yield made


def left(read: TableRead) -> set[int]:
    """The rows that satisfy the conditions."""
    if not read.conditions:
        return {row["id"] for row in ROWS}
    found = RowFilter.of(AllOf(read.conditions), SCHEMA)
    return set(found.rows(TABLE.combine_chunks().to_batches()[0]))


@settings(max_examples=EXAMPLES)
@given(condition=conditions())
def test_sent_conditions_keep_every_row_of_the_query_result(
    duck: Duck, everything: duckdb.DuckDBPyConnection, condition: tuple[str, str]
) -> None:
    spark, reference = condition
    (read,) = reads(f"select id from t where {spark}").values()
    found = everything.sql(f"select id from t where {reference}").fetchall()
    wanted = {row[0] for row in found}
    here = left(read)
    assert here >= wanted
    sent = RowFilter.of(AllOf(read.conditions), SCHEMA).predicate if read.conditions else ""
    if not sent:
        return
    predicate = Predicate.parse(sent, SCHEMA, duck)
    assert predicate is not None
    with predicate.evaluator() as evaluator:
        used = {name: TABLE.column(name).combine_chunks() for name in predicate.columns}
        mask = evaluator.mask(used, TABLE.num_rows).to_pylist()
    assert {row["id"] for row, keep in zip(ROWS, mask, strict=True) if keep} >= here


# -- joins --------------------------------------------------------------------------------------

JOINS = (
    "join",
    "left join",
    "right join",
    "full join",
    "semi join",
    "anti join",
    "cross join",
    ",",
)


# Each of these conditions distinguishes stored rows from those that an outer join adds.
SHARP = ("{}n = 1", "{}n is null", "{}n is not null", "not ({}n = 1)", "{}n is null or {}n = 1")


def sharp(qualifiers: list[str]) -> st.SearchStrategy[tuple[str, str]]:
    """One or two conditions; their position decides whether they may be sent."""
    one = st.tuples(st.sampled_from(SHARP), st.sampled_from(qualifiers)).map(
        lambda two: same(f"({two[0].replace('{}', two[1])})")
    )
    return st.one_of(one, st.tuples(one, one).map(lambda two: glue("{} and {}", *two)))


@st.composite
def queries(draw: st.DrawFn) -> tuple[str, str]:
    """A query over two to four references to one table, as text for Spark and for DuckDB."""
    parts, seen = [same("t a")], ["a."]
    for alias in "bcd"[: draw(st.integers(1, 3))]:
        kind = draw(st.sampled_from(JOINS))
        if kind in (",", "cross join"):
            parts.append(same(f"{kind} t {alias}"))
        else:
            others = [one for one in seen if _in_sight(parts, one)]
            near = [*others, f"{alias}."]
            on = draw(st.one_of(sharp(near), conditions(tuple(near))))
            key = f"{draw(st.sampled_from(others))}id = {alias}.id + 2" if others else "true"
            parts.append(glue(f"{kind} t {alias} on {key} and {{}}", on))
        if kind not in ("semi join", "anti join"):
            seen = [*seen, f"{alias}."]
    where = draw(st.one_of(sharp(seen), conditions(tuple(seen))))
    shown = ", ".join(f"{one}id" for one in seen)
    body = glue(" ".join(["{}"] * len(parts)), *parts)
    return glue(f"select {shown} from {{}} where {{}}", body, where)


def _in_sight(parts: list[tuple[str, str]], qualifier: str) -> bool:
    """Whether an ON at the end can use an alias: not across a comma."""
    commas = [number for number, (text, _) in enumerate(parts) if text.startswith(",")]
    first = commas[-1] if commas else 0
    return any(f"t {qualifier[0]}" in text for text, _ in parts[first:])


SMALL = 14


def check(connection: duckdb.DuckDBPyConnection, spark: str, reference: str) -> bool:
    """Run a query over all rows, and over those that satisfy the conditions, if there are any."""
    planned = reads(spark)
    if not any(read.conditions for read in planned.values()):
        return False  # all rows are read, so both queries would be the same
    expected = sorted(map(repr, connection.sql(reference).fetchall()))
    less = reference
    for alias, read in planned.items():
        kept = [str(number) for number in left(read) if number < SMALL]
        few = f"(select * from t where id in ({', '.join(['-1', *kept])}))"
        less = less.replace(f" t {alias} ", f" {few} {alias} ")
    assert sorted(map(repr, connection.sql(less).fetchall())) == expected
    return True


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        made.register("t", TABLE.slice(0, SMALL))
        yield made


@pytest.mark.nightly
@settings(max_examples=EXAMPLES)
@given(query=queries())
def test_a_join_returns_the_same_rows_over_filtered_tables(
    connection: duckdb.DuckDBPyConnection, query: tuple[str, str]
) -> None:
    check(connection, *query)


@pytest.mark.gate(4)
@pytest.mark.parametrize("kind", ["join", "left join", "right join", "full join"])
@pytest.mark.parametrize("place", ["on", "where"])
def test_joins_of_two_tables_return_the_same_rows_with_every_kind_of_condition(
    connection: duckdb.DuckDBPyConnection, kind: str, place: str
) -> None:
    for form, alias in itertools.product(SHARP, ("a.", "b.")):
        condition = form.replace("{}", alias)
        on = f"a.id = b.id + 2 and ({condition})" if place == "on" else "a.id = b.id + 2"
        where = f" where {condition}" if place == "where" else ""
        query = f"select a.id, b.id from t a {kind} t b on {on}{where}"
        check(connection, query, query)


@pytest.mark.gate(5)
@pytest.mark.parametrize("second", ["join", "left join", "right join", "full join", "semi join"])
@pytest.mark.parametrize("first", ["join", "left join", "right join", "full join"])
def test_joins_of_three_tables_return_the_same_rows_with_a_condition_on_the_second_join(
    connection: duckdb.DuckDBPyConnection, first: str, second: str
) -> None:
    for form, alias in itertools.product(SHARP, ("a.", "b.", "c.")):
        condition = form.replace("{}", alias)
        query = (
            f"select a.id, b.id from t a {first} t b on a.id = b.id + 2"
            f" {second} t c on b.id = c.id + 2 and ({condition})"
        )
        check(connection, query, query)


def test_the_safety_check_detects_a_condition_that_drops_too_many_rows() -> None:
    (read,) = reads("select id from t where n = 1 and coalesce(n, 1) = 1").values()
    assert list(map(text_of, read.conditions)) == ["n = 1"]
    found = reads("select a.id from t a left join t b on a.id = b.id and a.n = 1 and b.n = 2")
    told = {alias: list(map(text_of, read.conditions)) for alias, read in found.items()}
    assert told == {"a": [], "b": ["n = 2"]}
