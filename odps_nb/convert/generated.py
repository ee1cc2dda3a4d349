"""Computes the partition column of rows that are written to an auto-partitioned table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.arrow.generated import generated_values
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import TableName

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def check_source(column: Column, names: Iterable[str], schema: TableSchema, of: TableName) -> None:
    """Refuse data without a partition column that cannot be computed of the data."""
    made = column.generated
    assert made is not None
    source = schema.source_of(column)
    way = f"pass partition='{column.name}=…', or INSERT by SQL, which computes it on the service"
    if source is None:
        raise ArgumentError(
            f"{of} is partitioned by {column.name!r}, which the service makes of {made.text}: "
            "only trunc_time of a column and a unit is computed here",
            code="InvalidPartitionSpec",
            hint=f"add the column {column.name!r} to the data, {way}",
        )
    if source.name.casefold() not in names:
        raise ArgumentError(
            f"{of} is partitioned by {column.name!r}, which is made of {made.text}, and "
            f"{source.name!r} is not in the data",
            code="InvalidPartitionSpec",
            hint=f"add the column {source.name!r} to the data, {way}",
        )


def fill_generated(rows: Rows, schema: TableSchema, first_row: int = 0) -> Rows:
    """Return converted rows with the computed values of generated partition columns."""
    for column in schema.partition_columns:
        made, source = column.generated, schema.source_of(column)
        if made is None or source is None:
            continue  # the data has the values, else `check_source` has raised
        place = rows.schema.get_field_index(column.name)
        times, given = rows.column(source.name), rows.column(column.name)
        if isinstance(times, pa.ChunkedArray):
            times, given = times.combine_chunks(), given.combine_chunks()
        values = generated_values(made, times)
        other = pc.fill_null(pc.not_equal(given, values), fill_value=False)
        if pc.any(other).as_py():
            row = pc.index(other, True).as_py()
            raise ConversionError(
                f"the column {column.name!r} has {given[row].as_py()!r} in row {first_row + row}, "
                f"where {made.text} is {values[row].as_py()!r} (of the time in UTC)",
                column=column.name,
                row=first_row + row,
                hint=f"leave the column out of the data, or pass partition='{column.name}=…'",
            )
        rows = rows.set_column(place, rows.schema.field(place), values)
    return rows
