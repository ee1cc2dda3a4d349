"""Uploads the blobs of chunks and puts their references into the rows.

A reference is valid only in its session and stream (``docs/protocol.md`` section 6.5), so an
existing blob is read and uploaded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.blob import Blob
from odps_nb.access.blobs.paths import BlobPath, map_blobs
from odps_nb.access.writing.blob_cells import Content, content_of
from odps_nb.access.writing.sources import Chunk, Target
from odps_nb.convert.arrow_schema import arrow_schema, fit_object_column
from odps_nb.errors import ArgumentError, ConflictError, ConversionError, OdpsNbError
from odps_nb.schema import Column, OdpsType, TableSchema, TypeCode, types_in
from odps_nb.terms import PartitionSpec

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.blob.upload import BlobItem
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.write.base import RowUploads


@dataclass(slots=True)
class _Leaf:
    """One blob of a chunk: its cell, and its raw reference after the upload."""

    value: Any
    column_id: int
    partition: PartitionSpec
    name: str
    row: int
    key: bytes | None = None
    raw: bytes = b""

    def __str__(self) -> str:
        return f"{self.name}[{self.row}]"


@dataclass(slots=True)
class CellUploader:
    """Uploads the blobs of chunks to one stream; reads existing blobs through ``source``."""

    stream: RowUploads
    target: Target
    source: StorageClient | Connection
    count: int = 0
    size: int = 0
    _reached: _Leaf | None = None

    def __post_init__(self) -> None:
        _refuse_other_times(self.target, self.stream.schema.schema)

    def finish(self, chunk: Chunk) -> pa.RecordBatch:
        """Upload all blobs of a chunk and return the batch with their references."""
        leaves: list[_Leaf] = []
        for column in self.target.blobs:
            leaves += self._leaves(chunk, column)
        groups: dict[tuple[int, PartitionSpec], list[_Leaf]] = {}
        for leaf in leaves:
            groups.setdefault((leaf.column_id, leaf.partition), []).append(leaf)
        for group in groups.values():
            self._upload(group)
        references = iter(leaves)
        arrays = {}
        for column in self.target.blobs:
            cells = [
                map_blobs(cell, column.type, lambda _leaf, _path: next(references).raw)
                for cell in chunk.cells[column.name]
            ]
            arrays[column.name] = fit_object_column(
                cells, column, first_row=chunk.first_row, conversions=self.target.conversions
            )
        return self._joined(chunk.plain, arrays)

    def _joined(self, plain: pa.RecordBatch, blobs: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Join BLOB columns and other columns in the order of the target."""
        schema = arrow_schema(self.target.columns, for_write=True)
        for position, name in enumerate(schema.names):
            if name not in blobs:  # use the batch's field, because it has the right time unit
                schema = schema.set(position, plain.schema.field(name))
        arrays = [blobs[name] if name in blobs else plain.column(name) for name in schema.names]
        return pa.record_batch(arrays, schema=schema)

    def _leaves(self, chunk: Chunk, column: Column) -> list[_Leaf]:
        partitions, keys = _partitions(chunk, self.target), self._keys(chunk)
        leaves: list[_Leaf] = []
        for row, cell in enumerate(chunk.cells[column.name]):

            def keep(value: Any, path: BlobPath, row: int = row) -> None:
                name = ".".join((column.name, *path))
                at = chunk.first_row + row
                column_id, key = self._column_id(name), keys[row] if keys else None
                leaves.append(_Leaf(value, column_id, partitions[row], name, at, key))

            map_blobs(cell, column.type, keep)
        return leaves

    def _keys(self, chunk: Chunk) -> list[bytes]:
        """Return the distribution key of each row of a primary-key table, otherwise no keys.

        As in pyodps (``TableArrowBlobUploadWriter``), a key is an Arrow stream of the key columns.
        """
        names = {name.casefold() for name in self.stream.schema.key_columns}
        rows = chunk.plain.select(
            [name for name in chunk.plain.schema.names if name.casefold() in names]
        )
        return [_stream_of(rows.slice(row, 1)) for row in range(len(rows))] if names else []

    def _column_id(self, path: str) -> int:
        for name, number in self.stream.schema.column_ids.items():
            if name.casefold() == path.casefold():
                return number
        raise ArgumentError(
            f"the service's write schema has no BLOB {path!r}",
            hint="call table.reload() and write again",
        )

    def _upload(self, leaves: Sequence[_Leaf]) -> None:
        first = self._reached = leaves[0]
        try:
            references = self.stream.upload_blobs(
                self._items(leaves), first.column_id, first.partition
            )
        except OdpsNbError as error:
            error.add_note(f"the last blob read was {self._reached}")
            raise
        for leaf, reference in zip(leaves, references, strict=True):
            leaf.raw = reference.raw
        self.count += len(leaves)

    def _items(self, leaves: Sequence[_Leaf]) -> Iterator[BlobItem]:
        """Yield the blobs to upload, opening each one when the upload reaches it."""
        for leaf in leaves:
            self._reached = leaf
            content = self._content(leaf)
            try:
                item = content.data, content.mime_type, content.file_name
                yield item if leaf.key is None else (*item, leaf.key)
            finally:
                if content.close is not None:
                    content.close()
            self.size += content.size or 0

    def _content(self, leaf: _Leaf) -> Content:
        try:
            return content_of(leaf.value, partial(Blob, self.source), self.target.image_format)
        except ConversionError as error:
            error.column, error.row = leaf.name, leaf.row
            error.add_note(f"while opening {leaf}")
            raise


def _refuse_other_times(target: Target, stored: TableSchema) -> None:
    """Raise if a column has become local time or an instant since the rows were converted."""
    for column in target.columns:
        now = stored.find(column.name)
        if now is not None and _has_clock(now.type) != _has_clock(column.type):
            raise ConflictError(
                f"the column {column.name!r} of {target.table} is now {now.type}, but the rows "
                f"were converted to {column.type}",
                code="SchemaModified",
                hint="call table.reload(), and write again",
            )


def _has_clock(odps: OdpsType) -> bool:
    return any(inner.code is TypeCode.TIMESTAMP_NTZ for inner in types_in(odps))


def _partitions(chunk: Chunk, target: Target) -> list[PartitionSpec]:
    """Return the full partition of each row; values that are not fixed come from the row."""
    dynamic = [column.name for column in target.columns.partition_columns]
    if not dynamic:
        return [target.fixed] * chunk.rows
    values = [chunk.plain.column(name).to_pylist() for name in dynamic]
    return [
        PartitionSpec(
            (*target.fixed, *((key, str(v)) for key, v in zip(dynamic, row, strict=True)))
        )
        for row in zip(*values, strict=True)
    ]


def _stream_of(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    written: bytes = sink.getvalue().to_pybytes()
    return written
