"""Incremental reads: the same rows each time for a range of versions, or a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import ConflictError, NotFoundError
from odps_nb.local.reading.increments import _buckets
from odps_nb.local.service import Service, Settings
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import IndexSplit, PartitionSpec, TableName, WriteMode
from odps_nb.wire.calls import CreateReadSession
from odps_nb.wire.type_text import parse_type

NAME = TableName(project="local", table="t")
SCHEMA = TableSchema(columns=(Column(name="a", type=parse_type("bigint")),))


@pytest.fixture
def service(root: Path) -> Iterator[Service]:
    with Service(root, Settings(durable=False)) as opened:
        opened.catalog.create_table(NAME, SCHEMA, owner="me")
        yield opened


def write(service: Service, *values: int, overwrite: bool = False) -> None:
    writes = service.write_sessions
    session = writes.create(NAME, PartitionSpec(), overwrite=overwrite, mode=WriteMode.BATCH)
    if values:
        stream = writes.open_stream(session, "0", 1, exactly_once=False)
        batch = pa.record_batch({"a": pa.array(values, pa.int64())})
        writes.write(session, stream, [batch])
        writes.close_stream(session, "0", 1)
    writes.commit(session)


def added_rows(service: Service, after: int, upto: int, mode: str = "version") -> list[int]:
    options = {"Mode": mode, "StartVersion": after, "EndVersion": upto}
    request = CreateReadSession(table=NAME, incremental_read=True, incremental_options=options)
    session = service.read_sessions.create(request)
    values: list[int] = []
    for index in range(len(session.ranges)):
        _, batches = service.read_sessions.rows(session, IndexSplit(index))
        values += [value for batch in batches for value in batch.column(0).to_pylist()]
    service.read_sessions.expire(session.session_id)
    return values


def test_an_overwrite_is_refused_or_skipped(service: Service) -> None:
    write(service, 1)
    write(service, 2, overwrite=True)
    write(service, 3)
    with pytest.raises(ConflictError, match=r"version 2 of .* replaced rows") as caught:
        added_rows(service, 1, 3)
    assert caught.value.code == "VersionReplacedRows"
    assert added_rows(service, 1, 3, "append") == [3]
    assert added_rows(service, 2, 3) == [3]


def test_an_overwrite_of_an_empty_table_is_an_append(service: Service) -> None:
    write(service, 1, overwrite=True)
    assert added_rows(service, 0, 1) == [1]


def test_replaced_rows_are_read_until_their_files_are_deleted(service: Service) -> None:
    write(service, 1)
    write(service, 2)
    reader = service.read_sessions.create(CreateReadSession(table=NAME)).session_id
    write(service, 3, overwrite=True)
    service.tidy()
    assert added_rows(service, 0, 2) == [1, 2]
    service.read_sessions.expire(reader)
    service.tidy()
    for mode in ("version", "append"):
        with pytest.raises(NotFoundError, match=r"version 2 of .* no longer stored") as caught:
            added_rows(service, 1, 2, mode)
        assert caught.value.code == "NoSuchVersion"


def test_an_append_mode_read_skips_overwrites_whose_files_are_deleted(service: Service) -> None:
    write(service, 1)
    write(service, 2, overwrite=True)
    write(service, 3, overwrite=True)
    write(service, 4)
    service.tidy()
    assert added_rows(service, 1, 4, "append") == [4]


def test_a_dropped_table_leaves_no_records_of_its_versions(service: Service) -> None:
    write(service, 1)
    write(service, 2, overwrite=True)
    service.snapshots.drop_table(service.catalog.table(NAME))
    service.tidy()
    assert service.database.rows("SELECT * FROM version_marks") == []


def test_a_time_as_key_has_the_same_bucket_in_both_units(service: Service) -> None:
    schema = TableSchema(columns=(Column(name="t", type=parse_type("timestamp")),))
    name = TableName(project="local", table="times")
    service.catalog.create_table(name, schema, owner="me", properties={"primary_key": "t"})
    table = service.catalog.table(name)
    micros = pa.table({"t": pa.array(range(0, 10**9, 10**7), pa.timestamp("us"))})
    nanos = micros.cast(pa.schema({"t": pa.timestamp("ns")}))
    found = _buckets(nanos, table).tolist()
    assert found == _buckets(micros, table).tolist()
    assert len(set(found)) > 1
