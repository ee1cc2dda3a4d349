"""Previews are safe to view: only allowed media types, sandboxed frames, escaped text."""

import base64
import io
import json
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from odps_nb.errors import ChecksumError
from odps_nb.formats.parsers.page import parse as rebuild
from odps_nb.formats.registry import kinds
from odps_nb.formats.shared import GRID, LIST, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import NASTY, Seen, Value, seen

# -- rule 1: only allowed media types, detected from the content --------------------------------

ALLOWED = {
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/svg+xml",
    "audio/wav",
    "audio/mpeg",
    "video/mp4",
}


def test_data_urls_have_only_allowed_media_types(drawn):
    found = set()
    for made in drawn(GRID).values():
        for source in Seen(made.html).values("src"):
            assert source.startswith("data:")
            found.add(source[5:].split(";")[0])
    assert found <= ALLOWED
    assert {"image/png", "image/jpeg", "image/svg+xml", "audio/wav"} <= found


@pytest.mark.parametrize("label", ["image/png", "image/svg+xml", "text/html", "video/mp4", "x/<b>"])
def test_the_declared_media_type_has_no_effect(label):
    page = seen(b"<html><script>alert(1)</script></html>", label)
    assert {"img", "video", "audio", "iframe", "script"}.isdisjoint(page.tags)
    assert "<script>alert(1)</script>" in page.text


# -- rule 2: HTML is text; rendered only in the strictest sandbox ---------------------------------


def test_html_is_shown_as_its_source(samples):
    page = Seen(tile(samples["you_have_won.html"]).html)
    assert "iframe" not in page.tags
    assert "<script>window.odpsNbProbe" in page.text


def test_rendered_html_has_an_empty_sandbox_and_begins_with_a_policy(samples):
    page = Seen(tile(samples["you_have_won.html"], render=True).html)
    assert page.values("sandbox") == [""]
    (source,) = page.values("srcdoc")
    assert source.startswith("<!DOCTYPE html><meta http-equiv=")
    policy = source.index("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    assert policy < source.index("You have won")
    # the source stays readable if the frame is removed (untrusted notebook)
    assert "details" in page.tags
    assert "<script>window.odpsNbProbe" in page.text


@pytest.mark.parametrize("size", [GRID, LIST, SINGLE])
def test_no_preview_allows_scripts_or_loads_a_resource(samples, drawn, size):
    tiles = [(name, made, True) for name, made in drawn(size).items()]
    for name, made, _ in tuple(tiles):
        if kinds()[made.format.kind].draw_rendered:  # rendering makes no difference for other kinds
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


def test_an_svg_is_drawn_as_a_picture(samples):
    page = Seen(tile(samples["script_inside.svg"], render=True).html)
    (source,) = page.values("src")
    assert page.tags.count("img") == 1
    assert source.startswith("data:image/png;base64,")
    assert {"svg", "object", "embed", "iframe"}.isdisjoint(page.tags)


# -- rule 3: everything from the service is escaped ---------------------------------------------


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
def test_values_names_and_types_are_escaped_in_every_kind_of_tile(data, render, size):
    page = seen(data, NASTY, NASTY, size=size, render=render, fallback_name=NASTY)
    assert {"script", "b"}.isdisjoint(set(page.tags) - ({"b"} if data[:1] in b"{" else set()))
    assert not [n for _, n, _ in page.attributes if n.startswith("on")]
    assert page.tags.count("img") == 0
    assert NASTY in page.text


def test_names_inside_of_files_are_escaped():
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


def test_texts_of_errors_are_escaped():
    page = Seen(tile(Value(b"", error=ChecksumError(NASTY))).html)
    assert NASTY in page.text
    assert {"script", "img"}.isdisjoint(page.tags)


def test_a_file_name_cannot_hide_its_extension():
    made = tile(Value(b"MZ\x00", "", "photo\u202egpj.exe\nsecond line\x1b[31m"))
    assert made.name == "photo\\u202egpj.exe second line\\x1b[31m"
    assert "\u202e" not in made.html
    assert "\x1b" not in made.text


# -- HTML pages: the parser keeps no reference to another source -----------------------------------


def cleaned(markup):
    """Return a page as the parser rebuilds it, and whether its style sheets were kept."""
    found, data = rebuild(markup.encode(), {})
    return data.decode(), found["styles"] == "kept"


def picture(width, height):
    """Return the URL of an embedded picture."""
    out = io.BytesIO()
    Image.new("1", (width, height)).save(out, "PNG")
    return f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}"


@pytest.mark.parametrize(
    ("sheet", "is_kept"),
    [
        ("h1{color:red}", True),
        *((sheet, False) for sheet in ("@import 'a'", "@namespace 'a'", "p{background:URL (a)}")),
        ("p{background:\\75rl(a)}", False),
    ],
)
def test_style_sheets_that_may_load_files_are_dropped(sheet, is_kept):
    markup, kept = cleaned(f"<style>{sheet}</style><p style='color:red'>url(tea)")
    assert kept is is_kept
    assert (sheet in markup) is is_kept
    assert '<p style="color:red">url(tea)' in markup


def test_inline_styles_that_may_load_files_are_dropped():
    assert cleaned("<p style='background:url(a)'>tea") == ("<p>tea</p>", True)


@pytest.mark.parametrize(
    "source",
    [
        *("http://a/b.png", "b.png", "data:image/svg+xml;base64,PHN2Zz48L3N2Zz4="),
        *("data:image/png;base64,A", "data:image/png;base64,AAAA", "data:text/html;base64,AAAA"),
        picture(8000, 5001),
    ],
)
def test_only_embedded_raster_images_of_limited_size_are_kept(source):
    small = picture(2, 2)
    markup, _ = cleaned(f"<img src='{source}'><img src='{small}'>")
    assert markup == f'<img><img src="{small}">'


def test_all_pictures_of_a_page_share_one_limit_of_pixels():
    large = picture(5000, 5000)
    assert cleaned(f"<img src='{large}'>" * 2)[0] == f'<img src="{large}"><img>'
