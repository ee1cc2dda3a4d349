"""Converts table schemas to Arrow schemas and back, and data to the schema of a table.

Single types are in `odps_nb.convert.arrow_types`, the conversion rules in `odps_nb.convert.fit`;
here are names, order, nulls and the one error that lists everything that does not fit.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.convert.arrow_types import arrow_type, odps_type
from odps_nb.convert.fit import KindError, ValueMisfit, check_kind, fit_array, misfits
from odps_nb.convert.times import zoned_type
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, TableSchema
from odps_nb.wire.type_text import format_type

__all__ = [
    "arrow_schema",
    "arrow_type",
    "fit_batch",
    "fit_table",
    "match_columns",
    "misfit_error",
    "odps_type",
    "table_schema",
]

MAX_LISTED = 8
FIT_ROWS = 65_536
_SHOWN = 60


def arrow_schema(
    schema: TableSchema | Iterable[Column],
    *,
    timestamp_unit: str = "ns",
    datetime_unit: str = "ms",
    timezone: str | None = None,
    for_write: bool = False,
) -> pa.Schema:
    """Return the Arrow schema of a table (data columns, then partition columns).

    The arguments are those of `odps_nb.convert.arrow_types.arrow_type`; with a ``timezone``,
    instants are shown in it.
    """
    fields = []
    for column in schema:
        arrow = arrow_type(
            column.type,
            timestamp_unit=timestamp_unit,
            datetime_unit=datetime_unit,
            for_write=for_write,
        )
        if timezone is not None:
            arrow = zoned_type(arrow, column.type, timezone)
        fields.append(pa.field(column.name, arrow, nullable=column.nullable))
    return pa.schema(fields)


def table_schema(schema: pa.Schema) -> TableSchema:
    """Return the table schema whose columns hold what an Arrow schema describes.

    Raises
    ------
    ConversionError
        A field has a type that MaxCompute lacks, or two fields have one name.
    """
    columns: list[Column] = []
    for field in schema:
        try:
            found = odps_type(field.type)
        except ConversionError as error:
            error.column = field.name
            error.add_note(f"column {field.name!r}")
            raise
        columns.append(Column(name=field.name, type=found, nullable=field.nullable))
    _refuse_twins([column.name for column in columns])
    return TableSchema(columns=tuple(columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misfit:
    column: str
    source: str
    target: str
    reason: str
    row: int | None = None
    value: str | None = None

    def __str__(self) -> str:
        where = self.column if self.row is None else f"{self.column}[{self.row}]"
        value = "" if self.value is None else f" = {self.value}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{where}{value} ({self.source} → {self.target}){reason}"


def misfit_error(found: Sequence[_Misfit]) -> ConversionError:
    """Make the error that lists columns, rows, values and wanted types."""
    listed = "; ".join(str(one) for one in found[:MAX_LISTED])
    more = f"; and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    first = found[0]
    return ConversionError(
        f"the data does not fit the table: {listed}{more}",
        column=first.column,
        source_type=first.source,
        target_type=first.target,
        row=first.row,
        hint="cast these columns before writing; nothing was written",
    )


def match_columns(source: pa.Schema, target: TableSchema) -> tuple[int | None, ...]:
    """Return the field for each column, by name in any case; ``None``: filled with nulls.

    Raises
    ------
    ConversionError
        A field that the table lacks, a required column that is absent, a name that occurs
        twice, or types that can never fit: all of them in one error.
    """
    _refuse_twins(source.names)
    places = {name.casefold(): index for index, name in enumerate(source.names)}
    names = list(target.names)
    known = {name.casefold() for name in names}
    if strangers := [name for name in source.names if name.casefold() not in known]:
        raise _unknown_columns(strangers, names)
    found: list[_Misfit] = []
    matched = []
    for column in target:
        place = places.get(column.name.casefold())
        matched.append(place)
        wanted = format_type(column.type)
        if place is None:
            if not column.nullable:
                found.append(
                    _Misfit(
                        column=column.name, source="absent", target=f"{wanted} not null", reason=""
                    )
                )
            continue
        try:
            check_kind(source.field(place).type, column.type)
        except KindError as error:
            found.append(
                _Misfit(
                    column=column.name + error.path,
                    source=str(source.field(place).type),
                    target=wanted,
                    reason=str(error),
                )
            )
    if found:
        raise misfit_error(found)
    return tuple(matched)


def _refuse_twins(names: Sequence[str]) -> None:
    folded = [name.casefold() for name in names]
    twins = sorted({name for name in names if folded.count(name.casefold()) > 1})
    if twins:
        raise ConversionError(
            f"column names occur more than once: {', '.join(twins)}",
            column=twins[0],
            hint="rename or drop the repeated columns; names that differ only in case count as one",
        )


def _unknown_columns(strangers: Sequence[str], names: Sequence[str]) -> ConversionError:
    parts = []
    for stranger in strangers[:MAX_LISTED]:
        close = difflib.get_close_matches(stranger, names, n=1)
        parts.append(repr(stranger) + (f" (did you mean {close[0]!r}?)" if close else ""))
    return ConversionError(
        f"the table has no column {', '.join(parts)}",
        column=strangers[0],
        hint=f"its columns are: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}",
    )


def fit_batch(
    batch: pa.RecordBatch,
    schema: TableSchema,
    *,
    places: Sequence[int | None] | None = None,
    first_row: int = 0,
    timezone: str | None = None,
) -> pa.RecordBatch:
    """Return the batch with exactly the columns and types that a write of the table sends.

    Parameters
    ----------
    batch
        Any columns in any order; names are matched without regard to case.
    schema
        The columns that the write takes (dynamic partition columns included).
    places
        The answer of `match_columns` for this schema, where it is known already.
    first_row
        Number of the batch's first row in the whole of the data, for the error.
    timezone
        Whose clocks showed the times without a zone that become instants; ``None``: UTC.

    Raises
    ------
    ConversionError
        Lists column, row, value and wanted type of what does not fit.
    """
    chosen = match_columns(batch.schema, schema) if places is None else places
    arrays, found = _fit_columns(batch, schema, chosen, first_row, timezone)
    if found:
        raise misfit_error(_spread(found))
    return pa.record_batch(arrays, schema=_schema_of(arrays, schema))


def _schema_of(arrays: Sequence[pa.Array], schema: TableSchema) -> pa.Schema:
    """Return the schema of fitted columns: the table's, but with the units that the values need."""
    pairs = zip(schema, arrays, strict=True)
    return pa.schema([pa.field(c.name, array.type, nullable=c.nullable) for c, array in pairs])


def _fit_columns(
    batch: pa.RecordBatch,
    schema: TableSchema,
    places: Sequence[int | None],
    first_row: int,
    timezone: str | None,
) -> tuple[list[pa.Array], list[_Misfit]]:
    arrays: list[pa.Array] = []
    found: list[_Misfit] = []
    for column, place in zip(schema, places, strict=True):
        if place is None:
            arrays.append(pa.nulls(batch.num_rows, arrow_type(column.type, for_write=True)))
            continue
        array = batch.column(place)
        try:
            arrays.append(fit_array(array, column.type, timezone=timezone))
        except ValueMisfit:
            found += _misfits(array, column, first_row, timezone)
        if not column.nullable and array.null_count:
            found.append(_null_misfit(array, column, first_row))
    return arrays, found


def _misfits(
    array: pa.Array, column: Column, first_row: int, timezone: str | None
) -> list[_Misfit]:
    return [
        _Misfit(
            column=column.name,
            source=str(array.type),
            target=format_type(column.type),
            row=first_row + row,
            value=_shown(array, row),
            reason=reason,
        )
        for row, reason in misfits(array, column.type, timezone=timezone)
    ]


def _shown(array: pa.Array, row: int) -> str:
    try:
        return shorten(array[row].as_py())
    except (OverflowError, ValueError):  # Python's dates have a smaller range than Arrow's
        return shorten(array.slice(row, 1).cast(pa.string())[0].as_py())


def _null_misfit(array: pa.Array, column: Column, first_row: int) -> _Misfit:
    return _Misfit(
        column=column.name,
        source=str(array.type),
        target=f"{format_type(column.type)} not null",
        row=first_row + array.is_null().index(True).as_py(),
        value="null",
        reason="",
    )


def shorten(value: object) -> str:
    """Format a value for an error message, with limited length."""
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value)} bytes>"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def fit_table(table: pa.Table, schema: TableSchema, *, timezone: str | None = None) -> pa.Table:
    """Return the whole table fitted, or one error for everything that does not fit.

    ``timezone`` is that of times without a zone, as for `fit_batch`.

    Columns that fit already are not copied. All batches are checked before the error is raised, so
    that it lists the first problems of every column.
    """
    places = match_columns(table.schema, schema)
    fitted: list[list[pa.Array]] = []
    found: list[_Misfit] = []
    row = 0
    for batch in table.to_batches(max_chunksize=FIT_ROWS):
        arrays, wrong = _fit_columns(batch, schema, places, row, timezone)
        found += wrong
        if not found:
            fitted.append(arrays)
        row += batch.num_rows
    if found:
        raise misfit_error(_spread(found))
    if not fitted:
        return arrow_schema(schema, for_write=True).empty_table()
    columns = [
        _one_unit([arrays[place] for arrays in fitted], column)
        for place, column in enumerate(schema)
    ]
    wanted = _schema_of([parts[0] for parts in columns], schema)
    return pa.table([pa.chunked_array(parts) for parts in columns], schema=wanted)


def _one_unit(parts: list[pa.Array], column: Column) -> list[pa.Array]:
    """Cast all parts to the unit that one of them needs; they come from one Arrow type."""
    if len({part.type for part in parts}) == 1:
        return parts
    return [fit_array(part, column.type, unit="us") for part in parts]  # already instants here


def _spread(found: Sequence[_Misfit]) -> list[_Misfit]:
    """Put the first problem of every column first, so that the list shows each column."""
    seen: dict[str, int] = {}
    order = []
    for index, one in enumerate(found):
        seen[one.column] = seen.get(one.column, 0) + 1
        order.append((seen[one.column], index))
    return [found[index] for _, index in sorted(order)]
