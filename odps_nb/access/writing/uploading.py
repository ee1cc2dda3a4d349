"""Uploads the blobs of chunks, and puts their references into the rows.

References are valid only in the session and stream that returned them (``docs/protocol.md``
section 6.5), so that a blob which already exists is read and uploaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.blob import Blob
from odps_nb.access.blobs.paths import BlobPath, map_blobs
from odps_nb.access.writing.blob_cells import Content, cells_as_array, content_of
from odps_nb.access.writing.sources import Chunk, Target
from odps_nb.convert.arrow_schema import arrow_schema
from odps_nb.errors import ArgumentError, ConversionError, OdpsNbError, TruncatedError
from odps_nb.schema import Column
from odps_nb.terms import BlobReference, PartitionSpec

if TYPE_CHECKING:
    from odps_nb.client.write.session import BlobItem, WriteStream


def assemble(chunk: Chunk, blobs: Mapping[str, pa.Array], target: Target) -> pa.RecordBatch:
    """Join plain columns and BLOB columns in the order of the target."""
    schema = arrow_schema(target.columns, for_write=True)
    for place, name in enumerate(schema.names):
        if name not in blobs:  # with the unit that its times need
            schema = schema.set(place, chunk.plain.schema.field(name))
    arrays = [blobs[name] if name in blobs else chunk.plain.column(name) for name in schema.names]
    return pa.record_batch(arrays, schema=schema)


@dataclass(slots=True)
class _Leaf:
    """One blob of a chunk: its position, and its reference after the upload."""

    value: Any
    column_id: int
    partition: PartitionSpec
    name: str
    row: int
    reference: BlobReference | None = None

    @property
    def where(self) -> str:
        """The cell in words, e.g. ``photo[3]``."""
        return f"{self.name}[{self.row}]"


@dataclass(slots=True, kw_only=True)
class BlobUploader:
    """Uploads the blobs of chunks into one stream, and counts them."""

    stream: WriteStream
    target: Target
    column_ids: Mapping[str, int]
    copy: Callable[[BlobReference], Blob]
    count: int = 0
    size: int = 0

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
        found = iter(leaves)
        arrays = {}
        for column in self.target.blobs:
            cells = [
                map_blobs(cell, column.type, lambda _leaf, _path: _raw(next(found)))
                for cell in chunk.cells[column.name]
            ]
            arrays[column.name] = cells_as_array(
                cells, column, first_row=chunk.first_row, conversions=self.target.conversions
            )
        return assemble(chunk, arrays, self.target)

    def _leaves(self, chunk: Chunk, column: Column) -> list[_Leaf]:
        partitions = _partitions(chunk, self.target)
        leaves: list[_Leaf] = []
        for row, cell in enumerate(chunk.cells[column.name]):

            def keep(value: Any, path: BlobPath, row: int = row) -> None:
                name = ".".join((column.name, *path))
                at = chunk.first_row + row
                leaves.append(_Leaf(value, self._column_id(name), partitions[row], name, at))

            map_blobs(cell, column.type, keep)
        return leaves

    def _column_id(self, path: str) -> int:
        for name, number in self.column_ids.items():
            if name.casefold() == path.casefold():
                return number
        raise ArgumentError(
            f"the write schema of the service has no BLOB {path!r}", hint="reload the table"
        )

    def _upload(self, leaves: Sequence[_Leaf]) -> None:
        first = leaves[0]
        reached = _Reached(first.where)
        try:
            references = self.stream.upload_blobs(
                self._items(leaves, reached), first.column_id, first.partition
            )
        except OdpsNbError as error:
            error.add_note(f"blobs up to {reached.where}")
            raise
        if len(references) != len(leaves):
            raise TruncatedError(
                "the service did not return a reference for every blob",
                expected=len(leaves),
                actual=len(references),
            )
        for leaf, reference in zip(leaves, references, strict=True):
            leaf.reference = reference
        self.count += len(leaves)

    def _items(self, leaves: Sequence[_Leaf], reached: _Reached) -> Iterator[BlobItem]:
        """Open blobs one by one, as the upload reads them."""
        for leaf in leaves:
            reached.where = leaf.where
            content = self._content(leaf)
            try:
                yield content.data, content.mime_type, content.file_name
            finally:
                if content.close is not None:
                    content.close()
            self.size += content.size or 0

    def _content(self, leaf: _Leaf) -> Content:
        try:
            return content_of(leaf.value, self.copy, self.target.image_format)
        except ConversionError as error:
            error.column, error.row = leaf.name, leaf.row
            error.add_note(f"in {leaf.where}")
            raise


@dataclass(slots=True)
class _Reached:
    """Progress of an upload, for the note of its error."""

    where: str


def _raw(leaf: _Leaf) -> bytes:
    assert leaf.reference is not None  # every leaf was uploaded
    return leaf.reference.raw


def _partitions(chunk: Chunk, target: Target) -> list[PartitionSpec]:
    """Return the whole partition of each row; dynamic values come from the row itself."""
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
