"""VECTOR columns become NumPy arrays for training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from odps_nb.access.learning.samples import AsBatches, AsRows
from odps_nb.errors import ConversionError

VECTORS = pa.list_(pa.float32(), 2)


def vectors_of(samples: Any, rows: list[Any]) -> list[Any]:
    parts = [pa.array(rows[:1], VECTORS), pa.array(rows[1:], VECTORS)]
    window = (0, pa.table({"v": pa.chunked_array(parts)}))
    return [sample["v"] for _, sample in samples.make(None, iter([window]), 0)]


def test_a_batch_of_vectors_is_a_matrix() -> None:
    """Evidence 155: torch accepts the column as one tensor."""
    first, last = vectors_of(AsBatches(2), [[1, 2], [3, 4], [5, 6]])
    assert (first.dtype, first.tolist(), last.tolist()) == (np.float32, [[1, 2], [3, 4]], [[5, 6]])
    first[0] = 0  # the array has its own memory
    with pytest.raises(ConversionError, match="'v' has nulls"):
        vectors_of(AsBatches(2), [[1, 2], None])


def test_a_row_has_a_vector_as_an_array() -> None:
    """Evidence 155: nulls are None."""
    first, second, third = vectors_of(AsRows(), [[1, 2], None, [3, 4]])
    assert (first.tolist(), second, third.tolist()) == ([1, 2], None, [3, 4])
