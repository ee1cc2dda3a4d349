"""Galleries and single blobs send few requests to the service."""

import logging

import pytest

from odps_nb.access.blobs.column import BlobColumn
from odps_nb.notebook.gallery.page import MAX_TILES
from odps_nb.notebook.gallery.view import Gallery
from odps_nb.terms import BlobReference
from tests.support.messages import Browser, came

pytestmark = pytest.mark.storage_api("blobs")


@pytest.fixture
def sent_requests(caplog):
    """A function that returns the log lines of the requests since its last call."""
    caplog.set_level(logging.DEBUG, logger="odps_nb")

    def calls():
        said = [one.getMessage() for one in caplog.records if "request id" in one.getMessage()]
        caplog.clear()
        return said

    return calls


@pytest.fixture(scope="module")
def references(odps):
    return odps.table("media").blobs("content").references().tolist()


@pytest.fixture
def unread(odps, references):
    """The sample blobs and a missing one, without known metadata."""
    gone = odps.blob(BlobReference.from_raw(b"\xff\x00gone"))
    blobs = [odps.blob(text) for text in references]
    return BlobColumn([*blobs[:30], gone, *blobs[30:]], title="media")


def test_drawing_a_page_of_tiles_sends_fewer_requests_than_it_has_blobs(unread, sent_requests):
    sent_requests()
    bundle = Gallery(unread)._static_page()
    calls = sent_requests()
    count = len(unread)
    assert bundle["text/html"].count("<figure") == count <= MAX_TILES
    assert bundle["text/html"].count("NotFoundError") == 1
    assert all(call.startswith("BlobRead") for call in calls)
    assert count / 4 < len(calls) < 0.7 * count


def test_scrolling_sends_fewer_requests_than_new_tiles(unread, sent_requests):
    gallery = Gallery(unread)
    browser = gallery._widget = Browser()
    sent_requests()
    gallery.receive({"do": "tiles", "indices": list(range(len(unread)))})
    browser.wait("idle", task="tiles")
    tiles = came(browser)
    assert sorted(tiles) == list(range(len(unread)))
    assert [index for index, tile in tiles.items() if tile["failed"]] == [30]
    assert len(sent_requests()) < 0.6 * len(unread)


def test_a_filter_by_kind_and_name_sends_fewer_requests_than_blobs(unread, sent_requests):
    gallery = Gallery(unread)
    sent_requests()
    gallery.show_only("image")
    assert len(sent_requests()) < 0.6 * len(unread)
    gallery.search("mountains")
    assert sent_requests() == []
    assert f"1 of {len(unread)} blobs, kind image" in repr(gallery)


def test_displaying_a_single_blob_sends_one_request(odps, references, sent_requests):
    blob = odps.blob(references[0])
    sent_requests()
    assert "mountains.jpg" in blob._repr_mimebundle_()["text/html"]
    assert blob.file_name == "mountains.jpg"
    assert len(sent_requests()) == 1
