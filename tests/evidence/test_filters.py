"""Filters as the real service applies them: whole blocks of 10,000 rows of a file.

The table is that of the C++ client's predicate tests: c1 = i, c2 = 2i, c3 = a fixed noon minus i
days, c4 a text; 100,000 rows in one file, read in splits of 10 MiB with the columns c1 to c3.
"""

from __future__ import annotations

import datetime
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.local.duck import Duck
from odps_nb.local.reading.predicates import Predicate
from odps_nb.local.server.launch import start
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from tests.support.service.raw import Raw, good, refused

SIZE = {"SplitMode": "Size", "SplitNumber": 10 * 2**20}
ROW_OFFSET = {"SplitMode": "RowOffset"}
COLUMNS = "(c1 bigint, c2 bigint, c3 datetime, c4 string)"
ROWS, BLOCK = 100_000, 10_000
NOON = datetime.datetime(2026, 1, 1, 12)
NAMED = ["c1", "c2", "c3"]


def uploaded() -> pa.Table:
    days = [NOON - datetime.timedelta(days=i) for i in range(ROWS)]
    return pa.table(
        {
            "c1": pa.array(range(ROWS), pa.int64()),
            "c2": pa.array(range(0, 2 * ROWS, 2), pa.int64()),
            "c3": pa.array(days, pa.timestamp("ms")),
            "c4": [f"{i}test{i + 1}" for i in range(ROWS)],
        }
    )


@pytest.fixture(scope="module")
def table(raw: Raw) -> str:
    name = raw.make(COLUMNS)
    raw.write(name, uploaded())
    return name


def clustered(raw: Raw, table: str, clause: str) -> str:
    name = raw.make(f"{COLUMNS} {clause} CLUSTERED BY (c1) SORTED BY (c1) into 100 BUCKETS")
    raw.sql(f"INSERT OVERWRITE TABLE {name} SELECT * FROM {table};")
    return name


@pytest.fixture(scope="module")
def hashed(raw: Raw, table: str) -> str:
    return clustered(raw, table, "")


@pytest.fixture(scope="module")
def ranged(raw: Raw, table: str) -> str:
    return clustered(raw, table, "RANGE")


def c1_values(raw: Raw, table: str, text: str, **body: object) -> list[int]:
    """Return c1 of all received rows."""
    said: dict[str, object] = {"SplitOptions": SIZE, "RequiredDataColumns": NAMED, **body}
    session = raw.session(table, FilterPredicate=text, **said)
    assert session["SplitsCount"] > 0
    values: list[int] = raw.whole(table, session)["c1"].to_pylist()
    return values


def blocks(*numbers: int) -> list[int]:
    """Return c1 of the rows in these blocks."""
    return [i for number in numbers for i in range(number * BLOCK, (number + 1) * BLOCK)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c1 = 20000", blocks(2)),
        ("c1 > 20000", blocks(*range(2, 10))),
        ("(c1 > 20000) and (c2 < 100000)", blocks(2, 3, 4)),
        ("c1 in (1, 10001)", blocks(0, 1)),
        ("c1 is not null", blocks(*range(10))),
        ("(c1 > 20000) and (c1 < 15000)", []),
        ("c1 > 19999", blocks(*range(2, 10))),
        ("c1 > 29998 and c1 < 30001", blocks(2, 3)),
        ("c1 is null", []),
        ("(((c1 > 20000) and (c1 < 15000)))", []),
        ("(c1 > 20000)", blocks(*range(2, 10))),
        ("", blocks(*range(10))),
        ("(((c1 > 20000)) and ((c1 = 20001)))", blocks(2)),
        ("c1 = 5", blocks(0)),
        ("c1 != 5", blocks(*range(10))),
        ("c1 > 89999", blocks(9)),
        ("c1 < 10000", blocks(0)),
        ("c1 >= 90000", blocks(9)),
        ("c1 <= 9999", blocks(0)),
        ("c1 in (5, 95000)", blocks(0, 9)),
        ("c1 not in (5)", blocks(*range(10))),
        ("not (c1 >= 10000)", blocks(0)),
        ("(c1 < 5) or (c1 > 99990)", blocks(0, 9)),
        ("`c1` = 5", blocks(0)),
        ("c4 = '5test6'", blocks(0)),
        ("c3 >= '2024-01-01 00:00:00'", blocks(0)),
        ("c3 < '1970-01-01 00:00:00'", blocks(*range(2, 10))),
    ],
)
def test_a_filter_drops_complete_blocks(
    raw: Raw, table: str, text: str, expected: list[int]
) -> None:
    """Evidence 50 to 54: blocks, parentheses, times as text, all words and operators.

    C++: TestPredicatePushdown to 6, …WithMultiCompoundPredicate, …AlwaysTrue, …Datetime,
    predicate.cpp, and the comment at the table's creation.
    """
    assert c1_values(raw, table, text) == expected


def test_back_quotes_in_a_name_are_doubled() -> None:
    """evidence 54: a name with a back-quote (C++: AttributeToStringWithEscapedBackticks)

    No table can have a column with this name (``docs/protocol.md`` section 9.6), so only the text
    is tested.
    """
    schema = TableSchema(columns=(Column(name="a`b", type=PrimitiveType(TypeCode.BIGINT)),))
    duck = Duck()
    try:
        predicate = Predicate.parse("`a``b` = 2", schema, duck)
        assert predicate is not None
        with predicate.evaluator() as evaluator:
            mask = evaluator.mask({"a`b": pa.array([1, 2, None], pa.int64())}, 3)
    finally:
        duck.close()
    assert mask.to_pylist() == [False, True, False]


def test_a_filter_on_the_key_of_a_hash_cluster_reads_one_bucket(raw: Raw, hashed: str) -> None:
    """evidence 55: under 2,000 rows by the key, any number by other columns (C++: …HashCluster…)"""
    by_key = c1_values(raw, hashed, "c1 = 20000")
    assert 20000 in by_key
    assert len(by_key) < 2000
    assert 10000 in c1_values(raw, hashed, "c2 = 20000")


@pytest.mark.parametrize(("text", "row"), [("c1 = 20000", 20000), ("c2 = 20000", 10000)])
def test_a_filter_on_a_range_clustered_table_reads_fewer_than_2000_rows(
    raw: Raw, ranged: str, text: str, row: int
) -> None:
    """evidence 56: a filter on c1 or on c2 reads fewer than 2,000 rows (C++: …RangeCluster…)"""
    rows = c1_values(raw, ranged, text)
    assert row in rows
    assert len(rows) < 2000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("nope = 1", "[1,1]"),
        ("c1 = 1 and\n  nope = 1", "[2,3]"),
        ("c1 >", "[1,4]"),
        ("c1 = (5", "[1,7]"),
        ("c1", "[1,1]"),
        ("c1 = 'a'", "[1,1]"),
    ],
)
def test_an_unsupported_filter_is_refused_or_ignored_on_request(
    raw: Raw, table: str, text: str, place: str
) -> None:
    """evidence 57, 58: an error with its position, or all rows (Java: enableFilterFallback)"""
    said = {"SplitOptions": SIZE, "RequiredDataColumns": NAMED, "FilterPredicate": text}
    message = refused(raw.open(table, **said))
    assert message.startswith(f"{place} ")
    assert "the filter predicate" in message
    assert place in refused(raw.open(table, **said, FilterPredicateFallback=False))
    assert len(c1_values(raw, table, text, FilterPredicateFallback=True)) == ROWS


def test_row_ranges_of_a_filtered_session_count_stored_rows(raw: Raw, table: str) -> None:
    """open question: do RecordCount and ranges count stored rows? In this service, they do"""
    session = raw.session(table, SplitOptions=ROW_OFFSET, FilterPredicate="c1 = 20000")
    assert session["RecordCount"] == ROWS
    for offset, count, expected in (
        (0, ROWS, blocks(2)),
        (0, BLOCK, []),
        (25_000, 100, list(range(25_000, 25_100))),
        (29_999, 2, [29_999]),
        (15_000, 10_000, list(range(20_000, 25_000))),
    ):
        rows = raw.rows(table, session, {"Offset": offset, "Count": count})
        assert rows["c1"].to_pylist() == expected


def test_filtered_rows_do_not_depend_on_the_row_ranges(raw: Raw, table: str) -> None:
    """evidence 50: blocks are those of the file, regardless of the ranges"""
    session = raw.session(table, SplitOptions=ROW_OFFSET, FilterPredicate="c1 in (5, 15000, 99999)")
    cuts = [0, 1, 9_999, 10_000, 10_001, 15_000, 20_000, 65_535, 65_537, 90_001, ROWS]
    parts = [
        raw.rows(table, session, {"Offset": low, "Count": high - low})["c1"].to_pylist()
        for low, high in pairwise(cuts)
    ]
    assert [value for part in parts for value in part] == blocks(0, 1, 9)
    assert [len(part) for part in parts] == [1, 9998, 1, 1, 4999, 5000, 0, 0, 1, 9999]


def test_skipped_rows_are_counted_after_the_filter(raw: Raw, table: str) -> None:
    """evidence 33 with a filter: SkipRowNum omits rows from those that the split returns"""
    session = raw.session(table, SplitOptions=SIZE, FilterPredicate="c1 = 20000")
    rows = raw.rows(table, session, {"Index": 0}, SkipRowNum=9_990)
    assert rows["c1"].to_pylist() == list(range(29_990, 30_000))


def test_filter_blocks_are_counted_in_each_file(raw: Raw) -> None:
    """evidence 50: a block is 10,000 rows of a file, not of a table (C++: the same comment)"""
    name = raw.make("(c1 bigint)")
    for first in (0, 15_000):
        rows = pa.array(range(first, first + 15_000), pa.int64())
        raw.write(name, pa.table({"c1": rows}))
    expected = list(range(10_000, 15_000)) + list(range(15_000, 25_000))
    assert c1_values(raw, name, "c1 in (14999, 15000)", RequiredDataColumns=["c1"]) == expected


@pytest.mark.nightly
def test_a_session_outlives_its_service(tmp_path: Path) -> None:
    """evidence 22, 50: the session id suffices, and blocks stay the same (Python: manual)"""
    said = {"SplitOptions": SIZE, "FilterPredicate": "c1 = 15000", "IncrementalRead": False}
    with start(tmp_path, samples=False) as running, Raw(running) as raw:
        name = raw.make("(c1 bigint)")
        raw.write(name, pa.table({"c1": pa.array(range(30_000), pa.int64())}))
        made = raw.session(name, **said)
    with start(tmp_path, samples=False) as running, Raw(running) as raw:
        params = {"SessionId": made["SessionId"]}
        assert good(raw.ask("TableGetReadSession", raw.table(name), params)).json() == made
        assert raw.whole(name, made)["c1"].to_pylist() == blocks(1)
