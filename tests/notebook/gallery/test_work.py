"""A gallery over a real connection can be filtered, selected from, saved and displayed."""

import json
import sys
from array import array

import pytest

from odps_nb.access.blobs.column import BlobColumn
from odps_nb.errors import ArgumentError
from odps_nb.notebook.gallery import view
from odps_nb.notebook.gallery.view import Gallery
from odps_nb.notebook.live import live_view
from odps_nb.terms import BlobReference
from tests.support.messages import Browser, came

pytestmark = pytest.mark.storage_api("blobs")


@pytest.fixture(scope="module")
def media(odps):
    return odps.table("media").read(["id", "name", "content"]).to_pandas().set_index("id")


@pytest.fixture
def column(odps, media):
    """The blobs of a data frame whose index starts at 1 and has a gap where there is no blob."""
    return odps.blobs(media, "content", caption="name")


@pytest.fixture
def live(column):
    made = Gallery(column)
    made._widget = browser = Browser()
    yield made, browser
    made.close()


def packed(*numbers):
    return [array("i", numbers).tobytes()]


def unpacked(buffers):
    return list(memoryview(buffers[0]).cast("i"))


def choose_message(**more):
    plain = {"chosen": "all kinds", "search": "", "order": "row", "descending": False}
    return {"do": "choose", "by": "a view", "number": 1, **plain, **more}


# -- messages to the browser ----------------------------------------------------------------------


def test_a_ready_view_receives_the_tiles_and_the_selection(live):
    gallery, browser = live
    gallery.receive({"do": "select", "by": "another view"}, packed(3, 1))
    gallery.receive({"do": "ready"})
    told, buffers = browser.wait("gallery")
    assert (told["title"], told["total"], told["count"]) == ("content", 47, 47)
    assert (told["summary"], told["view"], told["fresh"]) == ("47 blobs", "grid", False)
    assert {"all kinds", "image", "audio"} <= {value for value, _ in told["menu"]}
    assert buffers == []  # all blobs in their original order
    assert unpacked(browser.wait("selected", by="")[1]) == [1, 3]


def test_tiles_arrive_one_by_one_with_their_rows(live, media):
    gallery, browser = live
    gallery.receive({"do": "tiles", "indices": [0, 3, 46]})
    browser.wait("idle", task="tiles")
    tiles = came(browser)
    assert sorted(tiles) == [0, 3, 46]
    first = tiles[0]
    assert (first["name"], first["row"]) == ("mountains.jpg", "row 1")
    assert first["words"] == "JPEG · 960 × 640 · 25.9 kB"
    assert first["verified"] is True
    assert first["src"].startswith("data:image/jpeg;base64,")


def test_a_filter_uses_the_detected_kind(live):
    gallery, browser = live
    gallery.receive(choose_message(chosen="image", order="size"))
    told, buffers = browser.wait("gallery", fresh=True)
    assert told["chosen"] == "image"
    indices = unpacked(buffers)
    assert len(indices) == told["count"] < 47
    formats = gallery._chosen._formats
    assert {formats[index].kind for index in indices} == {"image"}
    sizes = [gallery._column[index].size for index in indices]
    assert sizes == sorted(sizes)
    # files with the type of a picture but other content are omitted; the menu shows counts
    names = [gallery._column[index].file_name for index in indices]
    assert "not_a_picture.png" not in names
    assert ["image", f"image ({told['count']})"] in [list(one) for one in told["menu"]]
    browser.forget()
    gallery.receive(choose_message(search="MANDEL"))
    assert unpacked(browser.wait("gallery", search="MANDEL")[1]) == [1]


def test_a_filter_selects_blobs_that_cannot_be_read(odps, column):
    gone = odps.blob(BlobReference.from_raw(b"\xff\x00no such blob"))
    gallery = Gallery(BlobColumn([column[0], gone, column[1]], title="three"))
    gallery.show_only("not read")
    assert repr(gallery) == "<Gallery of three, 1 of 3 blobs, kind not read>"
    gallery.show_only("image")
    assert repr(gallery) == "<Gallery of three, 2 of 3 blobs, kind image>"
    assert "NotFoundError" in Gallery(gallery._column)._static_page()["text/html"]


def test_a_response_identifies_its_request_and_view(live):
    gallery, browser = live
    gallery.receive(choose_message(order="name", by="one", number=7))
    told, _ = browser.wait("gallery", fresh=True)
    assert (told["by"], told["number"], told["order"]) == ("one", 7, "name")
    told, _ = browser.wait("idle", task="choose")
    assert (told["by"], told["number"]) == ("one", 7)
    gallery.sort_by("size")
    told, _ = browser.wait("gallery", order="size")
    assert "number" not in told


def test_many_blobs_are_read_only_after_confirmation_until_cancelled(odps):
    few = odps.table("media").blobs("content", where="name = 'mountains.jpg'")
    gallery = Gallery(few.pick([0] * 10_000))
    gallery._widget = browser = Browser()
    gallery.receive(choose_message(order="size"))
    asked, _ = browser.wait("ask")
    assert "10,000 small requests" in asked["text"]
    gallery.receive(choose_message(chosen="image", sure=True))
    busy, _ = browser.wait("busy", task="choose")
    assert busy["stop"] == "Enough"
    gallery.receive({"do": "cancel", "task": "choose"})
    told, buffers = browser.wait("gallery", fresh=True)
    assert told["note"].endswith("blobs examined")
    assert 0 < told["count"] == len(unpacked(buffers)) < 10_000
    gallery.close()


def test_blobs_beyond_the_scroll_limit_are_reported(column, monkeypatch):
    monkeypatch.setattr(view, "MAX_SHOWN", 10)
    gallery = Gallery(column)
    gallery._widget = browser = Browser()
    gallery.receive({"do": "ready"})
    told, _ = browser.wait("gallery")
    assert (told["count"], told["note"]) == (10, "only the first 10 blobs can be shown")


# -- selecting, saving, copying -------------------------------------------------------------------


def test_a_selection_is_a_series_of_references_with_the_index_of_the_rows(live, media):
    gallery, browser = live
    assert gallery.selected.tolist() == []
    gallery.receive({"do": "select", "by": "x"}, packed(30, 0, 2))
    assert unpacked(browser.wait("selected", by="x")[1]) == [0, 2, 30]
    found = gallery.selected
    assert found.name == "content"
    assert found.index.tolist()[:2] == [1, 3]
    assert media.loc[found.index, "content"].tolist() == found.tolist()
    assert found.odps.size().tolist()[0] == 25_861
    assert repr(gallery) == "<Gallery of content, 47 blobs, 3 selected>"


def test_a_blob_column_returns_the_selection_in_its_gallery(odps, shell, shown, monkeypatch):
    from IPython.display import display

    column = odps.table("media").blobs("content", limit=8)
    assert column.selected.tolist() == []
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    display(column)
    column._gallery.receive({"do": "select", "by": "x"}, packed(5))
    assert column.selected.index.tolist() == [5]
    assert column.selected.tolist() == [column[5].reference.token]


def test_saving_a_selection_keeps_its_bytes_and_replaces_no_file(live, tmp_path, sample_blobs):
    gallery, browser = live
    folder = tmp_path / "new" / "folder"
    gallery.receive({"do": "select", "by": "x"}, packed(0, 1))
    gallery.receive({"do": "save", "index": None, "folder": str(folder)})
    said, _ = browser.wait("said")
    assert said["text"] == f"2 files saved: {folder}"
    files = [blob for blob in sample_blobs if blob is not None]
    for blob in files[:2]:
        assert (folder / blob.file_name).read_bytes() == blob.data
    browser.forget()
    gallery.receive({"do": "save", "index": 0, "folder": str(folder)})
    assert browser.wait("said")[0]["text"] == f"1 file saved: {folder / 'mountains-2.jpg'}"
    assert gallery.save_selected(tmp_path / "by hand")[0].read_bytes() == files[0].data
    for wrong in (3, None, b"folder"):
        with pytest.raises(ArgumentError, match="it must be a path"):
            gallery.save_selected(wrong)
    (tmp_path / "file").write_bytes(b"")
    gallery.receive({"do": "save", "index": 0, "folder": str(tmp_path / "file")})
    assert "cannot create the folder" in browser.wait("problem", task="save")[0]["text"]


def test_references_can_be_copied(live, media):
    gallery, browser = live
    gallery.receive({"do": "copy", "index": 1})
    copied, _ = browser.wait("copied")
    assert copied["text"] == media["content"].dropna().iloc[1]
    gallery.receive({"do": "select", "by": "x"}, packed(0, 1))
    gallery.receive({"do": "copy"})
    copied, _ = browser.wait("copied", said="2 references copied")
    assert copied["text"].split("\n") == media["content"].dropna().iloc[:2].tolist()


def test_invalid_messages_are_reported_and_have_no_effect(live):
    gallery, browser = live
    for content in (
        None,
        "tiles",
        {"do": "rm"},
        {"do": "tiles"},
        {"do": "tiles", "indices": [47]},
        {"do": "tiles", "indices": ["x"]},
        {"do": "large", "index": -1},
        {"do": "save", "folder": "x", "index": 10**9},
        choose_message(order="<b>"),
        choose_message(search="x" * 1000),
        {"do": "select", "by": "x"},
    ):
        gallery.receive(content)
    for buffer in (b"abc", array("i", [47]).tobytes()):
        gallery.receive({"do": "select", "by": "x"}, [buffer])
    assert gallery.selection == []
    assert len([1 for one, _ in browser.messages if one["kind"] == "problem"]) == 10
    gallery.receive({"do": "tiles", "indices": [0]})
    browser.wait("tiles")


def test_a_closed_gallery_ignores_messages(live):
    gallery, browser = live
    gallery.close()
    gallery.close()
    gallery.receive({"do": "tiles", "indices": [0]})
    assert browser.messages == []


# -- display --------------------------------------------------------------------------------------


def test_in_a_kernel_the_static_page_is_shown_with_the_widget(shell, shown, column, monkeypatch):
    from IPython.display import display

    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    display(column)
    first, widget, *grown = shown
    # the first tiles are shown before the last tiles are read
    counts = [one["data"]["text/html"].count("<figure") for one in (first, *grown)]
    assert counts == [6, 12, 24, 47]
    assert all(one["update"] is True for one in grown)
    whole = grown[-1]
    assert whole["transient"] == first["transient"]
    assert "application/vnd.jupyter.widget-view+json" in widget["data"]
    assert widget["data"]["text/plain"].startswith("run the cell again")
    assert len(whole["data"]["text/html"]) < 2 * 2**20
    state = json.dumps(column._gallery._widget.get_state(), default=str)
    assert "mountains" not in state
    script = column._gallery._widget._esm
    assert len(str(script)) < 40_000
    assert "http://" not in str(script).replace("http://www.w3.org/2000/svg", "")
    one = column[:1]
    for _ in range(2):  # another cell displays the gallery again
        shown.clear()
        display(one)
        static, _ = shown
        assert static["data"]["text/html"].count("<figure") == 1
        assert static.get("update") is not True


def test_without_a_kernel_or_anywidget_the_static_page_is_shown(shell, shown, column, monkeypatch):
    from IPython.display import display

    small = column[:2]
    display(small)
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    live_view.widget_class.cache_clear()
    display(small)
    live_view.widget_class.cache_clear()
    static, again, note = (one["data"] for one in shown)
    assert static["text/html"] in again["text/html"]
    assert "pip install" in note["text/plain"]
    assert static["text/plain"] == again["text/plain"]
    assert static["text/plain"].startswith("content · 2 blobs")


def test_a_deleted_first_blob_is_shown_as_a_tile(odps, shell, shown, monkeypatch):
    from IPython.display import display

    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    display(BlobColumn([odps.blob(BlobReference.from_raw(b"gone"))], title="t"))
    assert "NotFoundError" in shown[0]["data"]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in shown[1]["data"]
