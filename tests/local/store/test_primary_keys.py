"""Primary-key tables: upsert, delete, overwrite, partitions, each visible in one step."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import NotFoundError, ServiceError
from odps_nb.local.service import Service, Settings
from odps_nb.local.writing.ingest import Ingest
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import IndexSplit, PartitionSpec, SplitMode, TableName
from odps_nb.wire import calls
from odps_nb.wire.type_text import parse_type
from tests.support.named import NewTable
from tests.support.service.peer import Peer

UPSERT, DELETE = ord("U"), ord("D")


@pytest.fixture
def name(new_table: NewTable) -> str:
    return new_table(
        "(id bigint not null, v string, PRIMARY KEY (id)) TBLPROPERTIES ('transactional'='true')"
    )


def rows(*items: tuple[int, str | None, int | None]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([i for i, _, _ in items], pa.int64()),
            "v": pa.array([v for _, v, _ in items], pa.string()),
            "__operation": pa.array([op for _, _, op in items], pa.int8()),
        }
    )


def stored_rows(peer: Peer, name: str) -> dict[int, str | None]:
    table = peer.read(name)
    assert table.column_names == ["id", "v"]
    values = table.to_pydict()
    assert len(set(values["id"])) == table.num_rows
    return dict(zip(values["id"], values["v"], strict=True))


def test_rows_without_an_operation_are_upserts(peer: Peer, name: str) -> None:
    peer.write(name, pa.table({"id": [1, 1], "v": ["a", "b"]}))
    assert stored_rows(peer, name) == {1: "b"}


def test_overwriting_drops_the_old_rows(peer: Peer, name: str) -> None:
    peer.write(name, rows((1, "a", UPSERT)))
    peer.write(name, rows((2, "b", UPSERT)), overwrite=True)
    assert stored_rows(peer, name) == {2: "b"}


def test_a_session_created_before_a_merge_reads_the_old_rows(peer: Peer, name: str) -> None:
    from odps_nb.terms import RowRangeSplit, SplitMode

    peer.write(name, rows((1, "a", UPSERT)))
    session = peer.open_read(name, split_mode=SplitMode.ROW_OFFSET)
    peer.write(name, rows((1, "b", UPSERT)))
    old = peer.split(name, session.session_id, RowRangeSplit(0, 10))
    assert old.to_pylist() == [{"id": 1, "v": "a"}]


def test_keys_are_unique_within_their_partition(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint not null, v string, primary key(id)) PARTITIONED BY (ds string)")
    table = pa.table({"id": [1, 1, 1], "v": ["a", "b", "c"], "ds": ["x", "y", "x"]})
    peer.write(name, table)
    read = peer.read(name).to_pylist()
    assert read == [{"id": 1, "v": "c", "ds": "x"}, {"id": 1, "v": "b", "ds": "y"}]


def test_streaming_upserts_are_merged_at_once(peer: Peer, name: str) -> None:
    peer.open_stream(name, "default", "default")
    for value in ("a", "b"):
        peer.put(name, "default", "default", rows((1, value, UPSERT)))
        assert stored_rows(peer, name) == {1: value}


def test_sql_inserts_are_upserts(peer: Peer, name: str) -> None:
    peer.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b');")
    peer.sql(f"INSERT INTO {name} SELECT id, concat(v, '2') FROM {name} WHERE id = 1;")
    assert stored_rows(peer, name) == {1: "a2", 2: "b"}


def test_the_write_schema_names_the_key_and_the_operation(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    request = calls.GetWriteSchema(table=peer.table(name), session_id=session)
    schema = peer.call(request).schema
    assert schema.key_columns == ("id",)
    assert [c.name for c in schema.system_columns] == ["__operation"]


def test_a_key_must_be_a_column(peer: Peer) -> None:
    with pytest.raises(ServiceError, match="nope"):
        peer.sql("CREATE TABLE bad_key (id bigint, PRIMARY KEY (nope));")


# -- retention of changes
# ---------------------------------------------------------------------------

KEYED = TableName(project="local", table="keyed")


def keyed(service: Service, **properties: str) -> None:
    columns = tuple(Column(name=n, type=parse_type("bigint")) for n in ("id", "v"))
    service.catalog.create_table(
        KEYED,
        TableSchema(columns=columns),
        owner="me",
        properties={"primary_key": "id", "acid.cdc.mode.enable": "true"} | properties,
    )


def upsert(service: Service, **columns: list[int]) -> None:
    table = service.catalog.table(KEYED)
    with Ingest(service.folder, table, PartitionSpec(), service.blobs) as ingest:
        ingest.write(pa.record_batch(columns))
        service.publisher.publish(table, ingest.finish())


def changes(service: Service, after: int = 1) -> str:
    request = calls.CreateReadSession(
        table=KEYED,
        split_mode=SplitMode.BUCKET,
        incremental_read=True,
        incremental_options={"Mode": "cdc", "StartVersion": after},
    )
    return service.read_sessions.create(request).session_id


def read(service: Service, session_id: str) -> list[tuple[int, int]]:
    reads = service.read_sessions
    session = reads.get(KEYED, session_id)
    assert len(session.buckets) == len(session.ranges)
    stored_rows = []
    for place in range(len(session.ranges)):
        for batch in reads.rows(session, IndexSplit(place))[1]:
            stored_rows += list(
                zip(
                    batch.column("v").to_pylist(),
                    batch.column("__meta_op_type").to_pylist(),
                    strict=True,
                )
            )
    return stored_rows


def test_changes_and_their_sessions_survive_a_restart(root: Path) -> None:
    with Service(root, Settings(durable=False)) as service:
        keyed(service)
        upsert(service, id=[1, 2], v=[10, 20])
        upsert(service, id=[1], v=[11])
        session = changes(service)
        expected = [(10, 2), (10, 16), (11, 32), (20, 2)]
        assert read(service, session) == expected
    with Service(root, Settings(durable=False)) as service:
        assert read(service, session) == expected
        assert read(service, changes(service)) == expected


def test_a_dropped_table_leaves_no_files_of_changes(root: Path) -> None:
    with Service(root, Settings(durable=False)) as service:
        keyed(service)
        upsert(service, id=[1, 2], v=[10, 20])
        upsert(service, id=[2], v=[21])
        session = changes(service)
        service.snapshots.drop_table(service.catalog.table(KEYED))
        service.tidy()
        assert len(service.folder.data_files()) == 1  # the session still has its own file
        service.read_sessions.expire(session)
        service.tidy()
        assert service.folder.data_files() == set()


def test_a_folder_of_an_earlier_version_has_no_change_log(root: Path) -> None:
    with Service(root, Settings(durable=False)) as service:
        keyed(service)
        upsert(service, id=[1], v=[10])
        service.database.run("DELETE FROM version_marks WHERE mark = 'recorded'")
        with pytest.raises(NotFoundError, match="version 2 of"):
            changes(service)


@pytest.mark.parametrize(("properties", "hours"), [({}, 24), ({"cdc.data.retain.hours": "1"}, 1)])
def test_changes_are_kept_for_the_hours_in_a_property_of_the_table(
    root: Path, properties: dict[str, str], hours: int
) -> None:
    """evidence 199: 1 to 168 hours, 24 by default. The next commit drops older changes."""
    now = [1e9]
    with Service(root, Settings(durable=False), clock=lambda: now[0]) as service:
        keyed(service, **properties)
        upsert(service, id=[1], v=[10])
        now[0] += 3600 * hours
        upsert(service, id=[1], v=[11])
        assert read(service, changes(service)) == [(10, 2), (10, 16), (11, 32)]
        now[0] += 1
        upsert(service, id=[1], v=[12])
        with pytest.raises(NotFoundError, match=r"version 2 of .* no longer stored"):
            changes(service)
        assert read(service, changes(service, after=2)) == [(10, 16), (11, 32), (11, 16), (12, 32)]
        now[0] += 3600 * hours
        upsert(service, id=[1], v=[13])
        with pytest.raises(NotFoundError, match=r"version 3 of .* no longer stored"):
            changes(service, after=2)


@pytest.mark.parametrize("hours", [1, 24])
def test_history_is_kept_for_the_hours_in_a_property_of_the_table(root: Path, hours: int) -> None:
    """evidence 204: `acid.data.retain.hours`."""
    now = [1e9]
    with Service(root, Settings(durable=False), clock=lambda: now[0]) as service:
        properties = {"transactional": "true", "acid.data.retain.hours": str(hours)}
        keyed(service, **properties)
        upsert(service, id=[1], v=[10])
        upsert(service, id=[1], v=[11])
        now[0] += 3600 * hours - 1
        upsert(service, id=[1], v=[12])
        for version in (2, 3, 4):
            service.tidy()
            (segment,) = service.snapshots.as_of(service.catalog.table(KEYED), version)
            assert segment.rows == 1
        now[0] += 1
        service.tidy()
        table = service.catalog.table(KEYED)
        with pytest.raises(NotFoundError, match=r"version 2 of .* is no longer stored"):
            service.snapshots.as_of(table, 2)
        assert [len(service.snapshots.as_of(table, version)) for version in (3, 4)] == [1, 1]


NO_ROW = [
    "DELETE FROM {t} WHERE id = 12345",
    "UPDATE {t} SET v = 'x' WHERE id = 12345",
    "INSERT INTO {t} {p} SELECT id, v FROM {t} WHERE false",
    "MERGE INTO {t} USING (SELECT 9 AS id, 'x' AS v) s ON {t}.id = s.id"
    " WHEN MATCHED THEN UPDATE SET v = s.v",
]


@pytest.mark.parametrize("partitions", ["", "PARTITIONED BY (ds string)"])
def test_statements_that_match_no_row_change_no_row(
    peer: Peer, new_table: NewTable, partitions: str
) -> None:
    name = new_table(
        f"(id bigint not null, v string, PRIMARY KEY (id)) {partitions}"
        " TBLPROPERTIES ('transactional'='true')"
    )
    part = "PARTITION (ds='x')" if partitions else ""
    peer.sql(f"INSERT INTO {name} {part} VALUES (1, 'a'), (2, 'b');")
    if partitions:
        peer.sql(f"INSERT INTO {name} PARTITION (ds='y') VALUES (3, 'c');")
    before = peer.read(name)
    for statement in NO_ROW:
        peer.sql(statement.format(t=name, p=part) + ";")
        assert peer.read(name).sort_by("id") == before.sort_by("id"), statement


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_an_overwrite_without_matching_rows_replaces_no_partition(
    peer: Peer, new_table: NewTable, key: str
) -> None:
    name = new_table(
        f"(id bigint not null{key}) PARTITIONED BY (ds string)"
        " TBLPROPERTIES ('transactional'='true')"
    )
    peer.sql(f"INSERT INTO {name} PARTITION (ds='x') VALUES (1);")
    peer.sql(f"INSERT OVERWRITE TABLE {name} PARTITION (ds) SELECT 2, 'y' WHERE false;")
    assert peer.query(f"SELECT id, ds FROM {name};").to_pylist() == [{"id": 1, "ds": "x"}]
    peer.sql(f"INSERT OVERWRITE TABLE {name} PARTITION (ds='x') SELECT 2 WHERE false;")
    assert peer.query(f"SELECT id, ds FROM {name};").num_rows == 0
