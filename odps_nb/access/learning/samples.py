"""Makes training samples: a dict per row, arrays per batch, or rows with a blob's bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.access.blobs.paths import find_blob_path
from odps_nb.client.blob.many import iter_blobs
from odps_nb.convert.nested_values import is_vector, vector_values
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.terms import BlobReference, TableName

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.schema import TableSchema

Placed = tuple[int, Any]
"""The position of the next sample in the epoch's sequence, and a sample."""
Window = tuple[int, pa.Table]
STEP = 1024
"""Number of rows to convert to Python values at a time."""


@dataclass(frozen=True, slots=True)
class AsRows:
    """Makes one sample per row: a dict of Python values."""

    def make(
        self, storage: StorageClient, windows: Iterator[Window], skip: int
    ) -> Iterator[Placed]:
        """Iterate over rows, skipping the first ``skip`` rows of the first window."""
        for start, table in windows:
            for number, row in enumerate(_rows(table.slice(skip)), skip + 1):
                yield start + number, row
            skip = 0


@dataclass(frozen=True, slots=True)
class AsBatches:
    """Makes one sample per ``size`` rows: a dict of arrays. The last sample may have fewer rows."""

    size: int

    def make(
        self, storage: StorageClient, windows: Iterator[Window], skip: int
    ) -> Iterator[Placed]:
        """Iterate over batches, which may contain rows of several windows."""
        held: list[pa.Table] = []
        count = at = 0
        for start, table in windows:
            offset = skip
            while offset < table.num_rows:
                piece = table.slice(offset, self.size - count)
                held.append(piece)
                count, offset = count + piece.num_rows, offset + piece.num_rows
                at = start + offset
                if count == self.size:
                    yield at, _arrays(pa.concat_tables(held))
                    held, count = [], 0
            skip = 0
        if count:
            yield at, _arrays(pa.concat_tables(held))


@dataclass(frozen=True, slots=True)
class WithBlobs:
    """Makes a dict per row, in which verified bytes or the decoded blob replace the reference."""

    column: str
    decode: Callable[[bytes], Any] | None
    max_bytes: int
    max_blob: int

    def __post_init__(self) -> None:
        if self.decode is not None and not callable(self.decode):
            raise ArgumentError(
                f"decode is {self.decode!r}; it must be a function that takes bytes",
                argument="decode",
            )

    def make(
        self, storage: StorageClient, windows: Iterator[Window], skip: int
    ) -> Iterator[Placed]:
        """Iterate over rows; the blobs of a window are fetched in batches, some in advance."""
        for start, table in windows:
            rows = table.slice(skip)
            texts = rows.column(self.column).to_pylist()
            blobs = iter_blobs(
                storage,
                [BlobReference.from_text(text) for text in texts if text is not None],
                max_bytes=self.max_bytes,
                max_blob=self.max_blob,
                cancel=storage.operation(),
            )
            with closing(blobs):
                for number, row in enumerate(_rows(rows), skip + 1):
                    if (text := row[self.column]) is not None:
                        row[self.column] = self._decoded(next(blobs).data, text)
                    yield start + number, row
            skip = 0

    def _decoded(self, data: bytes, text: str) -> Any:
        if self.decode is None:
            return data
        try:
            return self.decode(data)
        except Exception as error:
            error.add_note(f"raised by decode= for the {len(data)} bytes of blob {text}")
            raise


Samples = AsRows | AsBatches | WithBlobs


def blob_column(text: str | None, schema: TableSchema, table: TableName) -> str:
    """Return the BLOB column's name; for ``None``, the name of the only BLOB column."""
    path = find_blob_path(text, schema, table)
    if len(path) > 1:
        raise ArgumentError(
            f"{'.'.join(path)} is nested in a column; only top-level BLOB columns are supported",
            argument="column",
            hint="read the references as rows, and fetch them with odps.blobs(references).fetch()",
        )
    return path[0]


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    names = table.column_names
    for begin in range(0, table.num_rows, STEP):
        columns = [_values(column) for column in table.slice(begin, STEP).columns]
        for cells in zip(*columns, strict=True):
            yield dict(zip(names, cells, strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    column = _without_decimals(column)
    if column.null_count == 0 and _is_number(column.type):
        values: list[Any] = column.to_numpy().tolist()
        return values
    if is_vector(column.type):
        return vector_values(column.combine_chunks())
    return list(column.to_pylist())


def _arrays(table: pa.Table) -> dict[str, Any]:
    columns = zip(table.column_names, table.columns, strict=True)
    return {name: _array(name, column) for name, column in columns}


def _array(name: str, column: pa.ChunkedArray) -> Any:
    column = _without_decimals(column)
    vectors = is_vector(column.type)
    if not (vectors or _is_number(column.type)):
        return column.to_pylist()
    if column.null_count and not pt.is_floating(column.type):
        raise ConversionError(
            f"column {name!r} has nulls, which an array of {column.type} cannot represent",
            column=name,
            source_type=str(column.type),
            hint="exclude such rows (where=…), or omit batch_size to get None for nulls",
        )
    if vectors:  # return a matrix with one row per vector
        rows: list[Any] = vector_values(column.combine_chunks())
        return np.reshape(rows, (-1, column.type.list_size))
    return column.to_numpy().copy()  # Arrow's view is read-only


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind))


def _without_decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.float64()) if pt.is_decimal(column.type) else column
