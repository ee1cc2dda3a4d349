"""BLOB references: text for a user, wherever in a row they are and however they arrived."""

import base64

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.convert.references import present_batch, references_as_text
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns, parse_type

RAW = b"\xff\x00ref0"
TEXT = base64.b64encode(RAW).decode()


def test_top_level_references_are_text_already():
    array = pa.array([TEXT.encode(), None])
    assert references_as_text(array, parse_type("blob")).to_pylist() == [TEXT, None]


def test_nested_references_become_text_from_either_spelling():
    target = parse_type("array<struct<n:int,b:blob>>")
    for spelling in (RAW, TEXT.encode()):
        rows = [[{"n": 1, "b": spelling}, {"n": 2, "b": None}], None, []]
        array = pa.array(rows, pa.list_(pa.struct([("n", pa.int32()), ("b", pa.binary())])))
        assert references_as_text(array, target).to_pylist() == [
            [{"n": 1, "b": TEXT}, {"n": 2, "b": None}],
            None,
            [],
        ]


def test_maps_keep_their_keys():
    rows = [[("x", RAW)], [("k", RAW)], None, [("a", None), ("b", RAW)]]
    array = pa.array(rows, pa.map_(pa.string(), pa.binary())).slice(1)
    made = references_as_text(array, parse_type("map<string,blob>"))
    assert made.to_pylist() == [[("k", TEXT)], None, [("a", None), ("b", TEXT)]]
    assert references_as_text(array.slice(2), parse_type("map<string,blob>")).to_pylist() == [
        [("a", None), ("b", TEXT)]
    ]


def test_batches_without_blobs_pass_as_they_are():
    batch = pa.record_batch({"a": [1]})
    assert present_batch(batch, TableSchema(columns=parse_columns("a bigint"))) is batch


CELL = st.none() | st.binary(max_size=8)
ROWS = st.lists(st.none() | st.lists(CELL, max_size=4), max_size=8)


@given(rows=ROWS, start=st.integers(0, 8), length=st.integers(0, 8))
def test_any_slice_keeps_its_shape(rows, start, length):
    array = pa.array(rows, pa.list_(pa.binary())).slice(start, length)
    made = references_as_text(array, parse_type("array<blob>"))
    made.validate(full=True)
    assert len(made) == len(array)
    for before, after in zip(array.to_pylist(), made.to_pylist(), strict=True):
        assert (before is None) == (after is None)
        assert [b is None for b in before or []] == [a is None for a in after or []]
