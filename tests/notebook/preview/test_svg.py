"""An SVG is drawn in the parser process; a malicious one affects one tile and opens no file."""

import base64
import io

import pytest
from PIL import Image

from odps_nb.formats.parsers import svg
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.values import UnshowableError
from tests.support.previews import Seen, Value
from tests.support.samples import encode
from tests.support.svgs import HEAD, HOSTILE, PLAIN

SLOW = {"clip path"}
SIZE = {"size": {"layout": "tile", "width": 50, "height": 50, "rows": 3, "columns": 3, "lines": 3}}


def picture(text):
    _, data = svg.parse(text.encode(), SIZE)
    return Image.open(io.BytesIO(data)).convert("RGBA")


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.nightly] * (one in SLOW)) for one in HOSTILE],
)
@pytest.mark.gate(5)
def test_a_malicious_svg_affects_only_its_tile(name):
    page = Seen(tile(Value(HOSTILE[name].encode())).html)
    assert all(source.startswith("data:image/png") for source in page.values("src"))


@pytest.mark.parametrize("name", PLAIN)
def test_valid_svg_files_are_drawn(name):
    assert max(picture(PLAIN[name]).size) == 100


def test_a_tile_shows_the_picture_or_the_source_with_a_reason():
    drawn = Seen(tile(Value(PLAIN["arrow"].encode("utf-16"))).html)
    assert [one[:14] for one in drawn.values("src")] == ["data:image/png"]
    made = tile(Value(HOSTILE["use"].encode()))
    assert "<img" not in made.html
    assert "&lt;use href" in made.html
    assert "not decoded here: SVG data parsing failed" in made.html


@pytest.mark.parametrize("family", ["", "font-family='No Such Font'", "font-family='monospace'"])
def test_text_is_drawn_with_any_font(family):
    drawn = picture(f'{HEAD}<text y="70" font-size="50" fill="red" {family}>Tea</text></svg>')
    assert drawn.getextrema()[0][1] > 200
    assert svg._FONT


def svgs_with_reference(path):
    """Return SVG texts that refer to a picture file in different ways."""
    inner = (
        f"<svg xmlns='http://www.w3.org/2000/svg'><image href='{path}' width='9' height='9'/></svg>"
    )
    within = f"data:image/svg+xml;base64,{base64.b64encode(inner.encode()).decode()}"
    box = 'width="100" height="100"/></svg>'
    yield f'{HEAD}<image href="{path}" {box}'
    yield f"{HEAD}<image xlink:href = \n'{path}' {box}"
    yield f'{HEAD}<image href="file://{path}" {box}'
    yield f'{HEAD}<image href="&#x2f;{str(path)[1:]}" {box}'
    yield f'{HEAD}<image href=" {path}" {box}'
    yield f'{HEAD}<!-- href="#" --><image alt="href=\'#" href="{path}" {box}'
    yield f'{HEAD}<filter id="f"><feImage href="{path}"/></filter><rect filter="url(#f)" {box}'
    yield f'{HEAD}<image href="{within}" {box}'
    yield f'<!DOCTYPE svg [<!ENTITY a "{path}">]>{HEAD}<image href="&a;" {box}'
    hidden = f"<image hre&#102;='{path}' width='99' height='99'/>"
    yield f'<!DOCTYPE svg [<!ENTITY a "{hidden}">]>{HEAD}&a;</svg>'
    yield f'<!DOCTYPE svg [<!ENTITY b "hre"><!ENTITY a "<image &b;f=\'{path}\'/>">]>{HEAD}&a;</svg>'


def test_files_to_which_an_svg_refers_are_not_opened(tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(encode(Image.new("RGB", (9, 9), "red"), "PNG"))
    embedded = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    box = 'width="100" height="100"/></svg>'
    assert picture(f'{HEAD}<image href="{embedded}" {box}').getpixel((50, 50))[0] > 250  # drawn
    for text in svgs_with_reference(path):
        try:
            found = picture(text)
        except (UnshowableError, ValueError):
            continue
        assert found.getextrema()[0][1] == 0, text
