"""Converts data for a write to a DataFrame, an Arrow table or reader, or `Chunks`."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.access.checks import iterator_of
from odps_nb.access.row_forms import RowForms
from odps_nb.convert.foreign import evaluated, exported, is_from, is_table, querying
from odps_nb.convert.row_names import Names
from odps_nb.errors import ArgumentError, ConversionError, a_type

CHUNK_ROWS = 16_384
"""Maximum number of rows to take from an iterator and convert at once."""
CHUNK_BYTES = 16 * 2**20
"""Total size of strings, arrays and bytes objects, in bytes, at which a chunk of rows ends."""


def is_spark(data: Any) -> bool:
    """Return whether this is a Spark DataFrame, without importing Spark."""
    return is_from(data, "pyspark") and hasattr(type(data), "sparkSession")  # not a Column


def is_pandas(data: Any) -> bool:
    """Return whether this is a pandas DataFrame or a subclass, without importing pandas."""
    return is_from(data, "pandas") and hasattr(data, "columns") and hasattr(data, "iloc")


def as_tables(data: Any, names: Names, *, index: bool | None = None) -> Any:
    """Return the data as a pandas or Spark DataFrame, an Arrow table or reader, or `Chunks`."""
    if isinstance(data, Chunks):
        return data.bound(names)
    data = exported(_named_series(data, names))
    if is_pandas(data):
        from odps_nb.convert.python_rows import with_index

        return with_index(data, names, index=index)
    no_rows = (str, bytes, bytearray, Mapping, np.ndarray)
    special = is_spark(data) or _is_lazy(data) or _has_arrow(data) or isinstance(data, no_rows)
    if not special and iterator_of(data) is not None:
        return _of_items(data, names, index=index)
    refuse_index(data, index=index)
    if is_spark(data):
        return data
    if _is_lazy(data):
        return Chunks(evaluated(data), names, empty=lambda: data.head(0).collect())
    if isinstance(data, np.ndarray) and data.ndim:
        from odps_nb.convert.python_rows import array_frame

        return array_frame(data, names)
    if isinstance(data, Mapping) and not _has_arrow(data):
        from odps_nb.convert.python_rows import columns_frame

        return columns_frame(data)
    return as_arrow(data)


def as_arrow(data: Any) -> pa.Table | pa.RecordBatchReader:
    """Return data with an Arrow interface as a table or a stream; raise for other data."""
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    # An array or a Series also has these interfaces, but is a table only if its values are structs.
    kind = type(data).__name__
    if isinstance(data, (pa.Array, pa.ChunkedArray)) and pa.types.is_struct(data.type):
        if data.null_count:
            row = data.is_null().index(True).as_py()
            hint = "drop the nulls: data.drop_null()"
            raise ConversionError(f"row {row} is null", source_type=kind, row=row, hint=hint)
        chunks = data.chunks if isinstance(data, pa.ChunkedArray) else [data]
        batches = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks]
        return pa.Table.from_batches(batches, pa.schema(list(data.type)))
    if isinstance(data, RowForms):
        return data._stream()
    with contextlib.suppress(pa.ArrowInvalid, TypeError), querying():
        if _has_arrow(data) and hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return pa.RecordBatchReader.from_batches(reader.schema, _imported(reader))
        if _has_arrow(data):
            return pa.Table.from_batches([pa.record_batch(data)])
    raise ConversionError(
        f"{a_type(kind)} cannot be written",
        source_type=kind,
        hint="pass a pandas, polars or Spark DataFrame, a DuckDB relation, an Arrow table, batch "
        "or reader, or a list or iterator of dicts or tuples",
    )


def _imported(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of another library's stream; its errors arrive as `OSError`."""
    try:
        with reader:
            yield from reader
    except OSError as error:
        raise ConversionError(
            "the data cannot be read: " + str(error).partition("\n")[0],
            hint="correct it; pyarrow.table(data) shows the whole error",
        ) from error


def _has_arrow(data: Any) -> bool:
    has_interface = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return has_interface and not isinstance(data, type)  # a class has its instances' methods


def _is_lazy(data: Any) -> bool:
    return is_from(data, "polars") and hasattr(data, "collect_batches")


def _named_series(data: Any, names: Names) -> Any:
    """Convert a Series or Index to a DataFrame; with ``names.single``, its name may be missing."""
    is_series = is_from(data, "pandas") or is_from(data, "polars")
    is_series = is_series and not isinstance(data, Mapping)  # a schema of polars
    if is_series and hasattr(data, "to_frame") and not hasattr(data, "columns"):
        is_index = is_from(data, "pandas") and not hasattr(data, "iloc")
        options = {"index": False} if is_index else {}
        if names.single:
            key = names.order[0]
            levels = data.index.names if hasattr(data, "iloc") else ()
            if key.casefold() in [str(level).casefold() for level in levels]:
                raise ConversionError(
                    f"the key {key!r} is in the index of the Series, not in its values",
                    column=key,
                    hint="pass series.index, or series.reset_index()",
                )
            return data.to_frame(name=key, **options)
        if not hasattr(data, "levels") and not (isinstance(data.name, str) and data.name):
            kind = type(data).__name__
            raise ConversionError(
                f"the {kind} has no name, so the column to write to is unknown",
                source_type=kind,
                hint="name it, e.g. series.rename('id')",
            )
        if is_index:
            from odps_nb.convert.python_rows import index_frame

            return index_frame(data)
        return data.to_frame()
    if names.single and isinstance(data, (pa.Array, pa.ChunkedArray)):
        return pa.table({names.order[0]: data})
    return data


def _of_items(data: Iterable[Any], names: Names, *, index: bool | None) -> Any:
    """Return a list of rows as a DataFrame, and an iterator or a list of tables as `Chunks`."""
    from odps_nb.convert.python_rows import rows_frame

    if not isinstance(data, Sized):
        if inspect.isgenerator(data) and inspect.getgeneratorstate(data) == inspect.GEN_CLOSED:
            raise ConversionError(
                "the generator was already consumed, so it has no rows",
                source_type=type(data).__name__,
                hint="create it again for each call; a failed write also consumes it",
            )
        return Chunks(data, names, index=index)
    items = list(data)
    if items and _is_table(items[0]):
        return Chunks(items, names, index=index)
    refuse_index(data, index=index)
    if items and isinstance(items[0], str) and is_table(data):  # column names, e.g. from Dask
        kind = f"{type(data).__module__.partition('.')[0]} {type(data).__name__}"
        raise ConversionError(
            f"{a_type(kind)} cannot be written",
            source_type=kind,
            hint="convert it to a pandas DataFrame; from Dask, pass data.compute(), or its parts: "
            "(part.compute() for part in data.partitions)",
        )
    return rows_frame(items, names)


def refuse_index(data: Any, *, index: bool | None) -> None:
    """Raise `ArgumentError` if ``index`` is true for data without an index."""
    if index:
        raise ArgumentError(
            f"index=True does not apply to {a_type(type(data))}",
            argument="index",
            hint="omit it: only pandas data has an index",
        )


def _is_table(item: Any) -> bool:
    if _is_lazy(item) or is_pandas(item):
        return True
    return _has_arrow(item) and not hasattr(item, "to_frame")  # a Series may be a row


class Chunks:
    """Tables built from an iterator's items; can be iterated only once.

    Items are tables of any kind, or rows; rows are collected into DataFrames of bounded size.
    """

    def __init__(
        self,
        items: Iterable[Any],
        names: Names,
        *,
        index: bool | None = None,
        empty: Callable[[], Any] | None = None,
    ) -> None:
        self._names = names
        self.in_memory = isinstance(items, Sized)
        self._items, self._index, self._empty = iter(items), index, empty
        self._peeked: list[Any] = []
        self._row_like: Any = None  # the first row, if the items are rows
        self._rows = self._taken = 0  # numbers of rows and tables read
        self._change: Callable[[Any], Any] = lambda table: table

    def peek(self) -> Any:
        """Return the first table without consuming it; ``None`` if there is none."""
        if not self._peeked:
            first = next(self._tables(), None)
            if first is None and self._empty is not None:
                first = as_tables(self._empty(), self._names)
            if first is not None:
                self._peeked.append(first)
        return self._peeked[0] if self._peeked else None

    def bound(self, names: Names) -> Chunks:
        """Use these names to match the rows, unless names are already set."""
        self._names = self._names if self._names.order else names
        return self

    def mapped(self, change: Callable[[Any], Any]) -> Chunks:
        """Apply a function to each table before it is yielded."""
        self._change = change
        return self

    def __iter__(self) -> Iterator[Any]:
        try:
            for table in itertools.chain(self._peeked, self._tables()):
                yield self._change(table)
        finally:
            if isinstance(self._items, Generator):
                self._items.close()

    def _tables(self) -> Iterator[Any]:
        for item in self._items:
            if not _is_table(item):
                yield self._gathered(item)
            elif self._row_like is not None:
                raise self._mixed(item, f"after {self._rows:,} rows")
            else:
                self._taken += 1
                converted = as_tables(item, self._names, index=self._index)
                yield from converted if isinstance(converted, Chunks) else (converted,)

    def _gathered(self, first: Any) -> Any:
        """Return the next rows as a DataFrame, beginning with ``first``."""
        from odps_nb.convert.python_rows import rows_frame

        if self._taken:
            raise self._mixed(first, f"after {self._taken:,} tables")
        refuse_index(first, index=self._index)
        self._row_like = first if self._row_like is None else self._row_like
        rows, size = [first], _size(first)
        while len(rows) < CHUNK_ROWS and size < CHUNK_BYTES:
            row = next(self._items, _END)
            if row is _END:
                break
            rows.append(row)
            size += _size(row)
        start, self._rows = self._rows, self._rows + len(rows)
        for number, row in enumerate(rows):
            if _is_table(row):
                raise self._mixed(row, f"after {start + number:,} rows")
        return rows_frame(rows, self._names, first_row=start, like=self._row_like)

    def _mixed(self, item: Any, after: str) -> ConversionError:
        return ConversionError(
            f"the data contains {a_type(type(item))} {after}",
            source_type=type(item).__name__,
            row=self._rows if self._row_like is not None else None,
            hint="pass rows only, or tables only",
        )


_END = object()


def _size(row: Any) -> int:
    """Estimate the total bytes of a row's large values."""
    values = row if isinstance(row, (list, tuple)) else getattr(row, "__dict__", {}).values()
    if isinstance(row, Mapping):
        values = row.values()
    sized = (str, bytes, bytearray, list, tuple, dict, np.ndarray)
    return sum(getattr(value, "nbytes", len(value)) for value in values if isinstance(value, sized))
