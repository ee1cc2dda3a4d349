"""``spark.readStream.format("odps")``: streams the rows that new versions of a table add.

Who calls what: one Python process beside the driver makes an `OdpsStreamReader` and keeps it for
the life of a query; it is asked for offsets and partitions. For every micro-batch another process
makes one as well and pickles it for the tasks, which only `OdpsStreamReader.read`. A read session
is opened for each micro-batch, and travels in its partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from odps_nb.errors import ConfigError
from odps_nb.spark.reading.task import ReadTask, read_split, require_types
from odps_nb.spark.source.options import StreamReadSettings
from odps_nb.spark.source.versions import Offset, TableVersions, went_back
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.spark.tasks.types import arrow_schema, spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

    from odps_nb.client.read.splits import ReadSession
else:
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
    except ImportError:  # before PySpark 4.2; there Spark asks for the newest offset once

        class SupportsTriggerAvailableNow:
            """Stand-in for a class that older PySpark lacks."""


_EXPIRED = "start the query again: the micro-batch is read anew, with the same rows"


class _Part(InputPartition):
    """One split of a micro-batch's read session; carries keys, as every task does."""

    def __init__(self, task: ReadTask, number: int) -> None:
        self.task, self.number = task, number

    def __repr__(self) -> str:
        return f"_Part({self.task.session.session_id!r}, {self.number})"


class OdpsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the versions of one table."""

    def __init__(self, settings: StreamReadSettings, schema: StructType) -> None:
        self._settings, self._columns = settings, schema
        self._schema = arrow_schema(schema)
        self._versions = TableVersions(settings, schema.names)
        self._first: Offset | None = None
        self._last: Offset | None = None
        if (settings.max_rows or settings.max_versions) and not _limits():
            raise ConfigError(
                "this PySpark cannot limit what a micro-batch reads",
                option="max_rows_per_trigger" if settings.max_rows else "max_versions_per_trigger",
                hint="install PySpark 4.2 or newer, or leave the option out",
            )

    # What tasks need; a client and a profile are not to be pickled.
    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    # -- offsets ------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset where a new query begins; the same one at every call."""
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
        """Return the newest offset there is, for the query's progress."""
        with self._errors():
            seen = self._versions.seen()
            return Offset(table=seen.table, version=seen.version).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a micro-batch; a table version counts as a file."""
        from pyspark.sql.streaming import datasource

        if self._settings.max_rows is not None:
            return datasource.ReadMaxRows(self._settings.max_rows)
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
                    hint="say 'latest' to begin with what comes next",
                )
            version = seen.version if start is None else start
            self._first = Offset(table=seen.table, version=version, initial=True)
        return self._first

    def _end(self, since: Offset, limit: ReadLimit | None) -> Offset:
        seen = self._versions.seen()
        if since.initial and not since.version and self._settings.start == 0:
            # The rows that are there: a batch of its own, since earlier versions may have
            # replaced rows, which increments could not tell.
            seen = self._versions.whole()
            if seen.version:
                return Offset(table=seen.table, version=seen.version, snapshot=seen.session)
        if since.table != seen.table:
            self._versions.require_table(since.table)
        if seen.version < since.version:
            raise went_back(self._settings.read.table, since.version, seen.version)
        if not since.initial and seen.version == since.version:
            return since
        upto = self._within(since.version, seen.version, limit)
        began = since.version if since.initial else None
        return Offset(table=seen.table, version=upto, began=began)

    def _within(self, after: int, newest: int, limit: ReadLimit | None) -> int:
        """Return the newest version that the limit allows; the next one, however large it is."""
        if versions := getattr(limit, "max_files", None):
            return min(newest, after + int(versions))
        most: int | None = getattr(limit, "max_rows", None)
        if most is None or newest <= after + 1 or self._rows(after, newest) <= most:
            return newest
        fits, over = after + 1, newest
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (middle, over) if self._rows(after, middle) <= most else (fits, middle)
        return fits

    def _rows(self, after: int, upto: int) -> int:
        rows = self._versions.added(after, upto).row_count
        if rows is None:
            raise ConfigError(
                "this service does not count rows",
                option="max_rows_per_trigger",
                hint="use max_versions_per_trigger",
            )
        return rows

    # -- rows ---------------------------------------------------------------------------------

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[_Part]:
        """Open the session of a micro-batch; for the same offsets it has the same rows."""
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
        """Read one split; in a task."""
        if isinstance(partition, _Part):
            yield from read_split(partition.task, partition.number, self._schema, expired=_EXPIRED)

    def stop(self) -> None:
        """Close the connection to the service."""
        self._versions.close()

    def _errors(self) -> AbstractContextManager[None]:
        return task_errors(f"stream of {self._settings.read.table}")


def _limits() -> bool:
    return hasattr(DataSourceStreamReader, "getDefaultReadLimit")
