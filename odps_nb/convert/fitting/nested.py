"""Checks each value against a MaxCompute type, and converts it to the type that a write sends.

A value that cannot be converted exactly raises an error. The same rules
(``docs/types-and-times.md``) apply to all sources, in columns and inside ARRAY, MAP and STRUCT at
any depth. `odps_nb.convert.fitting.leaf` defines the rules for scalar types; this module applies
them to the values inside nested types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.convert.arrow_types import is_list, is_text
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.fitting.fixed_width import Numbers, array_from, validity_of
from odps_nb.convert.fitting.leaf import FitContext, fit_leaf, given_text, kind_of, kind_problem
from odps_nb.convert.fitting.misfit import Misfit, ValueMisfit, refuse
from odps_nb.convert.fitting.zones import UnitTooFine
from odps_nb.convert.foreign import plain_values, value_type
from odps_nb.schema import ArrayType, MapType, OdpsType, StructType, VectorType
from odps_nb.wire.type_text import format_type


class KindError(Exception):
    """Error for an Arrow type whose values can never fit; ``path`` locates the nested type."""

    def __init__(self, reason: str, hint: str, path: str = "") -> None:
        super().__init__(reason)
        self.path, self.hint = path, hint


def check_kind(
    source: pa.DataType,
    target: OdpsType,
    path: str = "",
    *,
    conversions: Conversions = AS_THEY_ARE,
) -> None:
    """Raise `KindError` if no non-null value of the Arrow type fits the target.

    Use this function for sources that are checked before their rows exist, such as a Spark plan. If
    rows exist, check their values instead.
    """
    source = _stored(source)
    if pt.is_null(source):
        return
    if isinstance(target, (ArrayType, VectorType)):
        _require(is_list(source), source, target, path)
        check_kind(source.value_type, target.element, f"{path}.element", conversions=conversions)
    elif isinstance(target, MapType):
        _require(pt.is_map(source) or _is_pairs(source), source, target, path)
        entry = source.value_type if is_list(source) else None
        key, item = (
            (source.key_type, source.item_type)
            if entry is None
            else (entry.field(0).type, entry.field(1).type)
        )
        check_kind(key, target.key, f"{path}.key", conversions=conversions)
        check_kind(item, target.value, f"{path}.value", conversions=conversions)
    elif isinstance(target, StructType):
        _require(pt.is_struct(source), source, target, path)
        positions, unknown_name = members_of([field.name for field in source], target)
        if unknown_name is not None:
            raise KindError(*no_member(unknown_name, target), path)
        for member in target.fields:
            if (position := positions.get(member.name.casefold())) is not None:
                inner = source.field(position).type
                check_kind(inner, member.type, f"{path}.{member.name}", conversions=conversions)
    else:
        if problem := kind_problem(source, target, conversions):
            raise KindError(*problem, path)


def _require(fits: bool, source: pa.DataType, target: OdpsType, path: str) -> None:  # noqa: FBT001
    if not fits:
        raise KindError(*part_problem(kind_of(source), target), path)


def part_problem(kind: str, target: OdpsType) -> tuple[str, str]:
    """Return the reason why a kind does not fit an ARRAY, MAP or STRUCT, and a hint."""
    lists = isinstance(target, (ArrayType, VectorType))
    expected = "a list or an array" if lists else "a dict"
    return f"{given_text(kind)} fit {target.code.name}", f"pass {expected} for each row, or None"


def no_member(name: str, target: StructType) -> tuple[str, str]:
    """Return the reason why a STRUCT rejects a name returned by `members_of`, and a hint."""
    names = [member.name for member in target.fields]
    if name.casefold() in (known.casefold() for known in names):
        return (
            f"the member {name!r} occurs twice",
            "drop one of them; names are not case-sensitive",
        )
    return (
        f"the STRUCT has no member {name!r}",
        f"rename or drop it; the members are: {', '.join(names[:20])}",
    )


def members_of(names: list[str], target: StructType) -> tuple[dict[str, int], str | None]:
    """Return positions by lower-case name, and the first unknown or repeated name, if any."""
    known = {member.name.casefold() for member in target.fields}
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        if name.casefold() not in known or name.casefold() in positions:
            return positions, name
        positions[name.casefold()] = position
    return positions, None


def fit_array(
    array: pa.Array,
    target: OdpsType,
    *,
    unit: str | None = None,
    conversions: Conversions = AS_THEY_ARE,
) -> pa.Array:
    """Convert an array to the exact type that a write sends.

    ``unit``: timestamp unit, ``ns`` or ``us``; by default ``ns`` if it can represent all values,
    else ``us``.
    """
    return with_unit(lambda context: _fit(array, target, context), unit, conversions)


def with_unit(
    fit: Callable[[FitContext], pa.Array],
    unit: str | None,
    conversions: Conversions,
    *,
    for_write: bool = True,
) -> pa.Array:
    """Convert a column, with times in nanoseconds or, if one is out of range, in microseconds."""
    try:
        return fit(FitContext(unit or "ns", conversions, for_write))
    except UnitTooFine:
        return fit(FitContext("us", conversions, for_write))


def _stored(source: pa.DataType) -> pa.DataType:
    if isinstance(source, pa.BaseExtensionType):
        return _stored(value_type(source))
    if pt.is_dictionary(source) or pt.is_run_end_encoded(source):
        return _stored(source.value_type)
    return source


def _plain(array: pa.Array) -> pa.Array:
    """Decode extension types, dictionaries and run-end encoding."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain(plain_values(array))
    if pt.is_dictionary(array.type):
        # Decode first: Arrow has no ``take`` for string views, which polars creates.
        return _plain(array.dictionary).take(array.indices)
    if pt.is_string_view(array.type) or pt.is_binary_view(array.type):
        return array.cast(pa.string() if is_text(array.type) else pa.binary())
    if pt.is_run_end_encoded(array.type):
        # not by `run_end_decode`, which overflows silently at 2 GiB of text
        ends = array.run_ends.to_numpy()
        rows = np.arange(array.offset, array.offset + len(array))
        indices = array_from(np.searchsorted(ends, rows, "right"), pa.int64())
        return _plain(array.values).take(indices)
    return array


def _fit(array: pa.Array, target: OdpsType, context: FitContext) -> pa.Array:
    array = _plain(array)
    if not isinstance(target, (ArrayType, MapType, StructType, VectorType)):
        return fit_leaf(array, target, context)
    target_type = context.arrow_type(target)
    if array.null_count == len(array):
        return pa.nulls(len(array), target_type)
    if isinstance(target, (ArrayType, VectorType)) and is_list(array.type):
        return _fit_list(array, target, target_type, context)
    if isinstance(target, MapType) and (pt.is_map(array.type) or _is_pairs(array.type)):
        return _fit_map(array, target, target_type, context)
    if isinstance(target, StructType) and pt.is_struct(array.type):
        return _fit_struct(array, target, target_type, context)
    refuse(array, array.is_valid(), target, *part_problem(kind_of(array.type), target))
    raise AssertionError("no value explains why the array does not fit")


def _fit_list(
    array: pa.Array, target: ArrayType | VectorType, target_type: pa.DataType, context: FitContext
) -> pa.Array:
    offsets = list_offsets(pc.list_value_length(array))
    with inside_lists(offsets, "[{}]"):
        values = _fit(array.flatten(), target.element, context)
    return lists_of(null_offsets(offsets, array), values, target, target_type)


def lists_of(
    offsets: pa.Array, values: pa.Array, target: ArrayType | VectorType, wanted: pa.DataType
) -> pa.Array:
    """Return lists of converted values; raise if a VECTOR has a null or the wrong length."""
    if not isinstance(target, VectorType):
        return pa.ListArray.from_arrays(offsets, values, type=wanted)
    lists = pa.ListArray.from_arrays(offsets, values)
    hint = f"pass {target.length} numbers for each row, or None"
    lengths = pc.list_value_length(lists)
    odd = pc.not_equal(lengths, target.length)
    refuse(lists, odd, target, f"it does not have {target.length} elements", hint)
    if values.null_count:
        parents = pc.list_parent_indices(lists).filter(values.is_null())
        bad = np.isin(np.arange(len(lists)), parents.to_numpy())
        refuse(lists, bad, target, "an element is null", hint)
    return lists.cast(wanted)


def list_offsets(lengths: pa.Array) -> Numbers:
    """Return each list's offset in the concatenated values, plus the end of the last list."""
    counts = lengths.fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def null_offsets(offsets: Numbers, lists: pa.Array) -> pa.Array:
    """Return the offsets as an Arrow array, in which a null marks each null list or map."""
    if offsets[-1] >= 2**31:
        raise pa.ArrowCapacityError("the lists of one column contain more than 2^31 values")
    valid = np.append(validity_of(lists), True)
    return array_from(offsets.astype(np.int32), pa.int32(), valid)


@contextmanager
def inside_lists(offsets: Numbers, step: str) -> Iterator[None]:
    """Convert a `ValueMisfit`'s positions in the concatenated values to positions of lists."""
    try:
        yield
    except ValueMisfit as error:
        misfits = []
        for misfit in error.found:
            row = int(np.searchsorted(offsets, misfit.position, "right")) - 1
            path = step.format(misfit.position - int(offsets[row])) + misfit.path
            misfits.append(replace(misfit, position=row, path=path))
        raise ValueMisfit(misfits) from None


def fit_members(
    target: StructType, wanted: pa.DataType, mask: pa.Array | None, fit: Callable[[int], pa.Array]
) -> pa.Array:
    """Return a struct whose members ``fit`` creates by position; ``mask`` marks nulls."""
    members, misfits = [], []
    for position, member in enumerate(target.fields):
        try:
            members.append(fit(position))
        except ValueMisfit as error:
            misfits += [
                replace(misfit, path=f".{member.name}{misfit.path}") for misfit in error.found
            ]
    if misfits:
        raise ValueMisfit(misfits)
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)


def _is_pairs(arrow: pa.DataType) -> bool:
    """Whether the type is a list of key-value structs, polars' form of a MAP."""
    if not is_list(arrow) or not pt.is_struct(arrow.value_type):
        return False
    return [field.name for field in arrow.value_type] in (["key", "value"], ["keys", "values"])


def _fit_map(
    array: pa.Array, target: MapType, target_type: pa.DataType, context: FitContext
) -> pa.Array:
    if pt.is_map(array.type):
        keys, items, lengths = _entries(array)
    else:
        lengths = pc.list_value_length(array)
        keys, items = array.flatten().flatten()
    offsets = list_offsets(lengths)
    with inside_lists(offsets, ".key[{}]"):
        refuse_null_keys(keys, target)
        keys = _fit(keys, target.key, context)
    with inside_lists(offsets, ".value[{}]"):
        items = _fit(items, target.value, context)
    return pa.MapArray.from_arrays(null_offsets(offsets, array), keys, items).cast(target_type)


def _entries(array: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the concatenated keys and values of the non-null maps, and each map's length."""
    starts, valid = array.offsets.to_numpy()[: len(array) + 1], validity_of(array)
    counts = np.diff(starts)
    lengths = array_from(counts, pa.int32(), valid)
    keys, items = _plain(array.keys), _plain(array.items)
    if counts[~valid].any():  # drop the entries of null maps
        ranges = [np.arange(starts[row], starts[row + 1]) for row in np.flatnonzero(valid)]
        indices = array_from(np.concatenate([np.zeros(0, np.int64), *ranges]), pa.int64())
        return keys.take(indices), items.take(indices), lengths
    first, last = int(starts[0]), int(starts[-1])
    return keys.slice(first, last - first), items.slice(first, last - first), lengths


def refuse_null_keys(keys: pa.Array, target: MapType) -> None:
    """Raise `ValueMisfit` if a MAP key is null."""
    if keys.null_count:
        position = keys.is_null().index(True).as_py()
        raise ValueMisfit(
            [
                Misfit(
                    position=position,
                    value="null",
                    source=str(keys.type),
                    target=format_type(target.key),
                    reason="a MAP key is null",
                    hint="drop the entry",
                )
            ]
        )


def _fit_struct(
    array: pa.Array, target: StructType, target_type: pa.DataType, context: FitContext
) -> pa.Array:
    names = [field.name for field in array.type]
    positions, unknown_name = members_of(names, target)
    if unknown_name is not None:
        refuse(array, array.is_valid(), target, *no_member(unknown_name, target))
    parts = array.flatten()  # unlike field(), respects slices and the struct's nulls

    def fit(number: int) -> pa.Array:
        member = target.fields[number]
        position = positions.get(member.name.casefold())
        if position is None:
            return pa.nulls(len(array), target_type.field(number).type)
        return _fit(parts[position], member.type, context)

    return fit_members(target, target_type, array.is_null() if array.null_count else None, fit)
