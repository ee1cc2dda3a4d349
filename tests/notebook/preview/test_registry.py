"""Kinds of previews: each is declared in one file, and they are tried in a fixed order."""

import textwrap
from itertools import permutations

import pytest

from odps_nb.formats import kinds as package
from odps_nb.formats.drawing import Drawing
from odps_nb.formats.kind import HEAD, MIB, UNKNOWN, Format, Head, Kind
from odps_nb.formats.registry import Kinds, kinds, sniff
from odps_nb.notebook.gallery.view import Gallery
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Column, Value

NOT_TEXT = b"\x00\x01\xfe\xff" * 100


def test_kinds_are_tried_in_a_fixed_order():
    """Binary formats that may look like text come first, then text, then other formats."""
    assert [kind.name for kind in kinds()] == [
        *("dicom", "empty", "message", "pdf", "raw"),
        *("svg", "markup", "notebook", "json", "table", "code", "text"),
        *(
            "array",
            "arrow",
            "audio",
            "avro",
            "database",
            "dataset",
            "document",
            "image",
            "parquet",
            "video",
        ),
        *("workbook", "orc", "weights", "archive"),
        "binary",
    ]


def test_the_order_does_not_depend_on_how_kinds_are_found():
    for three in permutations(["audio", "archive", "binary"]):
        ordered = Kinds(kinds()[name] for name in three)
        assert [kind.name for kind in ordered] == ["audio", "archive", "binary"]


def declared():
    return [
        pytest.param(kind.name, format, id=f"{kind.name}-{format.label}")
        for kind in kinds()
        for format in kind.formats
    ]


@pytest.mark.parametrize(("name", "format"), declared())
def test_no_kind_recognises_the_format_of_another_kind(name, format):
    starts = [start + NOT_TEXT for start in format.starts]
    starts += [b"\x00\x00\x00\x18ftyp" + brand + NOT_TEXT for brand in format.brands]
    for data in starts:
        found = sniff(data, len(data))
        assert (found.kind, found.mime, found.encoding) == (name, format.mime, "")


def test_every_format_is_identified_by_declared_bytes_or_a_function():
    for kind in kinds():
        proved = [bool(format.starts or format.brands) for format in kind.formats]
        assert kind.recognise is not None or all(proved)


def test_no_media_type_is_declared_twice():
    mimes = [format.mime for kind in kinds() for format in kind.formats]
    assert len(set(mimes)) == len(mimes)


def test_text_that_begins_like_a_binary_format_is_text():
    for kind in kinds():
        for start in (start for format in kind.formats for start in format.starts):
            if start.isascii() and start.decode().isprintable():
                found = sniff(start + b" is how a sentence may begin, too\n")
                assert found.kind == ("pdf" if kind.name == "pdf" else "text")


def test_the_limits_of_every_kind_are_in_the_allowed_range():
    for kind in kinds():
        assert HEAD <= kind.head <= kind.limit <= 16 * MIB
        assert kind.head == HEAD or kind.name in ("archive", "dataset", "video", "weights")
        assert kind.alone == 0 or kind.limit < kind.alone <= 64 * MIB


NEW_KIND = """
    '''DWG: the length that the header promises.'''

    from odps_nb.html import element
    from odps_nb.formats.drawing import Drawing
    from odps_nb.formats.kind import MIB, Format, Kind


    def draw(excerpt, format, size, *, name):
        length = int.from_bytes(excerpt.data[8:12], "little")
        return Drawing(html=element("b", f"<{name}>"), facts=(f"{length} promised",))


    DWG = Format(mime="image/vnd.dwg", label="DWG", starts=(b"AC1032",))
    KIND = Kind(name="plan", formats=(DWG,), draw=draw, limit=MIB)
"""


@pytest.fixture
def new_kind(tmp_path, monkeypatch):
    """A new kind, added to the others by a file."""
    (tmp_path / "new_plan.py").write_text(textwrap.dedent(NEW_KIND), encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    kinds.cache_clear()
    yield
    kinds.cache_clear()


def test_a_kind_can_be_added_with_one_file(new_kind):
    data = b"AC1032\x00\x00" + (1234).to_bytes(4, "little") + bytes(200_000)
    blob = Value(data, "image/vnd.dwg", "cat.dwg")
    made = tile(blob)
    assert made.text == "cat.dwg  DWG · 1234 promised · 200.0 kB  verified"
    assert "<b>&lt;cat.dwg&gt;</b>" in made.html
    assert "declared" not in made.html
    assert "uploaded as image/vnd.dwg" in tile(Value(b"<p>hi</p>", blob.mime_type)).html
    large = Value(data + bytes(MIB))
    assert "the first 65.5 kB" in tile(large).html
    assert large.was_read == HEAD + 1


def test_a_gallery_filters_by_a_new_kind(new_kind):
    gallery = Gallery(Column([Value(b"hello"), Value(b"AC1032" + NOT_TEXT), Value(b"\0")]))
    gallery.show_only("plan")
    assert gallery._static_page()["text/plain"].count("DWG") == 1
    assert "1 of 3 blobs" in gallery._static_page()["text/plain"]
    assert ("plan", "plan (1)") in gallery._chosen.menu()


def draw_nothing(excerpt, format, size, *, name):
    return Drawing(html="")


def kind(name, *formats, **more):
    return Kind(name=name, formats=formats, draw=draw_nothing, **more)


def test_two_kinds_with_the_same_name_or_brand_are_refused():
    film = Format(mime="video/x", label="X", brands=(b"xxxx",))
    with pytest.raises(ValueError, match="same name"):
        Kinds([kind("a"), kind("a")])
    with pytest.raises(ValueError, match="same brand"):
        Kinds([kind("a", film), kind("b", film)])


def test_the_major_brand_takes_precedence_over_the_order_of_kinds():
    """A video from iTunes also contains the brand of sound files."""
    head = b"\x00\x00\x00\x20ftypM4V \x00\x00\x00\x01M4V M4A mp42isom" + NOT_TEXT
    assert sniff(head).label == "MP4"
    assert sniff(head.replace(b"ftypM4V ", b"ftypM4A ")).label == "M4A"


def test_a_signature_at_an_offset_is_used_only_if_the_first_bytes_match_no_kind():
    tar = bytearray(b"\x89PNG\r\n\x1a\n" + NOT_TEXT)
    tar[257:262] = b"ustar"
    assert sniff(bytes(tar)).label == "PNG"
    tar[:8] = b"file.txt"
    assert sniff(bytes(tar)).label == "tar"


def test_a_match_contains_kind_and_encoding():
    found = kinds()["json"].match(Head.of('{"ä": 1}'.encode("utf-16"), whole=True))
    assert (found.kind, found.mime, found.encoding) == ("json", "application/json", "utf-16")
    assert kinds()["json"].match(Head.of(NOT_TEXT, whole=True)) is None
    assert sniff(NOT_TEXT) == Format(mime=UNKNOWN, label="binary", kind="binary")


def test_a_repr_contains_no_bytes():
    assert "secret" not in repr(Head.of(b"secret", whole=True))
