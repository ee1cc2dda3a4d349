"""Stores streams and parts of write sessions in the catalog; `sessions` validates operations."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odps_nb.local import errors
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import ROWS
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.row_files import RowFile
from odps_nb.local.store.snapshots import Addition
from odps_nb.local.store.tables import StoredTable
from odps_nb.terms import PartitionSpec, WriteMode


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWriteSession:
    """A write session; ``status`` is NORMAL, COMMITTED or ABORTED, ``expires`` in epoch seconds."""

    session_id: str
    table: StoredTable
    spec: PartitionSpec
    overwrite: bool
    mode: WriteMode
    status: str
    expires: float

    @property
    def is_streaming(self) -> bool:
        """Whether the rows of each upload are visible immediately, without a commit."""
        return self.mode in (WriteMode.STREAMING, WriteMode.STREAMING_REALTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream of a session. ``token`` is set only if the stream is exactly-once."""

    stream_id: str
    version: int
    is_open: bool
    token: str
    next_row: int
    rows: int
    bytes: int


class Streams:
    """Finds and changes streams and parts. Each call is one transaction."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._db, self._ledger = database, ledger

    def closed(self, session: StoredWriteSession) -> list[Stream]:
        """Return the highest closed version of each stream, in stream order.

        Open versions are ignored even if they are higher (live tests of the C++ client:
        TestTableWriteMultiStreamsWithSpecialState).
        """
        rows = self._db.rows(
            "SELECT * FROM streams WHERE session_id = ? AND state = 'closed' ORDER BY version",
            session.session_id,
        )
        newest = {row["stream_id"]: _stream(row) for row in rows}
        return sorted(newest.values(), key=lambda s: natural_order(s.stream_id))

    def stream(self, session: StoredWriteSession, stream_id: str, version: int) -> Stream:
        """Return one stream, or raise 404 if it was never opened."""
        row = self._db.row(
            "SELECT * FROM streams WHERE session_id = ? AND stream_id = ? AND version = ?",
            session.session_id,
            stream_id,
            version,
        )
        if row is None:
            raise errors.no_such_stream(stream_id)
        return _stream(row)

    def newest(self, session: StoredWriteSession, stream_id: str) -> Stream | None:
        """Return the highest version of a stream, or ``None`` if there is none."""
        row = self._db.row(
            "SELECT * FROM streams WHERE session_id = ? AND stream_id = ?"
            " ORDER BY version DESC LIMIT 1",
            session.session_id,
            stream_id,
        )
        return None if row is None else _stream(row)

    def set_token(self, session: StoredWriteSession, stream: Stream, token: str) -> None:
        """Set a new access token for an exactly-once stream."""
        self._db.run(
            "UPDATE streams SET token = ? WHERE session_id = ? AND stream_id = ? AND version = ?",
            token,
            session.session_id,
            stream.stream_id,
            stream.version,
        )

    def restart(self, session: StoredWriteSession, stream: Stream) -> None:
        """Reopen a stream without rows and token; delete its files."""
        key = session.session_id, stream.stream_id, stream.version
        where = "session_id = ? AND stream_id = ? AND version = ?"
        with self._db.transaction() as db:
            names = [part.file.file_name for part in self.parts(session, stream)]
            db.execute(f"DELETE FROM parts WHERE {where}", key)
            db.execute(
                "UPDATE streams SET state = 'open', token = '', next_row = 0, rows = 0, bytes = 0"
                f" WHERE {where}",
                key,
            )
            self._ledger.drop(names)

    def add_parts(
        self, session: StoredWriteSession, stream: Stream, additions: Sequence[Addition]
    ) -> int:
        """Record uploaded files; return the ``part_id`` of the last one."""
        last = 0
        with self._db.transaction() as db:
            for addition in additions:
                file, spec = addition.file, json.dumps(addition.spec.items, ensure_ascii=False)
                key = session.session_id, stream.stream_id, stream.version
                sizes = file.rows, file.raw_bytes, file.disk_bytes
                cursor = db.execute(
                    "INSERT INTO parts (name, session_id, stream_id, version, spec, rows,"
                    " raw_bytes, disk_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (file.name, *key, spec, *sizes),
                )
                last = cursor.lastrowid or 0
        return last

    def parts(self, session: StoredWriteSession, stream: Stream) -> Iterator[Addition]:
        """Yield the uploaded files of a stream, in order."""
        for row in self._db.rows(
            "SELECT * FROM parts WHERE session_id = ? AND stream_id = ? AND version = ?"
            " ORDER BY part_id",
            session.session_id,
            stream.stream_id,
            stream.version,
        ):
            sizes = {key: row[key] for key in ("rows", "raw_bytes", "disk_bytes")}
            yield Addition(
                spec=PartitionSpec(tuple((k, v) for k, v in json.loads(row["spec"]))),
                file=RowFile(name=row["name"], **sizes),
            )

    def drop_parts(self, session_id: str, published: Sequence[str] = ()) -> None:
        """Delete the parts of a session, and their files except the ``published`` ones."""
        with self._db.transaction() as db:
            rows = db.execute("SELECT name FROM parts WHERE session_id = ?", (session_id,))
            names = {row["name"] for row in rows}
            db.execute("DELETE FROM parts WHERE session_id = ?", (session_id,))
            self._ledger.drop([name + ROWS for name in sorted(names - set(published))])


def _stream(row: sqlite3.Row) -> Stream:
    names = ("stream_id", "version", "token", "next_row", "rows", "bytes")
    return Stream(is_open=row["state"] == "open", **{name: row[name] for name in names})


def staging_text(number: int) -> str:
    """Return a flush number as an opaque string that sorts in the same order."""
    return f"staging-{number:012d}"


def natural_order(stream_id: str) -> tuple[bool, int, str]:
    """Return a sort key that orders ``2`` before ``10`` and numbers before names."""
    number = stream_id.isascii() and stream_id.isdigit() and len(stream_id) < 19
    return (not number, int(stream_id) if number else 0, stream_id)
