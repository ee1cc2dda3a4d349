"""A gallery: within its budgets, legible without widgets, and widgets that hold no data."""

import io
import json
import re
from html.parser import HTMLParser
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
from odps_nb.local.samples import pictures
from odps_nb.notebook.gallery.view import MAX_TILES, OUTPUT_BUDGET, Gallery, mimebundle

NASTY = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


class File(io.BytesIO):
    """An opened blob."""

    verified = True


class Value:
    """A blob as a value; opening may fail."""

    def __init__(self, data, mime_type="", file_name="", error=None):
        self.data, self.mime_type, self.file_name = data, mime_type, file_name
        self.size, self.error, self.opened = len(data), error, 0

    def open(self):
        self.opened += 1
        if self.error is not None:
            raise self.error
        return File(self.data)

    def save(self, path):
        target = path / f"{len(list(path.iterdir()))}.bin"
        target.write_bytes(self.data)
        return target


class Column(list):
    """Some blobs with a title."""

    title = "media.content"

    def caption(self, index):
        return f"blob {index}"


class Seen(HTMLParser):
    """The tags and text of a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def samples(sample_blobs):
    return Column(
        blob and Value(blob.data, blob.mime_type, blob.file_name) for blob in sample_blobs
    )


@pytest.fixture(scope="module")
def sample_bundle(samples):
    """The gallery of all samples, as a grid."""
    return mimebundle(samples)


def test_the_sample_gallery_has_one_figure_per_blob(samples, sample_bundle):
    page = Seen(sample_bundle["text/html"])
    assert page.tags.count("figure") == len(samples)
    assert f"media.content · {len(samples)} blobs" in page.text
    assert "null" in page.text
    assert {"script", "style", "iframe", "link"}.isdisjoint(page.tags)


def test_the_bundle_is_html_and_short_text_and_no_widget(samples, sample_bundle):
    assert set(sample_bundle) == {"text/html", "text/plain"}
    lines = sample_bundle["text/plain"].splitlines()
    assert lines[0] == f"media.content · {len(samples)} blobs"
    assert lines[1] == "  mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified  blob 0"
    assert lines[-1] == f"  … {len(samples) - 12} more"


def test_a_list_shows_all(samples, sample_bundle):
    html = mimebundle(samples, view="list")["text/html"]
    assert html != sample_bundle["text/html"]
    assert Seen(html).tags.count("figure") == len(samples)


def test_an_unknown_view_is_a_config_error(samples):
    with pytest.raises(ArgumentError) as caught:
        mimebundle(samples, view="<b>")
    assert caught.value.argument == "view"


def test_an_empty_column_is_a_gallery_too():
    bundle = mimebundle(Column())
    assert "0 blobs" in bundle["text/plain"]
    assert "figure" not in Seen(bundle["text/html"]).tags


def test_the_title_is_text():
    column = Column([Value(b"x")])
    column.title = NASTY
    bundle = mimebundle(column)
    assert {"script", "img"}.isdisjoint(Seen(bundle["text/html"]).tags)
    assert NASTY in Seen(bundle["text/html"]).text


def test_only_a_media_type_that_was_asked_for_is_shown(samples):
    page = Seen(mimebundle(samples, mime="image/svg")["text/html"])
    assert page.tags.count("figure") == 2
    few = ("rose.svg", "not_a_picture.png", "spinner.gif", "order.json")
    column = Column(blob for blob in samples if blob is not None and blob.file_name in few)
    page = Seen(mimebundle(column, mime="image/")["text/html"])
    assert page.tags.count("figure") == 2
    assert "not_a_picture.png" not in page.text


# -- budgets ------------------------------------------------------------------------------------


def test_no_more_than_64_tiles_and_no_blob_beyond_is_opened():
    column = Column(Value(b"word " * 30, "text/plain", f"{n}.txt") for n in range(100))
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == MAX_TILES == 64
    assert "64 of 100 blobs" in page.text
    assert "64 tiles are the most" in page.text
    assert sum(blob.opened for blob in column) == 64


def test_the_output_stays_below_two_mebibytes_and_every_tile_keeps_its_caption():
    noise = np.random.default_rng(0).integers(0, 255, (336, 480, 3), np.uint8)
    data = pictures.encode(Image.fromarray(noise), "PNG", compress_level=1)
    column = Column(Value(data, "image/png", f"noise{n}.png") for n in range(64))
    html = mimebundle(column)["text/html"]
    assert len(html.encode()) <= OUTPUT_BUDGET == 2 * 1024 * 1024
    page = Seen(html)
    assert page.tags.count("figure") == 64
    assert 5 <= page.tags.count("img") < 64
    assert "its save(path)" in page.text
    assert "blob 63" in page.text


@pytest.mark.parametrize("budget", [4_096, 20_000, 200_000])
def test_a_smaller_budget_is_kept_and_says_what_is_missing(samples, budget):
    html = mimebundle(samples, max_output_bytes=budget)["text/html"]
    assert len(html.encode()) <= budget
    if Seen(html).tags.count("figure") < len(samples):
        assert "do not fit into one output" in Seen(html).text


# -- trouble ------------------------------------------------------------------------------------


def test_one_damaged_blob_leaves_the_others_alone():
    column = Column([Value(b"a"), Value(b"b", error=ChecksumError("block 0 is bad")), Value(b"c")])
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == 3
    assert "block 0 is bad" in page.text


def test_a_service_that_falls_silent_is_not_asked_again():
    gone = BrokenStreamError("the connection broke")
    column = Column([Value(b"a"), Value(b"b", error=gone), *(Value(b"c") for _ in range(9))])
    page = Seen(mimebundle(column)["text/html"])
    assert page.tags.count("figure") == 11
    assert page.text.count("not read: the connection broke") == 10
    assert [blob.opened for blob in column] == [1, 1] + [0] * 9


def test_a_service_that_does_not_answer_at_all_is_an_error():
    with pytest.raises(TransportError):
        mimebundle(Column([Value(b"a", error=BrokenStreamError("no answer"))]))


def test_an_interrupt_is_an_error_at_once():
    column = Column([Value(b"a"), Value(b"b", error=CancelledError("stopped"))])
    with pytest.raises(OdpsNbError):
        mimebundle(column)


# -- pages --------------------------------------------------------------------------------------


def shows(bundle):
    return re.findall(r'title="(\d+)\.txt"', bundle["text/html"])


@pytest.fixture
def hundred():
    return Column(
        Value(b"word", "text/plain", f"{n}.txt") if n % 10 else Value(b"\x00\x01", "", f"{n}.bin")
        for n in range(100)
    )


def test_pages_turn_and_stop_at_both_ends(hundred):
    gallery = Gallery(hundred, page_size=12)
    assert gallery.pages == 9
    gallery.turn(-1)
    assert shows(gallery.bundle())[0] == "1"
    gallery.turn(1)
    assert shows(gallery.bundle())[0] == "12"
    gallery.turn(99)
    assert shows(gallery.bundle()) == ["96", "97", "98", "99"]
    assert "page 9 of 9" in gallery.bundle()["text/html"]
    assert repr(gallery) == "<Gallery of media.content, page 9 of 9>"


def test_a_page_opens_only_its_own_blobs(hundred):
    Gallery(hundred, page_size=12).bundle()
    assert sum(blob.opened for blob in hundred) == 12


def test_a_filter_by_kind_looks_at_each_head_once(hundred):
    gallery = Gallery(hundred, page_size=4)
    gallery.show_only("binary")
    assert gallery.pages == 3
    gallery.show_only("text")
    assert gallery.pages == 23
    assert all(blob.opened == 1 for blob in hundred)
    gallery.show_only("all kinds")
    assert gallery.pages == 25


def test_a_page_is_saved_by_the_blobs_themselves(hundred, tmp_path):
    gallery = Gallery(hundred, page_size=5)
    saved = gallery.save_page(tmp_path / "new" / "folder")
    assert [Path(file).read_bytes() for file in saved] == [b"\x00\x01"] + [b"word"] * 4


def test_it_displays_static_html_and_then_buttons(shell, shown, samples):
    from IPython.display import display

    display(Gallery(samples, page_size=6))
    pictures_message, buttons_message = shown
    assert set(pictures_message["data"]) == {"text/html", "text/plain"}
    assert pictures_message["transient"]["display_id"]
    assert "application/vnd.jupyter.widget-view+json" in buttons_message["data"]
    assert buttons_message["data"]["text/plain"].startswith("run the cell again")


def test_buttons_replace_the_static_html_in_place(shell, shown, samples):
    from IPython.display import display

    gallery = Gallery(samples, page_size=6)
    display(gallery)
    first = shown[0]
    _, forward, kind, _, _ = gallery.controls().children
    forward.click()
    kind.value = "audio"
    turned, filtered = shown[2:]
    for message in (turned, filtered):
        assert message["update"] is True
        assert message["transient"] == first["transient"]
    assert "page 2 of 8" in turned["data"]["text/html"]
    assert "melody.wav" in filtered["data"]["text/html"]
    assert "mandelbrot.png" not in filtered["data"]["text/html"]


def test_a_button_that_fails_says_so_in_the_page_and_not_in_a_widget(shell, shown, tmp_path):
    from IPython.display import display

    column = Column([Value(b"a"), Value(b"b", error=BrokenStreamError(NASTY))])
    gallery = Gallery(column, page_size=1)
    display(gallery)
    _, forward, _, folder, save = gallery.controls().children
    forward.click()
    assert NASTY in Seen(shown[-1]["data"]["text/html"]).text
    assert "script" not in Seen(shown[-1]["data"]["text/html"]).tags
    folder.value = str(tmp_path / "file" / "folder")
    (tmp_path / "file").write_bytes(b"")
    save.click()
    assert "NotADirectoryError" in shown[-1]["data"]["text/html"]


def test_widgets_hold_nothing_that_came_from_the_service(samples):
    samples = Column(samples)
    samples.title = NASTY
    gallery = Gallery(samples, page_size=12)

    def states(widget):
        yield widget.get_state()
        for child in getattr(widget, "children", ()):
            yield from states(child)

    gallery.bundle()
    found = list(states(gallery.controls()))
    text = json.dumps(found, default=str)
    assert len(found) == 6
    assert not {"HTMLModel", "HTMLMathModel", "OutputModel"} & {s["_model_name"] for s in found}
    assert "mountains" not in text
    assert "onerror" not in text
    assert len(text) < 12_000
