"""A gallery shows the verified sample blobs of the embedded service."""

import pytest

from odps_nb.access.blobs.column import BlobColumn
from odps_nb.notebook.gallery.page import mimebundle
from odps_nb.notebook.gallery.view import Gallery
from odps_nb.terms import BlobReference


@pytest.fixture(scope="module")
def column(odps):
    return odps.table("media").blobs("content", limit=64)


@pytest.mark.storage_api("blobs")
def test_every_sample_blob_has_a_tile(column, sample_blobs):
    files = [blob for blob in sample_blobs if blob is not None]
    bundle = column._repr_mimebundle_()
    assert bundle["text/html"].count("<figure") == len(files) == len(column)
    assert (
        bundle["text/html"].count("✓ verified") == len(files) - 1
    )  # one blob is longer than a head
    assert (
        "mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified  id 1 · declared"
        in bundle["text/plain"]
    )


@pytest.mark.storage_api("blobs")
def test_a_single_blob_is_displayed_with_its_content(column):
    bundle = column[0]._repr_mimebundle_()
    assert bundle["text/plain"] == "<Blob mountains.jpg  JPEG · 960 × 640 · 25.9 kB  verified>"


@pytest.mark.storage_api("blobs")
def test_blobs_inside_arrays_of_structs_are_shown_as_a_gallery(odps):
    pages = odps.table("documents").blobs("pages", limit=64)
    assert mimebundle(pages)["text/html"].count("data:image/") == len(pages) == 11


@pytest.mark.storage_api("blobs")
def test_an_unknown_reference_affects_only_its_own_tile(odps, column):
    gone = odps.blob(BlobReference.from_raw(b"\xff\x00no such blob"))
    html = mimebundle(BlobColumn([column[0], gone, column[1]], title="three"))["text/html"]
    assert html.count("<figure") == 3
    assert html.count("data:image/") == 2
    assert "NotFoundError" in html


@pytest.mark.storage_api("blobs")
def test_no_output_contains_credentials(odps, column):
    profile = odps.profile
    gallery = Gallery(column)
    text = repr([mimebundle(column, render=True), gallery, column[0]._repr_mimebundle_()])
    assert profile.access_key not in text
    assert profile.access_id not in text
