"""A camera RAW file is identified and not drawn; a large picture is drawn if opened alone."""

import io
import struct

import numpy as np
import pytest
from PIL import Image

from odps_nb.convert import blob_content
from odps_nb.errors import ConversionError
from odps_nb.formats.kind import HEAD, MIB
from odps_nb.formats.registry import sniff
from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Seen, Value, picture_in

RED, BLUE = (200, 40, 40), (40, 40, 200)


def jpeg(width, height, left=RED, right=BLUE, **options):
    picture = Image.new("RGB", (width, height), left)
    picture.paste(right, (width // 2, 0, width, height))
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


def tiff_of(tags, behind=b"", mark=b"II*\0", at=8):
    """Return a TIFF or a similar file: one directory, then its texts, then more bytes."""
    order = "<" if mark[:2] == b"II" else ">"
    entries, texts = b"", b""
    first = at + 2 + 12 * len(tags) + 4
    for tag, value in sorted(tags.items()):
        if isinstance(value, bytes):
            entries += struct.pack(f"{order}HHII", tag, 2, len(value), first + len(texts))
            texts += value
        else:
            entries += struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0)
    begin = mark + struct.pack(f"{order}I", at)
    directory = struct.pack(f"{order}H", len(tags)) + entries + bytes(4)
    return begin + bytes(at - 8) + directory + texts + behind


def camera(maker, model=b"Model 1\0", **more):
    return {271: maker, 272: model, 254: 1, **more}


INSIDE = jpeg(160, 120) + bytes(range(256)) * 16
DNG = {**camera(b"Any\0"), 50706: 1}
CANON = tiff_of({271: b"Canon\0", 272: b"Model 1\0"}, INSIDE, at=16)
FILES = {
    "NEF": tiff_of(camera(b"NIKON CORPORATION\0"), INSIDE),
    "NEF big-endian": tiff_of(camera(b"NIKON CORPORATION\0"), INSIDE, b"MM\0*"),
    "ARW": tiff_of(camera(b"SONY \0"), INSIDE),
    "PEF": tiff_of({271: b"PENTAX Corporation \0", 272: b"Model 1\0", 259: 65535}, INSIDE),
    "DNG": tiff_of(DNG, INSIDE),
    "CR2": CANON[:8] + b"CR\x02\0" + CANON[12:],
    "ORF": tiff_of(camera(b"OLYMPUS\0"), INSIDE, b"IIRO"),
    "RW2": tiff_of(camera(b"Panasonic\0"), INSIDE, b"IIU\0", 24),
    "CR3": struct.pack(">I4s4sI", 24, b"ftyp", b"crx ", 1)
    + b"crx isom"
    + b"\0\0\1\0CMT1"
    + tiff_of({272: b"Model 1\0"}, INSIDE),
    "RAF": b"FUJIFILMCCD-RAW 0201FF129502".ljust(84, b"\0") + struct.pack(">I", 148) + INSIDE,
    "": tiff_of(camera(b"Unheard Of\0"), INSIDE),
}


def has_colour(picture, at, colour):
    return all(abs(a - b) < 30 for a, b in zip(picture.getpixel(at), colour, strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_raw_file_is_identified_and_its_embedded_thumbnail_not_shown(name):
    made = tile(Value(FILES[name]), size=SINGLE)
    assert (made.format.kind, made.format.label) == ("raw", "camera RAW")
    assert made.notes == ("camera RAW is not decoded; use save(path) and a RAW converter",)
    assert "<img" not in made.html


@pytest.mark.parametrize(
    "tags",
    [
        {271: b"NIKON CORPORATION\0"},
        {254: 1},
        {271: b"SONY\0", 254: 0},
        {271: b"Scanner\0", 259: 5},
    ],
)
def test_a_plain_tiff_of_a_camera_is_not_a_raw_file(tags):
    data = tiff_of(tags, INSIDE)
    assert sniff(data[:HEAD], len(data)).label == "TIFF"


@pytest.mark.parametrize("cut", [0, 4, 8, 9, 20, 21])
def test_a_truncated_header_of_a_raw_file_is_not_an_error(cut):
    data = FILES["DNG"][:cut]
    assert sniff(data, len(data)).kind in ("image", "binary", "empty", "text", "raw")


def test_the_error_for_converting_a_raw_file_names_a_library_for_it():
    with pytest.raises(ConversionError, match="not a picture: its content is image/x-raw") as info:
        blob_content.as_picture(FILES["DNG"], sniff(FILES["DNG"]).mime, max_pixels=10**6)
    assert "rawpy.imread" in info.value.hint


# -- pictures larger than the bytes that a tile reads ---------------------------------------------


def large(form):
    if form == "JPEG":  # more bytes after the picture, as phones append them
        return jpeg(4000, 3000) + bytes(17 * MIB)
    pixels = np.zeros((2000, 3000, 3), np.uint8)
    pixels[:, :1500], pixels[:, 1500:] = RED, BLUE
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **({"compress_level": 0} if form == "PNG" else {}))
    return out.getvalue()


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("form", "says"), [("JPEG", "4000 × 3000"), ("PNG", "3000 × 2000"), ("TIFF", "3000 × 2000")]
)
def test_a_large_picture_is_drawn_if_opened_alone(form, says):
    blob = Value(large(form))
    assert blob.size > 16 * MIB
    made = tile(blob, size=GRID)
    assert "large picture" in Seen(made.html).text
    assert says in made.text
    assert made.notes[0].startswith("larger than 16.8 MB: open it alone to see it")
    assert blob.was_read == HEAD + 1
    alone = tile(blob, size=SINGLE)
    assert says in alone.text
    assert alone.notes == ()
    picture = picture_in(Seen(alone.html)).convert("RGB")
    assert has_colour(picture, (picture.width // 4, 50), RED)
    assert has_colour(picture, (picture.width * 3 // 4, 50), BLUE)


def test_a_picture_that_is_too_large_for_any_preview_is_reported():
    blob = Value(jpeg(64, 48) + bytes(64 * MIB))
    for size in (GRID, SINGLE):
        made = tile(blob, size=size)
        assert "64 × 48" in made.text
        assert made.notes[0] == "pictures above 67.1 MB are not drawn"
    assert blob.was_read == 2 * (HEAD + 1)
