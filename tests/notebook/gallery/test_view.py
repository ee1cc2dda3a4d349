"""A gallery stays within its limits, works without widgets, and sends no markup in messages."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from odps_nb.errors import (
    ArgumentError,
    BrokenStreamError,
    CancelledError,
    ChecksumError,
    OdpsNbError,
    TransportError,
)
from odps_nb.notebook.gallery import tiles
from odps_nb.notebook.gallery.page import MAX_TILES, OUTPUT_BUDGET, drawn_pages, mimebundle
from odps_nb.notebook.gallery.view import Gallery
from tests.support.messages import Browser, came
from tests.support.previews import NASTY, Column, Seen, Value
from tests.support.samples import encode

PICTURE = re.compile(r"data:image/(png|jpeg|webp|svg\+xml);base64,[A-Za-z0-9+/=]*")


@pytest.fixture(scope="module")
def samples(sample_blobs):
    return Column(
        Value(blob.data, blob.mime_type, blob.file_name)
        for blob in sample_blobs
        if blob is not None
    )


@pytest.fixture(scope="module")
def sample_bundle(samples):
    """The gallery of all samples, as a grid."""
    return mimebundle(samples)


def test_the_sample_gallery_has_one_figure_per_blob(samples, sample_bundle):
    page = Seen(sample_bundle["text/html"])
    assert page.tags.count("figure") == len(samples)
    assert f"media.content · {len(samples)} blobs" in page.text
    assert {"script", "style", "iframe", "link"}.isdisjoint(page.tags)


def test_a_static_gallery_is_html_and_short_text_without_a_widget(samples, sample_bundle):
    assert set(sample_bundle) == {"text/html", "text/plain"}
    lines = sample_bundle["text/plain"].splitlines()
    assert lines[0] == f"media.content · {len(samples)} blobs"
    assert lines[1] == "  mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified  blob 0"
    assert lines[-1] == f"  … {len(samples) - 12} more"


def test_a_static_gallery_scrolls_and_has_the_height_of_a_live_gallery(sample_bundle):
    script = Path(tiles.__file__).with_name("gallery.js").read_text(encoding="utf-8")
    height = re.search(r"const HEIGHT = (\d+);", script)[1]
    assert f"overflow:auto;max-height:{height}px" in sample_bundle["text/html"]


def test_a_list_shows_all_blobs(samples, sample_bundle):
    html = mimebundle(samples, view="list")["text/html"]
    assert html != sample_bundle["text/html"]
    assert Seen(html).tags.count("figure") == len(samples)


def test_an_unknown_view_raises_an_argument_error(samples):
    with pytest.raises(ArgumentError) as caught:
        mimebundle(samples, view="<b>")
    assert caught.value.argument == "view"


def test_an_empty_column_is_shown_as_a_gallery():
    bundle = mimebundle(Column())
    assert "0 blobs" in bundle["text/plain"]
    assert "figure" not in Seen(bundle["text/html"]).tags


def test_the_title_of_a_gallery_is_shown_as_text():
    column = Column([Value(b"x")])
    column.title = NASTY
    bundle = mimebundle(column)
    assert {"script", "img"}.isdisjoint(Seen(bundle["text/html"]).tags)
    assert NASTY in Seen(bundle["text/html"]).text


# -- budgets ------------------------------------------------------------------------------------


def test_at_most_64_tiles_are_shown_and_no_other_blob_is_opened():
    column = Column(Value(b"word " * 30, "text/plain", f"{n}.txt") for n in range(100))
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == MAX_TILES == 64
    assert "64 of 100 blobs" in page.text
    assert "one output shows at most 64 tiles" in page.text
    assert sum(blob.opened for blob in column) == 64


def test_the_output_stays_below_two_mebibytes_and_every_tile_keeps_its_caption():
    noise = np.random.default_rng(0).integers(0, 255, (336, 480, 3), np.uint8)
    data = encode(Image.fromarray(noise), "PNG", compress_level=1)
    column = Column(Value(data, "image/png", f"noise{n}.png") for n in range(64))
    html = mimebundle(column)["text/html"]
    assert len(html.encode()) <= OUTPUT_BUDGET == 2 * 1024 * 1024
    page = Seen(html)
    assert page.tags.count("figure") == 64
    assert 5 <= page.tags.count("img") < 64
    assert "use save(path) to save the blob" in page.text
    assert "blob 63" in page.text


@pytest.mark.parametrize("budget", [4_096, 20_000, 200_000])
def test_with_a_smaller_limit_the_omitted_tiles_are_counted(samples, budget):
    html = mimebundle(samples, max_output_bytes=budget)["text/html"]
    assert len(html.encode()) <= budget
    if Seen(html).tags.count("figure") < len(samples):
        assert "do not fit into one output" in Seen(html).text


# -- errors ------------------------------------------------------------------------------------


def test_one_damaged_blob_does_not_affect_the_others():
    column = Column([Value(b"a"), Value(b"b", error=ChecksumError("block 0 is bad")), Value(b"c")])
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == 3
    assert "block 0 is bad" in page.text


def test_a_gallery_stops_sending_requests_after_a_connection_broke():
    gone = BrokenStreamError("the connection broke")
    column = Column([Value(b"a"), Value(b"b", error=gone), *(Value(b"c") for _ in range(9))])
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == 11
    assert page.text.count("not read: the connection broke") == 10
    assert [blob.opened for blob in column] == [1, 1] + [0] * 9


def test_a_gallery_raises_an_error_if_the_service_never_responds():
    with pytest.raises(TransportError):
        mimebundle(Column([Value(b"a", error=BrokenStreamError("no answer"))]))


def test_an_interrupt_ends_a_gallery_immediately():
    column = Column([Value(b"a"), Value(b"b", error=CancelledError("stopped"))])
    with pytest.raises(OdpsNbError):
        mimebundle(column)


# -- the interactive view, without a service ------------------------------------------------------


def shown_numbers(bundle):
    return re.findall(r'title="(\d+)\.(?:txt|bin)"', bundle["text/html"])


@pytest.fixture
def hundred():
    return Column(
        Value(b"word" * (n + 1), "text/plain", f"{n}.txt")
        if n % 10
        else Value(b"\x00\x01", "", f"{n}.bin")
        for n in range(100)
    )


def test_a_filter_is_applied_before_the_limit_of_64_tiles(hundred):
    gallery = Gallery(hundred)
    assert repr(gallery) == "<Gallery of media.content, 100 blobs>"
    gallery.show_only("binary")
    assert repr(gallery) == "<Gallery of media.content, 10 of 100 blobs, kind binary>"
    gallery.show_only("text/plain")
    assert all(blob.opened == 1 for blob in hundred)
    bundle = gallery._static_page()
    assert len(shown_numbers(bundle)) == MAX_TILES
    assert "64 of 100 blobs" in bundle["text/plain"]
    gallery.show_only("all kinds")
    assert repr(gallery) == "<Gallery of media.content, 100 blobs>"


def test_drawn_tiles_are_not_requested_again(hundred):
    gallery = Gallery(hundred)
    gallery._static_page()
    gallery.show_only("text")
    assert [blob.opened for blob in hundred] == [1] * 100
    browser = gallery._widget = Browser()
    gallery.receive({"do": "tiles", "indices": list(range(MAX_TILES))})
    browser.wait("idle", task="tiles")
    assert sorted(came(browser)) == list(range(MAX_TILES))
    assert [blob.opened for blob in hundred] == [1] * 100


def test_blobs_can_be_sorted_by_name_or_size_and_searched(hundred):
    gallery = Gallery(hundred)
    gallery.sort_by("size", descending=True)
    assert shown_numbers(gallery._static_page())[:3] == ["99", "98", "97"]
    gallery.sort_by("name")
    assert shown_numbers(gallery._static_page())[:4] == ["0", "1", "10", "11"]
    gallery.sort_by("row", descending=True)
    assert shown_numbers(gallery._static_page())[:2] == ["99", "98"]
    gallery.sort_by("row")
    gallery.search("7.TXT")
    assert shown_numbers(gallery._static_page()) == [f"{n}7" if n else "7" for n in range(10)]
    gallery.search("blob 42")  # part of the caption of a row
    assert shown_numbers(gallery._static_page()) == ["42"]
    for wrong in (lambda: gallery.search("x" * 201), lambda: gallery.search(5)):
        with pytest.raises(ArgumentError):
            wrong()
    with pytest.raises(ArgumentError, match="kind is of type NoneType"):
        gallery.show_only(None)
    with pytest.raises(ArgumentError, match="there is no kind 'imgae'") as caught:
        gallery.show_only("imgae")
    assert caught.value.hint.startswith("did you mean 'image'? pass a media type or one of: all")
    with pytest.raises(ArgumentError) as caught:
        gallery.sort_by("colour")
    assert caught.value.argument == "order"


def test_the_cache_of_tiles_is_bounded(hundred, monkeypatch):
    monkeypatch.setattr(tiles, "KEPT", 20_000)
    gallery = Gallery(hundred)
    browser = gallery._widget = Browser()
    for _ in range(2):
        browser.forget()
        gallery.receive({"do": "tiles", "indices": list(range(100))})
        browser.wait("idle", task="tiles")
        assert len(came(browser)) == 100
        assert 0 < gallery._tiles._bytes <= 20_000
    assert all(1 <= blob.opened <= 2 for blob in hundred)


def test_tiles_read_concurrently_give_the_same_page(samples, sample_bundle):
    *parts, whole = drawn_pages(samples, range(len(samples)), together=6)
    assert len(parts) == (len(samples) - 1) // 6
    assert whole.bundle() == sample_bundle
    assert [len(part.tiles) for part in parts] == [6 * (n + 1) for n in range(len(parts))]


def test_concurrent_reading_stops_if_the_service_goes_silent():
    gone = BrokenStreamError("the connection broke")
    column = Column([*(Value(b"a") for _ in range(3)), Value(b"b", error=gone)])
    column += [Value(b"c") for _ in range(8)]
    *_, page = drawn_pages(column, range(len(column)), together=3)
    assert [blob.opened for blob in column] == [1] * 4 + [0] * 8
    assert sum("not read" in one.text for one in page.tiles) == 9
    assert len(page.tiles) == 12


def test_messages_contain_text_and_pictures_but_no_markup(samples):
    column = Column([*samples, Value(NASTY.encode(), NASTY, NASTY)])
    gallery = Gallery(column)
    browser = gallery._widget = Browser()
    gallery.receive({"do": "tiles", "indices": list(range(len(column)))})
    browser.wait("idle", task="tiles")
    tiles = came(browser)
    assert len(tiles) == len(column)
    for tile in tiles.values():
        assert tile["src"] == "" or PICTURE.fullmatch(tile["src"])
        assert "<figure" not in json.dumps(tile)
        assert len(json.dumps(tile)) < 220_000
    nasty = tiles[len(column) - 1]
    assert nasty["name"] == NASTY
    assert NASTY in nasty["text"]
    by_name = {tile["name"]: tile for tile in tiles.values()}
    assert by_name["cities.csv"]["text"].startswith("city\town_name\t")


def test_the_message_of_an_enlarged_blob_contains_its_audio_or_video(samples):
    names = [blob.file_name for blob in samples]
    gallery = Gallery(samples)
    browser = gallery._widget = Browser()
    for name in ("melody.wav", "mountains.jpg"):
        gallery.receive({"do": "large", "index": names.index(name)})
        browser.wait("idle", task="large")
        large, _ = browser.wait("large")
        tile = large["tile"]
        assert tile["name"] == name
        if name == "melody.wav":
            assert re.fullmatch("data:audio/wav;base64,[A-Za-z0-9+/=]+", tile["player"])
        else:
            assert PICTURE.fullmatch(tile["src"])
            small = next(gallery._tiles.read([names.index(name)]))["src"]
            assert len(tile["src"]) > 1.5 * len(small) > 0
        browser.forget()


def test_a_static_grid_fills_the_width_with_equal_columns(hundred):
    html = mimebundle(hundred)["text/html"]
    assert "display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr))" in html
    figures = re.findall(r"<figure[^>]*style=\"([^\"]*)\"", html)
    assert len(figures) == MAX_TILES
    assert all("width:100%" in style for style in figures)
    assert "display:grid" not in mimebundle(hundred, view="list")["text/html"]
