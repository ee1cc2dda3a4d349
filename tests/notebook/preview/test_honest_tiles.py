"""A tile states only verified facts, and why content is not displayed."""

import io
import re
import struct
import zlib

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from PIL import Image

from fuzz import media_files
from fuzz.preview_files import files
from odps_nb.access.blob import MAX_BYTES
from odps_nb.convert import blob_content
from odps_nb.convert.pictures import register
from odps_nb.errors import ConversionError
from odps_nb.formats.drawing import Excerpt
from odps_nb.formats.registry import differs, kinds, media_type, sniff
from odps_nb.formats.shared import GRID
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.lengths import ends_early
from odps_nb.parsing.reasons import reason_of, refusal_of
from odps_nb.parsing.values import UnshowableError
from tests.support.arrow_bodies import ipc
from tests.support.encrypted import encrypted_parquet
from tests.support.previews import Seen, Value

FILES = files()
INTERNALS = re.compile(r"0x[0-9a-f]{4,}|errno|avcodec|<_io|object at|Error\b", re.IGNORECASE)


def notes(data):
    """Return the notes of a tile, which contain no internal details of libraries."""
    text = " ".join(tile(Value(data)).notes)
    assert not INTERNALS.search(text), text
    return text


def arrow(*sizes, form=pa.ipc.new_file, **options):
    out = io.BytesIO()
    schema = pa.schema([("n", pa.int64())])
    with form(out, schema, **options) as writer:
        for size in sizes:
            writer.write_batch(pa.record_batch([pa.array(range(size), pa.int64())], schema=schema))
    return out.getvalue()


def picture(form, mode="RGB", size=(64, 48), **options):
    pixels = np.arange(size[0] * size[1] * 3, dtype=np.uint8).reshape(size[1], size[0], 3)
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, form, **options)
    return out.getvalue()


# -- rows of Arrow --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [pa.ipc.new_file, pa.ipc.new_stream, pyarrow.parquet.ParquetWriter]
)
@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ((), "0 rows × 1 column"),
        ((0, 0), "0 rows × 1 column"),
        ((1,), "1 row × 1 column"),
        ((0, 3, 0, 4), "7 rows × 1 column"),
        ((65_536, 65_536, 68_928), "200,000 rows × 1 column"),
    ],
)
def test_the_row_count_of_a_file_includes_all_batches(form, sizes, says):
    made = tile(Value(arrow(*sizes, form=form)))
    assert f" · {says} · " in made.text
    if sum(sizes):  # the first rows come from the first batch that has rows
        assert Seen(made.html).text.startswith("n · int640")


def test_rows_of_compressed_batches_are_counted_without_decompression():
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    data = arrow(2, 500_000, 500_000, options=packed, form=pa.ipc.new_stream)
    assert "1,000,002 rows × 1 column" in tile(Value(data)).text


def test_the_row_count_of_a_feather_file_includes_all_chunks():
    out = io.BytesIO()
    pa.feather.write_feather(pa.table({"n": range(1000)}), out, chunksize=300)
    assert "1,000 rows × 1 column" in tile(Value(out.getvalue())).text


def test_the_row_count_of_a_truncated_arrow_stream_is_a_minimum():
    data = arrow(10, 20, 30, form=pa.ipc.new_stream)
    assert "at least 30 rows × 1 column" in tile(Value(data[:-100])).text


def test_a_union_that_pyarrow_cannot_read_is_refused_with_a_reason():
    values = pa.UnionArray.from_sparse(
        pa.array([5, 7], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])], type_codes=[5, 7]
    )
    assert "type codes" in notes(ipc(pa.record_batch([values], names=["u"])))


def test_parquet_with_encrypted_columns_is_reported_without_a_crash():
    said = notes(encrypted_parquet(plaintext_footer=True))
    assert "encrypted" in said
    assert "keys" in said
    assert "stopped the parser" not in said
    made = tile(Value(encrypted_parquet(plaintext_footer=False)))
    assert made.format.label == "Parquet"
    assert "encrypted" in " ".join(made.notes)


@pytest.mark.parametrize("form", ["Arrow", "Parquet"])
def test_text_that_is_not_utf_8_is_not_called_damage(form):
    latin = pa.array([b"caf\xe9"]).view(pa.string())
    out, table = io.BytesIO(), pa.table({"a": latin})
    if form == "Arrow":
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    else:
        pyarrow.parquet.write_table(table, out)
    said = "not decoded here: it contains text that is not valid UTF-8"
    assert notes(out.getvalue()) == said


# -- damaged or unsupported files -----------------------------------------------------------------


def test_a_png_with_damaged_pixels_has_a_note():
    data = bytearray(picture("PNG"))
    data[len(data) // 2] ^= 255
    with pytest.raises(OSError, match="broken"):
        Image.open(io.BytesIO(data)).load()
    assert "truncated or damaged" in notes(bytes(data))


def test_a_truncated_picture_shows_its_readable_part_with_a_note():
    data = picture("JPEG")
    made = tile(Value(data[:-40]))
    assert "data:image/" in made.html
    assert "64 × 48" in made.text
    assert "truncated or damaged" in notes(data[:-40])
    assert notes(data) == ""  # earlier decoding does not change the settings of the process


FILMS = media_files.files()
WHOLE = {
    **{
        name: FILMS[name]
        for name in FILMS
        # these state no size: a truncated file cannot be distinguished from a short one
        if name not in ("song.aac", "call.amr", "clip.ts", "clip.mpg", "clip.flv")
    },
    "sound.wav": FILES["sound.wav"],
    "photo.dds": FILMS["photo.dds"],
    "rows.orc": FILES["rows.orc"],
    "rows.arrow": arrow(900),
    "rows.arrows": arrow(900, form=pa.ipc.new_stream),
    "photo.webp": picture("WEBP"),
    "photo.tiff": picture("TIFF", compression="tiff_lzw"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_truncated_file_is_called_truncated(name):
    data = WHOLE[name]
    assert "damaged" not in notes(data)
    for cut in (len(data) // 2, len(data) * 9 // 10):
        assert notes(data[:cut]).count("truncated or damaged: its data ends early") == 1


def _unknown_segment(data):
    at = data.index(b"\x18\x53\x80\x67") + 4
    return data[:at] + b"\1" + 7 * b"\xff" + data[at + 8 :]


def _broadcast(data):
    at = data.index(bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365"))
    return data[: at + 40] + bytes([255] * 8) + data[at + 48 : at + 88] + b"\1" + data[at + 89 :]


@pytest.mark.parametrize(
    "data",
    [
        _unknown_segment(FILMS["clip.webm"]),
        _unknown_segment(FILMS["clip.mkv"]),
        _broadcast(FILMS["clip.wmv"]),
        FILMS["clip.mp4"] + b"\0\1\0\0SEFT" * 3,  # some cameras append data of their own
        FILMS["clip.mp4"] + b"\0\0\0\0free",  # a box that reaches to the end of the file
        FILMS["song.ogg"] + FILMS["song.ogg"],  # a chain of streams
    ],
    ids=["WebM", "Matroska", "broadcast", "appended data", "open box", "chain"],
)
def test_a_file_without_a_stated_size_is_not_called_truncated(data):
    assert not ends_early(data)


@pytest.mark.parametrize("size", [0, 0x7FFFF024, 0xFFFFFFFF])
def test_a_sound_of_unknown_length_is_not_called_truncated(size):
    """Programs that write to a pipe do not know the length."""
    data = FILES["sound.wav"]
    assert notes(data[:4] + struct.pack("<I", size) + data[8:]) == ""


def test_a_panic_of_a_library_in_rust_is_a_refusal():
    assert notes(FILES["book.xls"][:-1]) == (
        "not decoded here: the decoder found invalid data in it"
    )
    with pytest.raises(ConversionError, match="the decoder found invalid data in it"):
        blob_content.as_table(
            FILES["book.xls"][:-1], "application/vnd.ms-excel", max_bytes=MAX_BYTES
        )


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0" + b"II*\0\x08\0\0\0\xff\xff" + bytes(30), b"Exif\0\0x"]
)
def test_a_picture_with_damaged_exif_data_is_shown(exif):
    made = tile(Value(picture("JPEG", exif=exif)))
    assert "data:image/" in made.html
    assert made.notes == ()


def tiff(bands, bits, sample_format=1, compression=1):
    """Return a TIFF of 2 × 2 pixels in a format that Pillow does not write."""
    pixels = bytes(4 * bands * bits // 8)
    tags = [
        (256, 3, 1, 2),
        (257, 3, 1, 2),
        (258, 3, 1, bits),
        (259, 3, 1, compression),
        (262, 3, 1, 1),
        (273, 4, 1, 8 + 2 + 12 * 10 + 4),
        (277, 3, 1, bands),
        (278, 3, 1, 2),
        (279, 4, 1, len(pixels)),
        (339, 3, 1, sample_format),
    ]
    directory = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + directory + bytes(4) + pixels


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            tiff(6, 8),
            "not decoded here: Pillow does not decode TIFF with 6 bands, 8 bits per sample, raw",
        ),
        (
            tiff(1, 64, 3),
            "not decoded here: Pillow does not decode TIFF with 1 band, 64 bits per sample, raw",
        ),
        (tiff(1, 8, 1, 34712), "compression 34712"),
        (b"\xff\xd8\xff\xf7\0\x0b\x08\0\x04\0\x04\x01\x01\x11\0" + bytes(40), "JPEG-LS"),
    ],
)
def test_an_unsupported_picture_format_is_identified_and_not_called_damaged(data, says):
    text = notes(data)
    assert says in text
    assert "damaged" not in text


def test_a_bigtiff_file_is_shown_as_a_picture():
    data = picture("TIFF", big_tiff=True)
    assert data.startswith(b"II+")
    assert "TIFF · 64 × 48" in tile(Value(data)).text


FAST = {"preset": "ultrafast", "x265:ctu": "64", "x265:min-cu-size": "32"}


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"format": "MPO", "append_images": [Image.new("RGB", (9, 9))]},
        {"format": "HEIF", "quality": 1, "enc_params": FAST},
    ],
)
def test_a_photograph_of_50_megapixels_is_shown(more):
    out = io.BytesIO()
    photograph = Image.new("L", (8192, 6144), 90)
    register()  # HEIC
    photograph.save(
        out, **{"format": "JPEG", **more}, **({"save_all": True} if "append_images" in more else {})
    )
    made = tile(Value(out.getvalue()))
    assert "animated" not in made.text
    assert "8192 × 6144" in made.text
    assert "data:image/" in made.html


def snappy_avro(rows):
    """Return an Avro file compressed with snappy, from literals: no compressor is needed."""
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"n": n} for n in range(rows)], sync_marker=b"s" * 16)
    data = out.getvalue().replace(b"\x08null", b"\x0csnappy")
    head, block, _ = data.split(b"s" * 16)
    body = block[2:]  # a count and a size, each of one byte, come first
    packed = bytes([len(body), len(body) - 1 << 2]) + body + zlib.crc32(body).to_bytes(4, "big")
    mark = b"s" * 16
    return head + mark + bytes([block[0], len(packed) * 2]) + packed + mark


def test_rows_of_avro_files_compressed_with_snappy_are_shown():
    made = tile(Value(snappy_avro(5)))
    assert "1 column, snappy" in made.text
    assert "4" in Seen(made.html).text
    assert made.notes == ()


def test_an_avro_file_with_a_damaged_block_is_called_damaged():
    schema = {"type": "record", "name": "r", "fields": [{"name": "s", "type": "string"}]}
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"s": "x" * 900}])
    assert "rows truncated or damaged: its data ends early" in notes(out.getvalue()[:-100])


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ("string", "a cake", "(value) · stringa cake"),
        ({"type": "map", "values": "int"}, {"a": 1}, "(value) · map{'a': 1}"),
        (["null", "long"], 5, "(value) · null or long5"),
    ],
)
def test_avro_values_that_are_not_records_are_one_column(schema, value, says):
    out = io.BytesIO()
    fastavro.writer(out, schema, [value])
    made = tile(Value(out.getvalue()))
    assert says in Seen(made.html).text
    assert made.notes == ()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError(21), "not decoded here: its format is unknown to the decoder"),
        (OSError(22, "Invalid argument"), "not decoded here: Invalid argument"),
        (EOFError(), "truncated or damaged: its data ends early"),
        (
            struct.error("unpack requires a buffer of 4 bytes"),
            "not decoded here: its format is unknown",
        ),
        (MemoryError(), "not decoded here: it needs more memory"),
        (
            zlib.error("Error -3 while decompressing data: incorrect data check"),
            "truncated or damaged: ",
        ),
        (
            OSError("image file is truncated (5 bytes not processed)"),
            "truncated or damaged: its data",
        ),
        (OSError("decoder error -2"), "not decoded here: the decoder found invalid data in it"),
        (ValueError("no <_io.BytesIO object at 0x7f5a3c> here"), "not decoded here: no here"),
        (ValueError("at 0x7f5a3c0012"), "not decoded here: the decoder gave no reason"),
        (OSError("raqm_get_glyphs() failed."), "not decoded here: the decoder gave no reason"),
        (ValueError(""), "not decoded here: the decoder gave no reason"),
        (RecursionError("maximum recursion depth"), "not decoded here: it is nested too deeply"),
        (
            OSError("Expected to read 8 bytes but only got 0."),
            "truncated or damaged: its data ends early",
        ),
        (
            ValueError("invalid literal for int() with base 10: '1A'"),
            "not decoded here: it contains a number that cannot be parsed",
        ),
        (
            ValueError("Image size (77308582056 pixels) exceeds limit of 178956970 pixels, …"),
            "not decoded here: it has too many pixels",
        ),
        (
            RuntimeError("all plugins fail:\n\tone - needs a\n\ttwo - needs b"),
            "not decoded here: all plugins fail: one - needs a two - needs b",
        ),
    ],
)
def test_a_file_is_called_damaged_only_if_a_decoder_proved_it(error, says):
    assert refusal_of(error).startswith(says)
    assert reason_of(error) in refusal_of(error)


def test_a_part_of_a_large_file_is_never_reported_as_damaged():
    """The end of the bytes that were read is not the end of the file."""
    film = media_files.film("webm", "libvpx")
    cut = film[: film.index(b"\x1f\x43\xb6\x75") + 40]  # the first frame ends after these bytes
    format = sniff(cut, 1 << 30)
    excerpt = Excerpt(data=cut, whole=False, size=1 << 30)
    with pytest.raises(UnshowableError, match="the part that was read") as caught:
        kinds()[format.kind].draw(excerpt, format, GRID, name="it")
    assert "damaged" not in str(caught.value)


# -- labels ---------------------------------------------------------------------------------------

ZIP = b"PK\x03\x04" + bytes(22) + b"\x05\0\0\0a.txthello"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", ZIP),
        ("a.pptx", ZIP),
        ("a.odt", ZIP),
        ("a.epub", ZIP),
        ("a.jar", ZIP),
        ("a.css", b"a {\n  color: red;\n}\n"),
        ("a.csv", b"one\n1\n2\n"),
        ("a.csv.gz", b"\x1f\x8b\x08" + bytes(30)),
        ("a.ppm", b"P3\n2 2\n255\n0 0 0 0"),
        ("a.rtf", b"{\\rtf1 hello}"),
        ("a.psd", b"8BPS\0\1" + bytes(40)),
        ("a.md", b'<p align="center">x</p>\n\n# Title\n'),
        ("a.json", b"{not json}"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)),
        ("a.txt", b"\0\1\2"),
        ("a.png", b"<html>"),
        ("a.mp4", b"\0\1\2"),
    ],
)
def test_a_media_type_derived_from_the_file_name_never_causes_a_badge(name, data):
    assert not differs(media_type(data, len(data), name), sniff(data, len(data)))
