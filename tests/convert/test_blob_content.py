"""Blobs are converted to pictures, arrays, text and tables, or refused.

Tables and pictures are converted in this process and in the parser process, with the same result or
error.
"""

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from fuzz.media_files import psd
from odps_nb.access.blob import MAX_BYTES, MAX_PIXELS
from odps_nb.convert import blob_content, blob_conversion
from odps_nb.convert.blob_content import as_array, as_text, pixels_of
from odps_nb.convert.pictures import PICTURES, icon_size, register
from odps_nb.errors import ConversionError, LimitExceededError, OdpsNbError
from odps_nb.formats.parsers import picture as previewed
from odps_nb.formats.registry import media_type
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Value

ROWS = pa.table({"id": range(5000), "word": ["some words"] * 5000})


def picture(form: str, mode: str = "RGB", **options) -> bytes:
    register()
    if form == "PSD":
        return psd(7, 5)
    out = io.BytesIO()
    if form == "ICO":
        options["sizes"] = [(7, 5)]
    Image.new(mode, (7, 5), 3).save(out, form, **options)
    return out.getvalue()


def npy(array: np.ndarray, **options) -> bytes:
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def arrow(rows: pa.Table, make=pa.ipc.new_stream, **options) -> bytes:
    out = pa.BufferOutputStream()
    with make(out, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(rows, max_chunksize=1000)
    return out.getvalue().to_pybytes()


def parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


def detected_type(data: bytes) -> str:
    return media_type(data[: 1 << 16], len(data), "")


def as_picture(data: bytes, mime: str, *, max_pixels: int) -> Image.Image:
    here, aside = (
        result_or_error(lambda convert=convert: convert(data, mime, max_pixels=max_pixels))
        for convert in (blob_content.as_picture, blob_conversion.picture)
    )
    if isinstance(here, Image.Image):
        assert (here.mode, here.size, here.format) == (aside.mode, aside.size, aside.format)
        assert here.tobytes() == aside.tobytes()
        assert pixels_of(here).tobytes() == pixels_of(aside).tobytes()
    return value_or_error(here, aside)


def as_table(data: bytes, mime: str, *, max_bytes: int) -> pa.Table:
    here, aside = (
        result_or_error(lambda convert=convert: convert(data, mime, max_bytes=max_bytes))
        for convert in (blob_content.as_table, blob_conversion.table)
    )
    if isinstance(here, pa.Table):
        assert here.schema.equals(aside.schema, check_metadata=True)
        assert here.equals(aside)
    return value_or_error(here, aside)


def result_or_error(convert):
    try:
        return convert()
    except OdpsNbError as error:
        return error


def value_or_error(here, aside):
    if isinstance(here, OdpsNbError):
        for name in ("message", *here.fact_names):
            assert getattr(here, name) == getattr(aside, name)
        assert type(here) is type(aside)
        raise aside
    return aside


def table(data: bytes, max_bytes: int = MAX_BYTES) -> pa.Table:
    return as_table(data, detected_type(data), max_bytes=max_bytes)


def array(data: bytes) -> np.ndarray:
    mime = detected_type(data)
    if mime in PICTURES:
        return pixels_of(as_picture(data, mime, max_pixels=MAX_PIXELS))
    return as_array(data, mime)


def test_pictures_have_the_same_pixel_limit_as_previews():
    assert previewed.MAX_PIXELS == MAX_PIXELS


FORMS = [
    *("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF", "HEIF", "ICO"),
    *("JPEG2000", "PSD", "PPM", "DDS", "QOI"),
]


@pytest.mark.parametrize("form", FORMS)
def test_pictures_of_every_format_are_decoded(form):
    data = picture(form)
    found = as_picture(data, detected_type(data), max_pixels=35)
    assert (found.format, found.size) == (form, (7, 5))
    assert array(data).shape in ((5, 7), (5, 7, 3), (5, 7, 4))
    with pytest.raises(LimitExceededError, match="7 × 5 pixels"):
        as_picture(data, detected_type(data), max_pixels=34)


def test_arrays_of_pictures_have_the_colours_of_the_palette():
    assert array(picture("PNG", "P")).shape == (5, 7, 3)
    assert array(picture("PNG", "P", transparency=0)).shape == (5, 7, 4)
    assert array(picture("PNG", "L")).shape == (5, 7)


def test_a_picture_with_too_many_pixels_is_not_decoded():
    def chunk(name: bytes, body: bytes) -> bytes:
        return len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)

    head = (20_000).to_bytes(4) + (20_000).to_bytes(4) + bytes([8, 0, 0, 0, 0])
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    for limit in (MAX_PIXELS, 10**9):
        with pytest.raises(LimitExceededError, match="pixels") as caught:
            as_picture(data, detected_type(data), max_pixels=limit)
        assert "trust" in caught.value.hint


def test_every_previewed_format_has_a_test():
    assert set(FORMS) == set(PICTURES.values())


@pytest.mark.parametrize("kind", ["png", "bmp"])
def test_an_icon_with_a_large_picture_behind_a_small_header_is_not_decoded(kind):
    data = bytearray(picture("ICO", "RGBA", bitmap_format=kind))
    begins = int.from_bytes(data[18:22], "little")
    assert icon_size(data) == (7, 5)
    if kind == "png":
        at = begins + 16
        data[at : at + 8] = (9000).to_bytes(4, "big") * 2
        data[at + 13 : at + 17] = zlib.crc32(data[at - 4 : at + 13]).to_bytes(4, "big")
    else:
        data[begins + 4 : begins + 12] = (9000).to_bytes(4, "little") * 2
    with pytest.raises(LimitExceededError, match="pixels"):
        as_picture(bytes(data), "image/vnd.microsoft.icon", max_pixels=MAX_PIXELS)


@pytest.mark.parametrize("form", FORMS)
def test_a_truncated_picture_is_refused(form):
    data = picture(form)
    data = data[: len(data) * 6 // 10]
    with pytest.raises(ConversionError, match=r"cannot be read|cannot decode") as caught:
        as_picture(data, detected_type(data), max_pixels=MAX_PIXELS)
    assert "0x" not in str(caught.value)


@pytest.mark.parametrize(
    ("signed", "values"), [(1, np.array([[5, -5]], "i4")), (2, np.array([[5, 251]], "u1"))]
)
def test_a_tiff_whose_values_pillow_gives_the_wrong_sign_is_refused(signed, values):
    """Pillow has neither unsigned integers of 32 bits nor signed bytes."""
    out = io.BytesIO()
    Image.fromarray(values).save(out, "TIFF", tiffinfo={339: 2})
    tag = struct.pack("<HHI", 339, 3, 1)
    data = out.getvalue().replace(tag + b"\2", tag + bytes([signed]))
    assert tile(Value(data)).notes[0].startswith("not decoded here: Pillow does not decode")
    with pytest.raises(ConversionError, match=r"does not decode (un)?signed values of"):
        array(data)


def test_arrays_keep_shape_type_and_values():
    for one in (
        np.arange(24, dtype=">i4").reshape(2, 3, 4),
        np.asfortranarray(np.random.default_rng(1).normal(size=(3, 4))),
        np.array(5.0),
        np.zeros((0, 3)),
        np.array(["ab", "ü"]),
    ):
        found = array(npy(one))
        assert (found.shape, found.dtype) == (one.shape, one.dtype)
        assert np.array_equal(found, one)


def test_arrays_of_objects_and_arrays_with_false_headers_are_refused():
    with pytest.raises(ConversionError, match="never unpickled"):
        array(npy(np.array([{}], dtype=object), allow_pickle=True))
    good = npy(np.zeros(3))
    for bad in (
        good.replace(b"(3,)", b"(9,)"),
        good.replace(b"(3,), }" + b" " * 12, b"(3000000000000,), }"),
        good.replace(b"(3,), } ", b"(-3,), }"),
        npy(np.zeros(3, "S0")).replace(b"(3,)", b"(9,)"),  # elements of zero bytes still take time
        good[:-1],
        good[:20],
        good + b"\0",
    ):
        assert bad != good
        with pytest.raises(ConversionError, match="cannot be read"):
            array(bad)


def test_text_is_decoded_in_its_declared_encoding_or_refused():
    assert as_text("a\r\nü".encode(), None) == "a\r\nü"
    assert as_text(b"", None) == ""
    for name in ("utf-8-sig", "utf-16", "utf-32"):
        assert as_text("静夜思".encode(name), None) == "静夜思"
    assert as_text("静夜思".encode("gb18030"), "gb18030") == "静夜思"
    for data, encoding in ((b"\xff\xff", None), (b"a\0b", None), ("ü".encode(), "ascii")):
        with pytest.raises(ConversionError) as caught:
            as_text(data, encoding)
        assert "encoding=" in caught.value.hint
    for encoding in ("rot13", "hex", "nothing"):
        with pytest.raises(ConversionError, match="encoding"):
            as_text(b"61", encoding)


def test_tables_of_every_format_are_read():
    for data in (
        parquet(ROWS),
        arrow(ROWS),
        arrow(ROWS, compression="zstd"),
        arrow(ROWS, pa.ipc.new_file),
        arrow(ROWS, pa.ipc.new_file, compression="lz4"),
    ):
        assert table(data).equals(ROWS)
    assert table(arrow(ROWS.slice(0, 0))).schema == ROWS.schema
    dictionary = pa.table({"word": ROWS["word"].dictionary_encode()})
    assert table(arrow(dictionary)).equals(dictionary)
    for text in ("a,b,c\n1,x,\n2,y,3\n", "a;b;c\n1;x;\n2;y;3\n", "a\tb\tc\n1\tx\t\n2\ty\t3\n"):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            found = table(text.encode(encoding))
            assert found.to_pydict() == {"a": [1, 2], "b": ["x", "y"], "c": [None, 3]}


def test_content_that_expands_too_much_is_refused_before_decompression():
    zeros = pa.table({"n": pa.array(np.zeros(4_000_000))})
    plain = io.BytesIO()
    pq.write_table(zeros, plain, use_dictionary=False, compression="zstd")
    repeated = io.BytesIO()  # run-length encoding: a few bytes declare millions of rows
    pq.write_table(zeros, repeated, use_dictionary=True)
    for data in (plain.getvalue(), repeated.getvalue(), arrow(zeros, compression="zstd")):
        assert len(data) < 1_000_000
        with pytest.raises(LimitExceededError) as caught:
            table(data, 8_000_000)
        assert caught.value.limit == 8_000_000


def test_truncated_and_damaged_tables_are_refused():
    for data in (parquet(ROWS), arrow(ROWS), arrow(ROWS, pa.ipc.new_file)):
        for size in (len(data) - 1, len(data) // 2, 40):
            with pytest.raises(ConversionError):
                table(data[:size])
    with pytest.raises(ConversionError, match="cannot be read"):
        as_table(b"a,b\n1,2\n3\n", "text/csv", max_bytes=MAX_BYTES)


def test_the_error_names_the_actual_type_of_the_content():
    png = picture("PNG")
    with pytest.raises(ConversionError, match="not a table: its content is image/png"):
        table(png)
    with pytest.raises(ConversionError, match="not a picture"):
        as_picture(parquet(ROWS), detected_type(parquet(ROWS)), max_pixels=MAX_PIXELS)
    with pytest.raises(ConversionError, match="not an array") as caught:
        array(parquet(ROWS))
    assert "npz" in caught.value.hint


@pytest.mark.parametrize(
    ("library", "mime", "said"),
    [
        ("PIL", "image/png", "notebook pip install pillow"),
        ("pillow_heif", "image/heic", "previews pip install 'odps-nb[previews]'"),
    ],
)
def test_the_error_names_a_missing_decoder(library, mime, said):
    script = (
        f"import sys; sys.modules['{library}'] = None\n"
        "from odps_nb.convert.blob_content import as_picture\n"
        "from odps_nb.errors import MissingDependencyError\n"
        f"try: as_picture(b'', '{mime}', max_pixels=1)\n"
        "except MissingDependencyError as error: print(error.extra, error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == f"{said}\n", done.stderr
