"""Meshes: how they are detected, and their counts."""

import pytest

from fuzz.media_files import stl
from odps_nb.notebook.preview.registry import sniff
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Value

PLY = b"ply\nformat binary_little_endian 1.0\nelement vertex 1000000\nelement face 2\n"
SOLID = b"solid tea\n  facet normal 0 0 1\n    outer loop\n"


@pytest.mark.parametrize(
    ("data", "label"),
    [
        (PLY + b"end_header\n\0\xff", "PLY"),
        (PLY.replace(b"\n", b"\r\n") + b"end_header\r\n", "PLY"),
        (SOLID * 3, "STL"),
        (b"solid ground is where one stands\n", "text"),
        (stl(1), "STL"),
        (stl(9), "STL"),
        (stl(0), "binary"),
        (bytes(400), "binary"),
        (bytes(80) + b"\2" + bytes(403), "binary"),  # triangles with a single point
        (stl(3)[:-3] + b"\xff\xff\xff", "binary"),  # NaN
        (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3", "OBJ"),
        (b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nand a sentence\nor two\n", "text"),
        (b"v 1\nv 2\n", "text"),
    ],
)
def test_a_mesh_is_known_by_its_first_lines_or_triangles(data, label):
    assert sniff(data, len(data)).label == label


def test_counts_of_the_header_are_known_of_the_largest_files():
    for data, words in (
        (PLY + b"end_header\n" + bytes(9 << 20), "PLY · 1,000,000 points · 2 faces"),
        (stl(180_000), "STL · 180,000 triangles"),
    ):
        made = tile(Value(data, "", "a"))
        assert made.text.startswith(f"a  {words} · 9.")
        assert made.notes[0].startswith("only the first 65.5 kB")


def test_a_mesh_with_fewer_triangles_than_it_states_is_called_cut():
    made = tile(Value(stl(10, stated=4_000_000_000)))
    assert made.notes == ("cut: it states 4,000,000,000 triangles",)


def test_a_header_without_an_end_is_said():
    assert tile(Value(PLY)).notes == ("the end of its header is missing",)


@pytest.mark.gate(5)
@pytest.mark.parametrize("filler", [b"\n", b" ", b"v ", b"f", b"#", b"\r"])
@pytest.mark.parametrize("start", [SOLID, b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n", PLY])
def test_a_megabyte_of_one_sign_is_counted_at_once(start, filler):
    """A pattern that matched across lines would take hours."""
    made = tile(Value(start + filler * ((1 << 20) // len(filler))))
    assert made.html.startswith("<figure")


def test_lines_of_a_text_are_counted():
    assert "STL · 3 triangles" in tile(Value(SOLID * 3)).text
    assert tile(Value(SOLID * 300_000)).notes[0] == "too large to count its lines"
