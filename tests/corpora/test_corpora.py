"""Thousands of files from other projects: displayed, converted, and compared with other programs.

`make corpora` runs only this file and writes docs/results/corpora.md.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from odps_nb.convert import blob_content
from odps_nb.errors import ConversionError
from odps_nb.formats.shared import GRID
from odps_nb.notebook.preview.tile import tile
from tests.corpora import agreed
from tests.corpora.references import EQUAL, REFUSES
from tests.corpora.runs import note, surveyed
from tests.corpora.survey import TYPED
from tests.support.corpora import VERSIONS, NoNetworkError, folder

CORPORA = tuple(VERSIONS)
#: Languages that follow the encoding in the folder names of chardet's samples.
_LANGUAGES = re.compile(
    r"-(?:arabic|bulgarian|croatian|czech|greek|hebrew|hungarian|polish|romanian|russian|slovak"
    r"|slovene|turkish)$"
)

# takes a quarter of an hour and fetches packages from registries; tests/notebook/preview and
# tests/convert test the same rules with our own files
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3000)]


@pytest.fixture(params=CORPORA)
def corpus(request):
    """The name of an available corpus."""
    try:
        folder(request.param)
    except NoNetworkError as error:
        pytest.skip(str(error))
    return request.param


def test_no_file_crashes_the_process(corpus):
    assert [file for file in surveyed(corpus) if "ended" in file] == []


def test_every_conversion_error_is_typed(corpus):
    ends = {
        (file["name"], way): file["words"][way]
        for file in shown(corpus)
        for way, end in file["ends"].items()
        if end == "untyped"
    }
    assert ends == {}


def test_tiles_contain_no_address_error_number_or_repr(corpus):
    found = {file["name"]: file["internal"] for file in shown(corpus) if file["internal"]}
    assert found == {}


def test_detected_formats_agree_with_libmagic(corpus):
    differ = {
        file["name"]: (file["label"], file["libmagic"])
        for file in shown(corpus)
        if agreed.is_disputed(corpus, file)
    }
    assert differ == {}


def test_conversions_agree_with_other_libraries(corpus):
    differ = {
        (file["name"], way): said
        for file in shown(corpus)
        for way, said in file["compared"].items()
        if said != EQUAL
        and not said.startswith(REFUSES)
        and f"{corpus}/{file['name']}" not in agreed.CONVERSIONS
    }
    assert differ == {}


def test_a_picture_that_can_be_decoded_is_shown(corpus):
    differ = [
        (file["name"], file["said"])
        for file in shown(corpus)
        if file["kind"] == "image" and file["ends"]["to_pil"] == "value" and file["refused"]
    ]
    assert differ == []


@pytest.mark.parametrize("corpus", ["python-calamine", "fastavro", "nbformat"], indirect=True)
def test_blobs_of_a_table_are_shown_and_converted_as_their_bytes(odps, corpus):
    """The blobs are read from the service, as a user reads them."""
    table = f"corpus_{corpus.replace('-', '_')}"
    odps.table(table).write_files(folder(corpus))
    rows = odps.table(table).read().to_arrow().to_pylist()
    held = {row["path"]: odps.blob(row["content"]) for row in rows}
    chosen = [file for file in shown(corpus) if file["name"] in held]
    assert len(chosen) > 20
    for file in chosen:
        blob = held[file["name"]]
        assert blob.bytes() == (folder(corpus) / file["name"]).read_bytes()
        made = tile(blob, size=GRID)
        assert " · ".join((made.words, *made.notes)) == file["said"]
        assert {way: converted(getattr(blob, way)) for way in file["ends"]} == file["ends"]


def converted(way: Callable[[], object]) -> str:
    try:
        way()
    except TYPED:
        return "refused"
    return "value"


def test_every_listed_difference_still_occurs():
    try:
        files = [(name, file) for name in CORPORA if folder(name) for file in shown(name)]
    except NoNetworkError as error:
        pytest.skip(str(error))
    others = [(name, file) for name, file in files if not agreed.is_same_kind(file)]
    kinds = {(file["label"], file["libmagic"]) for _, file in others}
    assert agreed.KINDS.keys() - kinds == set()
    assert agreed.FILES.keys() - {f"{name}/{file['name']}" for name, file in others} == set()
    told = {
        f"{name}/{file['name']}"
        for name, file in files
        if any(said != EQUAL for said in file["compared"].values())
    }
    assert agreed.CONVERSIONS.keys() - told == set()


def test_texts_in_many_encodings_are_decoded_correctly():
    """The folder names of chardet's samples contain the encoding; the goal was 100 of 115."""
    try:
        place = folder("chardet")
    except NoNetworkError as error:
        pytest.skip(str(error))
    found = texts(place / "tests")
    note({"texts": {encoding: [sum(ends), len(ends)] for encoding, ends in found.items()}})
    ends = [end for several in found.values() for end in several]
    assert len(ends) > 400
    assert sum(ends) / len(ends) >= 100 / 115, found


def texts(place: Path) -> dict[str, list[bool]]:
    """Return by encoding, for each sample in it, whether our result is the same.

    Python has no codec for EUC-TW.
    """
    found: dict[str, list[bool]] = {}
    for path in sorted(place.glob("*/*")):
        name = _LANGUAGES.sub("", path.parent.name).replace("Mac", "mac_")
        data = path.read_bytes()
        try:
            known = data.decode(codecs.lookup(name).name)
        except (LookupError, UnicodeDecodeError):
            continue  # README.txt says that some samples are damaged
        try:
            ours = blob_content.as_text(data, None)
        except ConversionError:
            ours = ""
        found.setdefault(name, []).append(ours == known)
    return found


def shown(corpus):
    return [file for file in surveyed(corpus) if "mime" in file]
