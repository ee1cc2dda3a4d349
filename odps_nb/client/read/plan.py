"""Read plan and read session as plain values."""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.client.read.increments import Increment
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
)
from odps_nb.wire.calls import MAX_BATCH_ROWS

DEFAULT_BATCH_ROWS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What to read of a table: rows, columns, versions, and how to split them.

    Parameters
    ----------
    columns
        Names, partition columns among them; empty for all. Data columns arrive in this order,
        then partition columns.
    partition_columns
        Which of ``columns`` are partition columns. ``None``: found out by one more request.
    partitions
        Specs, partial ones too; empty for the whole table.
    where
        A SQL condition (`odps_nb.filters.parse`). The service leaves out blocks of rows by it, and
        each row is tested again when it arrives.
    condition
        A condition beside ``where``, as a tree.
    timezone
        Where times in quotes are read that ``where`` compares with a DATETIME or TIMESTAMP.
    schema
        All columns of the table, where they are known; a condition needs them. ``None``: found out
        by one more request.
    split_bytes, splits
        Size of a split by the service's estimate, or their number. Where neither is said a split
        has 64 MiB, or more where there would be over 100,000 of them.
    row_ranges
        Ask for splits that are ranges of rows also where there is a filter, so that they can be
        cut (`cut_for_blobs`). A table that supports none is cut by size.
    limit
        Rows wanted at most.
    versions
        ``(after, upto)``: only the rows that the versions after the one, up to the other, added
        (`ReadSession.latest_version` of an earlier read is where to start).
    appends_only
        Leave out versions that replaced rows, too; without it, such a version is an error.
    compression
        The compression to request.
    timestamp_unit
        Unit in which TIMESTAMPs arrive. ``None``: nanoseconds.
    increment
        Read only the rows of some versions; not with ``versions``.
    text
        How text is given.
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

    def __post_init__(self) -> None:
        for name in ("split_bytes", "splits", "max_batch_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ArgumentError(f"{name} is {value}; it must be at least 1")
        if self.max_batch_rows > MAX_BATCH_ROWS:
            raise ArgumentError(
                f"max_batch_rows is {self.max_batch_rows}; the service gives {MAX_BATCH_ROWS} rows"
                " in a batch at most"
            )
        if self.limit is not None and self.limit < 0:
            raise ArgumentError(f"limit is {self.limit}; it must not be negative")
        if self.versions is not None and not 0 <= self.versions[0] <= self.versions[1]:
            raise ArgumentError(f"versions are {self.versions}; they must not go backwards")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSession:
    """A snapshot and its splits; a plain value that may be pickled.

    ``schema`` is what the batches have, in their order. ``row_count`` counts the rows of all
    splits where they are known (no filter), ``expires_at`` is in seconds of the epoch,
    ``estimated_size`` is in bytes, of the rows before a filter. ``filter`` is applied to the rows
    of every split, and needs ``hidden`` columns that come with them and are not given on.
    ``stored_rows`` are those that a filtered session with ranges of rows has before its filter, by
    the service's count. With a ``limit`` the splits may hold more rows than that. ``selects`` says
    that columns were chosen, ``columns`` which of a stream that has more than was wanted.
    ``latest_version`` is that of the table, 0 if there is none or the service reports none.
    ``timestamp_unit`` is the requested unit of TIMESTAMPs. ``tells_changes``: the last data column
    holds the change of each row as a word. ``text`` says how text is given;
    with ``binary`` text columns are BINARY in ``schema``, and ``sent`` has them as the service
    sends them.
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

    @property
    def columns_sent(self) -> TableSchema:
        """The columns of ``schema`` with the types that the service sends."""
        return self.sent or self.schema

    @property
    def prunes(self) -> bool:
        """Whether the service may filter rows out of a split, so that its row count is unknown."""
        return self.filter is not None and bool(self.filter.predicate)

    def __repr__(self) -> str:
        return (
            f"ReadSession({self.table}, {self.session_id!r}, {len(self.splits)} splits, "
            f"rows={self.row_count}, columns={len(self.schema)})"
        )
