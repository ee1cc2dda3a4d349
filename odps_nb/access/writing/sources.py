"""Converts data of any accepted kind to Arrow batches of a table's types (sends nothing).

Data in memory is converted as a whole before anything is sent, so that one error can list all
that does not fit; a stream is converted batch by batch. BLOB columns are kept apart as
Python objects: they have to be uploaded before they are Arrow.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.blobs.paths import map_blobs
from odps_nb.access.writing.blob_cells import (
    cells_as_array,
    cells_of,
    check_cells,
    check_leaf_types,
    sizes_of,
)
from odps_nb.access.writing.pictures import PNG, ImageFormat
from odps_nb.convert.arrow_schema import (
    FIT_ROWS,
    arrow_schema,
    fit_batch,
    fit_table,
    match_names,
)
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, TableSchema, TypeCode, has_blob
from odps_nb.terms import PartitionSpec, TableName, check_partition_value

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Chunk",
    "Target",
    "WriteInput",
    "as_arrow",
    "check_fixed",
    "check_named_partitions",
    "is_pandas",
    "is_spark",
    "open_input",
    "require_partition_columns",
]

BLOB_ROWS = 256
"""Rows of a chunk with BLOB columns: their blobs are uploaded before the chunk is written."""
LANE_BYTES = 64 * 2**20
"""Bytes of Arrow per write stream, where the number of streams is not given."""
MAX_LANES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The columns of a write, without those fixed by its partition; BLOBs are kept apart.

    ``conversions`` holds for plain columns and for values beside nested blobs. ``image_format`` is
    what pictures and arrays in BLOB columns become.
    """

    table: TableName
    columns: TableSchema
    fixed: PartitionSpec = field(default_factory=PartitionSpec)
    conversions: Conversions = AS_THEY_ARE
    image_format: ImageFormat = PNG

    @classmethod
    def of(
        cls,
        schema: TableSchema,
        table: TableName,
        fixed: PartitionSpec,
        *,
        conversions: Conversions = AS_THEY_ARE,
        image_format: ImageFormat = PNG,
    ) -> Target:
        """Make the target of a table; partition columns not fixed become required."""
        keys = {key for key, _ in fixed}
        dynamic = [_required(c) for c in schema.partition_columns if c.name not in keys]
        columns = TableSchema(columns=schema.columns, partition_columns=tuple(dynamic))
        return cls(
            table=table,
            columns=columns,
            fixed=fixed,
            conversions=conversions,
            image_format=image_format,
        )

    @property
    def plain(self) -> TableSchema:
        """The columns without BLOBs."""
        return TableSchema(
            columns=tuple(c for c in self.columns.columns if not has_blob(c.type)),
            partition_columns=self.columns.partition_columns,
        )

    @property
    def blobs(self) -> tuple[Column, ...]:
        """The columns that are or hold BLOBs."""
        return tuple(c for c in self.columns.columns if has_blob(c.type))


def _required(column: Column) -> Column:
    return replace(column, nullable=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some rows: plain columns as a converted batch, BLOB columns as lists of Python objects."""

    rows: int
    plain: pa.RecordBatch
    cells: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    first_row: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteInput:
    """The rows of a write, as lanes: one write stream each, written in parallel.

    ``rows`` and ``nbytes`` are ``None`` for data that is a stream itself, which has one lane.
    ``blob_bytes`` are those of all blobs, where files and bytes in memory tell them.
    """

    lanes: tuple[Iterable[Chunk], ...]
    rows: int | None = None
    nbytes: int | None = None
    blob_bytes: int | None = None


def is_spark(data: Any) -> bool:
    """Whether this is a Spark DataFrame; Spark is not imported for it."""
    return _is_from(data, "pyspark") and hasattr(data, "sparkSession")


def is_pandas(data: Any) -> bool:
    """Whether this is a pandas DataFrame or a kind of it; pandas is not imported for it."""
    return _is_from(data, "pandas") and hasattr(data, "columns")


def _is_from(data: Any, package: str) -> bool:
    return any(one.__module__.split(".")[0] == package for one in type(data).__mro__)


def open_input(data: Any, target: Target, *, workers: int | None = None) -> WriteInput:
    """Return the rows of ``data``, converted to the types of the target.

    Raises
    ------
    ConversionError
        Columns, types or values that do not fit, or data of a kind that has no rows.
    ArgumentError
        A partition column is neither fixed nor in the data.
    """
    if is_pandas(data):
        _require_columns(data.columns, target)
        return _of_frame(data, target, workers)
    arrow = as_arrow(data)
    _require_columns(arrow.schema.names, target)
    if isinstance(arrow, pa.RecordBatchReader):
        return WriteInput(lanes=(_stream_chunks(arrow, target),))
    return _of_table(_without_fixed(arrow, target), target, workers)


def as_arrow(data: Any) -> pa.Table | pa.RecordBatchReader:
    """Return data with an Arrow interface as a table or a stream; refuse other data."""
    if isinstance(data, (pa.Table, pa.RecordBatchReader)):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    # An array or a Series (one column without a name) has these interfaces, too.
    with contextlib.suppress(pa.ArrowInvalid, TypeError):
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    raise ConversionError(
        f"a {type(data).__name__} cannot be written",
        source_type=type(data).__name__,
        hint="pass a pandas, polars or Spark DataFrame, a DuckDB relation, or an Arrow table, "
        "batch or reader",
    )


def _require_columns(names: Iterable[Any], target: Target) -> None:
    names = [str(name) for name in names]
    present = {name.casefold() for name in names}
    if not present - {key.casefold() for key, _ in target.fixed}:
        raise ConversionError(
            "the data has no columns to write",
            hint=f"the table's columns are: {', '.join(target.columns.names[:20])}",
        )
    require_partition_columns(names, target)


def require_partition_columns(names: Iterable[str], target: Target) -> None:
    """Refuse data that lacks a partition column that is not fixed either.

    Raises
    ------
    ArgumentError
        One is in neither; it is named.
    """
    present = {name.casefold() for name in names}
    for column in target.columns.partition_columns:
        if column.name.casefold() not in present:
            raise ArgumentError(
                f"{target.table} is partitioned by {column.name!r}, which is not in the data",
                code="InvalidPartitionSpec",
                hint=f"pass partition='{column.name}=…', or add the column to the data",
            )


def check_named_partitions(rows: pa.Table | pa.RecordBatch, target: Target) -> None:
    """Refuse rows whose values name partitions that no request could name.

    Raises
    ------
    ArgumentError
        See `odps_nb.terms.check_partition_value`; the column is named.
    """
    for column in target.columns.partition_columns:
        values = rows.column(column.name)
        if pa.types.is_string(values.type):  # values of other types have one text form
            for value in pc.unique(values):
                check_partition_value(column.name, value.as_py())


# -- columns that the partition fixes -----------------------------------------------------------


def check_fixed(table: pa.Table | pa.RecordBatch, target: Target) -> list[str]:
    """Return the columns that repeat the fixed partition.

    Raises
    ------
    ConversionError
        One of them contradicts it.
    """
    fixed = {key.casefold(): (key, value) for key, value in target.fixed}
    repeated = [name for name in table.schema.names if name.casefold() in fixed]
    for name in repeated:
        key, value = fixed[name.casefold()]
        column = table.column(name)
        if isinstance(column.type, pa.DictionaryType):  # of views, Arrow casts none
            column = pa.array(column.to_pylist())
        same = pc.equal(column.cast(pa.string()), pa.scalar(value))
        if column.null_count or not pc.all(same).as_py():
            raise ConversionError(
                f"the column {name!r} has other values than the partition {target.fixed}",
                column=name,
                hint=f"drop the column, or leave {key!r} out of partition=",
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


def _of_frame(frame: pd.DataFrame, target: Target, workers: int | None) -> WriteInput:
    from odps_nb.convert.pandas_frame import from_pandas

    frame = _frame_without_fixed(frame, target)
    named = {str(name).casefold(): name for name in frame.columns}
    cells: dict[str, list[Any]] = {}
    for column in target.blobs:
        name = named.get(column.name.casefold())
        given = cells_of(None if name is None else frame[name], len(frame))
        cells[column.name] = _checked(given, column, target)
        frame = frame if name is None else frame.drop(columns=[name])
    rows = len(frame)
    if len(frame.columns):
        plain = from_pandas(frame, target.plain, conversions=target.conversions)
    else:
        plain = _absent(rows, target)
    return _in_memory(plain, rows, cells, target, workers)


def _of_table(table: pa.Table, target: Target, workers: int | None) -> WriteInput:
    named = {name.casefold(): name for name in table.schema.names}
    cells: dict[str, list[Any]] = {}
    rows = table.num_rows
    for column in target.blobs:
        name = named.get(column.name.casefold())
        if name is not None and table.column(name).null_count < rows:
            check_leaf_types(table.schema.field(name).type, column)
        given = cells_of(None if name is None else table.column(name), rows)
        cells[column.name] = _checked(given, column, target)
        table = table if name is None else table.drop_columns([name])
    if table.num_columns:
        plain = fit_table(table, target.plain, conversions=target.conversions)
    else:
        plain = _absent(rows, target)
    return _in_memory(plain, rows, cells, target, workers)


def _absent(rows: int, target: Target) -> pa.Table:
    """Return nulls for all plain columns, for data that has only BLOB columns."""
    match_names([], target.plain)  # raises if one of them is required
    wanted = arrow_schema(target.plain, for_write=True)
    return pa.table([pa.nulls(rows, field.type) for field in wanted], schema=wanted)


def _checked(given: list[Any], column: Column, target: Target) -> list[Any]:
    """Check cells, and other values beside nested blobs, with empty references in their place."""
    cells = check_cells(given, column, image_format=target.image_format)
    if column.type.code is not TypeCode.BLOB:
        empty = [map_blobs(cell, column.type, lambda _leaf, _path: b"") for cell in cells]
        cells_as_array(empty, column, conversions=target.conversions)
    return cells


def _in_memory(
    plain: pa.Table,
    rows: int,
    cells: Mapping[str, list[Any]],
    target: Target,
    workers: int | None,
) -> WriteInput:
    check_named_partitions(plain, target)
    if workers is None:
        workers = 1 if target.blobs else min(MAX_LANES, 1 + plain.nbytes // LANE_BYTES)
    workers = max(1, min(workers, rows))
    step = BLOB_ROWS if target.blobs else FIT_ROWS
    bounds = [rows * n // workers for n in range(workers + 1)]
    lanes = tuple(
        _slices(plain, cells, low, high, step) for low, high in itertools.pairwise(bounds)
    )
    blob_bytes = sizes_of(itertools.chain.from_iterable(cells.values()))
    return WriteInput(lanes=lanes, rows=rows, nbytes=plain.nbytes, blob_bytes=blob_bytes)


def _slices(
    plain: pa.Table, cells: Mapping[str, list[Any]], low: int, high: int, step: int
) -> Iterator[Chunk]:
    for start in range(low, high, step):
        count = min(step, high - start)
        part = plain.slice(start, count).combine_chunks().to_batches()
        yield Chunk(
            rows=count,
            plain=part[0] if part else pa.record_batch([], schema=plain.schema),
            cells={name: column[start : start + count] for name, column in cells.items()},
            first_row=start,
        )


# -- streams ------------------------------------------------------------------------------------


def _stream_chunks(reader: pa.RecordBatchReader, target: Target) -> Iterator[Chunk]:
    names = {column.name.casefold() for column in target.blobs}
    fixed = {key.casefold() for key, _ in target.fixed}
    aside = names | fixed
    plain_schema = pa.schema([f for f in reader.schema if f.name.casefold() not in aside])
    places = match_names(plain_schema.names, target.plain)
    names_in = [None if place is None else plain_schema.names[place] for place in places]
    return _read_chunks(reader, target, names_in)


def _read_chunks(
    reader: pa.RecordBatchReader, target: Target, names_in: Sequence[str | None]
) -> Iterator[Chunk]:
    row = 0
    with reader:
        for batch in reader:
            step = BLOB_ROWS if target.blobs else max(1, batch.num_rows)
            for start in range(0, batch.num_rows, step):
                part = _without_fixed(batch.slice(start, step), target)
                yield _stream_chunk(part, target, names_in, row)
                row += part.num_rows


def _stream_chunk(
    batch: pa.RecordBatch, target: Target, names_in: Sequence[str | None], first_row: int
) -> Chunk:
    named = {name.casefold(): name for name in batch.schema.names}
    cells: dict[str, list[Any]] = {}
    for column in target.blobs:
        name = named.get(column.name.casefold())
        if name is not None and batch.column(name).null_count < batch.num_rows:
            check_leaf_types(batch.schema.field(name).type, column)
        given = cells_of(None if name is None else batch.column(name), batch.num_rows)
        cells[column.name] = check_cells(
            given, column, first_row=first_row, image_format=target.image_format
        )
    places = [None if name is None else batch.schema.get_field_index(name) for name in names_in]
    plain = fit_batch(
        batch, target.plain, places=places, first_row=first_row, conversions=target.conversions
    )
    check_named_partitions(plain, target)
    return Chunk(rows=batch.num_rows, plain=plain, cells=cells, first_row=first_row)
