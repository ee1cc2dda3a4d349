"""Partition values: text in the catalogue, typed constants in Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import faults
from odps_nb.wire.xml_text import has_spelling

__all__ = ["check_listable", "constant", "constant_array", "spelled"]


def check_listable(text: str, key: str) -> None:
    """Fail with 400 unless XML, as in lists of partitions, can hold the value."""
    if not text or not has_spelling(text):
        problem = "contains a character that XML cannot hold" if text else "is empty"
        raise faults.invalid(
            f"a value of the partition key {key!r} {problem}", code="InvalidPartitionSpec"
        )


def constant(text: str, target: pa.DataType, key: str) -> pa.Scalar:
    """Return the value of a partition key as an Arrow scalar; 400 if the text is not valid."""
    try:
        return pa.scalar(text, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise faults.invalid(
            f"{text!r} is not a value of the partition key {key!r} ({target})",
            code="InvalidPartitionSpec",
        ) from None


def constant_array(text: str, target: pa.DataType, key: str, rows: int) -> pa.Array:
    """Return the value repeated for each row."""
    return pa.repeat(constant(text, target, key), rows)


def spelled(array: pa.Array, key: str) -> pa.Array:
    """Return partition values as the text that names partitions; 400 for null."""
    if array.null_count:
        raise faults.invalid(
            f"a value of the partition key {key!r} is null", code="InvalidPartitionSpec"
        )
    text = array if pa.types.is_string(array.type) else array.cast(pa.string())
    for value in pc.unique(text).to_pylist():
        check_listable(value, key)
    return text
