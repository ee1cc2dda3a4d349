"""BLOB references are text for the user, at any depth and in any encoding."""

import base64

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.convert.references import present_batch, references_as_text
from odps_nb.errors import ConversionError
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns, parse_type

RAW = b"\xff\x00ref0"
TEXT = base64.b64encode(RAW).decode()


def test_bytes_of_a_top_level_reference_become_text():
    array = pa.array([TEXT.encode(), None])
    assert references_as_text(array, parse_type("blob")).to_pylist() == [TEXT, None]


def test_nested_references_become_text_from_raw_bytes_or_text():
    target = parse_type("array<struct<n:int,b:blob>>")
    for spelling in (RAW, TEXT.encode()):
        rows = [[{"n": 1, "b": spelling}, {"n": 2, "b": None}], None, []]
        array = pa.array(rows, pa.list_(pa.struct([("n", pa.int32()), ("b", pa.binary())])))
        assert references_as_text(array, target).to_pylist() == [
            [{"n": 1, "b": TEXT}, {"n": 2, "b": None}],
            None,
            [],
        ]


def test_references_in_maps_become_text_and_keys_stay():
    rows = [[("x", RAW)], [("k", RAW)], None, [("a", None), ("b", RAW)]]
    array = pa.array(rows, pa.map_(pa.string(), pa.binary())).slice(1)
    made = references_as_text(array, parse_type("map<string,blob>"))
    assert made.to_pylist() == [[("k", TEXT)], None, [("a", None), ("b", TEXT)]]
    assert references_as_text(array.slice(2), parse_type("map<string,blob>")).to_pylist() == [
        [("a", None), ("b", TEXT)]
    ]


@pytest.mark.parametrize("kind", ["map<string,blob>", "array<blob>"])
def test_references_outside_of_a_slice_do_not_affect_the_encoding(kind):
    values = [RAW, TEXT.encode()]
    if kind.startswith("map"):
        array = pa.array([[("k", one)] for one in values], pa.map_(pa.string(), pa.binary()))
        expected = [[("k", TEXT)]]
    else:
        array, expected = pa.array([[one] for one in values], pa.list_(pa.binary())), [[TEXT]]
    assert references_as_text(array.slice(1), parse_type(kind)).to_pylist() == expected


def test_batches_without_blobs_are_returned_unchanged():
    batch = pa.record_batch({"a": [1]})
    assert present_batch(batch, TableSchema(columns=parse_columns("a bigint"))) is batch


CELL = st.none() | st.binary(max_size=8)
ROWS = st.lists(st.none() | st.lists(CELL, max_size=4), max_size=8)


@given(rows=ROWS, start=st.integers(0, 8), length=st.integers(0, 8))
def test_slices_of_nested_references_keep_their_shape(rows, start, length):
    array = pa.array(rows, pa.list_(pa.binary())).slice(start, length)
    made = references_as_text(array, parse_type("array<blob>"))
    made.validate(full=True)
    assert len(made) == len(array)
    for before, after in zip(array.to_pylist(), made.to_pylist(), strict=True):
        assert (before is None) == (after is None)
        assert [b is None for b in before or []] == [a is None for a in after or []]


VECTOR = TableSchema(columns=parse_columns("v vector(float,2)"))
FIXED = pa.list_(pa.float32(), 2)


@pytest.mark.parametrize("rows", [[None], [], [[1, 2]], [None, [1, 2], None, [3, 4]]], ids=repr)
@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), FIXED, pa.list_(pa.float16())]
)
def test_vectors_become_lists_of_fixed_size(rows, kind):
    """Evidence 155: vectors arrive in any kind of list. Arrow's own cast crashes on only nulls."""
    halves = kind.value_type == pa.float16()
    given = [np.array(one, "float16") if halves and one else one for one in rows]
    array = pa.array(given, kind)
    for part in (array, array.slice(1)):
        shown = present_batch(pa.record_batch({"v": part}), VECTOR)
        shown.validate(full=True)
        assert shown.schema.field("v").type == FIXED
        assert shown["v"].to_pylist() == part.to_pylist()


def test_values_hidden_by_a_null_vector_are_ignored():
    values = pa.array([9, 9, 9, 1, 2], pa.float32())
    lists = pa.ListArray.from_arrays([0, 3, 5], values, mask=pa.array([True, False]))
    assert present_batch(pa.record_batch({"v": lists}), VECTOR)["v"].to_pylist() == [None, [1, 2]]


@pytest.mark.parametrize("kind", [pa.binary(), pa.list_(pa.string()), pa.struct({"a": pa.int8()})])
def test_arrays_that_are_not_lists_are_unchanged_in_a_vector_column(kind):
    batch = pa.record_batch({"v": pa.nulls(2, kind)})
    assert present_batch(batch, VECTOR).schema.field("v").type == kind


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3)])
def test_a_vector_of_another_length_is_an_error_of_its_column(kind):
    batch = pa.record_batch({"v": pa.array([None, [1, 2, 3]], kind)})
    with pytest.raises(ConversionError, match=r"'v'.* vector\(float,2\)") as caught:
        present_batch(batch, VECTOR)
    assert caught.value.column == "v"
