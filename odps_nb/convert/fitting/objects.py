"""Converts columns of Python objects to the Arrow type that a write sends (without pandas).

Python objects are grouped by kind (integers, decimals of one scale, times with a time zone, …), and
each kind becomes a lossless Arrow array. `odps_nb.convert.fitting.leaf` then checks and converts
this array like any Arrow data, both in columns and inside ARRAY, MAP and STRUCT. Arrow's type
inference is never used: it ignores the units of nested NumPy arrays and truncates nested fractions.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.arrow.types import decimal_size
from odps_nb.convert.fitting.clocks import OUT_OF_YEARS, TOO_LONG
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.fitting.fixed_width import Part
from odps_nb.convert.fitting.kinds import (
    is_missing,
    is_plain_number,
    items_of,
    parts_of,
    unwrapped,
)
from odps_nb.convert.fitting.leaf import FitContext, fit_parts, kind_problem
from odps_nb.convert.fitting.misfit import Misfit, ValueMisfit, shorten
from odps_nb.convert.fitting.nested import (
    fit_members,
    inside_lists,
    list_offsets,
    lists_of,
    members_of,
    no_member,
    null_offsets,
    part_problem,
    refuse_null_keys,
    with_unit,
)
from odps_nb.convert.fitting.numbers import MAX_DIGITS, rounded
from odps_nb.errors import a_type
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
)
from odps_nb.wire.type_text import format_type

_Objects = Sequence[Any]


def fit_objects(
    values: _Objects,
    target: OdpsType,
    *,
    unit: str | None = None,
    conversions: Conversions = AS_THEY_ARE,
    for_write: bool = True,
) -> pa.Array:
    """Convert Python objects to the exact type that a write sends.

    ``values``: ``None``, NaN, NaT and ``pandas.NA`` are nulls; a NaN inside ARRAY, MAP or STRUCT
    stays NaN for FLOAT and DOUBLE. NumPy arrays are treated as lists with their own unit and type.
    ``unit``: as in `fit_array`.
    ``for_write``: return the form that a write sends; otherwise the form that a read returns, in
    which intervals are durations.
    """
    return with_unit(
        lambda context: _fit(values, target, context, inside=False),
        unit,
        conversions,
        for_write=for_write,
    )


def _fit(values: _Objects, target: OdpsType, context: FitContext, *, inside: bool) -> pa.Array:
    if isinstance(target, (ArrayType, VectorType)):
        return _fit_lists(values, target, context)
    if isinstance(target, MapType):
        return _fit_maps(values, target, context)
    if isinstance(target, StructType):
        return _fit_structs(values, target, context)
    prepared = _for_target(values, target, context.conversions)
    keeps_nan = inside and target.code in (TypeCode.FLOAT, TypeCode.DOUBLE)
    try:
        return fit_parts(
            _parts(prepared, target, context, keeps_nan=keeps_nan), len(values), target, context
        )
    except ValueMisfit as error:
        raise _named(error, values) from None


def _for_target(values: _Objects, target: OdpsType, conversions: Conversions) -> _Objects:
    """Prepare objects for the target; for DATE, use the date in each object's own time zone."""
    code = target.code
    if isinstance(target, DecimalType) and conversions.decimals == "round":
        scale = decimal_size(target)[1]
        return [rounded(value, scale) if type(value) is Decimal else value for value in values]
    if code is TypeCode.DATE:
        return [
            value.replace(tzinfo=None)
            if isinstance(value, datetime.datetime) and value.tzinfo is not None
            else value
            for value in values
        ]
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        return [_as_float(value) if type(value) is int else value for value in values]
    return values


def _as_float(value: int) -> int | float:
    """Convert an integer of more than 64 bits to a float if the float represents it exactly."""
    if -(2**63) <= value < 2**63 or abs(value) >= 2**1024:
        return value
    return float(value) if int(float(value)) == value else value


def _named(error: ValueMisfit, values: _Objects) -> ValueMisfit:
    """Replace an error's values with the original objects."""
    return ValueMisfit(
        [
            misfit
            if misfit.path
            else replace(
                misfit,
                value=shorten(values[misfit.position]),
                source=type(values[misfit.position]).__name__,
            )
            for misfit in error.found
        ]
    )


# -- scalar values -----------------------------------------------------------------------


def _parts(
    values: _Objects, target: OdpsType, context: FitContext, *, keeps_nan: bool
) -> list[Part]:
    """Group objects by kind; raise for unknown kinds and for a mix of aware and naive times."""
    parts, unknown = parts_of(values, keeps_nan=keeps_nan)
    if unknown:
        raise ValueMisfit([_unsupported(values, position, target) for position in unknown])
    if context.conversions.timezone is not None:
        zones = {
            part[1].type.tz is not None for part in parts if pa.types.is_timestamp(part[1].type)
        }
        if len(zones) == 2 and target.code is not TypeCode.TIMESTAMP_NTZ:
            first = [int(p[0][0]) for p in parts if pa.types.is_timestamp(p[1].type)]
            raise ValueMisfit([_misfit(values, max(first), target, *_BOTH)])
    return parts


_BOTH = (
    "the column mixes times with and without a time zone",
    "add a time zone to all of them, or remove it from all",
)


def _unsupported(values: _Objects, position: int, target: OdpsType) -> Misfit:
    value = values[position]
    kind = type(value).__name__
    kinds = {dict: "struct", list: "list", tuple: "list", np.ndarray: "list"}
    if (word := kinds.get(type(value))) is not None:
        _, hint = kind_problem(word, target, AS_THEY_ARE) or ("", "")
        reason = f"{a_type(kind)} does not fit {target.code.name}"
    else:
        reason, hint = problem_of(value)
        reason = reason or f"a value of type {kind} does not fit {target.code.name}"
    return _misfit(values, position, target, reason, hint)


def problem_of(value: Any) -> tuple[str, str]:
    """Return why Arrow cannot store a value (empty if its type is unknown), and what to do."""
    if isinstance(value, int):
        return f"it has more than {MAX_DIGITS} digits", "write it as text"
    if isinstance(value, Decimal) and not value.is_finite():
        return "it is not finite", "replace it, e.g. by None"
    if isinstance(value, Decimal):
        reason = f"it does not fit a DECIMAL of {MAX_DIGITS} digits"
        return reason, "round it, or write it as text"
    if isinstance(value, str):
        hint = "replace unpaired surrogates: text.encode(errors='replace').decode()"
        return "it is not valid Unicode", hint
    if isinstance(value, np.timedelta64) and np.datetime_data(value.dtype)[0] in ("Y", "M"):
        return "months have no fixed length", "pass days, or a number of months"
    if isinstance(value, (np.datetime64, np.timedelta64)):
        hint = f'round it, e.g. with array.astype("{value.dtype.name.partition("[")[0]}[ns]")'
        return "it is not a whole number of nanoseconds, or it is out of range", hint
    if isinstance(value, datetime.timedelta):
        return TOO_LONG
    if isinstance(value, datetime.datetime):
        return OUT_OF_YEARS
    return "", "convert it to a number, text, a date or another plain value"


def _misfit(values: _Objects, position: int, target: OdpsType, reason: str, hint: str) -> Misfit:
    return Misfit(
        position=position,
        value=shorten(values[position]),
        source=type(values[position]).__name__,
        target=format_type(target),
        reason=reason,
        hint=hint,
    )


# -- nested values --------------------------------------------------------------------------


def _fit_lists(values: _Objects, target: ArrayType | VectorType, context: FitContext) -> pa.Array:
    target_type = context.arrow_type(target)
    lists = [_as_list(value, target, values, position) for position, value in enumerate(values)]
    lengths = pa.array([None if items is None else len(items) for items in lists], pa.int64())
    offsets = list_offsets(lengths)
    non_empty = [items for items in lists if items is not None and len(items)]
    with inside_lists(offsets, "[{}]"):
        inner = _fit_packed(non_empty, target.element, context)
    return lists_of(null_offsets(offsets, lengths), inner, target, target_type)


def _fit_packed(lists: list[Any], element: OdpsType, context: FitContext) -> pa.Array:
    """Convert the elements of all lists; NumPy arrays of one type are concatenated directly."""
    if lists and all(type(items) is np.ndarray and items.ndim == 1 for items in lists):
        dtypes = {items.dtype for items in lists}
        plain = dtypes.pop() if len(dtypes) == 1 else None
        if (
            plain is not None
            and is_plain_number(plain)
            and not isinstance(element, (ArrayType, MapType, StructType, VectorType))
        ):
            packed = np.concatenate(lists)
            if plain.kind != "f" or element.code in (TypeCode.FLOAT, TypeCode.DOUBLE):
                part = (np.arange(len(packed)), pa.array(packed))
                return fit_parts([part], len(packed), element, context)
    return _fit([value for items in lists for value in items], element, context, inside=True)


def _as_list(value: Any, target: OdpsType, values: _Objects, position: int) -> Any:
    """Return a list's items; ``None`` for null."""
    if (items := items_of(value)) is not None:
        return items
    if is_missing(value):
        return None
    raise ValueMisfit([_part_misfit(values, position, target)])


def _part_misfit(values: _Objects, position: int, target: OdpsType) -> Misfit:
    return _misfit(values, position, target, *part_problem(type(values[position]).__name__, target))


def _fit_maps(values: _Objects, target: MapType, context: FitContext) -> pa.Array:
    target_type = context.arrow_type(target)
    pairs = [_as_pairs(value, target, values, position) for position, value in enumerate(values)]
    lengths = pa.array([None if entries is None else len(entries) for entries in pairs], pa.int64())
    offsets = list_offsets(lengths)
    flat = [pair for entries in pairs if entries is not None for pair in entries]
    with inside_lists(offsets, ".key[{}]"):
        keys = _fit([key for key, _ in flat], target.key, context, inside=True)
        refuse_null_keys(keys, target)
    with inside_lists(offsets, ".value[{}]"):
        items = _fit([item for _, item in flat], target.value, context, inside=True)
    return pa.MapArray.from_arrays(null_offsets(offsets, lengths), keys, items).cast(target_type)


def _as_pairs(
    value: Any, target: OdpsType, values: _Objects, position: int
) -> list[tuple[Any, Any]] | None:
    value = unwrapped(value)
    if isinstance(value, pa.MapScalar):
        entries = value.values  # as_py() would decode text that is not UTF-8
        return None if entries is None else list(zip(*entries.flatten(), strict=True))
    if isinstance(value, pa.Scalar) and pa.types.is_nested(value.type):
        value = value.as_py()
    if isinstance(value, Mapping):
        return list(value.items())
    if (items := items_of(value)) is not None:
        pairs = []
        for entry in items:
            if isinstance(entry, Mapping) and set(entry) == {"key", "value"}:
                pairs.append((entry["key"], entry["value"]))
            elif isinstance(entry, (list, tuple)) and len(entry) == 2:
                pairs.append((entry[0], entry[1]))
            else:
                break
        else:
            return pairs
    elif is_missing(value):
        return None
    raise ValueMisfit([_part_misfit(values, position, target)])


def _fit_structs(values: _Objects, target: StructType, context: FitContext) -> pa.Array:
    target_type = context.arrow_type(target)
    columns: list[list[Any]] = [[None] * len(values) for _ in target.fields]
    valid = np.zeros(len(values), bool)
    known = {member.name.casefold(): index for index, member in enumerate(target.fields)}
    misfits: list[Misfit] = []
    for position, value in enumerate(values):
        members = _as_members(value, target, values, position)
        if members is None:
            continue
        valid[position] = True
        _, unknown_name = members_of([str(name) for name in members], target)
        if unknown_name is not None:
            misfits.append(_misfit(values, position, target, *no_member(unknown_name, target)))
            continue
        for name, inner in members.items():
            columns[known[str(name).casefold()]][position] = inner
    if misfits:
        raise ValueMisfit(misfits)
    return fit_members(
        target,
        target_type,
        pa.array(~valid),
        lambda index: _fit(columns[index], target.fields[index].type, context, inside=True),
    )


def _as_members(
    value: Any, target: OdpsType, values: _Objects, position: int
) -> Mapping[str, Any] | None:
    value = unwrapped(value)
    if is_missing(value):  # Arrow's scalars of structs and maps are mappings, even if null
        return None
    if isinstance(value, Mapping) and not isinstance(value, pa.MapScalar):
        return value
    if hasattr(value, "_asdict"):  # a named tuple
        return dict(value._asdict())
    if isinstance(value, (list, tuple)) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    ):
        return dict(value)
    raise ValueMisfit([_part_misfit(values, position, target)])
