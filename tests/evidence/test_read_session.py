"""Read sessions as the real service responds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.local.server.launch import start
from odps_nb.terms import PartitionSpec, SplitMode, TableName
from odps_nb.wire.calls import CreateReadSession
from odps_nb.wire.schema_json import decode_flat, decode_nested
from tests.support.service.connecting import connected
from tests.support.service.raw import Raw, good, refused

ROW_OFFSET = {"SplitMode": "RowOffset"}
SIZE = {"SplitMode": "Size", "SplitNumber": 10 * 2**20, "CrossPartition": True}
COLUMNS = "(col1 bigint, col2 string, col3 double, col4 boolean)"
PARTS = [("partition1", "a"), ("partition1", "b"), ("partition2", "a"), ("partition2", "b")]


def numbered(rows: int) -> pa.Table:
    values = range(rows)
    return pa.table(
        {
            "col1": pa.array(values, pa.int64()),
            "col2": ["test_string_2"] * rows,
            "col3": [3.5] * rows,
            "col4": [True] * rows,
        }
    )


@pytest.fixture(scope="module")
def plain(raw: Raw) -> str:
    name = raw.make(COLUMNS)
    raw.write(name, numbered(1000))
    return name


@pytest.fixture(scope="module")
def parted(raw: Raw) -> str:
    name = raw.make(f"{COLUMNS} PARTITIONED BY (p1 string, p2 string)")
    for p1, p2 in PARTS:
        raw.write(name, numbered(250), f"p1={p1}/p2={p2}")
    return name


def test_the_row_count_of_a_session_is_exact(raw: Raw, plain: str, parted: str) -> None:
    """evidence 1: RecordCount is exact (C++: TestTableRead, TestFilterOptionsRequiredPartitions)"""
    assert raw.session(plain, SplitOptions=ROW_OFFSET)["RecordCount"] == 1000
    assert raw.session(parted, SplitOptions=ROW_OFFSET)["RecordCount"] == 1000
    one = raw.session(parted, SplitOptions=ROW_OFFSET, RequiredPartitions=["p1=partition1/p2=a"])
    assert one["RecordCount"] == 250


@pytest.mark.parametrize(
    "options", [ROW_OFFSET, ROW_OFFSET | {"SplitNumber": 0}, ROW_OFFSET | {"SplitNumber": 100}]
)
def test_the_client_may_choose_any_row_range(
    raw: Raw, plain: str, options: dict[str, object]
) -> None:
    """evidence 2: SplitUnit omitted, SplitNumber 0 (C++: TestReadOptionsReadSplitByRowOffset)"""
    session = raw.session(plain, SplitOptions=options)
    for offset, count in ((0, 200), (200, 300), (500, 500)):
        rows = raw.rows(plain, session, {"Offset": offset, "Count": count})
        assert rows["col1"].to_pylist() == list(range(offset, offset + count))


def test_a_row_count_beyond_the_end_of_the_table_is_reduced(raw: Raw, plain: str) -> None:
    """evidence 3: C++ sends 4294967295 for all rows (table_read_stream)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    assert raw.rows(plain, session, {"Offset": 0, "Count": 4294967295}).num_rows == 1000
    assert raw.rows(plain, session, {"Offset": 990, "Count": 4294967295}).num_rows == 10


def test_a_small_table_can_be_split_by_size(raw: Raw, plain: str) -> None:
    """evidence 4: SplitsCount > 0; the response repeats the mode (C++: TestSplitOptionsSize)"""
    session = raw.session(plain, SplitOptions={"SplitMode": "Size", "SplitNumber": 2**30})
    assert session["SplitsCount"] > 0
    assert session["SplitMode"] == "Size"
    assert raw.whole(plain, session).num_rows == 1000


def test_a_filter_without_matches_leaves_splits_without_rows(raw: Raw, plain: str) -> None:
    """evidence 5: SplitsCount > 0, no rows (C++: GetRowCountWithPredicate)"""
    session = raw.session(
        plain, SplitOptions=SIZE, FilterPredicate="(col1 > 20000) and (col1 < 15000)"
    )
    assert session["SplitsCount"] > 0
    assert raw.whole(plain, session).num_rows == 0


@pytest.mark.parametrize("number", [0, 1, 10 * 2**20 - 1])
def test_splits_under_10_mib_are_refused(raw: Raw, plain: str, number: int) -> None:
    """evidence 6: 10 MiB is accepted, 1 byte is not (Python v1: test_split_limit; Java)"""
    assert raw.session(plain, SplitOptions=SIZE)["SplitsCount"] > 0
    assert "must be at least" in refused(
        raw.open(plain, SplitOptions=SIZE | {"SplitNumber": number})
    )


@pytest.mark.parametrize(
    "definition",
    [
        "(a bigint, b blob)",
        "(a bigint, b array<struct<c: blob>>)",
        "(a bigint) tblproperties ('transactional' = 'true')",
        "(a bigint) tblproperties ('table.format.version' = '2')",
        "(a bigint not null, b blob, PRIMARY KEY (a)) tblproperties ('transactional' = 'true')",
    ],
)
@pytest.mark.parametrize("mode", ["Size", "Parallelism", "Bucket"])
def test_transactional_tables_support_only_row_ranges(raw: Raw, definition: str, mode: str) -> None:
    """evidence 8: append2.0 tables are read by RowOffset (Python: manual, all live BLOB tests)"""
    name = raw.make(definition)
    assert "RowOffset" in refused(raw.open(name, SplitOptions=SIZE | {"SplitMode": mode}))
    assert raw.session(name, SplitOptions=ROW_OFFSET)["RecordCount"] == 0


@pytest.fixture
def keyed(raw: Raw) -> str:
    """A table with the keys 0 to 9, of which two have been updated and one deleted."""
    return keyed_table(raw)


def keyed_table(raw: Raw) -> str:
    name = raw.make(
        "(a bigint not null, b bigint, PRIMARY KEY (a)) tblproperties ('transactional' = 'true')"
    )
    raw.sql(f"insert into {name} values {', '.join(f'({i}, 0)' for i in range(10))};")
    raw.sql(f"update {name} set b = 1 where a > 7;")
    raw.sql(f"delete from {name} where a = 0;")
    return name


@pytest.mark.parametrize("split", [SIZE, ROW_OFFSET])
def test_a_primary_key_table_can_be_read_by_size(
    raw: Raw, keyed: str, split: dict[str, object]
) -> None:
    """Evidence 164: Java splits by 256 MiB (TableTunnel.initiateMaxStorageSession, isDeltaTable)"""
    session = raw.session(keyed, SplitOptions=split)
    assert session["SplitMode"] == split["SplitMode"]
    rows = sorted(raw.whole(keyed, session).to_pylist(), key=lambda row: row["a"])
    assert rows == [{"a": a, "b": int(a > 7)} for a in range(1, 10)]
    for mode in ("Parallelism", "Bucket"):
        answer = raw.open(keyed, SplitOptions=SIZE | {"SplitMode": mode})
        assert "RowOffset or Size" in refused(answer)


@pytest.fixture(scope="module", params=["RowOffset", "Size"])
def one_mode(request: pytest.FixtureRequest) -> Iterator[tuple[str, Raw]]:
    """A service that reads primary-key tables in only one split mode."""
    form = f"key_splits={request.param}"
    with start(samples=False, options=("--form", form)) as service, Raw(service) as raw:
        yield request.param, raw


@pytest.mark.nightly
def test_a_primary_key_table_may_support_only_one_split_mode(one_mode: tuple[str, Raw]) -> None:
    """Evidence 164 and 8 contradict: the client reads either service (`--form key_splits`)."""
    mode, raw = one_mode
    name = keyed_table(raw)
    for split in (SIZE, ROW_OFFSET):
        answer = raw.open(name, SplitOptions=split)
        assert (answer.status_code == 200) is (split["SplitMode"] == mode)
    with connected(raw.service) as odps:
        table = odps.table(name)
        assert sorted(table.read().to_arrow()["a"].to_pylist()) == list(range(1, 10))
        some: dict[str, Any] = {"where": "b = 1", "columns": ["a"]}
        for options in (some, some | {"splits": 2}):
            assert sorted(table.read(**options).to_arrow()["a"].to_pylist()) == [8, 9]
        assert table.read(limit=3, splits=2).to_arrow().num_rows == 3


def test_increments_of_a_primary_key_table_may_be_split_by_bucket(raw: Raw) -> None:
    """evidence 9: incremental reads are the exception to evidence 8 (C++: TestIncremental…)"""
    name = raw.make("(a bigint not null, PRIMARY KEY (a)) tblproperties ('transactional' = 'true')")
    session = raw.session(
        name,
        SplitOptions={"SplitMode": "Bucket"},
        IncrementalRead=True,
        IncrementalReadOptions={"StartVersion": 0, "EndVersion": -1, "Mode": "append"},
    )
    assert session["SplitMode"] == "Bucket"


def test_a_table_without_clustering_cannot_be_split_by_bucket(raw: Raw, plain: str) -> None:
    """evidence 10: rejected (Python v1: test_create_read_session_neg1)"""
    assert "not clustered" in refused(raw.open(plain, SplitOptions={"SplitMode": "Bucket"}))
    clustered = raw.make(f"{COLUMNS} CLUSTERED BY (col1) SORTED BY (col1) INTO 4 BUCKETS")
    assert raw.session(clustered, SplitOptions={"SplitMode": "Bucket"})["SplitMode"] == "Bucket"


@pytest.mark.parametrize(
    ("named", "columns"),
    [
        ({}, ["col1", "col2", "col3", "col4", "p1", "p2"]),
        ({"RequiredPartitionColumns": ["p1"]}, ["p1"]),
        ({"RequiredDataColumns": ["col1", "col3"]}, ["col1", "col3"]),
        (
            {"RequiredDataColumns": ["col2", "col4"], "RequiredPartitionColumns": ["p2"]},
            ["col2", "col4", "p2"],
        ),
    ],
)
def test_a_session_returns_exactly_the_requested_columns(
    raw: Raw, parted: str, named: dict[str, object], columns: list[str]
) -> None:
    """evidence 12 to 15 (C++: TestPartitionedTableRead, TestFilterOptions…; Python: e2e_read)"""
    session = raw.session(parted, SplitOptions=ROW_OFFSET, **named)
    assert session["RecordCount"] == 1000
    rows = raw.whole(parted, session)
    assert (rows.column_names, rows.num_rows) == (columns, 1000)
    assert list(decode_flat(session["DataSchema"]).names) == columns


@pytest.mark.parametrize("sign", "/,")
def test_partition_levels_are_separated_by_a_slash_or_comma_and_several_partitions_are_combined(
    raw: Raw, parted: str, sign: str
) -> None:
    """evidence 16: p1=x/p2=y; the rows are the union (C++: TestFilterOptionsRequiredPartitions)"""
    specs = [f"p1=partition1{sign}p2=a", f"p1=partition2{sign}p2=b"]
    session = raw.session(parted, SplitOptions=ROW_OFFSET, RequiredPartitions=specs)
    rows = raw.whole(parted, session)
    found = set(zip(rows["p1"].to_pylist(), rows["p2"].to_pylist(), strict=True))
    assert found == {("partition1", "a"), ("partition2", "b")}


def test_odps_nb_puts_slashes_between_partition_levels_of_a_read(raw: Raw, parted: str) -> None:
    """evidence 16, 82: confirmed here (C++: TestFilterOptionsRequiredPartitions; header)"""
    table = TableName.parse(parted, project=raw.service.project)
    specs = (PartitionSpec.of("p1=partition1,p2=a"), PartitionSpec.of("p1=partition2"))
    wire = CreateReadSession(
        table=table, partitions=specs, split_mode=SplitMode.ROW_OFFSET
    ).encode()
    said = json.loads(wire.body or b"")["RequiredPartitions"]
    assert said == ["p1=partition1/p2=a", "p1=partition2"]
    assert good(raw.send(wire)).json()["RecordCount"] == 750


KINDS = {
    "SessionId": str,
    "ExpirationTime": int,
    "SessionStatus": str,
    "TableSchema": dict,
    "SplitsCount": int,
    "SplitBucketId": list,
    "RecordCount": int,
    "Message": str,
    "SessionType": str,
    "SupportedDataFormat": list,
    "EnableLargeString": bool,
    "LatestVersion": int,
    "SplitMode": str,
}


@pytest.mark.parametrize("options", [ROW_OFFSET, SIZE])
def test_a_session_response_contains_every_member(
    raw: Raw, plain: str, options: dict[str, object]
) -> None:
    """evidence 17: all present, none null (C++: from_json of table_read_session)"""
    session = raw.session(plain, SplitOptions=options)
    assert {key: type(session[key]) for key in KINDS} == KINDS
    for form in session["SupportedDataFormat"]:
        assert {key: type(form[key]) for key in ("Type", "Version")} == {
            "Type": str,
            "Version": str,
        }
    assert "null" not in json.dumps(session)


@pytest.mark.parametrize(
    ("asked", "echoed"),
    [
        ({}, (-1, -1, "-1", "-1", "append")),
        (
            {
                "IncrementalRead": True,
                "IncrementalReadOptions": {
                    "StartVersion": 1,
                    "EndVersion": -1,
                    "StartTimeStamp": "-1",
                    "EndTimeStamp": "-1",
                    "Mode": "append",
                    "EnableIncrementalRead": True,
                },
            },
            (1, -1, "-1", "-1", "append"),
        ),
    ],
)
def test_a_session_response_always_contains_the_incremental_options(
    raw: Raw, plain: str, asked: dict[str, object], echoed: tuple[object, ...]
) -> None:
    """evidence 18: an object, also in a read that is not incremental (C++: from_json)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET, **asked)
    said = session["IncrementalReadOptions"]
    keys = ("StartVersion", "EndVersion", "StartTimeStamp", "EndTimeStamp", "Mode")
    assert tuple(said[key] for key in keys) == echoed
    params = {"SessionId": session["SessionId"]}
    again = good(raw.ask("TableGetReadSession", raw.table(plain), params)).json()
    assert again["IncrementalReadOptions"] == said


def test_a_session_response_contains_the_schema_in_both_forms(raw: Raw, parted: str) -> None:
    """evidence 19: DataSchema flat (Python, Java), TableSchema nested (C++)"""
    session = raw.session(parted, SplitOptions=ROW_OFFSET)
    names = ("col1", "col2", "col3", "col4", "p1", "p2")
    assert decode_flat(session["DataSchema"]).names == names
    assert decode_nested(session["TableSchema"]).schema.names == names


def test_a_read_session_is_ready_immediately(raw: Raw, plain: str) -> None:
    """evidence 20: clients fail at a status other than INIT and NORMAL (C++, Python: loops)"""
    assert raw.session(plain, SplitOptions=SIZE)["SessionStatus"] == "NORMAL"


def test_a_read_session_is_found_by_its_id_alone(raw: Raw, plain: str) -> None:
    """evidence 21, 22: no body, no session_refresh (C++: GetReadSession; Python: manual)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    params = {"SessionId": session["SessionId"]}
    again = good(raw.ask("TableGetReadSession", raw.table(plain), params)).json()
    assert again == session


def test_a_table_may_be_named_with_or_without_the_default_schema(raw: Raw, plain: str) -> None:
    """evidence 23, 24: C++ sends schemas.default, no charset (CreateMaxStorageApiTableRequest)"""
    target = f"projects.{raw.service.project}.tables.{plain}"
    assert "schemas.default" in raw.table(plain)
    for one in (target, raw.table(plain)):
        body: dict[str, object] = {"SplitOptions": ROW_OFFSET}
        answer = good(raw.ask("TableCreateReadSession", one, body=body))
        assert answer.json()["RecordCount"] == 1000


def test_a_session_response_estimates_rows_and_bytes(raw: Raw, plain: str) -> None:
    """evidence 25: both numbers are only hints (Python v1: test_storage_api)"""
    stats = raw.session(plain, SplitOptions=SIZE)["SessionStats"]
    assert stats["EstimatedRowCount"] == 1000
    assert stats["EstimatedSize"] > 0
