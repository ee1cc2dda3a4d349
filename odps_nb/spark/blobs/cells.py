"""Converts the results of `blob_map` for one row to Arrow values, or to an error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.access.blob import NewBlob
from odps_nb.convert.arrow_types import odps_type
from odps_nb.convert.fitting.misfit import ValueMisfit
from odps_nb.convert.fitting.objects import fit_objects
from odps_nb.errors import ConversionError, explain
from odps_nb.terms import shorten

Row = dict[str, Any] | tuple[Any, ...] | None

_LONGEST_TEXT = 1000
_LONGEST_REFERENCE = 80


def ordered_row(row: Row, schema: pa.Schema) -> Iterable[Any]:
    """Return the values of a row in the order of the columns."""
    if row is None:
        return [None] * len(schema)
    if isinstance(row, dict):
        if unknown := row.keys() - set(schema.names):
            raise ConversionError(
                f"the function returned {sorted(map(str, unknown))[0]!r}, which is not a column",
                hint=f"return only these columns: {', '.join(schema.names)}",
            )
        return [row.get(name) for name in schema.names]
    if isinstance(row, tuple) and len(row) == len(schema):
        return row
    raise ConversionError(
        f"the function returned a value of type {type(row).__name__}"
        + (f" and length {len(row)}" if isinstance(row, tuple) else ""),
        target_type=f"dict, or tuple of {len(schema)}",
        hint="return a dict by column name, or a tuple with one value per column",
    )


def cell_of(value: Any, kind: pa.DataType) -> Any:
    """Convert a value for Arrow: `NewBlob` objects, also nested ones, become structs."""
    if isinstance(value, NewBlob):
        described = _described(value)
        return {n: v for n, v in described.items() if not pt.is_struct(kind) or n in kind.names}
    if pt.is_struct(kind):
        if isinstance(value, (bytes, bytearray, memoryview)):
            return {"data": value}
        if isinstance(value, dict):
            types = {member.name: member.type for member in kind}
            return {k: cell_of(v, types[k]) if k in types else v for k, v in value.items()}
    if pt.is_list(kind) and isinstance(value, (list, tuple)):
        return [cell_of(item, kind.value_type) for item in value]
    return value


def _described(blob: NewBlob) -> dict[str, Any]:
    from odps_nb.access.writing.blob_cells import content_of

    content = content_of(blob, None)  # type: ignore[arg-type]  # a NewBlob is never copied
    data = content.data
    if isinstance(data, Path):
        data = data.read_bytes()
    elif not isinstance(data, bytes):
        data = data.read()
    return {"data": data, "mime_type": content.mime_type, "file_name": content.file_name}


def size_of(value: Any) -> int:
    """Return the approximate size of a value in Arrow, in bytes."""
    if isinstance(value, (bytes, bytearray, memoryview, str)):
        return len(value)
    if isinstance(value, dict):
        return sum(size_of(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return sum(size_of(item) for item in value)
    return 8


def array_of(values: list[Any], field: pa.Field) -> pa.Array:
    """Return a column's values as an Arrow array; raise `ConversionError` if they do not fit."""
    try:
        fitted = fit_objects(values, odps_type(field.type), for_write=False)
        return fitted if fitted.type.equals(field.type) else fitted.cast(field.type)
    except ValueMisfit as error:
        first = error.found[0]
        reason = f"{field.name}{first.path} = {first.value}: {first.reason}"
    except pa.ArrowInvalid as error:  # e.g. nanoseconds, which Spark does not support
        reason = str(error)
    raise ConversionError(
        f"the values returned by the function for {field.name!r} do not fit the schema: {reason}",
        column=field.name,
        target_type=str(field.type),
        hint="return the types of the schema; declare NewBlob columns as odps_nb.spark.NEW_BLOB",
    )


def misfits(values: list[Any], field: pa.Field) -> dict[int, ConversionError]:
    """Return the indexes of the values that do not fit a column, each with its error."""
    errors = {}
    for index, value in enumerate(values):
        try:
            array_of([value], field)
        except ConversionError as error:
            errors[index] = error
    return errors


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobRow:
    """Identifies a row in errors; file name and request id are added when the blob arrives.

    ``row`` counts from 0 within the Spark partition ``task`` (``None`` outside Spark).
    """

    row: int
    task: int | None = None
    reference: str = field(default="", repr=False)
    file_name: str | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        shown = shorten(self.reference, _LONGEST_REFERENCE)
        row = f"row {self.row}" + ("" if self.task is None else f" of partition {self.task}")
        return " · ".join([row, f"reference {shown!r}", *self.of_blob()])

    def of_blob(self) -> list[str]:
        """Return the blob's file name and request id, if known."""
        file = [] if not self.file_name else [f"file {self.file_name!r}"]
        return file + ([] if not self.request_id else [f"request id {self.request_id}"])


class Made(NamedTuple):
    """The function's result for one row, or an error; ``place`` is ``None`` for null references."""

    row: Row = None
    place: BlobRow | None = None
    error: Exception | None = None


def error_text(error: Exception, place: BlobRow | None) -> str:
    """Return the text for an error column: one line with the error, file name and request id."""
    parts = [explain(error)[0]]
    if request_id := getattr(error, "request_id", None):
        parts.append(f"request id {request_id}")
    if place is not None:
        parts += [text for text in place.of_blob() if text not in parts]
    return shorten(" · ".join(parts), _LONGEST_TEXT)
