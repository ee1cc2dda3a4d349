"""Read plans and read sessions as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.client.read.increments import Increment
from odps_nb.client.read.requests import OLD_PREFIX, Downloads, Source, StorageRows
from odps_nb.errors import ArgumentError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import Node
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import (
    STRICT_TEXT,
    Compression,
    PartitionSpec,
    Split,
    TableName,
    TextOptions,
    TimeUnit,
    Transfer,
)
from odps_nb.wire.calls import MAX_BATCH_ROWS

DEFAULT_BATCH_ROWS = 20_000
READY_TIMEOUT = 3600.0
"""Maximum seconds to wait until a session can be read (default of the Java SDK)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The rows, columns and versions to read from a table, and how to split them.

    Parameters
    ----------
    columns
        Column names, including partition columns; empty for all. Data columns are returned first,
        in this order, then partition columns.
    partition_columns
        Which of ``columns`` are partition columns. ``None``: determined by one more request.
    partitions
        Full or partial partition specs; empty for the whole table.
    where, condition
        A SQL condition (`odps_nb.filters.parse`), and a condition as a parsed tree. The service
        uses both to skip blocks of rows, and the client tests each row again.
    timezone
        Time zone of quoted times that ``where`` compares with a DATETIME or TIMESTAMP.
    schema
        All columns of the table; needed for a condition. ``None``: determined by one more request.
    split_bytes, splits
        Estimated bytes per split, or the number of splits. By default, a split has 64 MiB, or more
        if this would give over 100,000 splits.
    row_ranges
        Request row ranges even with a filter, so that the client can divide splits of blobs.
    limit
        Maximum number of rows.
    versions
        ``(after, upto)``: read only rows added by versions after ``after`` and up to ``upto``.
    appends_only
        Skip versions that replaced rows; otherwise, such a version raises an error.
    timestamp_unit
        Unit of TIMESTAMPs. ``None``: nanoseconds.
    far_times
        Whether the table is known to have TIMESTAMPs outside the nanosecond range.
    increment
        Read only rows changed in a range of versions; cannot be combined with ``versions``.
    """

    table: TableName
    columns: tuple[str, ...] = ()
    partition_columns: tuple[str, ...] | None = None
    partitions: tuple[PartitionSpec, ...] = ()
    where: str | None = None
    condition: Node | None = None
    timezone: str = "UTC"
    schema: TableSchema | None = None
    split_bytes: int | None = None
    splits: int | None = None
    row_ranges: bool = False
    limit: int | None = None
    versions: tuple[int, int] | None = None
    appends_only: bool = False
    compression: Compression = Compression.NONE
    timestamp_unit: TimeUnit | None = None
    max_batch_rows: int = DEFAULT_BATCH_ROWS
    increment: Increment | None = None
    text: TextOptions = STRICT_TEXT
    far_times: bool = False

    def __post_init__(self) -> None:
        for name in ("split_bytes", "splits", "max_batch_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"{name} is {value}; it must be at least 1")
        if self.max_batch_rows > MAX_BATCH_ROWS:
            raise ArgumentError(
                f"max_batch_rows is {self.max_batch_rows}; it must be at most {MAX_BATCH_ROWS}"
            )
        if self.limit is not None and self.limit < 0:
            raise ArgumentError(f"limit is {self.limit}; it must not be negative")
        if self.versions is not None and not 0 <= self.versions[0] <= self.versions[1]:
            raise ArgumentError(
                f"versions are {self.versions}; they must be in ascending order and at least 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """A snapshot and its splits as a plain value, which can be pickled.

    - ``schema`` is the batches' schema; ``sent``, if set, is the same with text in place of BINARY.
    - ``row_count`` is the number of rows in all splits; with a filter, see ``stored_rows``.
      The splits may have more rows than ``limit``. ``estimated_size`` is in bytes, as estimated by
      the service or, for the tunnel, from the column types.
    - ``expires_at`` is in seconds since the epoch. ``latest_version`` is 0 if unknown.
    - ``filter`` needs the ``hidden`` columns, which are not returned.
    - ``selects``: whether columns were selected. ``columns``: the columns to keep from the stream.
    - ``tells_changes``: whether the last data column contains each row's change type.
    - ``source`` states where the rows are; ``query`` is the instance id of the query that produced
      them, if a query was necessary.
    """

    table: TableName
    session_id: str
    schema: TableSchema
    splits: tuple[Split, ...]
    row_count: int | None = None
    expires_at: float | None = None
    route_token: str | None = None
    estimated_size: int | None = None
    latest_version: int = 0
    filter: RowFilter | None = None
    hidden: tuple[Column, ...] = ()
    stored_rows: int | None = None
    selects: bool = False
    limit: int | None = None
    columns: tuple[str, ...] = ()
    compression: Compression = Compression.NONE
    timestamp_unit: TimeUnit = TimeUnit.NANO
    max_batch_rows: int = DEFAULT_BATCH_ROWS
    tells_changes: bool = False
    text: TextOptions = STRICT_TEXT
    sent: TableSchema | None = None
    source: Source = StorageRows()  # noqa: RUF009  a frozen value
    query: str | None = None

    @property
    def server_id(self) -> str:
        """The id of a Storage API session on the service."""
        return self.session_id.removeprefix(OLD_PREFIX)

    @property
    def transfer(self) -> Transfer:
        """The service that transfers the rows."""
        if isinstance(self.source, StorageRows):
            return Transfer.STORAGE_V1 if self.source.old else Transfer.STORAGE
        return Transfer.TUNNEL if isinstance(self.source, Downloads) else Transfer.STORAGE

    @property
    def columns_sent(self) -> TableSchema:
        """The columns of ``schema``, with the types that the service sends."""
        return self.sent or self.schema

    @property
    def prunes(self) -> bool:
        """Whether the service may filter rows of a split, which makes its row count unknown."""
        by_storage = isinstance(self.source, StorageRows)
        return by_storage and self.filter is not None and bool(self.filter.predicate)

    def __repr__(self) -> str:
        return (
            f"ReadSession({self.table}, {self.session_id!r}, {len(self.splits)} splits, "
            f"rows={self.row_count}, columns={len(self.schema)})"
        )
