"""Provides the stored rows that a query reads, and converts its result to MaxCompute types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.arrow.leaves import with_leaf_types
from odps_nb.local import errors
from odps_nb.local.sql.duck_types import StoredRows, duck_type, result_array, result_type
from odps_nb.local.sql.queries import QueryRun
from odps_nb.local.store.arrow_types import arrow_schema, constant
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.row_files import FAR, FINE, RowFile, RowFileWriter
from odps_nb.local.store.snapshots import Segment
from odps_nb.local.store.tables import StoredTable
from odps_nb.schema import Column, OdpsType, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import TimeUnit
from odps_nb.wire.type_text import format_type

if TYPE_CHECKING:  # `query` imports sqlglot, which only queries need
    from odps_nb.local.sql.query import TranslatedQuery

DIGITS = 38
STRING = PrimitiveType(TypeCode.STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRows:
    """Result rows of a query, produced lazily."""

    schema: TableSchema
    batches: Iterator[pa.RecordBatch]


def stored_rows(folder: DataFolder, table: StoredTable, segments: Sequence[Segment]) -> StoredRows:
    """Return the visible rows of a table, with partition columns, as a picklable value."""
    far = any(segment.name.endswith(FAR) for segment in segments)
    unit = TimeUnit.MICRO if far else TimeUnit.NANO
    schema = arrow_schema(table.schema, timestamp_unit=unit)
    types = {c.name: c.type for c in table.schema.partition_columns}
    files = []
    for segment in segments:
        condition: Any = None
        for key, value in segment.spec:
            comparison = pc.field(key) == constant(value, types[key], key)
            condition = comparison if condition is None else condition & comparison
        files.append((str(folder.row_file(segment.name)), condition))
    fields = [pa.field(field.name, with_leaf_types(field.type, None, _narrow)) for field in schema]
    mixed = far and any(segment.name.endswith(FINE) for segment in segments)
    return StoredRows(
        schema=pa.schema(fields), files=tuple(files), mixed=mixed, stored=table.stored
    )


def _narrow(kind: pa.DataType, _odps: OdpsType | None) -> pa.DataType:
    """Return the type for DuckDB; decimals have at most 38 digits. Reading larger values fails."""
    is_wide = pa.types.is_decimal256(kind) and kind.scale <= DIGITS
    return pa.decimal128(DIGITS, kind.scale) if is_wide else kind


def _stored_types(query: TranslatedQuery) -> dict[str, OdpsType]:
    """Return the stored types of columns by name; omit a name with several types."""
    types: dict[str, OdpsType | None] = {}
    for table in query.named:
        for column in table.schema:
            key = column.name.casefold()
            same = types.setdefault(key, column.type)
            if same != column.type:
                types[key] = None
    return {key: odps for key, odps in types.items() if odps is not None}


def typed_rows(run: QueryRun, query: TranslatedQuery) -> ResultRows:
    """Return a query's rows, converted lazily to MaxCompute types."""
    described, stored = run.describe(query.sql), _stored_types(query)
    columns = []
    names: set[str] = set()
    for index, (name, spelled) in enumerate(zip(described.columns, described.types, strict=True)):
        arrow = described.schema.field(index).type
        odps = result_type(spelled, arrow)
        if query.kind(index, len(described.columns)) == "TIMESTAMPNTZ" and pa.types.is_timestamp(
            arrow
        ):
            odps = PrimitiveType(TypeCode.TIMESTAMP_NTZ)
        source = name if query.plain_columns is None else query.plain_columns[index]
        stored_type = stored.get((source or "").casefold())
        if stored_type is not None and _plain_spelling(duck_type(stored_type)) == _plain_spelling(
            spelled
        ):
            odps = stored_type
        shown = name
        while shown.casefold() in names:
            shown = f"{shown}_{index}"
        names.add(shown.casefold())
        columns.append(Column(name=shown, type=odps))

    def typed() -> Iterator[pa.RecordBatch]:
        for batch in run.batches(query.sql):
            arrays = list(map(result_array, batch.columns, (column.type for column in columns)))
            fields = [
                pa.field(column.name, array.type, column.nullable)
                for array, column in zip(arrays, columns, strict=True)
            ]
            yield pa.record_batch(arrays, schema=pa.schema(fields))

    return ResultRows(schema=TableSchema(columns=tuple(columns)), batches=typed())


def explained(run: QueryRun, query: TranslatedQuery) -> ResultRows:
    """Return the output of EXPLAIN for a valid query: the tables that it reads, and its columns."""
    tables = sorted({str(table.name) for table in query.named})
    columns = typed_rows(run, query).schema.columns
    shown = [f"table: {name}" for name in tables]
    shown += [f"column: {column.name} {format_type(column.type)}" for column in columns]
    return text_rows(("plan",), [(line,) for line in shown])


def output_of(run: QueryRun, query: TranslatedQuery) -> ResultRows:
    """Return the columns of a valid query as JSON (the vendor's ODBC driver, ``client.cpp``)."""
    columns = [
        {"name": column.name, "type": format_type(column.type)}
        for column in typed_rows(run, query).schema.columns
    ]
    return text_rows(("output",), [(json.dumps({"columns": columns}, ensure_ascii=False),)])


def _plain_spelling(spelled: str) -> str:
    """Return a DuckDB type with blanks and quotes removed (DuckDB uses them inconsistently)."""
    return spelled.replace(" ", "").replace('"', "")


def text_rows(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> ResultRows:
    """Return ``rows`` as result rows with STRING columns."""
    schema = TableSchema(columns=tuple(Column(name=name, type=STRING) for name in names))
    arrays = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(names))]
    batch = pa.record_batch(arrays, schema=arrow_schema(schema.columns))
    return ResultRows(schema=schema, batches=iter([batch] if rows else []))


class FarResult(Exception):
    """Raised when a time of the result is outside the nanosecond range."""


def write_rows(
    folder: DataFolder, rows: ResultRows, unit: TimeUnit, check: Callable[[], None]
) -> RowFile:
    """Write the rows of a result into a row file. ``check`` raises if the job was cancelled."""
    batches = iter(rows.batches)
    first = list(islice(batches, 1))
    schema = arrow_schema(rows.schema.columns, timestamp_unit=unit)
    if first and first[0].schema != schema:  # choose the unit before writing rows
        unit = TimeUnit.MICRO
        schema = arrow_schema(rows.schema.columns, timestamp_unit=unit)
    with RowFileWriter(folder, schema) as writer:
        for batch in chain(first, batches):
            check()
            if unit is TimeUnit.NANO and batch.schema != schema:
                raise FarResult
            writer.write(_in_unit(batch, schema))
        return writer.finish("" if unit is TimeUnit.NANO else FAR)


def _in_unit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with its times converted to the unit of the result."""
    try:
        return batch if batch.schema == schema else batch.cast(schema)
    except pa.ArrowInvalid as error:
        raise errors.invalid(
            "in the result, some TIMESTAMPs are outside the range of nanoseconds and others have "
            f"digits below a microsecond, so no unit fits both; cast them to DATETIME ({error})"
        ) from None
