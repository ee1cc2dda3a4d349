"""Completes partial updates, which set only some columns of a row of a primary-key table.

A part with such rows has a column `UPDATED` that lists the positions of the columns to set (Java
SDK, ``UpsertRecord``). An empty list or null sets all columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.local import errors
from odps_nb.schema import ArrayType, Column, PrimitiveType, TypeCode

UPDATED = Column(name="__value_cols", type=ArrayType(PrimitiveType(TypeCode.BIGINT)))


def is_partial(updated: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return for each row whether it sets only some columns."""
    return pc.fill_null(pc.greater(pc.list_value_length(updated), 0), fill_value=False)


def check_places(updated: pa.Array, count: int, *, enabled: bool) -> None:
    """Raise 400 if a row names an unknown column, or if partial updates are disabled."""
    positions = updated.flatten()
    if not len(positions):
        return
    if not enabled:
        raise errors.invalid(
            "the table allows no partial updates; set acid.partial.fields.update.enable to true"
        )
    ends = pc.min_max(positions).as_py()
    if positions.null_count or not 0 <= ends["min"] <= ends["max"] < count:
        raise errors.invalid(f"__value_cols names a column outside of 0 to {count - 1}")


def completed(rows: pa.Table, keys: Sequence[str], deleted: np.ndarray) -> pa.Table:
    """Fill in the columns that a row does not set from earlier rows with the same key.

    The column is null if no earlier row of the key sets it, or if a delete is between them.
    """
    updated = rows.column(UPDATED.name).combine_chunks()
    names = [name for name in rows.schema.names if name != UPDATED.name]
    sets = np.zeros((rows.num_rows, len(names)), dtype=bool)
    sets[~is_partial(updated).to_numpy(zero_copy_only=False) | deleted, :] = True
    sets[pc.list_parent_indices(updated).to_numpy(), updated.flatten().to_numpy()] = True
    order, starts = _by_key(rows, keys)
    at = np.arange(rows.num_rows)
    for index, name in enumerate(names):
        if name in keys or name.startswith("__"):
            continue
        latest = np.maximum.accumulate(np.where(sets[order, index], at, -1))
        source = order[latest]
        absent = (latest < starts) | (deleted[source] & (latest != at))
        sources = np.empty(rows.num_rows, dtype=np.int64)
        sources[order] = source
        mask = np.empty(rows.num_rows, dtype=bool)
        mask[order] = absent
        column = rows.column(name).take(pa.array(sources, mask=mask))
        rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
    return rows


def _by_key(rows: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the row indexes sorted by key and, for each, the first sorted index of its key."""
    codes = np.zeros(rows.num_rows, dtype=np.int64)
    for key in keys:
        column = rows.column(key).combine_chunks().dictionary_encode()
        codes = codes * max(1, len(column.dictionary)) + column.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    starts = np.maximum.accumulate(
        np.where(np.diff(codes, prepend=codes[:1] - 1) != 0, np.arange(rows.num_rows), 0)
    )
    return order, starts
