"""A gallery can be searched and filtered by the decoded text and the kind of blobs."""

import pytest

from fuzz.preview_files import files
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.formats.registry import kinds
from odps_nb.notebook.gallery import chosen
from odps_nb.notebook.gallery.chosen import Chosen, GalleryChoice
from odps_nb.notebook.gallery.tiles import Tiles
from odps_nb.notebook.gallery.view import Gallery
from tests.support import previews
from tests.support.previews import Value

POEM = "床前明月光，疑是地上霜。\n举头望明月，低头思故乡。\n" * 4
RUSSIAN = "Сегодня очень хорошая погода.\nЯ иду в школу, а потом домой.\n" * 4
TEXTS = {
    "gbk": POEM.encode("gbk"),
    "utf-16": POEM.encode("utf-16"),
    "utf-8": POEM.encode(),
    "koi8-r": RUSSIAN.encode("koi8-r"),
    "latin": "Les élèves étaient à l'école, où ils étaient.\n".encode("cp1252") * 4,
    "csv": "编号,名称,价格\n1,苹果,3.5\n2,香蕉,4.2\n3,葡萄,8.0\n".encode("gbk"),
    "json": b'{"place": "Hamburg", "n": [1, 2]}',
    "page": b"<!DOCTYPE html><title>Hamburg</title>",
    "png": files()["photo.ppm"],
    "bytes": "明月".encode("gbk") + bytes(range(20)),  # a picture
}


class Column(previews.Column):
    """Blobs whose rows contain no metadata."""

    def caption(self, index):
        return ""


@pytest.fixture
def column():
    return Column(Value(data, "", f"{number}.bin") for number, data in enumerate(TEXTS.values()))


def shown_names(gallery):
    names = list(TEXTS)
    return [names[index] for index in gallery._chosen.indices]


def test_a_search_finds_text_blobs_in_any_encoding(column):
    gallery = Gallery(column)
    gallery.search("明月")
    assert shown_names(gallery) == ["gbk", "utf-16", "utf-8"]
    gallery.search("ХОРОШАЯ")  # in any case
    assert shown_names(gallery) == ["koi8-r"]
    gallery.search("école")
    assert shown_names(gallery) == ["latin"]
    gallery.search("香蕉")
    assert shown_names(gallery) == ["csv"]
    gallery.search("hamburg")
    assert shown_names(gallery) == ["json", "page"]
    gallery.search("no such word")
    assert shown_names(gallery) == []


def test_a_search_also_finds_names(column):
    gallery = Gallery(column)
    gallery.search("9.BIN")
    assert shown_names(gallery) == ["bytes"]


def test_a_search_and_a_kind_are_combined(column):
    gallery = Gallery(column)
    gallery.search("明月")
    gallery.show_only("table")
    assert shown_names(gallery) == []
    gallery.search("苹果")
    assert shown_names(gallery) == ["csv"]
    assert "kind table, search '苹果'" in repr(gallery)
    gallery.show_only("all kinds")
    assert shown_names(gallery) == ["csv"]
    assert "kind" not in repr(gallery)


def test_text_blobs_are_read_once_for_all_searches(column):
    gallery = Gallery(column)
    for word in ("明月", "школу", "明月", "hamburg"):
        gallery.search(word)
    assert [blob.opened for blob in column] == [1] * len(column)


def test_text_blobs_that_are_not_cached_are_read_again(column, monkeypatch):
    monkeypatch.setattr(chosen, "_KEPT", 0)
    gallery = Gallery(column)
    gallery.search("hamburg")
    gallery.search("明月")
    assert shown_names(gallery) == ["gbk", "utf-16", "utf-8"]
    once = {"png", "bytes"}
    assert [blob.opened for blob in column] == [1 if name in once else 2 for name in TEXTS]
    gallery.sort_by("name", descending=True)  # repeating a search sends no request
    assert shown_names(gallery) == ["utf-8", "utf-16", "gbk"]
    assert max(blob.opened for blob in column) == 2


def test_a_search_does_not_use_the_results_of_an_earlier_search(column):
    held = Chosen(column)
    early, late = GalleryChoice(search="hamburg"), GalleryChoice(search="明月")
    places = held.missing(early)
    reading = held.look(early, places, CancelToken())
    assert next(reading) == 0
    assert held.missing(late) != []
    list(reading)
    list(held.look(late, held.missing(late), CancelToken()))
    assert held.missing(late) == []
    assert [list(TEXTS)[index] for index in held.ordered(late)] == ["gbk", "utf-16", "utf-8"]


def test_only_the_beginning_of_a_text_is_searched():
    long = b"word\n" * 20_000 + b"end\n"
    column = Column([Value(long), Value(b"the end\n")])
    gallery = Gallery(column)
    gallery.search("end")
    assert list(gallery._chosen.indices) == [1]
    gallery.search("word")
    assert list(gallery._chosen.indices) == [0]
    assert column[0].was_read <= 2 * (64 * 1024 + 1)


@pytest.mark.nightly
def test_a_filter_by_kind_agrees_with_the_tiles():
    column = Column(Value(data) for data in (*TEXTS.values(), *files().values()))
    drawn = {made["index"]: made["kind"] for made in Tiles(Chosen(column)).read(range(len(column)))}
    gallery = Gallery(column)
    for kind in kinds():
        gallery.show_only(kind.name)
        assert list(gallery._chosen.indices) == [
            at for at, one in drawn.items() if one == kind.name
        ]
