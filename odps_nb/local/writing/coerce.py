"""Matches incoming columns by name or position and converts them to the exact stored types.

Conversions that would change a value raise 400 (``docs/protocol.md`` section 5.7). A STRING may
contain any bytes, as in the real service (pyodps' test_read_binary_sql_instance).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.local.store.arrow_types import arrow_type, check_years
from odps_nb.schema import (
    ArrayType,
    Column,
    LengthType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
    has_any,
    has_timestamp,
)
from odps_nb.terms import TimeUnit

MAX_FIELD_SIZE = 8 * 1024 * 1024
_CHECKED = (
    *(TypeCode.BLOB, TypeCode.JSON, TypeCode.CHAR, TypeCode.VARCHAR),
    *(TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ),
)

BlobSpelling = Callable[[pa.Array], pa.Array]
"""Converts raw references of a BLOB column to stored text, or raises 400 if one is unknown."""


def match_columns(
    incoming: pa.Schema,
    columns: Sequence[Column],
    *,
    exact: bool = False,
    optional: Sequence[str] = (),
) -> tuple[int | None, ...]:
    """Return the incoming field index of each column; ``None`` for an absent column (all null).

    Names are matched case-insensitively. If some names are unknown but the number of columns is
    right, columns are matched by position (as in pyodps' test of the older protocol,
    test_write_rows_without_partition_by_diff_schema_neg1). With ``exact``, a missing column that is
    not ``optional`` raises 400 (pyodps: …_with_partition_by_diff_schema_neg1).
    """
    by_name: dict[str, int] = {}
    for index, name in enumerate(incoming.names):
        if by_name.setdefault(name.casefold(), index) != index:
            raise errors.invalid(f"the rows contain the column {name!r} twice")
    indexes = tuple(by_name.get(column.name.casefold()) for column in columns)
    matched = {index for index in indexes if index is not None}
    unknown = [n for i, n in enumerate(incoming.names) if i not in matched]
    if unknown:
        by_place = _by_place(indexes, columns, len(incoming), optional)
        if by_place is None:
            raise errors.invalid(f"the table has no column {unknown[0]!r}", code="SchemaModified")
        return by_place
    absent = [c.name for c, i in zip(columns, indexes, strict=True) if i is None]
    missing = [name for name in absent if name not in optional]
    if exact and missing:
        raise errors.invalid(f"the rows have no column {missing[0]!r}", code="SchemaModified")
    return indexes


def _by_place(
    indexes: Sequence[int | None], columns: Sequence[Column], width: int, optional: Sequence[str]
) -> tuple[int | None, ...] | None:
    """Match columns by position; ``None`` if their number or a matched name's position differs."""
    absent_ok = [i is None and c.name in optional for c, i in zip(columns, indexes, strict=True)]
    skipped = absent_ok if width < len(columns) else [False] * len(columns)
    if width != len(columns) - sum(skipped):
        return None
    positions = iter(range(width))
    expected = tuple(None if skip else next(positions) for skip in skipped)
    if any(i is not None and i != position for i, position in zip(indexes, expected, strict=True)):
        return None
    return expected


def coerce_batch(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    matches: Sequence[int | None],
    *,
    blobs: BlobSpelling,
) -> pa.RecordBatch:
    """Convert a batch to the table's columns, order and types."""
    arrays = []
    for column, index in zip(columns, matches, strict=True):
        target = arrow_type(column.type)
        if index is None:
            array = pa.nulls(batch.num_rows, target)
        else:
            array = _fit_column(batch.column(index), column, target, blobs)
        if not column.nullable and array.null_count:
            raise errors.null_value(column.name)
        arrays.append(array)
    fields = [pa.field(c.name, a.type) for c, a in zip(columns, arrays, strict=True)]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _fit_column(
    array: pa.Array, column: Column, target: pa.DataType, blobs: BlobSpelling
) -> pa.Array:
    """Convert a column, using microseconds for timestamps outside the nanosecond range."""
    try:
        return _fit(array, column.type, target, column.name, blobs)
    except InvalidRequestError:
        if not has_timestamp(column.type):
            raise
    wide = arrow_type(column.type, timestamp_unit=TimeUnit.MICRO)
    return _fit(array, column.type, wide, column.name, blobs)


def _fit(
    array: pa.Array, odps: OdpsType, target: pa.DataType, path: str, blobs: BlobSpelling
) -> pa.Array:
    """Convert one array to exactly the target type, including nested types."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), target)
    if isinstance(odps, VectorType):
        return _fit_vector(array, odps, target, path, blobs)
    if isinstance(odps, (ArrayType, MapType, StructType)):
        if array.type.equals(target) and not has_any(odps, _CHECKED):
            return array
        return _fit_nested(array, odps, target, path, blobs)
    if odps.code is TypeCode.BLOB:
        return blobs(_plain(array, pa.binary(), path))
    if odps.code is TypeCode.STRING and _is_text(array.type):
        fitted = array.cast(pa.binary()).view(pa.string())
    else:
        fitted = _fit_scalar(array, target, path)
    _check_size(fitted, odps, path)
    check_years(fitted, f"the column {path!r}")
    if odps.code is TypeCode.JSON:
        _check_json(fitted, path)
    if odps.code is TypeCode.CHAR:  # strip trailing blanks, which comparisons ignore
        fitted = pc.ascii_rtrim(fitted, " ")
    return fitted


def _fit_nested(
    array: pa.Array, odps: OdpsType, target: pa.DataType, path: str, blobs: BlobSpelling
) -> pa.Array:
    if isinstance(odps, ArrayType):
        if pa.types.is_fixed_size_list(array.type) or pa.types.is_large_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        if not pa.types.is_list(array.type):
            raise _mismatch(path, array.type, target)
        values, offsets = _window(array)
        inner = _fit(values, odps.element, target.value_type, f"{path}.element", blobs)
        return pa.ListArray.from_arrays(offsets, inner, type=target, mask=_mask(array))
    if isinstance(odps, MapType):
        if not pa.types.is_map(array.type):
            raise _mismatch(path, array.type, target)
        entries, offsets = _window(array)
        keys = _fit(entries.field(0), odps.key, target.key_type, f"{path}.key", blobs)
        items = _fit(entries.field(1), odps.value, target.item_type, f"{path}.value", blobs)
        return pa.MapArray.from_arrays(offsets, keys, items, target, mask=_mask(array))
    assert isinstance(odps, StructType)
    return _fit_struct(array, odps, target, path, blobs)


def _fit_vector(
    array: pa.Array, odps: VectorType, target: pa.DataType, path: str, blobs: BlobSpelling
) -> pa.Array:
    lists = _fit_nested(array, ArrayType(odps.element), target, path, blobs)
    lengths = pc.list_value_length(lists)
    if not pc.all(pc.equal(lengths, odps.length), min_count=0).as_py():
        raise errors.invalid(f"a vector in {path!r} does not have {odps.length} elements")
    if lists.flatten().null_count:
        raise errors.invalid(f"a vector in {path!r} has a null element")
    return lists


def _fit_struct(
    array: pa.Array, odps: StructType, target: pa.DataType, path: str, blobs: BlobSpelling
) -> pa.Array:
    if not pa.types.is_struct(array.type):
        raise _mismatch(path, array.type, target)
    indexes = {array.type.field(i).name.casefold(): i for i in range(array.type.num_fields)}
    names = {f.name.casefold() for f in odps.fields}
    if unknown := sorted(indexes.keys() - names):
        raise errors.invalid(f"the struct {path!r} has no member {unknown[0]!r}")
    members = []
    for index, member in enumerate(odps.fields):
        inner = target.field(index).type
        source_index = indexes.get(member.name.casefold())
        if source_index is None:
            members.append(pa.nulls(len(array), inner))
            continue
        # field() applies the slice but not the parent's nulls, which the mask below adds
        members.append(
            _fit(array.field(source_index), member.type, inner, f"{path}.{member.name}", blobs)
        )
    return pa.StructArray.from_arrays(members, fields=list(target), mask=_mask(array))


def _window(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the child values of a (sliced) list or map, and its offsets counted from zero."""
    offsets = array.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    # ``values`` is the whole child array, even of a slice; offsets count from its start
    values = array.values
    if pa.types.is_map(array.type):
        values = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    return values.slice(first, last - first), pc.subtract(offsets, pa.scalar(first, offsets.type))


def _mask(array: pa.Array) -> pa.Array | None:
    return pc.is_null(array) if array.null_count else None


def _fit_scalar(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    source = array.type
    if source.equals(target):
        return array
    if pa.types.is_duration(target) and pa.types.is_struct(source):
        return _interval(array, path)
    if not _may_widen(source, target):
        raise _mismatch(path, source, target)
    if pa.types.is_timestamp(source) and source.tz is not None:
        array = array.cast(pa.timestamp(source.unit))  # the time zone only affects display
    return _plain(array, target, path)


def _plain(array: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if array.type.equals(target):
        return array
    try:
        if pa.types.is_decimal(target):
            # Arrow reserves digits for the widest integer, so a cast to decimal128 could overflow
            array = array.cast(pa.decimal256(76, target.scale))
        return array.cast(target, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.invalid(f"the column {path!r}: {error}") from error


def _interval(array: pa.Array, path: str) -> pa.Array:
    """Convert ``struct<sec, nano>``, the form in which pyodps writes INTERVAL_DAY_TIME."""
    if array.type.num_fields != 2:
        raise _mismatch(path, array.type, pa.duration("ns"))
    try:
        seconds, nanos = (part.cast(pa.int64()) for part in array.flatten())
        total = pc.add_checked(pc.multiply_checked(seconds, 1_000_000_000), nanos)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.invalid(f"the column {path!r}: {error}") from error
    return total.cast(pa.duration("ns"))


def _may_widen(source: pa.DataType, target: pa.DataType) -> bool:
    kinds = pa.types
    if kinds.is_floating(target):
        widened = kinds.is_integer(source) and source.bit_width < target.bit_width
        return bool(kinds.is_floating(source) or widened)
    for is_target, accepted in (
        (kinds.is_integer, (kinds.is_integer,)),  # the safe cast raises on overflow
        (kinds.is_decimal, (kinds.is_decimal, kinds.is_integer)),
        (kinds.is_timestamp, (kinds.is_timestamp,)),
        (kinds.is_date32, (kinds.is_date,)),
        (kinds.is_duration, (kinds.is_duration,)),
        (_is_text, (_is_text,)),
    ):
        if is_target(target):
            return any(accept(source) for accept in accepted)
    return False


def _is_text(arrow: pa.DataType) -> bool:
    texts = pa.string(), pa.large_string(), pa.string_view()
    binaries = pa.binary(), pa.large_binary(), pa.binary_view()
    return arrow in (*texts, *binaries) or pa.types.is_fixed_size_binary(arrow)


def _check_size(array: pa.Array, odps: OdpsType, path: str) -> None:
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)) or not len(array):
        return
    longest = pc.max(pc.binary_length(array)).as_py()
    if longest is not None and longest > MAX_FIELD_SIZE:
        raise errors.invalid(
            f"a value of {path!r} has {longest} bytes; the maximum is {MAX_FIELD_SIZE}"
        )
    if isinstance(odps, LengthType) and longest is not None and longest > odps.length:
        letters = pc.max(pc.utf8_length(array)).as_py()
        if letters > odps.length:
            raise errors.invalid(
                f"a value of {path!r} has {letters} characters; the maximum is {odps.length}"
            )


def _check_json(array: pa.Array, path: str) -> None:
    """Raise 400 if a value is not JSON, because every query of the column would fail."""
    for text in array.drop_null().unique().to_pylist():
        try:
            value = json.loads(text, parse_constant=_no_json)
            json.dumps(value, ensure_ascii=False).encode()  # rejects lone surrogates
        except (ValueError, RecursionError) as error:
            raise errors.invalid(f"a value of {path!r} is not JSON: {error}") from None


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _mismatch(path: str, source: pa.DataType, target: pa.DataType) -> Exception:
    return errors.invalid(f"the column {path!r} requires {target}, not {source}")
