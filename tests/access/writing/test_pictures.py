"""Columns of paths, pictures and arrays become blobs with their media types."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageOps

from odps_nb.access.blob import NewBlob
from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.access.writing.pictures import ImageFormat, encoded, unfit
from odps_nb.convert.pictures import ORIENTATION
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import TypeCode
from tests.support.named import NewName
from tests.support.profiles import P3, rgb_profile

pytestmark = pytest.mark.storage_api("blobs")

RGB = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
PICTURES: list[Any] = [
    RGB,
    RGB[:, :, :1],
    RGB[:, :, 0],
    RGB[:, ::2, :2],
    np.dstack([RGB, RGB[:, :, 0]]),
    np.arange(24, dtype=np.uint16).reshape(4, 6) * 2000,
    np.arange(24, dtype=">u2").reshape(4, 6) * 2000,
    RGB[:, :, 0] % 2 == 0,
    Image.fromarray(RGB),
    Image.fromarray(RGB).convert("P"),
    Image.fromarray(RGB).convert("1"),
]


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    return odps.create_table(new_name("pictures"), "id bigint, photo blob")


def column(*values: Any) -> pd.DataFrame:
    held = pd.Series([None] * len(values), dtype=object)
    for place, value in enumerate(values):
        held.iat[place] = value
    return pd.DataFrame({"id": range(len(values)), "photo": held})


def test_pictures_and_arrays_are_stored_as_png_with_the_same_pixels(
    odps: Connection, table: Table
) -> None:
    assert table.write(column(*PICTURES, None)).blobs == len(PICTURES)
    *blobs, missing = table.read().to_arrow().sort_by("id").column("photo").to_pylist()
    assert missing is None
    for given, reference in zip(PICTURES, blobs, strict=True):
        blob = odps.blob(reference)
        assert (blob.mime_type, blob.file_name or None) == ("image/png", None)
        found = Image.open(io.BytesIO(blob.bytes()))
        wanted = given.convert("RGBA") if isinstance(given, Image.Image) else np.squeeze(given)
        shown = found.convert("RGBA") if isinstance(given, Image.Image) else found
        assert np.array_equal(np.asarray(shown), np.asarray(wanted))


def test_blobs_from_files_and_opened_pictures_have_the_name_and_type_of_the_file(
    odps: Connection, table: Table, tmp_path: Path
) -> None:
    paths = [tmp_path / "a.csv", tmp_path / "photo.bmp", tmp_path / "plain"]
    paths[0].write_bytes(b"x\n1\n")
    Image.fromarray(RGB).save(paths[1])
    paths[2].write_bytes(b"no type is known of this")
    opened = Image.open(paths[1])
    named = NewBlob(opened, file_name="given.png")
    table.write(column(*paths, opened, named))
    found = [odps.blob(one) for one in table.read().to_arrow().sort_by("id")["photo"].to_pylist()]
    assert [(one.file_name, one.mime_type or "") for one in found] == [
        ("a.csv", "text/csv"),
        ("photo.bmp", "image/bmp"),
        ("plain", ""),
        ("photo.png", "image/png"),
        ("given.png", "image/png"),
    ]
    assert found[0].bytes() == b"x\n1\n"


def test_the_format_of_stored_pictures_can_be_chosen(odps: Connection, table: Table) -> None:
    floats = np.linspace(0, 1, 30).reshape(2, 3, 5)
    table.write(column(floats), image_format="npy")
    table.write(column(RGB), image_format="webp", overwrite=False)
    table.write(column(RGB), image_format="JPEG")
    kinds = {}
    for reference in table.read().to_arrow()["photo"].to_pylist():
        blob = odps.blob(reference)
        kinds[blob.mime_type] = blob.bytes()
    assert np.array_equal(np.load(io.BytesIO(kinds["application/x-npy"])), floats)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(kinds["image/webp"]))), RGB)
    assert Image.open(io.BytesIO(kinds["image/jpeg"])).format == "JPEG"
    with pytest.raises(ArgumentError, match="'bmp'"):
        table.write(column(RGB), image_format="bmp")


@pytest.mark.parametrize(
    ("value", "image_format", "said"),
    [
        (np.zeros((2, 3)), "png", "float64, shape (2, 3), is not a picture"),
        (np.zeros((2, 3, 5), np.uint8), "png", "is not a picture"),
        (np.zeros(4, np.uint8), "png", "is not a picture"),
        (np.zeros((0, 3), np.uint8), "png", "is not a picture"),
        (np.zeros((2, 3, 3), np.uint16), "png", "is not a picture"),
        (np.ma.masked_equal(RGB, 3), "png", "has a mask"),
        (np.array([{}]), "npy", "holds Python objects"),
        (RGB[:, :, :2], "jpeg", "the mode LA"),
        (Image.new("CMYK", (2, 2)), "png", "cannot store a picture of mode CMYK"),
        (Image.new("F", (2, 2)), "webp", "of mode F"),
        (Image.new("RGBA", (2, 2)), "jpeg", "of mode RGBA"),
        (Image.new("RGB", (0, 2)), "png", "has no pixels"),
        (Image.new("RGB", (2, 2)), "npy", "npy cannot store a picture"),
        ("a/path/as/text.png", "png", "not a string"),
        (3.5, "png", "a float cannot be"),
    ],
)
def test_a_picture_that_cannot_be_encoded_is_refused_with_row_and_column(
    table: Table, value: Any, image_format: str, said: str
) -> None:
    fitting = RGB if image_format != "npy" else np.zeros(2)
    with pytest.raises(ConversionError) as caught:
        table.write(column(fitting, value), image_format=image_format)
    assert said in str(caught.value)
    assert (caught.value.column, caught.value.row) == ("photo", 1)
    assert table.read().to_arrow().num_rows == 0


def test_the_error_for_a_damaged_picture_names_its_cell_and_nothing_is_written(
    table: Table, tmp_path: Path
) -> None:
    whole = io.BytesIO()
    Image.fromarray(np.resize(RGB, (200, 200, 3))).save(whole, "PNG")
    broken = tmp_path / "cut.png"
    broken.write_bytes(whole.getvalue()[:200])
    with (
        Image.open(broken) as cut,
        pytest.raises(ConversionError, match="cannot be encoded as PNG") as caught,
    ):
        table.write(column(RGB, cut))
    assert (caught.value.column, caught.value.row) == ("photo", 1)
    assert table.read().to_arrow().num_rows == 0


def test_a_new_table_gets_a_blob_column_for_pictures(odps: Connection, new_name: NewName) -> None:
    name = new_name("made")
    odps.table(name).write(column(RGB, Image.fromarray(RGB)), create=True)
    assert odps.table(name).schema.find("photo").type.code is TypeCode.BLOB
    vectors = odps.table(new_name("vectors"))
    vectors.write(pd.DataFrame({"v": [np.arange(3.0), np.arange(2.0)]}), create=True)
    assert vectors.read().to_arrow()["v"].to_pylist() == [[0, 1, 2], [0, 1]]


@pytest.mark.parametrize("wanted", ["png", "jpeg", "webp"])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_an_opened_picture_keeps_its_orientation_and_colour_profile(form: str, wanted: str) -> None:
    profile = rgb_profile(P3)
    exif = Image.Exif()
    exif[ORIENTATION], exif[0x010F] = 6, "Camera"
    whole = io.BytesIO()
    Image.fromarray(RGB).save(whole, form, exif=exif, icc_profile=profile)
    opened = Image.open(io.BytesIO(whole.getvalue()))
    stored = Image.open(io.BytesIO(encoded(opened, ImageFormat.of(wanted))[0]))
    assert stored.info["icc_profile"] == profile
    assert ImageOps.exif_transpose(stored).size == (4, 6)
    assert set(stored.getexif()) <= {ORIENTATION}
    # a changed picture may have been turned upright; its profile must be of its colours
    changed = Image.open(io.BytesIO(whole.getvalue())).convert("L")
    stored = Image.open(io.BytesIO(encoded(changed, ImageFormat.of(wanted))[0]))
    assert not stored.getexif()
    assert "icc_profile" not in stored.info


def test_encoding_and_its_check_give_the_same_errors() -> None:
    for name in ("png", "jpeg", "webp", "npy"):
        wanted = ImageFormat.of(name)
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"):
            picture = Image.new(mode, (3, 2))
            if unfit(picture, wanted) is None:
                back = Image.open(io.BytesIO(encoded(picture, wanted)[0]))
                assert (name, back.size) == (name, (3, 2))
