"""`TableVersions`: a table's newest version, and read sessions over a version range.

The service tells a version in the answer to a new read session and nowhere else. Spark asks for
the newest offset many times a second; so the service is asked once in `poll_seconds`, and for a
session of no rows (the versions after n, up to n), which costs it nothing. That answer proves on
the way what the documents leave open: that the first version of a range is left out.
Driver only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import fetch_table
from odps_nb.client.read.splits import ReadSession, open_read_session, reopen_read_session
from odps_nb.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    ProtocolError,
    SessionExpiredError,
    StateError,
)
from odps_nb.spark.source.options import StreamReadSettings
from odps_nb.terms import TableName

_BEGIN_AGAIN = "begin again with an empty checkpointLocation: the rows that are there come first"
_REPLACED = "VersionReplacedRows"
_GONE = "NoSuchVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position between two versions of one table."""

    table: str
    version: int
    initial: bool = False
    began: int | None = None
    snapshot: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Offset:
        """Read an offset from a checkpoint.

        Raises `StateError`: it is none of ours.
        """
        table, version = found.get("table"), found.get("version")
        began, snapshot = found.get("began"), found.get("snapshot")
        if (
            not isinstance(table, str)
            or not isinstance(version, int)
            or not isinstance(began, int | None)
            or not isinstance(snapshot, str | None)
        ):
            raise StateError(
                f"{str(dict(found))[:200]} is not an offset of an odps stream",
                hint="this checkpoint belongs to another source: use an empty one",
            )
        return cls(
            table=table,
            version=version,
            initial=found.get("initial") is True,
            began=began,
            snapshot=snapshot,
        )

    def as_json(self) -> dict[str, str | int | bool]:
        """Return the JSON that Spark stores; equal offsets give equal texts."""
        members: dict[str, str | int | bool] = {"table": self.table, "version": self.version}
        if self.initial:
            members["initial"] = True
        if self.began is not None:
            members["began"] = self.began
        if self.snapshot is not None:
            members["snapshot"] = self.snapshot
        return members


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestVersion:
    """A table's version when last asked; ``session`` reads exactly that version."""

    table: str
    version: int
    session: str | None = None


class TableVersions:
    """Client of a stream reader for versions of one table; `close` when done."""

    def __init__(
        self,
        settings: StreamReadSettings,
        columns: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._columns, self._clock = settings, tuple(columns), clock
        self._client: StorageClient | None = None
        self._seen: LatestVersion | None = None
        self._next = 0.0
        self._held = False

    @property
    def storage(self) -> StorageClient:
        """The client, made when it is first needed."""
        if self._client is None:
            self._client = StorageClient(self._settings.read.profile)
        return self._client

    def close(self) -> None:
        """Close the client; a second call does nothing."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def seen(self) -> LatestVersion:
        """Return the newest version, at most `poll_seconds` old.

        Raises `ConfigError` or `ConflictError`.
        """
        if self._seen is None or (not self._held and self._clock() >= self._next):
            self._seen = self._ask(self._seen, whole=self._seen is None)
            self._next = self._clock() + self._settings.poll_seconds
        return self._seen

    def whole(self) -> LatestVersion:
        """Return the newest version with a session of all its rows, if it has any."""
        seen = self.seen()
        if seen.session is None:
            seen = self._seen = self._ask(seen, whole=True)
        return seen

    def hold(self) -> None:
        """Ignore versions created from now on (``Trigger.AvailableNow``)."""
        self._seen, self._held = self._ask(self._seen, whole=True), True

    def added(self, after: int, upto: int) -> ReadSession:
        """Open a session of the rows that versions ``(after, upto]`` added.

        Raises `ConflictError` or `NotFoundError`.
        """
        with _explained():
            return self._open((after, upto))

    def snapshot(self, session_id: str) -> ReadSession:
        """Reopen the session of a `LatestVersion`.

        Raises `SessionExpiredError`: it is over.
        """
        with _explained():
            plan = self._settings.plan(self.storage, self._columns, None)
            return reopen_read_session(self.storage, plan, session_id)

    def require_table(self, table: str) -> None:
        """Raise unless the name still refers to the table of these offsets.

        Asked after a session was opened: what was dropped before that is seen here.

        Raises `ConflictError`: it was dropped and made again.
        """
        if (found := self._identity()) != table:
            raise ConflictError(
                f"{self._settings.read.table} is another table than the one that the stream read: "
                f"it was dropped and made again (id {table}, now {found})",
                hint=_BEGIN_AGAIN,
            )

    def _ask(self, last: LatestVersion | None, *, whole: bool) -> LatestVersion:
        version = 0 if last is None or whole else last.version
        with _explained():
            session = self._open((version, version) if version else None)
        name, found = self._settings.read.table, session.latest_version
        if version and session.splits:
            raise ProtocolError(
                f"the versions after {version}, up to {version}, of {name} have rows: this "
                "service includes the first version of a range",
                hint="rows would arrive twice, so nothing is read; tell the authors of odps_nb",
            )
        if not found and session.splits:
            raise ConfigError(
                f"the service reports no version of {name}, so a stream cannot follow it",
                option="table",
                hint="read it as a whole with spark.read, or follow a table that keeps versions",
            )
        table = self._identity()
        if last is not None and table != last.table:
            self.require_table(last.table)
        if last is not None and found < last.version:
            raise went_back(name, last.version, found)
        if version and found == version:
            return last if last is not None else LatestVersion(table=table, version=found)
        return LatestVersion(
            table=table, version=found, session=None if version else session.session_id
        )

    def _open(self, versions: tuple[int, int] | None) -> ReadSession:
        return open_read_session(
            self.storage, self._settings.plan(self.storage, self._columns, versions)
        )

    def _identity(self) -> str:
        info = fetch_table(self.storage, self._settings.read.table)
        return info.table_id or f"made at {info.created_at}"


def went_back(table: TableName, was: int, now: int) -> ConflictError:
    """Return the error for a table whose version has decreased."""
    return ConflictError(
        f"{table} was at version {was} and is at version {now} now", hint=_BEGIN_AGAIN
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Add hints to errors about versions and snapshots."""
    try:
        yield
    except ConflictError as error:
        if error.code == _REPLACED:
            error.hint = f"{_BEGIN_AGAIN}; or set skip_overwrites to leave such versions out"
        raise
    except NotFoundError as error:
        if error.code == _GONE:
            error.hint = _BEGIN_AGAIN
        raise
    except SessionExpiredError as error:
        error.hint = _BEGIN_AGAIN
        raise
