"""A problem with one blob is reported on its own tile only."""

import pytest

from fuzz.preview_files import files
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.convert import blob_content
from odps_nb.errors import ChecksumError
from odps_nb.notebook.gallery.chosen import Chosen, GalleryChoice
from odps_nb.notebook.gallery.tiles import Tiles
from odps_nb.notebook.preview.peek import recognise_head
from odps_nb.notebook.preview.tile import UNREAD, tile
from tests.support.damaged import damaged_heads, escaped
from tests.support.previews import Column, Value

LINE = "Les élèves étaient à l'école, où ils étaient.\r\n".encode("cp1252")
#: An encoding guessed from the complete lines does not fit the truncated last line.
CUT_LINE = LINE * (65_400 // len(LINE)) + b"caf\xe9 \x81"


def test_bytes_that_are_invalid_in_a_guessed_encoding_are_replaced():
    for data in (CUT_LINE, CUT_LINE + b"x" * 70_000):
        made, (format, text) = tile(Value(data)), recognise_head(Value(data))
        assert made.format == format
        assert text.startswith("Les")
        assert "\ufffd" in text
        assert "1 invalid byte shown as \ufffd" in made.notes


def test_the_encoding_is_inferred_from_the_first_bytes_that_are_not_ascii():
    data = b"id,name\n" * 20_000 + "1,Zoë Müller\n".encode("cp1252") * 50
    assert blob_content.as_text(data, None).endswith("Zoë Müller\n")


FAILING = [RuntimeError("a defect"), RecursionError(), ChecksumError("damaged"), MemoryError()]


@pytest.mark.parametrize("error", FAILING, ids=lambda error: type(error).__name__)
def test_an_error_in_one_blob_does_not_hide_the_others(error):
    blobs = Column([Value(b"tea"), Value(b"tea", error=error), Value(b"tea", file_name="last")])
    chosen = Chosen(blobs)
    shown = list(Tiles(chosen).read(range(3)))
    assert [one["failed"] for one in shown] == [False, True, False]
    assert shown[1]["notes"] != []
    for choice in (GalleryChoice(search="tea"), GalleryChoice(kind="text"), GalleryChoice()):
        chosen = Chosen(blobs)
        chosen.choose(choice, CancelToken())
        assert {0, 2} <= set(chosen.indices)
    assert tile(blobs[1]).format is UNREAD


@pytest.mark.gate(1)
@pytest.mark.parametrize("seed", range(10))
def test_drawing_a_damaged_head_never_raises_an_error(seed):
    own = [*files().values(), CUT_LINE, LINE * 40, b"a,b\n1,2\n3,4\n", b'{"a": 1}\n["b"]\n']
    assert [found for data in damaged_heads(own, seed, 40) if (found := escaped(data))] == []
