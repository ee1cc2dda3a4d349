"""Incremental reads of primary-key tables, as observed on the real service.

The source of each line is the C++ client's live tests (aliyun/aliyun-odps-sdk-cpp,
test/max_storage_api/table_read_test.cpp), unless it says otherwise. Raw requests over real sockets.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.errors import ConflictError, ServiceError
from odps_nb.terms import IndexSplit, PartitionSpec, SplitMode
from odps_nb.wire import calls
from tests.support.service.peer import Peer

PROPERTIES = (
    'TBLPROPERTIES ("transactional"="true", "acid.cdc.mode.enable"="true",'
    ' "acid.cdc.build.async"="false", "cdc.insert.into.passthrough.enable"="true",'
    ' "write.bucket.num" = "16")'
)
INSERT, DELETE, UPDATED, BEFORE, AFTER = 2, 4, 8, 16, 32


@dataclass
class Keyed:
    """A primary-key table, accessed over a real socket."""

    peer: Peer
    name: str

    def open(
        self, mode: str, since: int = -1, upto: int = -1, *, at: str = "-1", **more: Any
    ) -> calls.ReadSessionAnswer:
        options = {
            "EnableIncrementalRead": True,
            "StartVersion": since,
            "EndVersion": upto,
            "StartTimeStamp": at,
            "EndTimeStamp": "-1",
            "Mode": mode,
        }
        return self.peer.open_read(
            self.name,
            split_mode=SplitMode.BUCKET,
            incremental_read=True,
            incremental_options=options,
            **more,
        )

    def splits(self, session: calls.ReadSessionAnswer) -> list[pa.Table]:
        return [
            self.peer.split(self.name, session.session_id, IndexSplit(place))
            for place in range(len(session.bucket_ids))
        ]

    def rows(self, *arguments: Any, **more: Any) -> list[tuple[Any, ...]]:
        """Read all splits: the columns of the table and the operation."""
        read = self.splits(self.open(*arguments, **more))
        names = [n for n in ("id", "val", "pt") if not read or n in read[0].column_names]
        parts = [part.select([*names, "__meta_op_type"]).to_pylist() for part in read]
        return [tuple(row.values()) for part in parts for row in part]


@pytest.fixture
def table(peer: Peer) -> Keyed:
    """An empty table as in the live tests."""
    name = f"incremental_{time.monotonic_ns()}"
    peer.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY NOT NULL, val STRING) {PROPERTIES};")
    return Keyed(peer, name)


@pytest.fixture
def changed(table: Keyed) -> Keyed:
    """Versions 2 to 5: insert 1, insert 2, delete 2, update 1."""
    table.peer.sql(f"INSERT INTO TABLE {table.name} VALUES (1, '1');")
    table.peer.sql(f"INSERT INTO TABLE {table.name} VALUES (2, '2');")
    table.peer.sql(f"DELETE FROM {table.name} WHERE id = 2;")
    table.peer.sql(f"UPDATE {table.name} SET val = '3' WHERE id = 1;")
    return table


@pytest.fixture
def partitioned(peer: Peer) -> Keyed:
    """The same versions with key 1 in pt1 and key 2 in pt2; UPDATE and DELETE name no partition."""
    name = f"incremental_{time.monotonic_ns()}"
    peer.sql(
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY NOT NULL, val STRING)"
        f" PARTITIONED BY (pt STRING) {PROPERTIES};"
    )
    peer.sql(f"INSERT INTO TABLE {name} PARTITION (pt = 'pt1') VALUES (1, '1');")
    peer.sql(f"INSERT INTO TABLE {name} PARTITION (pt = 'pt2') VALUES (2, '2');")
    peer.sql(f"DELETE FROM {name} WHERE id = 2;")
    peer.sql(f"UPDATE {name} SET val = '3' WHERE id = 1;")
    return Keyed(peer, name)


@pytest.mark.parametrize(
    ("hours", "accepted"), [("1", True), ("168", True), ("0", False), ("169", False), ("", False)]
)
def test_changes_are_kept_for_one_hour_to_a_week(table: Keyed, hours: str, accepted: bool) -> None:
    """evidence 199: `cdc.data.retain.hours`, vendor's page on CDC (August 2026)."""
    given = f"TBLPROPERTIES ('transactional'='true', 'cdc.data.retain.hours'='{hours}')"
    for statement in (
        f"CREATE TABLE {table.name}_2 (id BIGINT PRIMARY KEY NOT NULL) {given}",
        f"ALTER TABLE {table.name} SET {given}",
    ):
        if accepted:
            table.peer.sql(statement + ";")
        else:
            with pytest.raises(ServiceError, match="must be a number from 1 to 168"):
                table.peer.sql(statement + ";")


@pytest.mark.parametrize(
    ("statement", "accepted"),
    [
        ("INSERT INTO {0} VALUES (1, 'a')", False),
        ("INSERT INTO {0} (val, id) SELECT 'a', 1", False),
        ("INSERT OVERWRITE {0} VALUES (1, 'a')", True),
        (
            "MERGE INTO {0} t USING (SELECT 1 AS id) s ON t.id = s.id"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'a')",
            True,
        ),
        ("UPDATE {0} SET val = 'a'", True),
    ],
)
def test_a_table_that_records_changes_refuses_insert_into(
    peer: Peer, statement: str, accepted: bool
) -> None:
    """evidence 202: unless `cdc.insert.into.passthrough.enable`, as `table` has (vendor's page)."""
    name = f"incremental_{time.monotonic_ns()}"
    plain = PROPERTIES.replace("passthrough", "other")
    peer.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY NOT NULL, val STRING) {plain};")
    if accepted:
        peer.sql(statement.format(name) + ";")
    else:
        with pytest.raises(ServiceError, match=r"does not support INSERT INTO\s+to do: use MERGE"):
            peer.sql(statement.format(name) + ";")


@pytest.mark.parametrize("out_of_line", [False, True])
def test_the_key_may_be_declared_inline_or_after_the_columns(peer: Peer, out_of_line: bool) -> None:
    """evidence 60: inline key (C++ live tests); out of line: the CREATE TABLE of pyodps."""
    name = f"declared_{time.monotonic_ns()}"
    columns = "id BIGINT PRIMARY KEY NOT NULL, m MAP<STRING,BIGINT>, val DECIMAL(10,2)"
    if out_of_line:
        columns = "id BIGINT NOT NULL, m MAP<STRING,BIGINT>, val DECIMAL(10,2), PRIMARY KEY (`id`)"
    peer.sql(f"CREATE TABLE {name} ({columns}) {PROPERTIES};")
    session = peer.open_write(name)
    schema = peer.call(calls.GetWriteSchema(table=peer.table(name), session_id=session)).schema
    assert schema.key_columns == ("id",)
    assert schema.schema.names == ("id", "m", "val", "__operation")
    assert not schema.schema.columns[0].nullable


def test_versions_count_from_one_and_each_statement_adds_one(table: Keyed) -> None:
    """evidence 61: the version is 1 after CREATE; each INSERT, UPDATE or DELETE adds 1."""
    versions = [table.open("cdc", 0).latest_version]
    for statement in (
        f"INSERT INTO TABLE {table.name} VALUES (1, '1')",
        f"UPDATE {table.name} SET val = '2' WHERE id = 1",
        f"DELETE FROM {table.name} WHERE id = 1",
    ):
        table.peer.sql(statement + ";")
        versions.append(table.open("cdc", 0).latest_version)
    assert versions == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "options",
    [
        {"StartVersion": 4, "EndVersion": -1, "StartTimeStamp": "-1", "EndTimeStamp": "-1"},
        {"StartVersion": 4, "EndVersion": 5},
        {"From": 4, "To": 5},
    ],
)
def test_both_names_of_version_bounds_are_accepted(changed: Keyed, options: dict[str, Any]) -> None:
    """evidence 62 and 72: the C++ client's form, and the From and To of the Python client."""
    session = changed.peer.open_read(
        changed.name,
        split_mode=SplitMode.BUCKET,
        incremental_read=True,
        incremental_options={"Mode": "cdc", **options},
    )
    operations = [part.column("__meta_op_type").to_pylist() for part in changed.splits(session)]
    assert operations == [[BEFORE, AFTER]]


def test_the_start_version_is_excluded_and_the_end_version_is_included(changed: Keyed) -> None:
    """evidence 64: a read from version 1 (the creation) to 2 returns only version 2."""
    assert changed.rows("cdc", 1, 2) == [(1, "1", INSERT)]
    assert changed.rows("cdc", 2, 3) == [(2, "2", INSERT)]
    assert changed.rows("cdc", 3) == [*changed.rows("cdc", 4), (2, "2", DELETE)]
    assert changed.rows("cdc", 5) == []


def test_there_is_a_split_for_each_changed_bucket(table: Keyed) -> None:
    """evidence 65: SplitBucketId is empty without changes, else one entry per bucket."""
    assert table.open("append", 1).bucket_ids == ()
    table.peer.sql(f"INSERT INTO {table.name} VALUES (1, '1');")
    one = table.open("append", 1)
    assert (len(one.bucket_ids), one.split_mode) == (1, SplitMode.BUCKET)
    table.peer.sql(f"INSERT INTO {table.name} VALUES (2, '2'), (18, 'same bucket as 2');")
    two = table.open("append", 1)
    assert len(two.bucket_ids) == 2
    found = [part.column("id").to_pylist() for part in table.splits(two)]
    assert found == [[1], [2, 18]]


def test_mode_cdc_returns_each_change_with_the_old_and_new_row(changed: Keyed) -> None:
    """evidence 63, 66: insert is 2, delete 4 (the old row), update 16 and 32 (in one batch)."""
    assert changed.rows("cdc", 1, 2) == [(1, "1", INSERT)]
    assert changed.rows("cdc", 3, 4) == [(2, "2", DELETE)]
    (part,) = changed.splits(changed.open("cdc", 4, 5))
    (batch,) = part.to_batches()
    assert batch.schema.field("__meta_op_type").type == pa.int8()
    assert batch.column("__meta_op_type").to_pylist() == [BEFORE, AFTER]
    assert batch.column("val").to_pylist() == ["1", "3"]


def test_mode_append_returns_inserts_and_the_last_state_of_updates(changed: Keyed) -> None:
    """evidence 63, 67: insert is 2 and update is 8; a delete gives a split without rows."""
    assert changed.rows("append", 1, 2) == [(1, "1", INSERT)]
    assert changed.rows("append", 4, 5) == [(1, "3", UPDATED)]
    (part,) = changed.splits(changed.open("append", 3, 4))
    assert part.num_rows == 0
    assert "__meta_op_type" in part.column_names


def test_a_read_from_version_zero_returns_the_last_state_or_all_changes(changed: Keyed) -> None:
    """evidence 68: append returns (1, '3', 8) in 1 or 2 splits; cdc returns 5 changes in 2."""
    assert changed.rows("append", 0) == [(1, "3", UPDATED)]
    assert 1 <= len(changed.open("append", 0).bucket_ids) <= 2
    assert len(changed.open("cdc", 0).bucket_ids) == 2
    assert changed.rows("cdc", 0) == [
        (1, "1", INSERT),
        (1, "1", BEFORE),
        (1, "3", AFTER),
        (2, "2", INSERT),
        (2, "2", DELETE),
    ]


@pytest.mark.parametrize("mode", ["append", "cdc"])
def test_an_incremental_read_returns_more_than_one_system_column(changed: Keyed, mode: str) -> None:
    """evidence 69: for two data columns, the response has more than three columns."""
    (part,) = changed.splits(changed.open(mode, 4))
    assert part.column_names[:2] == ["id", "val"]
    assert part.num_columns > 3


def test_an_incremental_read_of_partitions_returns_partition_columns(partitioned: Keyed) -> None:
    """evidence 70: TestIncrementalReadOptionsCDCModeWithPartition."""
    both = tuple(PartitionSpec.of(f"pt={value}") for value in ("pt1", "pt2"))
    assert partitioned.rows("cdc", 3, 4, partitions=both) == [(2, "2", "pt2", DELETE)]
    assert partitioned.rows("cdc", 4, partitions=both) == [
        (1, "1", "pt1", BEFORE),
        (1, "3", "pt1", AFTER),
    ]
    assert partitioned.rows("cdc", 0, partitions=both[:1]) == [
        (1, "1", "pt1", INSERT),
        (1, "1", "pt1", BEFORE),
        (1, "3", "pt1", AFTER),
    ]
    everything = partitioned.open("cdc", 0, partitions=both)
    assert len(everything.bucket_ids) == 2
    assert sum(part.num_rows for part in partitioned.splits(everything)) == 5


def next_millisecond() -> int:
    """Return a past time in milliseconds since the epoch, so that later changes are after it."""
    moment = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= moment:
        pass
    return moment


@pytest.mark.parametrize("padded", [True, False])
def test_an_incremental_read_can_start_at_a_time(table: Keyed, padded: bool) -> None:
    """evidence 71: TestIncrementalReadOptionsWithTimestamp, whose milliseconds are not padded."""

    def spelled(moment: int) -> str:
        utc = datetime.fromtimestamp(moment // 1000, UTC)
        milliseconds = moment % 1000
        return f"{utc:%Y-%m-%d %H:%M:%S}.{milliseconds:{'03d' if padded else 'd'}}"

    begun = next_millisecond()
    assert table.open("append", at=spelled(begun)).bucket_ids == ()
    table.peer.sql(f"INSERT INTO {table.name} VALUES (1, '1');")
    between = next_millisecond()
    table.peer.sql(f"INSERT INTO {table.name} VALUES (2, '2');")
    assert table.rows("append", at=spelled(between)) == [(2, "2", INSERT)]
    assert table.rows("append", at=spelled(begun)) == [(1, "1", INSERT), (2, "2", INSERT)]


def test_milliseconds_may_be_written_without_leading_zeros() -> None:
    """evidence 71: ".5" in the live test means five milliseconds, not half a second."""
    from odps_nb.local.reading.increments import seconds_of

    base = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    spelled = ["2024-01-01 00:00:00.5", "2024-01-01 00:00:00.05", "2024-01-01 00:00:00.500"]
    assert [round(seconds_of(text) - base, 6) for text in spelled] == [0.005, 0.005, 0.5]


def test_an_incremental_read_across_truncate_is_refused(changed: Keyed) -> None:
    """No source shows the result of a read across TRUNCATE: see docs/open-questions.md."""
    changed.peer.sql(f"TRUNCATE TABLE {changed.name};")
    with pytest.raises(ConflictError, match=r"version 6 .* replaced rows"):
        changed.open("cdc", 4)
    changed.peer.sql(f"INSERT INTO {changed.name} VALUES (7, '7');")
    assert changed.rows("cdc", 6) == [(7, "7", INSERT)]


def test_an_overwrite_is_reported_as_changes_of_rows(changed: Keyed) -> None:
    """No live test overwrites; here, an overwrite appears as changes (docs/open-questions.md)."""
    changed.peer.sql(f"INSERT OVERWRITE TABLE {changed.name} VALUES (1, '4'), (9, '9');")
    assert changed.rows("cdc", 5) == [(1, "3", BEFORE), (1, "4", AFTER), (9, "9", INSERT)]
    changed.peer.sql(f"INSERT OVERWRITE TABLE {changed.name} VALUES (9, '10');")
    assert sorted(changed.rows("cdc", 6)) == [
        (1, "4", DELETE),
        (9, "10", AFTER),
        (9, "9", BEFORE),
    ]
