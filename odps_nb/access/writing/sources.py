"""Converts any accepted data to Arrow batches of a table's types; sends nothing.

Data in memory is converted as a whole, so one error lists all values that do not fit. A stream is
converted batch by batch. BLOB columns stay Python objects until they are uploaded.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.blobs.paths import map_blobs
from odps_nb.access.writing.blob_cells import cells_of, check_cells, check_leaf_types, sizes_of
from odps_nb.access.writing.columns import type_of_column
from odps_nb.access.writing.pictures import PNG, ImageFormat
from odps_nb.access.writing.tabular import Chunks, as_tables, is_pandas
from odps_nb.convert.arrow_schema import (
    FIT_ROWS,
    fit_object_column,
    fit_table,
    match_names,
    refuse_repeated_names,
    refuse_unknown,
)
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.generated import Rows, check_source, fill_generated
from odps_nb.convert.row_names import Names
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, TableSchema, TypeCode, has_blob
from odps_nb.terms import PartitionSpec, TableName, check_partition_value
from odps_nb.wire.control.table_limits import partition_value_problem

if TYPE_CHECKING:
    import pandas as pd

BLOB_ROWS = 256
"""Rows per chunk if there are BLOB columns; a chunk's blobs are uploaded before its rows."""
LANE_BYTES = 16 * 2**20
"""Arrow bytes per write stream, if the number of streams is not set."""
MAX_LANES = 6
"""Default maximum number of streams; many networks limit the speed of each connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The columns of a write, without those fixed by its partition.

    ``conversions`` also applies to the non-BLOB values in nested types that contain blobs. ``flag``
    names an extra column of the data, not of the table, that marks the rows to delete.
    """

    table: TableName
    columns: TableSchema
    fixed: PartitionSpec = field(default_factory=PartitionSpec)
    conversions: Conversions = AS_THEY_ARE
    image_format: ImageFormat = PNG
    flag: str | None = None

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        table: TableName,
        fixed: PartitionSpec,
        *,
        conversions: Conversions = AS_THEY_ARE,
    ) -> Target:
        """Return the target of a table; partition columns that are not fixed are required."""
        keys = dict(fixed)
        for column in schema.partition_columns:
            check_new_value(column, keys.get(column.name, ""))
        dynamic = [
            replace(column, nullable=schema.source_of(column) is not None)
            for column in schema.partition_columns
            if column.name not in keys
        ]
        columns = TableSchema(columns=schema.columns, partition_columns=tuple(dynamic))
        return cls(table=table, columns=columns, fixed=fixed, conversions=conversions)

    @property
    def names(self) -> Names:
        """The column names of rows that come without names, such as tuples."""
        columns = self.columns
        order = tuple(c.name for c in columns if columns.source_of(c) is None)
        return Names(order=order, known=(*columns.names, *(key for key, _ in self.fixed)))

    @property
    def plain(self) -> TableSchema:
        """The columns without BLOBs."""
        return TableSchema(
            columns=tuple(c for c in self.columns.columns if not has_blob(c.type)),
            partition_columns=self.columns.partition_columns,
        )

    @property
    def blobs(self) -> tuple[Column, ...]:
        """The columns that are or contain BLOBs."""
        return tuple(c for c in self.columns.columns if has_blob(c.type))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows: BLOB columns as lists of objects, the other columns as a converted batch."""

    rows: int
    plain: pa.RecordBatch
    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    first_row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInput:
    """The rows of a write; each item of ``streams`` is sent in a separate write stream."""

    streams: tuple[Iterable[Chunk], ...]
    rows: int | None = None
    blob_bytes: int | None = None


def open_input(
    data: Any, target: Target, *, workers: int | None = None, index: bool | None = None
) -> WriteInput:
    """Return the rows of ``data``, converted to the types of the target."""
    data = as_tables(data, target.names, index=index)
    if isinstance(data, Chunks):
        if data.in_memory:  # convert everything before anything is sent
            chunks = tuple(_chunks(data, target))
            return WriteInput(streams=(chunks,), rows=sum(chunk.rows for chunk in chunks))
        return WriteInput(streams=(_chunks(data, target),))
    _require_columns(data, target)
    if is_pandas(data):
        frame = _frame_without_fixed(data, target)
        plain, cells = _frame_parts(frame, target)
        return _in_memory(plain, len(frame), cells, target, workers)
    if isinstance(data, pa.RecordBatchReader):
        return WriteInput(streams=(_stream_chunks(data, target),))
    table = _without_fixed(data, target)
    cells, names = _arrow_cells(table, target), _plain_names(table.schema, target)
    plain = fit_table(table.select(names), target.plain, conversions=target.conversions)
    return _in_memory(plain, table.num_rows, cells, target, workers)


def _require_columns(table: Any, target: Target) -> None:
    columns = list(table.columns if is_pandas(table) else table.schema.names)
    names = [str(name) for name in columns]
    refuse_repeated_names(names)
    fixed = {key.casefold() for key, _ in target.fixed}
    free = [
        column for column in columns if isinstance(column, str) and column.casefold() not in fixed
    ]
    refuse_unknown(free, target.columns, lambda name: type_of_column(table, name))
    require_columns(names, target)


def require_columns(names: Iterable[str], target: Target) -> None:
    """Raise if the data has no columns to write, or lacks a partition column or ``flag``."""
    present = {name.casefold() for name in names}
    if not present - {key.casefold() for key, _ in target.fixed}:
        raise ConversionError(
            "the data has no columns to write",
            hint=f"add columns of the table: {', '.join(target.columns.names[:20])}",
        )
    if target.flag is not None and target.flag.casefold() not in present:
        raise ArgumentError(
            f"the data has no column {target.flag!r}, which was passed as deleted=",
            argument="deleted",
            hint="add this boolean column to the data, or omit deleted=",
        )
    for column in target.columns.partition_columns:
        if column.name.casefold() in present:
            continue
        if column.generated is not None:
            check_source(column, present, target.columns, target.table)
        else:
            raise ArgumentError(
                f"{target.table} is partitioned by {column.name!r}, which is not in the data",
                code="InvalidPartitionSpec",
                hint=f"pass partition='{column.name}=…', or add the column to the data",
            )


def with_partitions(rows: Rows, target: Target, first_row: int = 0) -> Rows:
    """Add computed partition columns to converted rows, and check all partition values."""
    rows = fill_generated(rows, target.columns, first_row)
    for column in target.columns.partition_columns:
        values = rows.column(column.name)
        if pa.types.is_string(values.type):  # only text has ambiguous spellings
            for value in pc.unique(values):
                check_partition_value(column.name, value.as_py())
                check_new_value(column, value.as_py())
    return rows


def check_new_value(column: Column, value: str) -> None:
    """Raise if the service does not support a partition with this value."""
    if problem := partition_value_problem(column, value):
        raise ArgumentError(
            problem,
            code="InvalidPartitionSpec",
            hint="write another value, such as a short code in Latin letters",
        )


# -- columns fixed by the partition -------------------------------------------------------------


def check_fixed(table: pa.Table | pa.RecordBatch, target: Target) -> list[str]:
    """Return the data's columns that the partition also fixes; raise if the values differ."""
    fixed = {key.casefold(): (key, value) for key, value in target.fixed}
    repeated = [name for name in table.schema.names if name.casefold() in fixed]
    for name in repeated:
        key, value = fixed[name.casefold()]
        column = table.column(name)
        if isinstance(column.type, pa.DictionaryType):  # Arrow cannot cast dictionaries of views
            column = pa.array(column.to_pylist())
        try:
            same = pc.equal(column.cast(pa.string()), pa.scalar(value))
        except pa.ArrowNotImplementedError:  # Arrow cannot cast lists and other nested types
            same = pa.array([False])
        if column.null_count or pc.any(pc.invert(same)).as_py():
            raise ConversionError(
                f"the column {name!r} has values that differ from the partition {target.fixed}",
                column=name,
                hint=f"drop the column, or remove {key!r} from partition=",
            )
    return repeated


def _without_fixed(table: Any, target: Target) -> Any:
    return table.drop_columns(check_fixed(table, target))


def _frame_without_fixed(frame: pd.DataFrame, target: Target) -> pd.DataFrame:
    from odps_nb.convert.pandas_frame import from_pandas

    keys = {key.casefold() for key, _ in target.fixed}
    repeated = [n for n in frame.columns if isinstance(n, str) and n.casefold() in keys]
    if repeated:
        check_fixed(from_pandas(frame[repeated]), target)
        frame = frame.drop(columns=repeated)
    return frame


# -- in memory ----------------------------------------------------------------------------------


def _frame_parts(
    frame: pd.DataFrame, target: Target, first_row: int = 0
) -> tuple[pa.Table, dict[str, list[Any]]]:
    """Return a DataFrame's non-BLOB columns as a converted table, and its BLOB columns as cells."""
    from odps_nb.convert.pandas_frame import from_pandas

    named = {str(name).casefold(): name for name in frame.columns}
    cells: dict[str, list[Any]] = {}
    for column in target.blobs:
        name = named.get(column.name.casefold())
        raw_cells = cells_of(None if name is None else frame[name], len(frame))
        cells[column.name] = _checked(raw_cells, column, target, first_row)
        frame = frame if name is None else frame.drop(columns=[name])
    plain = from_pandas(frame, target.plain, conversions=target.conversions, first_row=first_row)
    return plain, cells


def _plain_names(schema: pa.Schema, target: Target) -> list[str]:
    blobs = {column.name.casefold() for column in target.blobs}
    return [name for name in schema.names if name.casefold() not in blobs]


def _arrow_cells(
    rows: pa.Table | pa.RecordBatch, target: Target, first_row: int = 0
) -> dict[str, list[Any]]:
    """Check the cells of the BLOB columns and return them."""
    named = {name.casefold(): name for name in rows.schema.names}
    cells: dict[str, list[Any]] = {}
    for column in target.blobs:
        name = named.get(column.name.casefold())
        values = None if name is None else rows.column(name)
        if values is not None and values.null_count < rows.num_rows:
            check_leaf_types(values.type, column)
        raw_cells = cells_of(values, rows.num_rows)
        cells[column.name] = _checked(raw_cells, column, target, first_row)
    return cells


def _checked(raw_cells: list[Any], column: Column, target: Target, first_row: int) -> list[Any]:
    """Check cells, including the non-BLOB values in nested types with blobs, and return them."""
    cells = check_cells(raw_cells, column, first_row=first_row, image_format=target.image_format)
    if column.type.code is not TypeCode.BLOB:
        empty = [map_blobs(cell, column.type, lambda _leaf, _path: b"") for cell in cells]
        fit_object_column(empty, column, first_row=first_row, conversions=target.conversions)
    return cells


def _in_memory(
    plain: pa.Table, rows: int, cells: Mapping[str, list[Any]], target: Target, workers: int | None
) -> WriteInput:
    plain = with_partitions(plain, target)
    if workers is None:
        workers = 1 if target.blobs else min(MAX_LANES, 1 + plain.nbytes // LANE_BYTES)
    workers = max(1, min(workers, rows))
    step = BLOB_ROWS if target.blobs else FIT_ROWS
    bounds = [rows * n // workers for n in range(workers + 1)]
    streams = tuple(
        _slices(plain, cells, low, high, step) for low, high in itertools.pairwise(bounds)
    )
    blob_bytes = sizes_of(itertools.chain.from_iterable(cells.values()))
    return WriteInput(streams=streams, rows=rows, blob_bytes=blob_bytes)


def _slices(
    plain: pa.Table,
    cells: Mapping[str, list[Any]],
    low: int,
    high: int,
    step: int,
    first_row: int = 0,
) -> Iterator[Chunk]:
    while low < high:
        count = min(step, high - low)
        batch = pa.record_batch({})
        if plain.num_columns:
            # rows with more than 2 GiB of text would be more than one batch
            batch = plain.slice(low, count).combine_chunks().to_batches()[0]
            count = batch.num_rows
        yield Chunk(
            rows=count,
            plain=batch,
            cells={name: column[low : low + count] for name, column in cells.items()},
            first_row=first_row + low,
        )
        low += count


# -- streams ------------------------------------------------------------------------------------


def _chunks(tables: Chunks, target: Target) -> Iterator[Chunk]:
    """Convert tables one by one, numbering rows across all of them."""
    row = 0
    for table in tables:
        _require_columns(table, target)
        if is_pandas(table):
            chunks = _frame_chunks(_frame_without_fixed(table, target), target, row)
        else:
            reader = table.to_reader() if isinstance(table, pa.Table) else table
            chunks = _stream_chunks(reader, target, row)
        for chunk in chunks:
            yield chunk
            row += chunk.rows


def _frame_chunks(frame: pd.DataFrame, target: Target, row: int) -> Iterator[Chunk]:
    step = BLOB_ROWS if target.blobs else FIT_ROWS
    for start in range(0, len(frame), step):
        part = frame.iloc[start : start + step]
        plain, cells = _frame_parts(part, target, row + start)
        plain = with_partitions(plain, target, row + start)
        yield from _slices(plain, cells, 0, len(part), step, row + start)


def _stream_chunks(
    reader: pa.RecordBatchReader, target: Target, first_row: int = 0
) -> Iterator[Chunk]:
    fixed = {key.casefold() for key, _ in target.fixed}
    names = [n for n in _plain_names(reader.schema, target) if n.casefold() not in fixed]
    match_names(names, target.plain)  # raises on a mismatch before any row is read
    return _read_chunks(reader, target, names, first_row)


def _batches_of(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    try:
        for batch in reader:
            if batch.schema.names != reader.schema.names:
                raise ConversionError(
                    f"the columns of a batch differ from those of the stream: {batch.schema.names}",
                    hint="create the stream with the schema of its batches",
                )
            yield batch
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ConversionError(
            f"Arrow cannot read the data: {error}",
            hint="check it, e.g. with pyarrow.table(data).validate(full=True)",
        ) from error


def _read_chunks(
    reader: pa.RecordBatchReader,
    target: Target,
    names: list[str],
    row: int,
) -> Iterator[Chunk]:
    with reader:
        for batch in _batches_of(reader):
            step = BLOB_ROWS if target.blobs else FIT_ROWS
            for start in range(0, batch.num_rows, step):
                part = _without_fixed(batch.slice(start, step), target)
                cells = _arrow_cells(part, target, row)
                plain = fit_table(
                    pa.Table.from_batches([part.select(names)]),
                    target.plain,
                    first_row=row,
                    conversions=target.conversions,
                )
                plain = with_partitions(plain, target, row)
                yield from _slices(plain, cells, 0, part.num_rows, step, row)
                row += part.num_rows
