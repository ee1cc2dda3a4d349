"""An SVG is drawn if an upper bound of its shapes is small; otherwise its source is displayed."""

import base64
import io

import pytest

from odps_nb.notebook.preview.parsers import svg
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.values import UnshowableError
from tests.support.svgs import HOSTILE, PLAIN, nested


def judged(text):
    return svg.parse(text.encode(), {})[0]["drawn"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_could_draw_much_or_is_not_understood_is_refused(name):
    with pytest.raises(UnshowableError):
        judged(HOSTILE[name])


@pytest.mark.parametrize("name", PLAIN)
def test_plain_pictures_are_drawn(name):
    assert 0 < judged(PLAIN[name]) <= svg.MAX_DRAWN


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_no_fewer_shapes_are_counted_than_are_drawn(levels):
    assert judged(nested(f'<use href="#l{levels}"/>', levels)) >= 10**levels


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encoding_does_not_hide_anything(encoding):
    with pytest.raises(UnshowableError):
        svg.parse(HOSTILE["use"].encode(encoding), {})
    assert svg.parse(PLAIN["arrow"].encode(encoding), {})


class File(io.BytesIO):
    """An opened blob."""

    verified = True


class Value:
    mime_type, file_name = "image/svg+xml", "a.svg"

    def __init__(self, text):
        self.data = text.encode()
        self.size = len(self.data)

    def open(self):
        return File(self.data)


def test_a_tile_shows_the_source_and_why_or_the_picture():
    made = tile(Value(HOSTILE["use"]))
    assert "<img" not in made.html
    assert "&lt;use href" in made.html
    assert "shown as source, because it draws more than 10,000 shapes" in made.html
    drawn = tile(Value(PLAIN["arrow"]))
    assert base64.b64encode(PLAIN["arrow"].encode()).decode() in drawn.html
