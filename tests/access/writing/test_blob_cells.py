"""BLOB cells at any depth of a row accept content; the error for any other value names the cell."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.blob import Blob, NewBlob
from odps_nb.access.blobs.paths import blob_paths, find_blob_path, map_blobs, walk_blobs
from odps_nb.access.writing.blob_cells import check_cells, check_leaf_types, content_of
from odps_nb.errors import ConversionError, NotFoundError
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import BlobReference, TableName
from odps_nb.wire.type_text import parse_columns, parse_type

NAME = TableName(project="p", table="t")
DEEP = "array<struct<n:int,b:blob,m:map<string,blob>>>"
DOCUMENTS = TableSchema(
    columns=parse_columns(f"id bigint, photo blob, pages {DEEP}, one array<blob>")
)


def column(text: str, *, nullable: bool = True) -> Column:
    return Column(name="c", type=parse_type(text), nullable=nullable)


def test_each_blob_position_in_a_type_has_a_path():
    assert [".".join(path) for c in DOCUMENTS for path in blob_paths(c.type, c.name)] == [
        "photo",
        "pages.element.b",
        "pages.element.m.value",
        "one.element",
    ]


def test_a_path_may_be_shortened_if_unambiguous():
    assert find_blob_path("PHOTO", DOCUMENTS, NAME) == ("photo",)
    assert find_blob_path("one", DOCUMENTS, NAME) == ("one", "element")
    assert find_blob_path("pages.element.m", DOCUMENTS, NAME) == ("pages", "element", "m", "value")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pages", "does not identify a single BLOB"),
        ("id", "is not a BLOB"),
        ("phot", "is not a BLOB"),
    ],
)
def test_the_error_for_a_path_without_a_blob_lists_the_valid_paths(text, said):
    with pytest.raises(NotFoundError, match=said) as caught:
        find_blob_path(text, DOCUMENTS, NAME)
    assert "pages.element.m.value" in caught.value.hint


def test_the_error_says_that_a_table_has_no_blobs():
    with pytest.raises(NotFoundError, match="no BLOB column"):
        find_blob_path("x", TableSchema(columns=parse_columns("x bigint")), NAME)


CELL = [
    {"n": 1, "b": b"1", "m": [("x", b"2"), ("y", None)]},
    None,
    {"n": 2, "b": None, "m": None},
    {"n": 3, "b": b"3", "m": {"z": b"4"}},
]


def test_blobs_are_visited_in_row_order():
    assert list(walk_blobs(CELL, ("element", "b"))) == [b"1", b"3"]
    assert list(walk_blobs(CELL[:1], ("element", "m", "value"))) == [b"2"]
    assert list(walk_blobs(None, ("element",))) == []
    assert list(walk_blobs(b"x", ())) == [b"x"]


def test_replacing_blobs_does_not_change_the_original_cell():
    made = map_blobs(CELL, parse_type(DEEP), lambda leaf, path: (".".join(path), leaf))
    assert made[0]["b"] == ("element.b", b"1")
    assert made[0]["m"] == [("x", ("element.m.value", b"2")), ("y", None)]
    assert made[1] is None
    assert made[3]["m"] == [("z", ("element.m.value", b"4"))]
    assert CELL[0]["b"] == b"1"


# -- accepted values ----------------------------------------------------------------------------


def test_a_blob_cell_may_be_bytes_a_path_a_file_or_a_blob(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"x")
    given = [b"", bytearray(b"x"), memoryview(b"x"), path, io.BytesIO(b"x"), NewBlob(b"x")]
    assert check_cells(given, column("blob")) == given


def test_all_missing_values_of_pandas_are_nulls():
    given = [None, np.nan, pd.NA, pd.NaT]
    assert check_cells(given, column("blob")) == [None] * 4
    assert check_cells([[None, np.nan]], column("array<blob>")) == [[None, None]]


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("blob", "a.png", "a blob must be bytes or a Path, not a string"),
        ("blob", 5, "an int cannot be written as a blob"),
        ("blob", Path("/no/such/file"), "the file does not exist"),
        ("blob", io.StringIO("x"), "is in text mode"),
        ("array<blob>", [b"x", "y"], "a blob must be bytes or a Path, not a string"),
        ("array<blob>", 5, "is not of type array<blob>"),
        ("struct<b:blob>", [1], "is not of type struct<b:blob>"),
        ("blob", NewBlob(Path("/no/such/file")), "the file does not exist"),
    ],
)
def test_the_error_names_a_value_that_is_not_content_and_its_row(text, value, said):
    with pytest.raises(ConversionError, match=said) as caught:
        check_cells([None, value], column(text), first_row=10)
    assert caught.value.row == 11
    assert caught.value.column.startswith("c")


def test_a_file_that_is_too_large_is_refused_with_its_row(tmp_path):
    film = tmp_path / "film.mp4"
    with film.open("wb") as file:
        file.truncate(5 * 2**30 + 1)  # uses no disk space
    with pytest.raises(ConversionError, match="it has 5,368,709,121 bytes") as caught:
        check_cells([b"x", film], column("blob"), first_row=10)
    assert caught.value.row == 11


def test_the_hint_states_how_to_pass_a_file_a_text_or_a_blob():
    with pytest.raises(ConversionError) as caught:
        check_cells(["/wByZWYw"], column("blob"))
    for way in ("pathlib.Path(…)", "text.encode()", "odps.blob(reference)"):
        assert way in caught.value.hint


def test_a_required_blob_cell_may_not_be_null():
    with pytest.raises(ConversionError, match="required value is missing"):
        check_cells([b"x", None], column("blob", nullable=False))


def test_an_error_does_not_contain_long_content():
    with pytest.raises(ConversionError) as caught:
        check_cells(["x" * 100_000], column("blob"))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.string(), "blob"),
        (pa.int64(), "blob"),
        (pa.list_(pa.string()), "array<blob>"),
        (pa.binary(), "array<blob>"),
        (pa.struct([("b", pa.string())]), "struct<b:blob>"),
        (pa.map_(pa.string(), pa.string()), "map<string,blob>"),
    ],
)
def test_arrow_columns_of_another_type_are_refused_before_their_values(arrow, text):
    with pytest.raises(ConversionError, match="does not fit"):
        check_leaf_types(arrow, column(text))


def test_arrow_columns_of_bytes_are_accepted():
    for arrow in (pa.binary(), pa.large_binary(), pa.null(), pa.dictionary(pa.int8(), pa.binary())):
        check_leaf_types(arrow, column("blob"))
    check_leaf_types(pa.list_(pa.struct([("n", pa.int32()), ("b", pa.binary())])), column(DEEP))


# -- metadata ----------------------------------------------------------------------------


def fail_to_copy(reference: BlobReference) -> Blob:
    raise AssertionError("nothing is to be copied")


def test_a_blob_gets_name_type_and_size_from_its_source(tmp_path):
    path = tmp_path / "cat.png"
    path.write_bytes(b"12345")
    one = content_of(path, fail_to_copy)
    assert (one.mime_type, one.file_name, one.size) == ("image/png", "cat.png", 5)
    one = content_of(NewBlob(path, mime_type="image/x", file_name="dog.gif"), fail_to_copy)
    assert (one.mime_type, one.file_name) == ("image/x", "dog.gif")
    one = content_of(bytearray(b"abc"), fail_to_copy)
    assert (one.data, one.mime_type, one.file_name, one.size) == (b"abc", None, None, 3)
    assert content_of(io.BytesIO(b"abc"), fail_to_copy).size == 3


def test_a_file_at_its_end_is_refused():
    written = io.BytesIO()
    written.write(b"abc")
    with pytest.raises(ConversionError, match="is at its end") as caught:
        content_of(NewBlob(written), fail_to_copy)
    assert "seek(0)" in caught.value.hint
    written.seek(2)
    left = content_of(written, fail_to_copy)
    assert (left.size, left.data.read()) == (1, b"c")
    assert content_of(io.BytesIO(), fail_to_copy).data.read() == b""


@pytest.mark.parametrize("stated", [{"file_name": "caf\udce9"}, {"mime_type": "text/\udc80"}])
def test_a_name_or_type_that_is_not_unicode_is_refused(stated):
    with pytest.raises(ConversionError, match="not valid Unicode"):
        content_of(NewBlob(b"x", **stated), fail_to_copy)


def test_text_is_refused_as_blob_content():
    with pytest.raises(ConversionError, match="a blob must be bytes or a Path, not a string"):
        NewBlob("a.png")
