"""Converts or rejects data whose Arrow form does not contain the original values.

polars exports the addresses of Python objects as bytes, DuckDB exports large UHUGEINT values as
negative decimals, and the storage of some Arrow extension types does not hold their values.
``docs/types-and-times.md`` lists how each extension type is stored.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.convert.loaded import loaded
from odps_nb.errors import ConversionError
from odps_nb.schema import OdpsType, TypeCode


def is_from(data: Any, package: str) -> bool:
    """Whether a class of the object, or one of its base classes, is from the package."""
    return any(base.__module__.split(".")[0] == package for base in type(data).__mro__)


# -- frames ---------------------------------------------------------------------------------------


def exported(data: Any) -> Any:
    """Return data of polars, narwhals and DuckDB in a form whose Arrow export has the same values.

    128-bit integers of polars become ``Decimal(38, 0)``. Other data is returned unchanged. Raises
    `ConversionError` for Python objects in polars, and for DuckDB types in `_DUCKDB`.
    """
    if is_from(data, "narwhals") and hasattr(data, "to_native"):
        data = data.to_native()
    if is_from(data, "polars") and hasattr(data, "collect_schema"):
        return _polars_frame(data)
    if type(data).__name__ == "DuckDBPyRelation":
        with querying():
            columns = list(zip(data.columns, data.types, strict=True))
        for name, kind in columns:
            plain = re.sub(r"""(['"]).*?\1""", "", str(kind))  # without names and values
            for word in _DUCKDB.keys() & set(re.findall(r"\w+", plain)):
                raise ConversionError(
                    f"the column {name!r} is {word}, which DuckDB exports as {_DUCKDB[word]}",
                    column=name,
                    source_type=str(kind),
                    hint=f"cast it in the query, e.g. {name}::varchar",
                )
    return data


_DUCKDB = {"UHUGEINT": "another number", "BIT": "padded bytes"}
"""DuckDB types that cannot be recognised in its Arrow export, and what it exports instead."""


@contextlib.contextmanager
def evaluating() -> Iterator[None]:
    """Raise `ConversionError` if polars cannot evaluate a LazyFrame."""
    polars: Any = loaded("polars")
    try:
        yield
    except polars.exceptions.PolarsError as error:
        raise ConversionError(
            f"polars cannot evaluate the LazyFrame: {str(error).splitlines()[0]}",
            source_type="LazyFrame",
            hint="correct it; data.collect() shows the whole error",
        ) from error


@contextlib.contextmanager
def querying() -> Iterator[None]:
    """Raise `ConversionError` if DuckDB cannot run the query of a relation."""
    try:
        yield
    except Exception as error:
        if not is_from(error, "duckdb") and not is_from(error, "_duckdb"):
            raise
        raise ConversionError(
            "DuckDB cannot run the query: " + str(error).partition("\n")[0],
            source_type="DuckDBPyRelation",
            hint="correct it; relation.fetchall() shows the whole error",
        ) from error


def evaluated(frame: Any) -> Iterator[Any]:
    """Iterate over the DataFrames of a LazyFrame."""
    with evaluating():
        yield from frame.collect_batches()


def _polars_frame(data: Any) -> Any:
    polars = loaded("polars")
    assert polars is not None
    changed = {}
    with evaluating():
        schema = data.collect_schema()
    for name, dtype in schema.items():
        _refuse_object(dtype, f"the polars column {name!r}", name)
        narrow = _without_int128(dtype)
        if narrow != dtype:
            changed[name] = polars.col(name).cast(narrow)
    if not changed or isinstance(data, polars.LazyFrame):  # a LazyFrame becomes DataFrames later
        return data
    try:
        return data.with_columns(**changed)
    except polars.exceptions.InvalidOperationError as error:
        raise _too_long(str(error), next(iter(changed))) from None


def is_table(data: Any) -> bool:
    """Whether this is a DataFrame or a table of any library; iteration may yield column names."""
    return hasattr(data, "columns") and not isinstance(data, type)


def polars_column(series: Any, name: str = "") -> pa.Array:
    """Return a polars Series as an Arrow array; see `exported`."""
    _refuse_object(series.dtype, f"the polars column {name!r}" if name else "a Series", name)
    narrow = _without_int128(series.dtype)
    if narrow != series.dtype:
        try:
            series = series.cast(narrow)
        except loaded("polars").exceptions.InvalidOperationError as error:  # type: ignore[union-attr]
            raise _too_long(str(error), name) from None
    return series.to_arrow()


def _refuse_object(dtype: Any, what: str, name: str) -> None:
    if str(dtype) == "Object":
        raise ConversionError(
            f"{what} holds Python objects",
            column=name or None,
            source_type="Object",
            hint="convert it to a polars dtype, or pass df.to_dicts() or series.to_list()",
        )


def _without_int128(dtype: Any) -> Any:
    """Return a polars dtype with Decimal(38, 0) in place of 128-bit integers, at any depth."""
    polars: Any = loaded("polars")
    if dtype in (polars.Int128, polars.UInt128):
        return polars.Decimal(38, 0)
    if isinstance(dtype, polars.List):
        return polars.List(_without_int128(dtype.inner))
    if isinstance(dtype, polars.Array):
        return polars.Array(_without_int128(dtype.inner), dtype.size)
    if isinstance(dtype, polars.Struct):
        return polars.Struct({field.name: _without_int128(field.dtype) for field in dtype.fields})
    return dtype


def _too_long(text: str, name: str) -> ConversionError:
    return ConversionError(
        f"a 128-bit integer has more than 38 digits: {text.splitlines()[0]}",
        column=name or None,
        source_type="Int128",
        hint="convert the column to text, e.g. pl.col(name).cast(pl.String)",
    )


# -- Arrow extension types ------------------------------------------------------------------------

_NOT_STORED = {
    "arrow.opaque": "cast it in the source, e.g. to text",
    "arrow.parquet.variant": "cast it in the source, e.g. to JSON text",
    "pandas.period": "convert it, e.g. with .dt.to_timestamp() or .astype(str)",
    "pandas.interval": "convert it, e.g. with .astype(str), or write its two ends as columns",
}
"""Extension types whose storage does not hold their values, and a hint for each."""
_DEGREES = ("OGC:CRS84", "EPSG:4326", "EPSG:4979", "OGC:CRS84H")
"""Coordinate reference systems of GEOGRAPHY: longitude and latitude in degrees (WGS 84)."""


def check_field(field: pa.Field, target: OdpsType | None = None) -> None:
    """Raise `ConversionError` if the storage of a type, at any depth, does not hold its values.

    polars exports a column of Python objects as 8 bytes per value, without marking the type.
    ``target``: the column's type, if the table exists.
    """
    _check(field, field.name, target)


def _check(field: pa.Field, column: str, target: OdpsType | None) -> None:
    kind, metadata = field.type, field.metadata or {}
    name = getattr(kind, "extension_name", None)
    name = name or metadata.get(b"ARROW:extension:name", b"").decode()
    if name in _NOT_STORED:
        raise _refusal(column, name, "has no MaxCompute type", _NOT_STORED[name])
    if kind == pa.binary(8) and not name:
        reason = "may hold addresses of Python objects, which polars exports in this form"
        hint = "convert the Python objects, or cast bytes to pyarrow.binary()"
        raise _refusal(column, str(kind), reason, hint)
    if name == "arrow.fixed_shape_tensor" and _is_permuted(kind, metadata):
        hint = "pass it in row-major order, e.g. tensor.to_numpy_ndarray().copy()"
        raise _refusal(column, name, "is not in row-major order", hint)
    if name.startswith("geoarrow.") and target and target.code is TypeCode.GEOGRAPHY:
        check_crs(json.loads(metadata.get(b"ARROW:extension:metadata") or "{}").get("crs"), column)
    for inner in _fields_in(kind):
        _check(inner, f"{column}.{inner.name}", None)


def _refusal(column: str, kind: str, reason: str, hint: str) -> ConversionError:
    return ConversionError(
        f"the column {column!r} of type {kind} {reason}",
        column=column,
        source_type=kind,
        hint=hint,
    )


def _is_permuted(kind: pa.DataType, metadata: dict[bytes, bytes]) -> bool:
    raw = json.loads(metadata.get(b"ARROW:extension:metadata") or "{}")
    order = getattr(kind, "permutation", None) or raw.get("permutation") or []
    return list(order) != sorted(order)


def _fields_in(kind: pa.DataType) -> Iterable[pa.Field]:
    if isinstance(kind, pa.BaseExtensionType):
        return _fields_in(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return [pa.field("value", kind.value_type)]
    if pt.is_nested(kind):
        return [kind.field(index) for index in range(kind.num_fields)]
    return []


def check_crs(crs: Any, column: str) -> None:
    """Raise unless a coordinate reference system, in any form, is that of GEOGRAPHY or absent."""
    if crs is None:
        return
    known = crs.get("id") if isinstance(crs, dict) else None
    name = f"{known['authority']}:{known['code']}" if known else str(crs)
    if name.upper() not in _DEGREES:
        what = str(crs.get("name", "unknown")) if isinstance(crs, dict) else name
        raise ConversionError(
            f"the coordinates of column {column!r} are in {what}, but GEOGRAPHY has degrees of "
            "longitude and latitude",
            column=column,
            source_type=what,
            hint="convert them first, e.g. with gdf.to_crs('OGC:CRS84'), or use a BINARY column",
        )


def value_type(kind: pa.BaseExtensionType) -> pa.DataType:
    """Return the plain type of an extension type's values."""
    return pa.bool_() if kind.extension_name == "arrow.bool8" else kind.storage_type


def plain_values(array: pa.Array) -> pa.Array:
    """Return the values of an array of an extension type as an array of `value_type`."""
    storage = array.storage
    return pc.not_equal(storage, 0) if array.type.extension_name == "arrow.bool8" else storage


def plain_scalar(value: pa.Scalar) -> pa.Scalar | None:
    """Return the value of an extension type's scalar; ``None`` if the storage does not hold it."""
    try:
        check_field(pa.field("", value.type))
    except ConversionError:
        return None
    storage = value.value
    if value.type.extension_name == "arrow.bool8":
        return pa.scalar(None if storage is None else storage.as_py() != 0, pa.bool_())
    return storage


def from_geometry(series: Any, column: str, target: OdpsType | None) -> Any:
    """Return a GeoPandas column as WKB bytes; raise if GEOGRAPHY has other coordinates."""
    if target is not None and target.code is TypeCode.GEOGRAPHY and series.array.crs is not None:
        check_crs(":".join(series.array.crs.to_authority() or (series.array.crs.name,)), column)
    geopandas: Any = loaded("geopandas")
    return geopandas.array.to_wkb(series.array)
