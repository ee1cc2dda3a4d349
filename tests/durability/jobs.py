"""The jobs whose crashes are tried, what each leaves, and what a folder holds."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from odps_nb.local.service import Service, Settings
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.row_files import read_rows
from odps_nb.terms import BlobReference
from tests.support.service.peer import Peer

__all__ = ["JOBS", "PHOTO", "Job", "Promises", "World", "seen"]

World = dict[str, list[tuple[object, ...]]]
"""Rows of each table, with their partition, in any order; blobs are their bytes."""


@dataclass
class Promises:
    """The blobs whose upload was answered."""

    blobs: list[tuple[BlobReference, bytes]] = field(default_factory=list)


@dataclass(frozen=True)
class Job:
    """A job, and the worlds that it goes through, each given the one before."""

    name: str
    do: Callable[[Peer, Promises], object]
    worlds: tuple[Callable[[World], World], ...]


def _sql(text: str) -> Callable[[Peer, Promises], object]:
    return lambda peer, _: peer.sql(text)


def _write(name: str, rows: dict[str, object], **how: object) -> Callable[[Peer, Promises], object]:
    return lambda peer, _: peer.write(name, pa.table(rows), **how)  # type: ignore[arg-type]


def _set(name: str, *rows: tuple[object, ...]) -> Callable[[World], World]:
    return lambda world: {**world, name: list(rows)}


def _more(name: str, *rows: tuple[object, ...]) -> Callable[[World], World]:
    return lambda world: {**world, name: [*world[name], *rows]}


def _gone(name: str) -> Callable[[World], World]:
    return lambda world: {key: rows for key, rows in world.items() if key != name}


PHOTO = bytes(range(256)) * 300


def _upload(peer: Peer, promises: Promises) -> None:
    session = peer.open_write("photos")
    answer = peer.put_blob("photos", session, "0", PHOTO[::-1], column_id=2)
    promises.blobs.append((answer.references[0], PHOTO[::-1]))


def _photos(peer: Peer, promises: Promises) -> None:
    session = peer.open_write("photos")
    peer.open_stream("photos", session, "0")
    answer = peer.put_blob("photos", session, "0", PHOTO, column_id=2)
    promises.blobs.append((answer.references[0], PHOTO))
    raw = pa.array([answer.references[0].raw], pa.binary())
    peer.put("photos", session, "0", pa.table({"id": [7], "b": raw}))
    peer.close_stream("photos", session, "0")
    peer.commit("photos", session)


def _drop_photos(peer: Peer, promises: Promises) -> None:
    promises.blobs.clear()
    peer.sql("DROP TABLE photos;")


JOBS = (
    Job("create a table", _sql("CREATE TABLE t (n bigint);"), (_set("t"),)),
    Job("append", _write("t", {"n": [1, 2, 3]}), (_more("t", (1,), (2,), (3,)),)),
    Job("overwrite", _write("t", {"n": [4, 5]}, overwrite=True), (_set("t", (4,), (5,)),)),
    Job("SQL: INSERT INTO", _sql("INSERT INTO t SELECT 6;"), (_more("t", (6,)),)),
    Job(
        "SQL: INSERT OVERWRITE",
        _sql("INSERT OVERWRITE TABLE t SELECT n + 1 FROM t;"),
        (_set("t", (5,), (6,), (7,)),),
    ),
    Job(
        "SQL: CREATE TABLE AS",
        _sql("CREATE TABLE copy AS SELECT n FROM t;"),
        (_set("copy", (5,), (6,), (7,)),),
    ),
    Job(
        "create a partitioned table",
        _sql("CREATE TABLE p (n bigint) PARTITIONED BY (ds string);"),
        (_set("p"),),
    ),
    Job(
        "dynamic partitions",
        _write("p", {"n": [1, 2, 3], "ds": ["a", "b", "c"]}),
        (_set("p", (1, "a"), (2, "b"), (3, "c")),),
    ),
    Job(
        "overwrite a partition",
        _write("p", {"n": [9]}, partition="ds=b", overwrite=True),
        (_set("p", (1, "a"), (9, "b"), (3, "c")),),
    ),
    Job(
        "drop a partition",
        _sql("ALTER TABLE p DROP PARTITION (ds='a');"),
        (_set("p", (9, "b"), (3, "c")),),
    ),
    Job(
        "create a table with a key",
        _sql("CREATE TABLE k (id bigint NOT NULL, v bigint, PRIMARY KEY (id));"),
        (_set("k"),),
    ),
    Job(
        "upsert into nothing",
        _write("k", {"id": [1, 2], "v": [1, 1]}),
        (_set("k", (1, 1), (2, 1)),),
    ),
    Job(
        "upsert",
        _write("k", {"id": [2, 3], "v": [2, 2]}),
        (_set("k", (1, 1), (2, 2), (3, 2)),),
    ),
    Job(
        "create a table of blobs",
        lambda peer, _: peer.make_blob_table("photos", "(id bigint, b blob)"),
        (_set("photos"),),
    ),
    Job("upload a blob", _upload, (lambda world: world,)),
    Job("rows with blobs", _photos, (_set("photos", (7, PHOTO)),)),
    Job(
        "rename a table",
        _sql("ALTER TABLE copy RENAME TO other;"),
        (lambda w: {**_gone("copy")(w), "other": w["copy"]},),
    ),
    Job("drop a table", _sql("DROP TABLE t;"), (_gone("t"),)),
    Job("drop a table of blobs", _drop_photos, (_gone("photos"),)),
)


def seen(root: Path, promised: list[tuple[BlobReference, bytes]]) -> World:
    """Start the service on a folder, and return what all tables hold.

    Holds that promised blobs are whole, and that nothing was left behind.
    """
    with Service(root, Settings(durable=False)) as service:
        for reference, data in promised:
            assert _blob(service, reference) == data, "a blob is not what was uploaded"
        assert not service.folder.marked(), "marks are left"
        known = Ledger(service.database, service.folder).known()
        assert service.folder.data_files() <= known, "files are left"
        return {
            table.name.table: [
                tuple(_value(service, value) for value in row.values())
                + tuple(value for _, value in segment.spec)
                for segment in service.snapshots.visible(table)
                for batch in read_rows(
                    service.folder,
                    segment.name,
                    [column.name for column in table.schema.columns],
                    0,
                    segment.rows,
                )
                for row in batch.to_pylist()
            ]
            for table in service.catalog.tables("local")
        }


def _value(service: Service, value: object) -> object:
    return _blob(service, BlobReference(value.decode())) if isinstance(value, bytes) else value


def _blob(service: Service, reference: BlobReference) -> bytes:
    (blob,) = service.blobs.find([reference])
    with service.folder.blob_pack(blob.pack).open("rb") as pack:
        return os.pread(pack.fileno(), blob.size, blob.start)
