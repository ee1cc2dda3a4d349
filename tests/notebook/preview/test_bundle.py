"""A blob becomes a tile: safely, within budgets, and never with an exception about its content."""

import io
import json
import warnings
import zipfile
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ChecksumError,
    NotFoundError,
    OdpsNbError,
    TruncatedError,
)
from odps_nb.local.samples import pictures
from odps_nb.notebook.preview.bundle import mimebundle
from odps_nb.notebook.preview.drawing import Excerpt
from odps_nb.notebook.preview.kind import HEAD, MIB
from odps_nb.notebook.preview.parsers import arrow
from odps_nb.notebook.preview.registry import kinds
from odps_nb.notebook.preview.shared import GRID, LIST, SINGLE
from odps_nb.notebook.preview.tile import TILE_BUDGET, tile


class File(io.BytesIO):
    """An opened blob that counts what is read and may fail on the way."""

    verified = True

    def __init__(self, blob):
        super().__init__(blob.data)
        self._blob = blob

    def read(self, size=-1):
        if self._blob.error is not None and self.tell() + size > self._blob.fails_at:
            raise self._blob.error
        data = super().read(size)
        self._blob.was_read += len(data)
        return data

    def close(self):
        self._blob.was_closed = True
        super().close()


class Value:
    """A blob as a value."""

    def __init__(self, data, mime_type="", file_name="", *, error=None, fails_at=0, size=True):
        self.data, self.mime_type, self.file_name = data, mime_type, file_name
        self.size = len(data) if size else None
        self.error, self.fails_at = error, fails_at
        self.was_read, self.was_closed = 0, False

    def open(self):
        return File(self)

    def save(self, path):
        raise AssertionError("a preview saves nothing")


class Seen(HTMLParser):
    """The tags, attributes and text of a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.text += data

    def values(self, name):
        return [value for _, found, value in self.attributes if found == name]


@pytest.fixture(scope="module")
def samples(sample_blobs):
    return {
        blob.file_name: Value(blob.data, blob.mime_type, blob.file_name)
        for blob in sample_blobs
        if blob is not None
    }


@pytest.fixture(scope="module")
def drawn(samples):
    """Tiles of all samples by name, pages drawn, for each size; drawn once."""
    return cache(
        lambda size: {name: tile(blob, size=size, render=True) for name, blob in samples.items()}
    )


def seen(data, mime_type="", file_name="", **options):
    return Seen(tile(Value(data, mime_type, file_name), **options).html)


def png(size=(8, 6), mode="RGB"):
    return pictures.encode(Image.new(mode, size, 1), "PNG")


# -- rule 1: only our own media types, after sniffing -------------------------------------------

OURS = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/svg+xml",
    "audio/wav",
    "audio/mpeg",
    "video/mp4",
}


def test_sources_have_media_types_of_our_table_only(drawn):
    found = set()
    for made in drawn(GRID).values():
        for source in Seen(made.html).values("src"):
            assert source.startswith("data:")
            found.add(source[5:].split(";")[0])
    assert found <= OURS
    assert {"image/png", "image/jpeg", "image/svg+xml", "audio/wav"} <= found


@pytest.mark.parametrize("label", ["image/png", "image/svg+xml", "text/html", "video/mp4", "x/<b>"])
def test_the_declared_type_decides_nothing(label):
    page = seen(b"<html><script>alert(1)</script></html>", label)
    assert {"img", "video", "audio", "iframe", "script"}.isdisjoint(page.tags)
    assert "<script>alert(1)</script>" in page.text


def test_a_label_that_differs_gets_a_badge(samples):
    assert "declared image/png" in Seen(tile(samples["not_a_picture.png"]).html).text
    assert "declared" not in Seen(tile(samples["mountains.jpg"]).html).text


# -- rule 2: HTML is text; drawn only in the strictest sandbox ----------------------------------


def test_html_is_shown_as_its_source(samples):
    page = Seen(tile(samples["you_have_won.html"]).html)
    assert "iframe" not in page.tags
    assert "<script>window.odpsNbProbe" in page.text


def test_drawn_html_gets_an_empty_sandbox_and_a_policy_before_anything_else(samples):
    page = Seen(tile(samples["you_have_won.html"], render=True).html)
    assert page.values("sandbox") == [""]
    (source,) = page.values("srcdoc")
    assert source.startswith("<!DOCTYPE html><meta http-equiv=")
    policy = source.index("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert policy < source.index("You have won")
    # the source stays readable where the frame is dropped (untrusted reopening)
    assert "details" in page.tags
    assert "<script>window.odpsNbProbe" in page.text


@pytest.mark.parametrize("size", [GRID, LIST, SINGLE])
def test_no_preview_ever_allows_scripts_or_loads_anything(samples, drawn, size):
    tiles = [(name, made, True) for name, made in drawn(size).items()]
    for name, made, _ in tuple(tiles):
        if kinds()[made.format.kind].draw_rendered:  # the others know no difference
            tiles.append((name, tile(samples[name], size=size), False))
    assert len(tiles) > len(samples)
    for name, made, render in tiles:
        page = Seen(made.html)
        assert "allow-" not in "".join(page.values("sandbox")), name
        assert {"script", "style", "link", "object", "embed", "form", "base", "a"}.isdisjoint(
            page.tags
        ), name
        assert not [n for _, n, _ in page.attributes if n.startswith("on")], name
        assert page.values("href") == [], name
        assert page.tags.count("iframe") == (render and made.format.mime == "text/html"), name


def test_svg_is_shown_by_an_image_tag_alone(samples):
    page = Seen(tile(samples["script_inside.svg"], render=True).html)
    (source,) = page.values("src")
    assert page.tags.count("img") == 1
    assert source.startswith("data:image/svg+xml;base64,")
    assert {"svg", "object", "embed", "iframe"}.isdisjoint(page.tags)


# -- rule 3: everything from the service is escaped ---------------------------------------------

NASTY = "\"><img src=x onerror=alert(1)><script>alert(2)</script>'&lt;"


@pytest.mark.parametrize(
    "data",
    [
        NASTY.encode(),
        json.dumps({NASTY: [NASTY, {NASTY: NASTY}]}).encode(),
        f"{NASTY},b,c\n{NASTY},2,3\n".encode(),
        f"a\tb\n{NASTY}\t2\n{NASTY}\t3\n".encode(),
        f"<html>{NASTY}".encode(),
        f"<?xml version='1.0'?><x>{NASTY}</x>".encode(),
        f"%PDF-1.4\n/Title ({NASTY})\n/Type /Page ".encode(),
        b"%PDF-<b>\n",
        b"\x00\x01" + NASTY.encode(),
    ],
)
@pytest.mark.parametrize("render", [False, True])
@pytest.mark.parametrize("size", [GRID, LIST, SINGLE])
def test_values_names_and_types_are_text_on_every_kind_of_tile(data, render, size):
    page = seen(data, NASTY, NASTY, size=size, render=render, fallback_name=NASTY)
    assert {"script", "b"}.isdisjoint(set(page.tags) - ({"b"} if data[:1] in b"{" else set()))
    assert not [n for _, n, _ in page.attributes if n.startswith("on")]
    assert page.tags.count("img") == 0
    assert NASTY in page.text


def test_names_inside_files_are_text():
    table = pa.table({NASTY: [NASTY, None]})
    out = io.BytesIO()
    pq.write_table(table, out)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(NASTY, b"")
    for data in (out.getvalue(), archive.getvalue()):
        page = seen(data, size=SINGLE)
        assert NASTY in page.text
        assert {"script", "img"}.isdisjoint(page.tags)


def test_errors_are_text():
    page = Seen(tile(Value(b"", error=ChecksumError(NASTY))).html)
    assert NASTY in page.text
    assert {"script", "img"}.isdisjoint(page.tags)


def test_a_name_cannot_disguise_itself():
    made = tile(Value(b"MZ\x00", "", "photo\u202egpj.exe\nsecond line\x1b[31m"))
    assert made.name == "photo\\u202egpj.exe second line\\x1b[31m"
    assert "\u202e" not in made.html
    assert "\x1b" not in made.text


# -- rule 4: budgets ----------------------------------------------------------------------------


def test_a_bomb_is_not_decoded(samples):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = Seen(tile(samples["144_megapixels.png"]).html)
    assert "144 megapixels" in page.text
    assert "img" not in page.tags


def test_a_bomb_beyond_the_decoder_s_own_limit_is_not_decoded_either():
    page = seen(pictures.bomb(20_000))
    assert "not decoded" in page.text
    assert "img" not in page.tags


def test_pixels_just_below_the_limit_are_decoded():
    made = tile(Value(png((8000, 4999), "1")))
    assert "8000 × 4999" in made.text
    assert "<img" in made.html


@pytest.mark.parametrize("size", [GRID, LIST, SINGLE])
def test_no_tile_is_larger_than_its_budget(drawn, size):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (900, 1400, 3), np.uint8))
    large = [
        Value(pictures.encode(noise, "PNG")),
        Value(b"RIFF\x00\x00\x00\x00WAVE" + bytes(400_000)),
        Value(b"RIFF\x00\x00\x00\x00WAVE" + bytes(3_000_000)),
        Value(("<svg >" + "<!-- -->" * 100_000).encode()),
        Value(("<p>" + "<" * 600_000).encode(), "text/html"),
        Value((",".join(["&" * 70] * 300) + "\n").encode() * 40),
        Value(json.dumps({"<" * 100 + str(n): "&" * 500 for n in range(400)}).encode()),
    ]
    for made in [*(tile(blob, size=size, render=True) for blob in large), *drawn(size).values()]:
        assert len(made.html.encode()) <= TILE_BUDGET + 16 * 1024


def test_what_is_too_large_shows_its_head_and_how_to_keep_it():
    data = b"RIFF\x00\x00\x00\x00WAVE" + bytes(9_000_000)
    page = seen(data, "audio/wav", "long.wav", keep="blobs[3].save(path)")
    assert "audio" not in page.tags
    assert "52 49 46 46" in page.text
    assert "first 65.5 kB of 9.0 MB" in page.text
    assert "blobs[3].save(path)" in page.text
    assert "verified" not in page.text


def test_of_a_large_blob_only_the_head_is_read():
    for data in (b"\x00" * 5_000_000, b"line of text\n" * 400_000, b"PAR1" + bytes(20_000_000)):
        blob = Value(data)
        tile(blob)
        assert blob.was_read == HEAD + 1
        assert blob.was_closed


@pytest.mark.parametrize(
    ("start", "limit"),
    [(b"<svg >", TILE_BUDGET), (b"RIFF\x00\x00\x00\x00WAVE", 8 * MIB + 1)],
)
def test_of_a_blob_of_unknown_size_no_more_than_the_limit_is_read(start, limit):
    blob = Value(start + b" " * 9_000_000, size=False)
    made = tile(blob)
    assert blob.was_read <= limit
    assert made.size is None


def test_a_small_allowance_is_kept(samples):
    for blob in samples.values():
        assert len(tile(blob, budget=8_000).html) <= 8_000


def test_packed_streams_are_unpacked_within_a_bound():
    packer, piece = zstandard.ZstdCompressor().compressobj(), b"all work and no play\n" * 1_000_000
    bomb = b"".join(packer.compress(piece) for _ in range(50)) + packer.flush()
    page = seen(bomb)
    assert "all work and no play" in page.text


def test_an_arrow_buffer_that_promises_too_much_is_not_unpacked():
    batch = pa.record_batch({"a": pa.array(np.zeros(arrow.MAX_UNPACKED // 8 + 1))})
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    assert len(out.getvalue()) < 1_000_000
    page = seen(out.getvalue())
    assert "would unpack to 67.1 MB" in page.text
    assert "table" not in page.tags


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("new", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_is_shown_whatever_its_codec(new, compression):
    words = pa.array(["tea", "cake", "tea"] * 50).dictionary_encode()
    table = pa.table({"id": range(150), "word": words, "empty": pa.nulls(150, pa.float64())})
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(out, table.schema, options=options) as writer:
        writer.write_table(table)
    page = seen(out.getvalue())
    assert "table" in page.tags
    assert "first of 150 rows × 3 columns" in page.text
    assert "cake" in page.text


def test_times_are_shown_to_their_last_digit():
    times = pa.array([1, None, 2**62, 1_500_000_000], pa.timestamp("ns"))
    berlin = pa.array([0] * 4, pa.timestamp("us", "Europe/Berlin"))
    far = pa.array([0, 2**31 - 1, None, 1], pa.date32())
    out = io.BytesIO()
    pq.write_table(pa.table({"t": times, "b": berlin, "d": far}), out)
    page = seen(out.getvalue(), size=SINGLE)
    assert "1970-01-01 00:00:00.000000001" in page.text
    assert "1970-01-01 00:00:01.500000" in page.text
    assert "1970-01-01 01:00:00+01:00" in page.text
    assert "5881580-07-11" in page.text or "date32" in page.text


def test_a_parquet_row_group_that_promises_too_much_is_not_unpacked():
    out = io.BytesIO()
    count = arrow.MAX_UNPACKED // 8 + 1
    options = {"compression": "zstd", "use_dictionary": False, "row_group_size": count}
    pq.write_table(pa.table({"a": np.zeros(count)}), out, **options)
    assert len(out.getvalue()) < 1_000_000
    page = seen(out.getvalue())
    assert "would unpack to 67.1 MB" in page.text
    assert "table" not in page.tags


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
        ("weather.arrow", "Arrow file · first of 500 rows × 5 columns"),
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
def test_the_caption_says_what_it_is(samples, name, words):
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
def test_the_tile_shows_the_content(samples, name, content):
    assert content in Seen(tile(samples[name], size=SINGLE).html).text


def test_what_was_read_whole_is_marked_verified(samples):
    assert "✓ verified" in tile(samples["mountains.jpg"]).html
    assert "✓ verified" not in tile(samples["telemetry.csv"]).html


def test_a_turned_photograph_stands_upright(samples):
    made = tile(samples["turned_by_exif.jpg"])
    assert "600 × 400" in made.text


def test_an_animation_stands_still_among_others_and_moves_alone(samples):
    assert "data:image/png" in tile(samples["life.gif"], size=GRID).html
    assert "data:image/webp" in tile(samples["life.gif"], size=SINGLE).html


def test_thumbnails_hold_no_byte_of_the_original():
    secret = b"GPS: 52.5 N 13.4 E"
    exif = Image.Exif()
    exif[0x010E] = secret.decode()
    data = pictures.encode(Image.effect_noise((64, 64), 80).convert("RGB"), "JPEG", exif=exif)
    assert secret in data
    page = seen(data)
    (source,) = page.values("src")
    import base64

    assert secret not in base64.b64decode(source.split(",")[1])


def test_numbers_in_json_stay_as_they_were_spelled():
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


# -- what is broken -----------------------------------------------------------------------------


def test_a_cut_picture_shows_hex_and_one_line_of_reason(samples):
    page = Seen(tile(samples["cut_short.jpg"]).html)
    assert "img" not in page.tags
    assert "ff d8 ff" in page.text
    assert "corrupt:" in page.text


def test_every_sample_cut_anywhere_becomes_a_tile(samples):
    for name, blob in samples.items():
        length = len(blob.data)
        for cut in {9, length // 2, length - 1}:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                made = tile(Value(blob.data[:cut], blob.mime_type, name), render=True)
            assert made.html.startswith("<figure")


@given(st.data())
def test_a_flipped_byte_anywhere_becomes_a_tile(samples, data):
    name = data.draw(st.sampled_from(sorted(n for n, b in samples.items() if len(b.data) < 40_000)))
    raw = bytearray(samples[name].data)
    for _ in range(data.draw(st.integers(1, 4))):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tile(Value(bytes(raw), "", name)).html.startswith("<figure")


@pytest.mark.parametrize(
    "error",
    [
        ChecksumError("block 3 does not match"),
        TruncatedError("the bytes end too early"),
        NotFoundError("no such blob"),
    ],
)
def test_a_blob_that_is_damaged_or_gone_becomes_a_tile_that_says_so(error):
    blob = Value(b"x" * 200_000, error=error, fails_at=60_000)
    page = Seen(tile(blob, fallback_name="blob 7").html)
    assert str(error) in page.text
    assert type(error).__name__ in page.text
    assert "blob 7" in page.text
    assert blob.was_closed


@pytest.mark.parametrize("error", [BrokenStreamError("cut"), CancelledError("stopped")])
def test_trouble_on_the_way_travels_on_and_the_file_is_closed(error):
    blob = Value(b"x" * 10, error=error)
    with pytest.raises(OdpsNbError) as caught:
        tile(blob)
    assert caught.value is error
    assert blob.was_closed


# -- the bundle ---------------------------------------------------------------------------------


def test_a_blob_alone_gives_html_and_one_line_of_text(samples):
    bundle = mimebundle(samples["mountains.jpg"])
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"] == "<Blob mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified>"
    assert "<img" in bundle["text/html"]


def test_reprs_say_lengths_and_never_bytes(samples):
    made = tile(samples["mountains.jpg"])
    assert len(repr(made)) < 200
    assert repr(Excerpt(data=b"secret", whole=True, size=6)) == (
        "Excerpt(<6 of 6 bytes>, whole=True)"
    )


def test_a_tile_knows_its_kind_for_filters(samples):
    made = tile(samples["not_a_picture.png"])
    assert (made.format.kind, made.declared, made.size) == ("markup", "image/png", 536)
