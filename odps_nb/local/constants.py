"""Partition values: text in the catalogue, typed constants in Arrow (world local)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import faults

__all__ = ["constant", "constant_array", "spelled"]


def constant(text: str, target: pa.DataType, key: str) -> pa.Scalar:
    """Return the value of a partition key as an Arrow scalar; 400 if the text is no such value."""
    try:
        return pa.scalar(text, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise faults.invalid(
            f"{text!r} is no value of the partition key {key!r} ({target})",
            code="InvalidPartitionSpec",
        ) from None


def constant_array(text: str, target: pa.DataType, key: str, rows: int) -> pa.Array:
    """Return the value repeated for each row."""
    return pa.repeat(constant(text, target, key), rows)


def spelled(array: pa.Array, key: str) -> pa.Array:
    """Return partition values as the text that names partitions; null names none."""
    if array.null_count:
        raise faults.invalid(
            f"a value of the partition key {key!r} is null", code="InvalidPartitionSpec"
        )
    text = array if pa.types.is_string(array.type) else array.cast(pa.string())
    if pc.any(pc.equal(text, "")).as_py():
        raise faults.invalid(
            f"a value of the partition key {key!r} is empty", code="InvalidPartitionSpec"
        )
    return text
