"""ASCII text is validated in one pass, other text value by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.arrow.validation import validate

KINDS = [pa.string(), pa.large_string()]


def column(
    kind: pa.DataType,
    ends: list[int],
    data: bytes,
    *,
    bitmap: bytes | None = None,
    nulls: int = -1,
) -> pa.RecordBatch:
    """A batch with one text column and these offsets, valid or not."""
    width = np.int32 if kind == pa.string() else np.int64
    mask = None if bitmap is None else pa.py_buffer(bitmap)
    buffers = [mask, pa.py_buffer(np.array(ends, width)), pa.py_buffer(data)]
    array = pa.Array.from_buffers(kind, len(ends) - 1, buffers, null_count=nulls)
    return pa.RecordBatch.from_arrays([array], names=["text"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("ends", "data"),
    [
        ([0, 3, 1, 4], b"abcd"),  # an offset decreases
        ([0, 9, 2], b"abcd"),  # an offset beyond the data, then a smaller one
        ([0, 1, 2], "é".encode()),  # the buffer is UTF-8, but an offset splits a character
        ([0, 1, 3], b"a\xff\xfe"),
        ([0, 1], b"\x80"),
    ],
)
def test_damaged_text_is_refused(kind: pa.DataType, ends: list[int], data: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        validate(column(kind, ends, data))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("ends", "data"),
    [
        ([0], b""),
        ([0, 0, 0], b""),
        ([0, 2, 4], b"abcd"),
        ([1, 2, 3], b"\xffab\xff"),  # bytes that belong to no value
        ([0, 2, 3], "éa".encode()),
        ([0, 3, 6], "中文".encode()),
    ],
)
def test_valid_text_is_accepted(kind: pa.DataType, ends: list[int], data: bytes) -> None:
    validate(column(kind, ends, data))
    validate(column(kind, ends, data).slice(min(1, len(ends) - 1)))


def test_a_wrong_null_count_is_refused_even_in_ascii_text() -> None:
    with pytest.raises(pa.ArrowInvalid, match="null_count"):
        validate(column(pa.string(), [0, 1, 2], b"ab", bitmap=b"\x03", nulls=1))


def test_bytes_below_a_null_are_ignored() -> None:
    validate(column(pa.string(), [0, 1, 2], b"a\xff", bitmap=b"\x01", nulls=1))


@given(
    data=st.binary(max_size=6) | st.text("aé中", max_size=3).map(str.encode),
    within=st.lists(st.integers(0, 8), max_size=4),
)
def test_text_validation_agrees_with_arrow(data: bytes, within: list[int]) -> None:
    batch = column(pa.string(), [0, *within, len(data)], data)
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        with pytest.raises(pa.ArrowInvalid):
            validate(batch)
    else:
        validate(batch)
