"""Tiles have no repeated hex lines and no useless players, and show image data as pictures."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from fuzz.media_files import files as media
from odps_nb.formats.kind import MIB
from odps_nb.formats.shared import GRID, SINGLE, markup_text
from odps_nb.notebook.gallery.tiles import TILE
from odps_nb.notebook.preview.tile import caption_of_row, tile
from tests.notebook.preview.test_kinds import zipped
from tests.support.previews import Seen, Value


def drawn(data, size=GRID):
    return Seen(tile(Value(data), size=size).html)


# -- hex ------------------------------------------------------------------------------------------


def hex_lines(data, size=SINGLE):
    text = Seen(tile(Value(data), size=size).drawing.html).text
    return re.findall(r"(?m)^(?:[0-9a-f]{4,}  .*|\*)$", text)


def test_repeated_hex_lines_are_replaced_by_an_asterisk():
    starts = [line[:8].strip() for line in hex_lines(b"\xff" * 48 + bytes(4096) + b"\x80\x81\xfe")]
    assert starts == ["0000  ff", "*", "0030  00", "*", "1030  80"]


def test_hex_of_identical_bytes_ends_with_the_last_line():
    lines = hex_lines(bytes(1 << 16))
    assert [line[:4] for line in lines] == ["0000", "*", "fff0"]


def test_hex_lines_that_differ_are_all_shown():
    data = b"\x80" + bytes(range(256)) * 4
    assert "*" not in hex_lines(data, TILE)
    assert len(hex_lines(data, TILE)) == TILE.lines


# -- players --------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("name", ["clip.mp4", "clip.webm", "song.m4a", "song.flac", "song.ogg"])
def test_a_player_is_shown_only_if_a_decoder_found_media_in_the_file(name, part):
    data = media()[name]
    page = drawn(data[: int(len(data) * part)])
    player = {"audio", "video"} & set(page.tags)
    decoded = "img" in page.tags or page.values("poster")
    assert bool(player) == bool(decoded), page.text


def test_a_format_that_only_browsers_can_play_has_a_player():
    data = media()["clip.mp4"]
    other = data.replace(b"avc1", b"dvh1").replace(b"avcC", b"dvcC")
    page = drawn(other)
    assert "not decoded here: its codec is" in page.text
    assert "video" in page.tags


# -- arrays ---------------------------------------------------------------------------------------


def npy(values):
    out = io.BytesIO()
    np.save(out, values)
    return out.getvalue()


LEVELS = np.arange(40 * 48 * 4, dtype=np.uint8).reshape(40, 48, 4)
PICTURES = {
    "RGB": LEVELS[..., :3],
    "RGBA": LEVELS,
    "levels": LEVELS[..., 0],
    "a mask": LEVELS[..., 0] > 99,
    "larger than a head": np.zeros((200, 300, 3), np.uint8),
}
VALUES = {
    "floats": LEVELS[..., 0].astype(float),
    "two channels": LEVELS[..., :2],
    "a small table": LEVELS[:12, :12, 0],
    "columns first": np.asfortranarray(LEVELS[..., 0]),
    "one row": LEVELS[0, :, 0],
}


@pytest.mark.parametrize("name", PICTURES)
def test_an_array_of_pixels_is_shown_as_a_picture(name):
    values = np.ascontiguousarray(PICTURES[name])
    made = tile(Value(npy(values)))
    page = Seen(made.html)
    assert "img" in page.tags
    assert "table" not in page.tags
    assert f"NumPy · {' × '.join(map(str, values.shape))} {values.dtype}" in made.text
    assert made.format.mime == "application/x-npy"


@pytest.mark.parametrize("name", VALUES)
def test_other_arrays_are_shown_as_values(name):
    page = drawn(npy(VALUES[name]))
    assert "img" not in page.tags


def test_values_in_fortran_order_are_shown_in_rows():
    values = np.arange(12).reshape(3, 4)
    assert drawn(npy(np.asfortranarray(values))).text == drawn(npy(values)).text
    assert "256 × 512" in drawn(npy(np.zeros((256, 512), order="F"))).text


def test_an_array_whose_values_are_truncated_has_a_note():
    whole = npy(np.arange(99))
    assert "truncated" not in drawn(whole).text
    assert "truncated or damaged: its data ends early" in drawn(whole[:-5]).text


def test_arrays_of_values_and_very_large_pictures_are_read_only_at_their_head():
    numbers, picture = Value(npy(np.zeros((400, 400)))), Value(npy(np.zeros((3000, 3000, 3), "u1")))
    for value in (numbers, picture):
        made = tile(value)
        assert value.was_read <= 64 * 1024 + 1
        assert "first 65.5 kB" in made.notes[-1]
    assert picture.size > 8 * MIB


def test_a_truncated_array_is_not_a_picture():
    page = drawn(npy(np.ascontiguousarray(PICTURES["RGB"]))[:-5])
    assert "img" not in page.tags


# -- captions -------------------------------------------------------------------------------------


def test_a_long_declared_type_is_truncated_and_complete_in_its_tooltip():
    mime = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    page = Seen(tile(Value(b"%PDF-1.7 x", mime)).html)
    assert f"uploaded as {mime}" in page.text
    assert mime in page.values("title")
    (style,) = [one for one in page.values("style") if "235,140,20" in one]
    assert "max-width:100%" in style
    assert "overflow:hidden;text-overflow:ellipsis;white-space:nowrap" in style


def test_transparent_pictures_have_a_backdrop_and_our_drawings_do_not():
    out = io.BytesIO()
    Image.new("RGBA", (20, 20), (255, 0, 0, 90)).save(out, "PNG")
    assert "conic-gradient" in tile(Value(out.getvalue())).html
    assert "conic-gradient" not in tile(Value(media()["song.mp3"])).html


@pytest.mark.parametrize(
    ("row", "name", "shown"),
    [
        ("id 12 · name cat.png", "cat.png", "id 12"),
        ("row 3 · file: cat.png · year: 2024", "cat.png", "row 3 · year: 2024"),
        ("row 1 · cat.png", "cat.png", "row 1"),
        ("row 1 · title: my cat.png", "cat.png", "row 1 · title: my cat.png"),
        ("row 1", "1", "row 1"),
        ("blob 3", "blob 3", ""),
        ("", "cat.png", ""),
        ("size 132927 · year 2024", "cat.png", "year 2024"),
        ("row 1 · bytes: 132927", "cat.png", "row 1"),
        ("price 132927", "cat.png", "price 132927"),
    ],
)
def test_a_caption_does_not_repeat_the_name_and_the_size(row, name, shown):
    assert caption_of_row(row, name, 132_927) == shown


def test_the_text_of_a_tile_keeps_the_indentation_of_a_tree():
    made = tile(Value(b'{"a": {"b": [1, 2]}}'))
    assert markup_text(made.drawing.html).splitlines() == [
        *("1 key", "  a: 1 key", "    b: 2 items", "      0: 1", "      1: 2")
    ]


def test_the_text_of_a_tile_has_one_line_for_each_row_of_a_table():
    made = tile(Value(b'id,note\n1,"two\nlines and\ta tab"\n2,  b  c\n'))
    assert markup_text(made.drawing.html).split("\n") == [
        *("id\tnote", "1\ttwo lines and a tab", "2\t b c")
    ]
    mail = "<table><tr><td>Dear <b>all</b>,<br>more\nwords</td></tr></table>"
    assert markup_text(mail).split("\n") == ["Dear all,", "more words"]


def test_the_text_of_a_tile_is_one_line():
    assert tile(Value(b"x"), row="title two\nlines").text.endswith("  title two lines")


@pytest.mark.parametrize("data", [b'{"a": "' + b"x" * 150 + b'"}', zipped(0, b"x" * 150)])
def test_long_names_and_values_are_wrapped(data):
    assert "overflow-wrap:anywhere" in tile(Value(data)).drawing.html
