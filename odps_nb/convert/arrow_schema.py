"""Converts table schemas to Arrow schemas and back, and data to a table's schema.

`odps_nb.arrow.types` and `odps_nb.convert.arrow_types` convert single types, and
`odps_nb.convert.fitting` converts values. This module matches column names and raises a single
error for all values that do not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from odps_nb.arrow.types import arrow_type
from odps_nb.convert.arrow_types import odps_type
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.fitting.misfit import Misfit, ValueMisfit, shorten
from odps_nb.convert.fitting.nested import KindError, check_kind, fit_array
from odps_nb.convert.fitting.objects import fit_objects
from odps_nb.convert.foreign import check_field
from odps_nb.convert.times import zoned_type
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, OdpsType, TableSchema, is_readable, quote_name
from odps_nb.terms import did_you_mean, listed_columns
from odps_nb.wire.control.table_limits import is_column_name
from odps_nb.wire.type_text import format_type

MAX_LISTED = 8
FIT_ROWS = 65_536


def arrow_schema(
    schema: TableSchema | Iterable[Column],
    *,
    timestamp_unit: str = "ns",
    datetime_unit: str = "ms",
    timezone: str | None = None,
    for_write: bool = False,
) -> pa.Schema:
    """Return a table's Arrow schema (data columns, then partition columns).

    The arguments are those of `odps_nb.arrow.types.arrow_type`. If ``timezone`` is set,
    the types of instants have that time zone.
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


def require_arrow_types(columns: Iterable[Column], what: str) -> None:
    """Raise `ConversionError` if a column's Arrow type is not known before rows arrive.

    ``what`` names the feature that needs the types; the error's hint lists the columns whose types
    are known.
    """
    columns = tuple(columns)
    known = [column.name for column in columns if is_readable(column.type)]
    for column in columns:
        if column.name not in known:
            text = format_type(column.type)
            raise ConversionError(
                f"{what} needs Arrow types before rows arrive, but the type of column "
                f"{column.name!r} ({text}) is not known yet",
                column=column.name,
                source_type=text,
                hint=f"read only the other columns: read(columns={known})"
                if known
                else "read it with to_arrow(), which returns the column as sent",
            )


def table_schema(schema: pa.Schema) -> TableSchema:
    """Return the table schema for data with an Arrow schema."""
    for field in schema:
        check_field(field)
    columns = tuple(
        Column(name=field.name, type=column_type(field.type, field.name), nullable=field.nullable)
        for field in schema
    )
    refuse_repeated_names([column.name for column in columns])
    return TableSchema(columns=columns)


def column_type(arrow: pa.DataType, name: str) -> OdpsType:
    """Return the column type for values of an Arrow type."""
    try:
        return odps_type(arrow)
    except ConversionError as error:
        error.column = name
        error.add_note(f"column {name!r}")
        raise


def misfit_error(found: Sequence[Misfit], *, whole: bool = True) -> ConversionError:
    """Create the error that lists columns, rows, values and expected types.

    ``whole``: whether no rows were sent before, so that the hint can say that nothing was written.
    """
    listed = "; ".join(str(misfit) for misfit in found[:MAX_LISTED])
    more = f"; and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    first = found[0]
    hints = list(dict.fromkeys((misfit.column, misfit.hint) for misfit in found[:MAX_LISTED]))
    if len({hint for _, hint in hints}) == 1:
        to_do = first.hint
    else:
        to_do = "; ".join(f"{column}: {hint}" for column, hint in hints)
    return ConversionError(
        f"the data does not fit the table: {listed}{more}",
        column=first.column,
        source_type=first.source,
        target_type=first.target,
        row=first.row,
        path=first.path or None,
        hint=f"{to_do}; nothing was written" if whole else to_do,
    )


def match_names(names: Sequence[str], target: TableSchema) -> tuple[int | None, ...]:
    """Return the position of each column in ``names``, ignoring case; ``None`` if absent."""
    refuse_repeated_names(names)
    refuse_unknown(names, target)
    positions = {name.casefold(): index for index, name in enumerate(names)}
    matched = tuple(positions.get(column.name.casefold()) for column in target)
    absent = [
        Misfit(
            column=column.name,
            source="absent",
            target=f"{format_type(column.type)} not null",
            hint="add the column to the data",
        )
        for column, position in zip(target, matched, strict=True)
        if position is None and not column.nullable
    ]
    if absent:
        raise misfit_error(absent)
    return matched


def match_columns(
    source: pa.Schema,
    target: TableSchema,
    conversions: Conversions = AS_THEY_ARE,
    hint: Callable[[Column, pa.DataType], str] | None = None,
) -> tuple[int | None, ...]:
    """Match fields to columns like `match_names`; raise for a type whose values can never fit.

    Use this function for data whose rows do not exist yet, as in Spark. If rows exist, check their
    values instead, because a column of nulls fits regardless of its type. ``hint`` returns the hint
    for a column, given the type of its field; by default, hints name functions of pandas.
    """
    refuse_unknown(source.names, target, lambda name: odps_type(source.field(name).type))
    matched = match_names(source.names, target)
    misfits: list[Misfit] = []
    for column, position in zip(target, matched, strict=True):
        if position is None:
            continue
        given = source.field(position).type
        try:
            check_kind(given, column.type, conversions=conversions)
        except KindError as error:
            misfits.append(
                Misfit(
                    column=column.name + error.path,
                    source=str(given),
                    target=format_type(column.type),
                    reason=str(error),
                    hint=error.hint if hint is None else hint(column, given),
                )
            )
    if misfits:
        raise misfit_error(misfits)
    return matched


def require_unicode(name: str) -> None:
    """Raise `ConversionError` for a column name with unpaired surrogates."""
    shown = name.encode(errors="replace").decode()
    if shown != name:
        raise ConversionError(
            f"the column name {name!r} is not valid Unicode",
            column=shown,
            hint="rename the column",
        )


def refuse_repeated_names(names: Sequence[str]) -> None:
    """Raise `ConversionError` if a name occurs twice, ignoring case."""
    folded = [name.casefold() for name in names]
    repeated = sorted({name for name in names if folded.count(name.casefold()) > 1})
    if repeated:
        raise ConversionError(
            f"column names occur more than once: {', '.join(repeated)}",
            column=repeated[0],
            hint="rename or drop the repeated columns; names are not case-sensitive",
        )


def refuse_unknown(
    names: Sequence[str],
    target: TableSchema,
    type_of: Callable[[str], OdpsType] | None = None,
) -> None:
    """Raise `ConversionError` for columns that the table lacks.

    ``type_of`` returns the type of a column of the data, so that the hint can name it.
    """
    unknown = [name for name in names if target.find(name) is None]
    if not unknown:
        return
    known, parts = target.names, []
    for unknown_name in unknown[:MAX_LISTED]:
        meant = did_you_mean(unknown_name, known).rstrip()
        parts.append(repr(unknown_name) + (meant and f" ({meant})"))
    raise ConversionError(
        f"the table has no column {', '.join(parts)}",
        column=unknown[0],
        hint=f"use its columns: {listed_columns(known)}"
        + way_to_add(unknown[:MAX_LISTED], type_of),
    )


def way_to_add(names: Sequence[str], type_of: Callable[[str], OdpsType] | None) -> str:
    """Return the end of a hint that says how to add columns; empty if that is not possible."""
    if type_of is None or not all(map(is_column_name, names)):
        return ""
    try:
        text = ", ".join(f"{quote_name(name)} {type_of(name)}" for name in names)
    except ConversionError:
        return ""
    pronoun = "it" if len(names) == 1 else "them"
    return f"; or add {pronoun} with table.add_columns({text!r})"


Source = Callable[[int, Column], "list[pa.Array]"]
"""Returns the source column at a position as arrays of a column's type; may raise `ValueMisfit`."""


def fit_batch(
    batch: pa.RecordBatch,
    schema: TableSchema,
    *,
    places: Sequence[int | None] | None = None,
    first_row: int = 0,
    conversions: Conversions = AS_THEY_ARE,
) -> pa.RecordBatch:
    """Return the batch with the exact columns and types that a write sends."""

    def source(position: int, column: Column) -> list[pa.Array]:
        check_field(batch.schema.field(position), column.type)
        return [fit_array(batch.column(position), column.type, conversions=conversions)]

    chosen = match_names(batch.schema.names, schema) if places is None else places
    arrays = [parts[0] for parts in _fit_columns(source, schema, chosen, batch.num_rows, first_row)]
    return pa.record_batch(arrays, schema=_schema_of(arrays, schema))


def fit_table(
    table: pa.Table,
    schema: TableSchema,
    *,
    first_row: int = 0,
    conversions: Conversions = AS_THEY_ARE,
) -> pa.Table:
    """Return the table converted to the schema's types; raise one error for values that do not fit.

    Columns that already fit are not copied. The error is raised after all columns have been
    checked, and lists the first problems of each column. ``first_row`` is the number of the first
    row within all data, for errors.
    """

    def source(position: int, column: Column) -> list[pa.Array]:
        check_field(table.schema.field(position), column.type)
        return fit_chunks(table.column(position), column.type, conversions)

    names = table.schema.names
    return fit_columns(source, names, table.num_rows, schema, first_row=first_row)


def fit_columns(
    source: Source, names: Sequence[str], rows: int, schema: TableSchema, *, first_row: int = 0
) -> pa.Table:
    """Fetch columns by position and return them as a converted table; raise like `fit_table`.

    ``first_row`` is the number of the first row within all data, for errors.
    """
    columns = _fit_columns(source, schema, match_names(names, schema), rows, first_row)
    if not rows:
        return arrow_schema(schema, for_write=True).empty_table()
    fitted_schema = _schema_of([parts[0] for parts in columns], schema)
    return pa.table([pa.chunked_array(parts) for parts in columns], schema=fitted_schema)


def fit_chunks(
    column: pa.ChunkedArray | pa.Array, target: OdpsType, conversions: Conversions
) -> list[pa.Array]:
    """Return a column's chunks converted to one type."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    pieces = [
        chunk.slice(start, FIT_ROWS) for chunk in chunks for start in range(0, len(chunk), FIT_ROWS)
    ]
    return fit_pieces(pieces, target, conversions, fit_array)


def fit_pieces(
    pieces: Sequence[Any], target: OdpsType, conversions: Conversions, fit: Callable[..., pa.Array]
) -> list[pa.Array]:
    """Return pieces of a column, arrays or lists of objects, converted to one type by ``fit``.

    A piece with more than 2 GiB of text or bytes, which an Arrow array cannot hold, is halved.
    """

    def parts(unit: str | None) -> list[pa.Array]:
        fitted, misfits, begin = [], [], 0
        waiting = [*reversed(pieces)]
        while waiting:
            piece = waiting.pop()
            try:
                fitted.append(fit(piece, target, unit=unit, conversions=conversions))
            except ValueMisfit as error:
                misfits += [
                    replace(misfit, position=misfit.position + begin) for misfit in error.found
                ]
            except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
                if len(piece) == 1:
                    raise ValueMisfit([_unconverted(piece, begin, target, error)]) from None
                waiting += [piece[len(piece) // 2 :], piece[: len(piece) // 2]]
                continue
            begin += len(piece)
        if misfits:
            raise ValueMisfit(misfits)
        return fitted

    fitted = parts(None)
    # If one piece needs microseconds, all pieces are sent in microseconds.
    return fitted if len({part.type for part in fitted}) <= 1 else parts("us")


def _unconverted(piece: Sequence[Any], row: int, target: OdpsType, error: Exception) -> Misfit:
    return Misfit(
        position=row,
        value=shorten(piece[0]),
        source=str(getattr(piece, "type", type(piece[0]).__name__)),
        target=format_type(target),
        reason=f"Arrow cannot convert it: {error}",
        hint="shorten it, or cast the column first",
    )


def _fit_columns(
    source: Source,
    schema: TableSchema,
    positions: Sequence[int | None],
    rows: int,
    first_row: int,
) -> list[list[pa.Array]]:
    columns: list[list[pa.Array]] = []
    misfits: list[Misfit] = []
    for column, position in zip(schema, positions, strict=True):
        if position is None:
            columns.append([pa.nulls(rows, arrow_type(column.type, for_write=True))])
            continue
        try:
            columns.append(source(position, column))
        except ValueMisfit as error:
            misfits += [
                replace(misfit, column=column.name, position=first_row + misfit.position)
                for misfit in error.found
            ]
            continue
        if not column.nullable:
            misfits += _null_misfits(columns[-1], column, first_row)
    if misfits:
        seen: Counter[str] = Counter()

        def order(misfit: Misfit) -> int:  # begin with the first problem of every column
            seen[misfit.column] += 1
            return seen[misfit.column]

        raise misfit_error(sorted(misfits, key=order), whole=not first_row)
    return columns


def _schema_of(arrays: Sequence[pa.Array], schema: TableSchema) -> pa.Schema:
    """Return the converted columns' schema: the table's schema with the actual time units."""
    pairs = zip(schema, arrays, strict=True)
    return pa.schema([pa.field(c.name, array.type, nullable=c.nullable) for c, array in pairs])


def _null_misfits(parts: Sequence[pa.Array], column: Column, first_row: int) -> list[Misfit]:
    for part in parts:
        if part.null_count:
            return [
                Misfit(
                    column=column.name,
                    source="null",
                    target=f"{format_type(column.type)} not null",
                    position=first_row + part.is_null().index(True).as_py(),
                    value="null",
                    hint="fill the null, or drop the row",
                )
            ]
        first_row += len(part)
    return []


def fit_object_column(
    values: Sequence[object],
    column: Column,
    *,
    first_row: int = 0,
    conversions: Conversions = AS_THEY_ARE,
) -> pa.Array:
    """Convert Python objects to a column's type by the rules of `fit_objects`."""

    def source(_: int, column: Column) -> list[pa.Array]:
        return [fit_objects(values, column.type, conversions=conversions)]

    schema = TableSchema(columns=(column,))
    return _fit_columns(source, schema, [0], len(values), first_row)[0][0]
