"""``spark.readStream.format("odps")``: streams the rows that new versions of a table add.

One Python process keeps an `OdpsStreamReader` for the life of a query; this reader provides offsets
and partitions. For every micro-batch, another reader is pickled for the tasks, which only call
`OdpsStreamReader.read`. The partitions of a micro-batch contain its read session.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import fetch_table
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.reading import open_read_session, reopen_read_session
from odps_nb.errors import (
    ConfigError,
    ConflictError,
    ProtocolError,
    ServiceError,
    SessionExpiredError,
    StateError,
)
from odps_nb.spark.reading.task import ReadTask, read_split, require_types
from odps_nb.spark.source.options import StreamReadSettings
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.spark.tasks.shipping import Shipped
from odps_nb.spark.tasks.types import spark_schema
from odps_nb.spark.versions import arrow_schema
from odps_nb.terms import TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # PySpark before 4.2, which requests the newest offset only once

        class SupportsTriggerAvailableNow:
            """Placeholder for a class that older PySpark lacks."""


_BEGIN_AGAIN = (
    "restart with an empty checkpointLocation; the stream will begin with the existing rows"
)
_REPLACED = "VersionReplacedRows"
_GONE = "NoSuchVersion"
_EXPIRED = "restart the query; it reads the micro-batch again, with the same rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position after a table version; the session ``snapshot`` reads all rows of ``version``."""

    table: str
    version: int
    initial: bool = False
    began: int | None = None
    snapshot: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Offset:
        """Parse an offset from a checkpoint."""
        kinds = {"table": str, "version": int, "began": int | None, "snapshot": str | None}
        members: dict[str, Any] = {name: found.get(name) for name in kinds}
        if not all(isinstance(members[name], kind) for name, kind in kinds.items()):
            raise StateError(
                f"{str(dict(found))[:200]} is not an offset of an odps stream",
                hint="use an empty checkpoint; this one belongs to another source",
            )
        return cls(**members, initial=found.get("initial") is True)

    def as_json(self) -> dict[str, str | int | bool]:
        """Return the JSON that Spark stores; equal offsets have equal JSON."""
        members = dataclasses.asdict(self).items()
        return {name: value for name, value in members if value is not None and value is not False}


class TableVersions:
    """A stream reader's client for the versions of one table; `close` it after use.

    The service reports a version only in the response to a new read session. So the client opens an
    empty session (versions after n and up to n) once per `poll_seconds`. This also checks an
    undocumented behaviour: the service excludes the first version of a range.
    """

    def __init__(
        self,
        settings: StreamReadSettings,
        columns: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._columns, self._clock = settings, tuple(columns), clock
        self._client: StorageClient | None = None
        self._seen: Offset | None = None
        self._next = 0.0
        self._held = False

    @property
    def storage(self) -> StorageClient:
        """The client, created on first use."""
        if self._client is None:
            self._client = StorageClient(self._settings.read.profile)
        return self._client

    def close(self) -> None:
        """Close the client. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def seen(self) -> Offset:
        """Return the newest version, at most `poll_seconds` old."""
        if self._seen is None or (not self._held and self._clock() >= self._next):
            self._seen = self._ask(self._seen, whole=self._seen is None)
            self._next = self._clock() + self._settings.poll_seconds
        return self._seen

    def whole(self) -> Offset:
        """Return the newest version, with a read session if the table has rows."""
        seen = self.seen()
        if seen.snapshot is None:
            seen = self._seen = self._ask(seen, whole=True)
        return seen

    def hold(self) -> None:
        """Ignore versions created from now on (``Trigger.AvailableNow``)."""
        self._seen, self._held = self._ask(self._seen, whole=True), True

    def added(self, after: int, upto: int) -> ReadSession:
        """Open a read session for the rows that versions ``(after, upto]`` added."""
        with _explained():
            return self._open((after, upto))

    def snapshot(self, session_id: str) -> ReadSession:
        """Reopen the read session of a snapshot."""
        with _explained():
            plan = self._settings.plan(self.storage, self._columns, None)
            return reopen_read_session(self.storage, plan, session_id)

    def require_table(self, table: str) -> None:
        """Raise if the table was dropped and re-created before the last session was opened."""
        if (found := self._identity()) != table:
            raise ConflictError(
                f"{self._settings.read.table} is not the table that the stream has read: it was "
                f"dropped and re-created (id {table}, now {found})",
                hint=_BEGIN_AGAIN,
            )

    def _ask(self, last: Offset | None, *, whole: bool) -> Offset:
        version = 0 if last is None or whole else last.version
        with _explained():
            session = self._open((version, version) if version else None)
        name, found = self._settings.read.table, session.latest_version
        self.storage.transfer.require_storage(f"streaming {name}")  # the others have no versions
        if version and session.splits:
            raise ProtocolError(
                f"the service returned rows of {name} for the empty version range ({version}, "
                f"{version}]: the service includes the start version, so rows would be read twice",
                hint="report this to the authors of odps_nb; no rows were read",
            )
        if not found and session.splits:
            raise ConfigError(
                f"the service reports no version of {name}, so a stream cannot follow it",
                option="table",
                hint="read the whole table with spark.read, or stream a table that keeps versions",
            )
        table = self._identity()
        if last is not None and table != last.table:
            self.require_table(last.table)
        if last is not None and found < last.version:
            raise version_decreased(name, last.version, found)
        if version and found == version:
            return last if last is not None else Offset(table=table, version=found)
        kept = None if version else session.session_id
        return Offset(table=table, version=found, snapshot=kept)

    def _open(self, versions: tuple[int, int] | None) -> ReadSession:
        return open_read_session(
            self.storage, self._settings.plan(self.storage, self._columns, versions)
        )

    def _identity(self) -> str:
        info = fetch_table(self.storage, self._settings.read.table)
        return info.table_id or f"made at {info.created_at}"


def version_decreased(table: TableName, was: int, now: int) -> ConflictError:
    """Return the error for a table whose version has decreased."""
    return ConflictError(
        f"{table} was at version {was} but is now at version {now}", hint=_BEGIN_AGAIN
    )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Add hints to errors about versions and snapshots."""
    try:
        yield
    except ServiceError as error:
        if error.code == _REPLACED:
            error.hint = f"{_BEGIN_AGAIN}; or set skip_overwrites to skip such versions"
        elif error.code == _GONE or isinstance(error, SessionExpiredError):
            error.hint = _BEGIN_AGAIN
        raise


class _Part(InputPartition):
    """One split of a micro-batch's read session; contains keys, like every task."""

    def __init__(self, task: ReadTask, number: int) -> None:
        self.task, self.number = task, number

    def __repr__(self) -> str:
        return f"_Part({self.task.session.session_id!r}, {self.number})"


class OdpsStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams the rows added by new versions of one table."""

    def __init__(self, settings: StreamReadSettings, schema: StructType) -> None:
        self._settings, self._columns = settings, schema
        self._schema = arrow_schema(schema)
        self._versions = TableVersions(settings, schema.names)
        self._first: Offset | None = None
        self._last: Offset | None = None
        if settings.max_versions and not hasattr(DataSourceStreamReader, "getDefaultReadLimit"):
            raise ConfigError(
                "this PySpark version cannot limit the size of a micro-batch",
                option="max_versions_per_trigger",
                hint="install PySpark 4.2 or newer, or omit the option",
            )

    # Exclude the client and the profile, which tasks do not need.
    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset where a new query begins; every call returns the same offset."""
        with self._errors():
            return self._begin().as_json()

    def latestOffset(
        self, start: Mapping[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end offset of the next micro-batch; `start` if there are no new rows.

        PySpark before 4.2 passes neither argument.
        """
        with self._errors():
            since = (self._last or self._begin()) if start is None else Offset.of(start)
            self._last = self._end(since, limit)
            return self._last.as_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the newest available offset, for the query's progress."""
        with self._errors():
            seen = self._versions.seen()
            return Offset(table=seen.table, version=seen.version).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch: Spark's limit on files, applied to table versions."""
        from pyspark.sql.streaming import datasource

        if self._settings.max_versions is not None:
            return datasource.ReadMaxFiles(self._settings.max_versions)
        return datasource.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Ignore versions created after this call."""
        with self._errors():
            self._versions.hold()

    def _begin(self) -> Offset:
        if self._first is None:
            seen, start = self._versions.seen(), self._settings.start
            if start is not None and start > seen.version:
                raise ConfigError(
                    f"starting_version is {start}, but {self._settings.read.table} is at version "
                    f"{seen.version}",
                    option="starting_version",
                    hint="pass 'latest' to begin with the next version",
                )
            version = seen.version if start is None else start
            self._first = Offset(table=seen.table, version=version, initial=True)
        return self._first

    def _end(self, since: Offset, limit: ReadLimit | None) -> Offset:
        seen = self._versions.seen()
        if since.initial and not since.version and self._settings.start == 0:
            # Existing rows form a separate batch: earlier versions may have replaced rows, and an
            # incremental read cannot represent that.
            seen = self._versions.whole()
            if seen.version:
                return Offset(table=seen.table, version=seen.version, snapshot=seen.snapshot)
        if since.table != seen.table:
            self._versions.require_table(since.table)
        if seen.version < since.version:
            raise version_decreased(self._settings.read.table, since.version, seen.version)
        if not since.initial and seen.version == since.version:
            return since
        # A version is never split. Spark's limit on files is applied to versions.
        most = getattr(limit, "max_files", None)
        upto = seen.version if not most else min(seen.version, since.version + int(most))
        began = since.version if since.initial else None
        return Offset(table=seen.table, version=upto, began=began)

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[_Part]:
        """Open the session of a micro-batch; the same offsets always give the same rows."""
        with self._errors():
            first, last = Offset.of(start), Offset.of(end)
            session = self._session(first, last)
            if session is None:
                return []
            self._versions.require_table(last.table)
            if first.table != last.table:
                self._versions.require_table(first.table)
            found = map(session.schema.find, self._columns.names)
            known = spark_schema(column for column in found if column is not None)
            require_types(self._columns, known)
            task = ReadTask.of(TaskProfile.of(self._versions.storage), session)
            return [_Part(task, number) for number in range(len(task.splits))]

    def _session(self, first: Offset, last: Offset) -> ReadSession | None:
        if first.initial and last.snapshot is not None:
            return self._versions.snapshot(last.snapshot)
        after = last.began if first.initial and last.began is not None else first.version
        return self._versions.added(after, last.version) if last.version > after else None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split; runs in a task."""
        if isinstance(partition, _Part):
            yield from read_split(partition.task, partition.number, self._schema, expired=_EXPIRED)

    def stop(self) -> None:
        """Close the connection to the service."""
        self._versions.close()

    def _errors(self) -> AbstractContextManager[None]:
        return task_errors(f"stream of {self._settings.read.table}")
