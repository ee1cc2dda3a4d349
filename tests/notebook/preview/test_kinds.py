"""Each kind has a preview, also for damaged files."""

import bz2
import gzip
import io
import lzma
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
import zstandard
from PIL import Image

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ChecksumError,
    NotFoundError,
    OdpsNbError,
    TransportError,
    TruncatedError,
)
from odps_nb.formats.drawing import Excerpt
from odps_nb.formats.kind import MIB
from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import mimebundle, tile
from tests.support.previews import Seen, Value, picture_in, seen
from tests.support.samples import encode

zstd = zstandard.ZstdCompressor().compress

# -- every kind ---------------------------------------------------------------------------------


def test_every_sample_has_a_figure_a_caption_and_a_label(drawn):
    for name, made in drawn(GRID).items():
        page = Seen(made.html)
        assert page.tags[0] == "figure"
        assert "figcaption" in page.tags
        assert page.attributes[0] == ("figure", "tabindex", "0")
        assert page.values("aria-label")[0]
        assert all(page.values("alt")), name
        assert page.tags.count("img") == len(page.values("alt"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mountains.jpg", "JPEG · 960 × 640"),
        ("turned_by_exif.jpg", "JPEG · 600 × 400"),
        ("terrain_16bit.png", "PNG · 400 × 300"),
        ("inks_cmyk.jpg", "JPEG · 400 × 240"),
        ("life.gif", "GIF · 320 × 240 · animated"),
        ("rose.svg", "SVG"),
        ("melody.wav", "WAV · 0:05 · 16 kHz · mono · 163.9 kB"),
        ("order.json", "JSON · 6 keys"),
        ("cities.csv", "CSV · 10 rows × 5 columns"),
        ("telemetry.csv", "CSV · first rows × 5 columns"),
        ("weather.parquet", "Parquet · 500 rows × 5 columns"),
        ("weather.arrow", "Arrow file · 500 rows × 5 columns"),
        ("weights.npy", "NumPy · 32 × 8 float64"),
        ("model.npz", "NumPy archive · 2 files"),
        ("invoice.pdf", "PDF · version 1.4 · 1 page"),
        ("feed.xml", "XML · 6 lines"),
        ("utf16.txt", "text · 1 line · utf-16"),
        ("bundle.zip", "ZIP · 5 files"),
        ("logs.tar.gz", "gzip · tar · 3 files"),
        ("random.bin", "binary · 4.1 kB"),
        ("empty.dat", "empty · 0 B"),
    ],
)
def test_the_caption_states_the_format(samples, name, words):
    assert tile(samples[name]).text.startswith(f"{name}  {words}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("order.json", "teapot, blue"),
        ("cities.csv", "São Paulo"),
        ("scores.tsv", "Élodie"),
        ("weather.parquet", "celsius · double"),
        ("weights.npy", "[7]"),
        ("model.npz", "labels.npy · 148 B"),
        ("invoice.pdf", "Invoice 2024-0108"),
        ("静夜思.txt", "床前明月光"),
        ("utf16.txt", "Ω ≈ 世界"),
        ("bundle.zip", "../../outside.txt"),
        ("logs.tar.gz", "logs/2024-01-02.log"),
        ("empty.dat", "no bytes"),
    ],
)
def test_each_tile_shows_the_content_of_the_sample(samples, name, content):
    assert content in Seen(tile(samples[name], size=SINGLE).html).text


def test_a_completely_read_blob_is_marked_as_verified(samples):
    assert "✓ verified" in tile(samples["mountains.jpg"]).html
    assert "✓ verified" not in tile(samples["telemetry.csv"]).html


def test_an_animation_runs_only_if_opened_alone(samples):
    assert "data:image/png" in tile(samples["life.gif"], size=GRID).html
    assert "data:image/webp" in tile(samples["life.gif"], size=SINGLE).html


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_a_picture_stored_on_its_side_is_drawn_and_described_upright(form):
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation
    made = tile(Value(encode(Image.new("RGB", (60, 40)), form, exif=exif)))
    assert "40 × 60" in made.text
    assert picture_in(Seen(made.html)).size == (40, 60)


def test_thumbnails_contain_no_bytes_of_the_original_file():
    secret = b"GPS: 52.5 N 13.4 E"
    exif = Image.Exif()
    exif[0x010E] = secret.decode()
    data = encode(Image.effect_noise((64, 64), 80).convert("RGB"), "JPEG", exif=exif)
    assert secret in data
    page = seen(data)
    (source,) = page.values("src")
    import base64

    assert secret not in base64.b64decode(source.split(",")[1])


def test_numbers_in_json_are_shown_as_written():
    page = seen(b'{"a": 12345678901234567890.10, "b": 1e999, "c": NaN}', size=SINGLE)
    assert "12345678901234567890.10" in page.text
    assert "1e999" in page.text


def test_python_objects_in_arrays_are_never_unpickled():
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    page = seen(out.getvalue())
    assert "never unpickled" in page.text


@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 3, 4), (2, 0)])
def test_arrays_of_any_shape_are_shown(shape):
    out = io.BytesIO()
    np.save(out, np.ones(shape, dtype=np.float32))
    page = seen(out.getvalue())
    assert "float32" in page.text


# -- archives ------------------------------------------------------------------------------------


def zipped(flags, *names):
    """Return a ZIP whose entries have these bytes as names, and these flags."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(f"{number}" * len(name), b"x")
    data = bytearray(out.getvalue())
    for number, name in enumerate(names):
        data = data.replace(f"{number}".encode() * len(name), name)
    for start, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = -1
        while (place := data.find(start, place + 1)) >= 0:
            data[place + at] |= flags
    return bytes(data)


@pytest.mark.parametrize(
    ("encoding", "names"),
    [
        ("gb18030", ["数据/床前明月光.csv", "说明文件.txt"]),
        ("utf-8", ["数据/床前明月光.csv"]),
        ("cp932", ["これは日本語のファイルです.txt", "データ一覧.csv"]),
        ("cp437", ["Überblick.txt", "café.txt"]),
    ],
)
def test_names_in_an_old_zip_are_decoded(encoding, names):
    page = seen(zipped(0, *(name.encode(encoding) for name in names)))
    assert all(f"{name} · 1 B" in page.text for name in names)


def test_an_encrypted_zip_is_called_password_protected():
    assert "ZIP · 1 file · password-protected" in seen(zipped(1, b"a.txt")).text
    assert "password" not in seen(zipped(0, b"a.txt")).text


def tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for size in (9, 900):
            part = tarfile.TarInfo(f"part {size}")
            part.size = size
            archive.addfile(part, io.BytesIO(b"x" * size))
    return out.getvalue()


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd])
@pytest.mark.parametrize(
    "data", [b"some text\n" * 500, bytes(range(256)) * 9, bytes(1 << 21), tar()]
)
def test_a_truncated_compressed_file_has_a_note(compress, data):
    for packed in (compress(data), compress(data[:700]) + compress(data[700:])):
        made = tile(Value(packed))
        assert made.notes == ()
        assert ("tar · 2 files" in made.text) == (data == tar())
        if len(data) < MIB:
            assert tile(Value(packed[:-9])).notes == ("truncated or damaged: its data ends early",)


@pytest.mark.parametrize("count", [600, 1024, 1800])
def test_a_tar_file_without_its_end_has_a_note(count):
    made = tile(Value(tar()[:count]))
    assert "tar · first files" in made.text
    assert made.notes == ("truncated or damaged: its end was not found",)
    assert tile(Value(tar())).notes == ()


# -- damaged files -----------------------------------------------------------------------------


def test_a_picture_without_readable_pixels_shows_the_reason_once(samples):
    page = Seen(tile(samples["cut_short.jpg"]).html)
    assert "img" not in page.tags
    assert "ff d8 ff" not in page.text
    assert page.text.count("truncated or damaged:") == 1


def test_every_truncated_sample_becomes_a_tile(samples):
    for name, blob in samples.items():
        length = len(blob.data)
        for cut in (length // 2, length - 1):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                made = tile(Value(blob.data[:cut], blob.mime_type, name), render=True)
            assert made.html.startswith("<figure")


@pytest.mark.parametrize(
    "error",
    [
        ChecksumError("block 3 does not match"),
        TruncatedError("the bytes end too early"),
        NotFoundError("no such blob"),
    ],
)
def test_a_damaged_or_deleted_blob_becomes_a_tile_with_the_reason(error):
    blob = Value(b"x" * 200_000, error=error, fails_at=60_000)
    page = Seen(tile(blob, fallback_name="blob 7").html)
    assert str(error) in page.text
    assert type(error).__name__ in page.text
    assert "blob 7" in page.text
    assert blob.was_closed


@pytest.mark.parametrize(
    "error", [BrokenStreamError("cut"), TransportError("gone"), CancelledError("stopped")]
)
def test_errors_of_the_connection_are_raised_and_the_file_is_closed(error):
    blob = Value(b"x" * 10, error=error)
    with pytest.raises(OdpsNbError) as caught:
        tile(blob)
    assert caught.value is error
    assert blob.was_closed


# -- the bundle ---------------------------------------------------------------------------------


def test_a_single_blob_gives_html_and_one_line_of_text(samples):
    bundle = mimebundle(samples["mountains.jpg"])
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == "<Blob mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified>"
    assert "<img" in bundle["text/html"]


def test_reprs_show_lengths_but_no_bytes(samples):
    made = tile(samples["mountains.jpg"])
    assert len(repr(made)) < 200
    assert "secret" not in repr(Excerpt(data=b"secret", whole=True, size=6))


def test_a_tile_has_a_kind_that_filters_use(samples):
    made = tile(samples["not_a_picture.png"])
    assert (made.format.kind, made.declared, made.size) == ("markup", "image/png", 536)
