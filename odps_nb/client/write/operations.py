"""Values used by writes: sessions, closed streams, row operations, and parts to upload.

Rows of a primary-key table have a column ``__operation`` (int8): 85 for upserts, 68 for deletes.
For each key, a stream's last row wins (Python SDK's live test test_delta_table_record_writer).

An upload declares its number of rows first, so rows are collected into parts of limited size before
they are encoded and sent (``docs/protocol.md`` 5.4, 7.6).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.terms import Compression, PartitionSpec, TableName, Transfer

if TYPE_CHECKING:
    from odps_nb.wire.schema_json import WriteSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionRef:
    """Identifies a write session, in any process; can be pickled.

    The prefix of ``session_id`` names the service, and what a commit does.
    """

    table: TableName
    session_id: str
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    route_token: str | None = None

    @property
    def kind(self) -> SessionKind:
        """What the session id identifies."""
        prefix = self.session_id.partition(":")[0]
        return SessionKind(prefix) if prefix in _KINDS else SessionKind.STORAGE

    @property
    def server_id(self) -> str:
        """The session id without its prefix."""
        if self.kind is SessionKind.STORAGE:
            return self.session_id
        return self.session_id.partition(":")[2]

    @property
    def transfer(self) -> Transfer:
        """The service that transfers the rows."""
        match self.kind:
            case SessionKind.STORAGE:
                return Transfer.STORAGE
            case SessionKind.BLOCKS:
                return Transfer.STORAGE_V1
        return Transfer.TUNNEL


class SessionKind(str, Enum):
    """What a write session's id identifies; the value is the prefix of the id.

    ``STORAGE``: a session of the Storage API. ``BLOCKS``: a session of its version 1. ``UPLOAD``:
    an upload session of the tunnel. The others are staging tables (`odps_nb.client.write.staging`),
    whose rows the commit inserts, inserts as a replacement, or merges by key. ``PARTIAL``: the
    staging table has only some columns, and the merge keeps the other columns.
    """

    STORAGE = "storage"
    BLOCKS = "v1"
    UPLOAD = "tunnel"
    INSERT = "staging"
    REPLACE = "staging-overwrite"
    MERGE = "staging-merge"
    PARTIAL = "staging-partial"

    @property
    def is_staged(self) -> bool:
        """Whether the rows are in a staging table."""
        return self.value.startswith("staging")

    @property
    def merges(self) -> bool:
        """Whether the commit merges the rows by key."""
        return self in (SessionKind.MERGE, SessionKind.PARTIAL)


_KINDS = frozenset(kind.value for kind in SessionKind if kind is not SessionKind.STORAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceipt:
    """Data about a closed stream, for the commit; can be pickled. ``size``: bytes of Arrow data."""

    stream_id: str
    version: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class NewSession:
    """The purpose of a new write session.

    Parameters
    ----------
    partition
        The partition to write to; values of the other partition keys come from the rows.
    overwrite
        Whether the commit replaces rows.
    shared
        Whether other processes write to the session, or streams are named in the commit by id.
    keyed
        Whether rows are upserted or deleted by primary key.
    only
        For a partial upsert: the columns of the rows, in lower case. The commit keeps the values of
        all other columns.
    """

    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    overwrite: bool = False
    shared: bool = False
    keyed: bool = False
    only: frozenset[str] | None = None


OPERATION = "__operation"
UPSERT, DELETE = ord("U"), ord("D")


def takes_operation(schema: WriteSchema) -> bool:
    """Return whether rows of a stream with this schema must have the operation column.

    The column may be a system or a data column; the Python SDK checks both.
    """
    listed = (*schema.schema.columns, *schema.system_columns)
    return any(column.name == OPERATION for column in listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Adds the operation column to a write's batches; can be pickled."""

    operation: int | None = None
    """`UPSERT` or `DELETE` for all rows. ``None``: append, or upsert if the table has a key."""
    flag: str | None = None
    """Name of a boolean column that is not written. Rows in which it is true are deleted."""

    def put(self, batch: pa.RecordBatch, schema: WriteSchema) -> pa.RecordBatch:
        """Return the batch, with the operation column added if the stream requires it."""
        if not takes_operation(schema):
            if self.operation is None:
                return batch
            raise ArgumentError(
                "the table does not support upserts or deletes: its write stream has no "
                f"column {OPERATION!r}",
                hint="use a table with a primary key, or add rows with write()",
            )
        operation = UPSERT if self.operation is None else self.operation
        operations: pa.Array = pa.repeat(pa.scalar(operation, pa.int8()), batch.num_rows)
        if self.flag is not None:
            deleted = pc.fill_null(batch.column(self.flag), fill_value=False)
            batch = batch.select([name for name in batch.schema.names if name != self.flag])
            gone = pa.repeat(pa.scalar(DELETE, pa.int8()), batch.num_rows)
            operations = pc.if_else(deleted, gone, operations)
        names = [column.name for column in schema.schema.columns]
        position = names.index(OPERATION) if OPERATION in names else batch.num_columns
        return batch.add_column(position, pa.field(OPERATION, pa.int8()), operations)


DEFAULT_PART_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RowPart:
    """The rows of one upload."""

    batches: tuple[pa.RecordBatch, ...]
    rows: int
    size: int  # bytes in memory

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> RowPart:
        """Create a part from batches; count its rows and bytes."""
        held = tuple(batches)
        return cls(
            batches=held,
            rows=sum(batch.num_rows for batch in held),
            size=sum(int(batch.nbytes) for batch in held),
        )

    def after(self, rows: int) -> RowPart:
        """Return the part minus its first ``rows`` rows; data is not copied."""
        left, rest = rows, []
        for batch in self.batches:
            if left >= batch.num_rows:
                left -= batch.num_rows
            else:
                rest.append(batch.slice(left))
                left = 0
        return RowPart.of(rest)


def iter_parts(
    batches: Iterable[pa.RecordBatch], *, max_bytes: int = DEFAULT_PART_BYTES
) -> Iterator[RowPart]:
    """Group batches into parts of about ``max_bytes`` each; skip batches without rows.

    A part is one Arrow stream, so a new part begins where a timestamp's unit changes.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    schema: pa.Schema | None = None
    for batch in batches:
        schema = schema or batch.schema
        if not batch.schema.equals(schema):
            _require_same(batch.schema, schema)
            if held:
                yield RowPart.of(held)
            held, size, schema = [], 0, batch.schema
        for piece in _pieces(batch, max_bytes):
            if held and size + piece.nbytes > max_bytes:
                yield RowPart.of(held)
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if held:
        yield RowPart.of(held)


def _require_same(schema: pa.Schema, first: pa.Schema) -> None:
    """Raise if schemas differ in more than time units, which each upload's stream declares."""
    for field, other in zip(schema, first, strict=False):
        if _without_unit(field) != _without_unit(other):
            raise ConversionError(
                f"column {field.name!r} is {field.type} in one batch, but {other.name!r} is "
                f"{other.type} in the first batch",
                column=field.name,
                source_type=str(field.type),
                target_type=str(other.type),
                hint="use the same schema for all batches",
            )
    if len(schema) != len(first):
        raise ConversionError(
            f"a batch has {len(schema)} columns, but the first batch has {len(first)}",
            hint="use the same schema for all batches",
        )


def _without_unit(field: pa.Field) -> str:
    return str(field).replace("timestamp[us]", "timestamp[ns]")


def _pieces(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.nbytes <= max_bytes:
        if batch.num_rows:
            yield batch
        return
    step = max(1, batch.num_rows * max_bytes // batch.nbytes)
    for at in range(0, batch.num_rows, step):
        yield batch.slice(at, step)


class _Sink(io.RawIOBase):
    """A file object for pyarrow that forwards every buffer to a function."""

    def __init__(self, write: Callable[[Any], object]) -> None:
        super().__init__()
        self._write = write

    def write(self, data: Any) -> int:
        self._write(data)
        return len(data)

    def writable(self) -> bool:
        return True


def write_ipc(part: RowPart, compression: Compression, write: Callable[[Any], object]) -> None:
    """Write a part as one complete Arrow IPC stream, whose buffers may be compressed."""
    codec = None if compression is Compression.NONE else compression.value
    options = pa.ipc.IpcWriteOptions(compression=codec)
    sink = pa.PythonFile(_Sink(write), mode="w")
    with pa.ipc.new_stream(sink, part.batches[0].schema, options=options) as writer:
        for batch in part.batches:
            writer.write_batch(batch)
