"""Random queries through `dataset()` and `scan_polars()` return the same rows as over a full read.

Each condition is written three times, for pyarrow, DuckDB and polars, because their semantics
differ (NaN, ``not in`` with a null). Each result is compared with that of the same engine over the
same rows in memory.
"""

from __future__ import annotations

import datetime
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from odps_nb import Connection
from odps_nb.access.engines.dataset import TableDataset

ROWS = 24_000  # more than two blocks on the service
EXAMPLES = min(int(os.environ.get("ODPS_NB_EXPLORE") or 30), 1000)
NAN = float("nan")
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "it's",
    'say "x"',
    "a\\b",
    "x\ny",
    "\0",
    " a ",
    "ü",
    "世界",
    "👋",
    "%_",
]
DAYS = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)]
TIMES = [
    datetime.datetime(1, 1, 2),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(2024, 3, 31, 2, 30, 0, 1000),
    datetime.datetime(9998, 12, 31, 23, 59, 59),
]
NEAR = [one for one in TIMES if 1700 < one.year < 2200]
VALUES: dict[str, list[Any]] = {
    "i": [-(2**63) + 1, -5, 0, 1, 3, 9_999, 12_000, 2**53 + 1, 2**63 - 1],
    "t": [-128, -1, 0, 1, 127],
    "f": [NAN, float("inf"), -0.5, 0.0, 0.1, 1e300],
    "m": [Decimal(one) for one in ("-999999999.999", "-0.500", "0.000", "1.100", "10.001")],
    "s": TEXTS,
    "b": [True, False],
    "d": DAYS,
    "dt": TIMES,
    "ts": NEAR,
    "st": [{"n": 1, "w": "a"}, {"n": None, "w": "it's"}, {"n": 7, "w": None}],
    "l": [[], [1, None], [3]],
}
COLUMNS = (
    "i bigint, t tinyint, f double, m decimal(12,3), s string, b boolean, d date, dt datetime, "
    "ts timestamp, st struct<n:bigint,w:string>, l array<bigint>"
)
PARTS = [("a", 1), ("a", 2), ("a%_ b", 1), ("é", 3)]
TYPES = pa.schema(
    [
        ("i", pa.int64()),
        ("t", pa.int8()),
        ("f", pa.float64()),
        ("m", pa.decimal128(12, 3)),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("dt", pa.timestamp("ms")),
        ("ts", pa.timestamp("us")),
        ("st", pa.struct([("n", pa.int64()), ("w", pa.string())])),
        ("l", pa.list_(pa.int64())),
    ]
)


def random_rows() -> pa.Table:
    chance = random.Random(5)
    columns = {
        name: [None if chance.random() < 0.1 else chance.choice(of) for _ in range(ROWS)]
        for name, of in VALUES.items()
    }
    columns["i"] = [n if chance.random() < 0.9 else one for n, one in enumerate(columns["i"])]
    return pa.table(columns, schema=TYPES)


@dataclass
class Rows:
    """The same rows on the service and in memory."""

    there: TableDataset
    lazy: pl.LazyFrame
    here: pa.Table


@pytest.fixture(scope="module")
def sources(odps: Connection) -> Iterator[Rows]:
    table = odps.create_table(
        "random_queries", COLUMNS, partitioned_by="p string, n bigint", if_not_exists=True
    )
    rows, parts, step = random_rows(), [], ROWS // len(PARTS)
    for number, (p, n) in enumerate(PARTS):
        part = rows.slice(number * step, step)
        table.write(part, partition={"p": p, "n": n}, progress=False)
        keys = {"p": pa.array([p] * step), "n": pa.array([n] * step, pa.int64())}
        for name, values in keys.items():
            part = part.append_column(name, values)
        parts.append(part)
    there = table.read(timestamp_unit="us").dataset()
    yield Rows(there, table.read(timestamp_unit="us").scan_polars(), pa.concat_tables(parts))
    odps.drop_table(table.name)


# -- conditions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A condition for pyarrow, DuckDB and polars."""

    arrow: pc.Expression
    duck: str
    polars: pl.Expr


SIGNS = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
COMPARED = {name: of for name, of in VALUES.items() if name not in ("st", "l")}
COMPARED |= {"p": [p for p, _ in PARTS] + ["zz"], "n": [0, 1, 2, 3]}
KINDS = {name: TYPES.field(name).type for name in TYPES.names} | {"p": pa.string(), "n": pa.int64()}


def duck_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"'{value}'::double"
    if isinstance(value, datetime.datetime):
        return f"timestamp '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"date '{value.isoformat()}'"
    if isinstance(value, str):
        pieces = ["'" + piece.replace("'", "''") + "'" for piece in value.split("\0")]
        return "(" + " || chr(0) || ".join(pieces) + ")"
    return str(value)


@st.composite
def comparisons(draw: DrawFn) -> Condition:
    name = draw(st.sampled_from(sorted(COMPARED)))
    value = draw(st.sampled_from(COMPARED[name]))
    sign = draw(st.sampled_from(["=", "<>"] if name == "b" else sorted(SIGNS)))
    compare = SIGNS[sign]
    return Condition(
        compare(pc.field(name), pa.scalar(value, KINDS[name])),
        f"{name} {sign} {duck_value(value)}",
        compare(pl.col(name), pl.lit(value)),
    )


@st.composite
def memberships(draw: DrawFn) -> Condition:
    name = draw(st.sampled_from(["i", "t", "s", "d", "p", "n", "m"]))
    values = draw(st.lists(st.sampled_from(COMPARED[name]), min_size=1, max_size=4))
    return Condition(
        pc.field(name).isin(pa.array(values, KINDS[name])),
        f"{name} in ({', '.join(map(duck_value, values))})",
        pl.col(name).is_in(values),
    )


@st.composite
def null_tests(draw: DrawFn) -> Condition:
    name = draw(st.sampled_from(list(VALUES)))
    if draw(st.booleans()):
        return Condition(pc.field(name).is_null(), f"{name} is null", pl.col(name).is_null())
    return Condition(pc.field(name).is_valid(), f"{name} is not null", pl.col(name).is_not_null())


@st.composite
def other_conditions(draw: DrawFn) -> Condition:
    return draw(
        st.sampled_from(
            [
                Condition(pc.field("t") < pc.field("i"), "t < i", pl.col("t") < pl.col("i")),
                Condition(pc.field("b"), "b", pl.col("b")),
                Condition(
                    pc.field("st", "n") == 7, "st.n = 7", pl.col("st").struct.field("n") == 7
                ),
                Condition(
                    pc.starts_with(pc.field("p"), "a"),
                    "p like 'a%'",
                    pl.col("p").str.starts_with("a"),
                ),
                Condition(pc.field("f").is_nan(), "isnan(f)", pl.col("f").is_nan()),
            ]
        )
    )


def combinations(inner: SearchStrategy[Condition]) -> SearchStrategy[Condition]:
    def both(one: Condition, other: Condition) -> Condition:
        duck = f"({one.duck}) and ({other.duck})"
        return Condition(one.arrow & other.arrow, duck, one.polars & other.polars)

    def either(one: Condition, other: Condition) -> Condition:
        duck = f"({one.duck}) or ({other.duck})"
        return Condition(one.arrow | other.arrow, duck, one.polars | other.polars)

    def neither(one: Condition) -> Condition:
        return Condition(~one.arrow, f"not ({one.duck})", ~one.polars)

    return st.one_of(
        st.builds(both, inner, inner), st.builds(either, inner, inner), st.builds(neither, inner)
    )


CONDITIONS = st.recursive(
    st.one_of(comparisons(), comparisons(), memberships(), null_tests(), other_conditions()),
    combinations,
    max_leaves=6,
)
SELECTED = st.lists(st.sampled_from([*VALUES, "p", "n"]), min_size=1, max_size=3, unique=True)


def as_texts(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


@given(condition=CONDITIONS, columns=SELECTED)
@settings(max_examples=EXAMPLES)
def test_pyarrow_queries_return_the_rows_of_a_full_read(sources, condition, columns):
    theirs = ds.dataset(sources.here)
    found = sources.there.to_table(columns=columns, filter=condition.arrow)
    expected = theirs.to_table(columns=columns, filter=condition.arrow)
    if not found.equals(expected):  # the service chooses the order of partitions
        assert as_texts(found.to_pylist()) == as_texts(expected.to_pylist())
    assert sources.there.count_rows(filter=condition.arrow) == expected.num_rows


QUERIES = st.sampled_from(
    [
        "select {columns} from {table} where {condition}",
        "select count(*), min(i), sum(t), max(s), count(st) from {table} where {condition}",
        "select p, n, count(*), min(d) from {table} where {condition} group by all",
        "select i, s from {table} where {condition} order by i, s, ts nulls last limit 20",
        "select count(*) from (select * from {table} where {condition}) a "
        "join (select * from {table} where t = 1) c using (i)",
    ]
)


@pytest.mark.nightly
@given(query=QUERIES, condition=CONDITIONS, columns=SELECTED)
@settings(max_examples=EXAMPLES)
def test_duckdb_queries_return_the_rows_of_a_full_read(sources, query, condition, columns):
    there, here = sources.there, sources.here  # DuckDB finds tables by variable names
    text = query.format(columns=", ".join(columns), table="{table}", condition=condition.duck)
    found = duckdb.sql(text.format(table="there")).fetchall()
    expected = duckdb.sql(text.format(table="here")).fetchall()
    assert as_texts(found) == as_texts(expected), text
    assert there.schema.names == here.schema.names


FRAMES = st.sampled_from(
    [
        lambda frame, columns: frame.select(columns),
        lambda frame, columns: frame.select(
            pl.len(), pl.col("i").min(), pl.col("s").max(), pl.col("f").is_nan().sum()
        ),
        lambda frame, columns: frame.group_by("p", "n").agg(pl.len(), pl.col("d").min()),
        lambda frame, columns: frame.head(5).select(pl.len()),
        lambda frame, columns: frame.select(columns[:1]).unique(),
    ]
)


@pytest.mark.nightly
@given(frame=FRAMES, condition=CONDITIONS, columns=SELECTED)
@settings(max_examples=EXAMPLES)
def test_polars_queries_return_the_rows_of_a_full_read(sources, frame, condition, columns):
    here = pl.DataFrame(sources.here).lazy()
    found = frame(sources.lazy.filter(condition.polars), columns).collect()
    expected = frame(here.filter(condition.polars), columns).collect()
    assert found.schema == expected.schema
    assert as_texts(found.rows()) == as_texts(expected.rows())
