"""The catalog's SQLite database (one connection, one lock), and marks of table versions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from odps_nb.errors import ConfigError

SCHEMA_VERSION = 4

# Marks of a table version, stored as long as the table exists.
# The version removed rows because of an overwrite, a dropped partition or a merge by key.
REPLACED = "replaced"
# The rows that the version added were removed later, and their files have been deleted.
GONE = "gone"
# The change log contains this version's row changes (primary-key tables only).
RECORDED = "recorded"
# The version removed files that have been deleted, so earlier versions cannot be read.
LOST = "lost"
# The change log contained this version, and the table's retention period is over.
EXPIRED = "expired"

_TABLES = """
CREATE TABLE projects (name TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE schemas (project TEXT NOT NULL, name TEXT NOT NULL, created REAL NOT NULL,
    PRIMARY KEY (project, name));
CREATE TABLE tables (
    table_id INTEGER PRIMARY KEY AUTOINCREMENT, project TEXT NOT NULL, schema TEXT NOT NULL,
    name TEXT NOT NULL, name_key TEXT NOT NULL, comment TEXT NOT NULL, owner TEXT NOT NULL,
    lifecycle INTEGER NOT NULL, definition TEXT NOT NULL, properties TEXT NOT NULL,
    schema_version INTEGER NOT NULL, version INTEGER NOT NULL,
    created REAL NOT NULL, altered REAL NOT NULL, modified REAL NOT NULL,
    UNIQUE (project, schema, name_key));
CREATE TABLE partitions (
    partition_id INTEGER PRIMARY KEY AUTOINCREMENT, table_id INTEGER NOT NULL,
    spec TEXT NOT NULL, created REAL NOT NULL, altered REAL NOT NULL, modified REAL NOT NULL,
    UNIQUE (table_id, spec));
CREATE TABLE versions (table_id INTEGER NOT NULL, version INTEGER NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (table_id, version));
CREATE TABLE files (
    file_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    table_id INTEGER NOT NULL, partition_id INTEGER, rows INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,
    added INTEGER NOT NULL, removed INTEGER);
CREATE INDEX files_of_table ON files (table_id, removed);
CREATE TABLE read_sessions (
    session_id TEXT PRIMARY KEY, table_id INTEGER NOT NULL, created REAL NOT NULL,
    expires REAL NOT NULL, plan TEXT NOT NULL);
CREATE TABLE pins (session_id TEXT NOT NULL, file_id INTEGER NOT NULL,
    PRIMARY KEY (session_id, file_id)) WITHOUT ROWID;
CREATE INDEX pins_of_file ON pins (file_id);
CREATE TABLE write_sessions (
    session_id TEXT PRIMARY KEY, table_id INTEGER NOT NULL, spec TEXT NOT NULL,
    overwrite INTEGER NOT NULL, mode TEXT NOT NULL, status TEXT NOT NULL,
    created REAL NOT NULL, expires REAL NOT NULL);
CREATE TABLE streams (
    session_id TEXT NOT NULL, stream_id TEXT NOT NULL, version INTEGER NOT NULL,
    state TEXT NOT NULL, token TEXT NOT NULL, next_row INTEGER NOT NULL,
    rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session_id, stream_id, version));
CREATE TABLE parts (
    part_id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL, stream_id TEXT NOT NULL, version INTEGER NOT NULL,
    spec TEXT NOT NULL, rows INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
    disk_bytes INTEGER NOT NULL);
CREATE INDEX parts_of_session ON parts (session_id, stream_id, version);
CREATE TABLE blobs (
    blob_id INTEGER PRIMARY KEY AUTOINCREMENT, secret BLOB NOT NULL, pack TEXT NOT NULL,
    start INTEGER NOT NULL, size INTEGER NOT NULL, md5 TEXT NOT NULL,
    content_type TEXT NOT NULL, file_name TEXT NOT NULL, project TEXT NOT NULL,
    created REAL NOT NULL);
CREATE INDEX blobs_of_pack ON blobs (pack);
CREATE TABLE blob_uses (file TEXT NOT NULL, blob_id INTEGER NOT NULL,
    PRIMARY KEY (file, blob_id)) WITHOUT ROWID;
CREATE INDEX uses_of_blob ON blob_uses (blob_id);
CREATE TABLE instances (
    instance_id TEXT PRIMARY KEY, project TEXT NOT NULL, owner TEXT NOT NULL,
    task TEXT NOT NULL, source TEXT NOT NULL, query TEXT NOT NULL, status TEXT NOT NULL,
    message TEXT NOT NULL, definition TEXT NOT NULL, file TEXT, rows INTEGER NOT NULL,
    created REAL NOT NULL, ended REAL);
CREATE TABLE downloads (
    download_id TEXT PRIMARY KEY, instance_id TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE version_marks (table_id INTEGER NOT NULL, version INTEGER NOT NULL,
    mark TEXT NOT NULL, PRIMARY KEY (table_id, version, mark)) WITHOUT ROWID;
CREATE TABLE guids (project TEXT NOT NULL, owner TEXT NOT NULL, guid TEXT NOT NULL,
    instance_id TEXT NOT NULL, PRIMARY KEY (project, owner, guid)) WITHOUT ROWID;
CREATE TABLE runs (run TEXT PRIMARY KEY);
"""
# Statements that upgrade the catalog; the key is the layout number before the upgrade.
_ADDED = {
    2: """
CREATE TABLE resources (
    project TEXT NOT NULL, schema TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    comment TEXT NOT NULL, owner TEXT NOT NULL, updator TEXT NOT NULL, source TEXT NOT NULL,
    is_temp INTEGER NOT NULL, is_part INTEGER NOT NULL, size INTEGER NOT NULL, md5 TEXT NOT NULL,
    pack TEXT, created REAL NOT NULL, modified REAL NOT NULL,
    PRIMARY KEY (project, schema, name));
CREATE TABLE functions (
    project TEXT NOT NULL, schema TEXT NOT NULL, name_key TEXT NOT NULL, name TEXT NOT NULL,
    owner TEXT NOT NULL, created REAL NOT NULL, fields TEXT NOT NULL, resources TEXT NOT NULL,
    PRIMARY KEY (project, schema, name_key));
ALTER TABLE instances ADD COLUMN outputs TEXT NOT NULL DEFAULT '{}';
""",
    3: "ALTER TABLE schemas ADD COLUMN comment TEXT NOT NULL DEFAULT '';",
}


class Database:
    """A thread-safe connection to the catalog. A damaged file raises `ConfigError`.

    If ``durable``, transactions survive a power failure (SQLite's ``synchronous=FULL``). They
    always survive ``kill -9``.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._path, self._durable = path, durable
        self._after: list[Callable[[], None]] = []
        try:
            self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise _refused(path, error) from None
        try:
            self._open()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._connection.close()
            raise _refused(path, error) from None
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        self._connection.row_factory = sqlite3.Row
        run = self._connection.execute
        if (check_result := run("PRAGMA quick_check(1)").fetchall()[0][0]) != "ok":
            raise _damaged(self._path, str(check_result).splitlines()[-1])
        self._path.chmod(0o600)
        run("PRAGMA journal_mode=WAL").fetchall()
        run(f"PRAGMA synchronous={'FULL' if self._durable else 'OFF'}")
        run("PRAGMA busy_timeout=5000")
        self._prepare()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction, or join the running one; an exception rolls it back."""
        after: list[Callable[[], None]] = []
        with self._lock:
            if self._depth:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth, self._after = 1, after
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth, self._after = 0, []
        for step in after:
            step()

    def after_commit(self, step: Callable[[], None]) -> None:
        """Call a function after the running transaction commits, but not if it rolls back."""
        assert self._depth, "there is no transaction"
        self._after.append(step)

    def rows(self, statement: str, *values: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def row(self, statement: str, *values: Any) -> sqlite3.Row | None:
        """Return the first row of a query, or ``None``."""
        with self._lock:
            row: sqlite3.Row | None = self._connection.execute(statement, values).fetchone()
            return row

    def run(self, statement: str, *values: Any) -> int:
        """Run one statement in a transaction; return the number of changed rows."""
        with self.transaction() as connection:
            return connection.execute(statement, values).rowcount

    def mark(self, table_id: int, version: int, mark: str) -> None:
        """Mark a version. Idempotent. Does nothing if the table was dropped."""
        self.run(
            "INSERT OR IGNORE INTO version_marks SELECT table_id, ?, ? FROM tables"
            " WHERE table_id = ?",
            *(version, mark, table_id),
        )

    def marked(self, table_id: int, after: int, upto: int, mark: str) -> list[int]:
        """Return the versions in ``(after, upto]`` that have this mark, oldest first."""
        rows = self.rows(
            "SELECT version FROM version_marks WHERE table_id = ? AND version > ?"
            " AND version <= ? AND mark = ? ORDER BY version",
            *(table_id, after, upto, mark),
        )
        return [row["version"] for row in rows]

    def close(self) -> None:
        """Close the connection. Idempotent."""
        with self._lock:
            self._connection.close()

    def _prepare(self) -> None:
        layout = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if layout == SCHEMA_VERSION:
            if missing := _expected_columns() - _columns(self._connection):
                table, column = min(missing)
                raise _damaged(self._path, f"it has no column {table}.{column}")
            return
        if layout not in (0, *_ADDED):
            raise ConfigError(
                f"the folder was created by another version of the service (layout {layout})",
                option="root",
                hint="serve a new folder, or install the version that created this one",
            )
        if not layout and self._connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise _damaged(self._path, "it belongs to another program")
        with self.transaction() as connection:
            for statement in _statements(layout).split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _statements(layout: int) -> str:
    """Return the statements that complete a catalog of an earlier layout (0: an empty one)."""
    return "".join([*([] if layout else [_TABLES]), *(s for n, s in _ADDED.items() if n >= layout)])


def _columns(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return a (table, column) pair for each column in the file."""
    rows = connection.execute(
        "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table'"
    )
    return {(table, column) for table, column in rows}


def _expected_columns() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_statements(0))
        return _columns(connection)


def _refused(path: Path, error: Exception) -> ConfigError:
    if not isinstance(error, sqlite3.OperationalError):
        return _damaged(path, str(error))
    return ConfigError(
        f"{path} cannot be opened: {error}",
        option="root",
        hint="check its permissions, the free disk space, and which other programs have it open",
    )


def _damaged(path: Path, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} is not a valid catalog of the service: {reason}",
        option="root",
        hint=f"restore {path.name} from a backup, or serve an empty folder (nothing was changed)",
    )
