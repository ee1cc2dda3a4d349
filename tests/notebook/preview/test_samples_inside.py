"""Tiles of files that contain pictures or sounds show the first of them."""

import base64
import io
import tarfile
import wave
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.arrow_bodies import ipc
from tests.support.previews import Seen, Value
from tests.support.profiles import P3, rgb_profile


def picture(colour, form="JPEG"):
    out = io.BytesIO()
    Image.new("RGB", (90, 60), colour).save(out, form)
    return out.getvalue()


COLOURS = ("#c00000", "#00c000", "#0000c0", "#c0c000")
PICTURES = [picture(colour, form) for colour in COLOURS for form in ("JPEG", "PNG")]


def sound(seconds):
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(int(32_000 * seconds)))
    return out.getvalue()


SOUNDS = [sound(seconds) for seconds in (2, 4, 3, 3)]


def parquet(column):
    out = io.BytesIO()
    pq.write_table(pa.table({"label": [str(n) for n in range(len(column))], "image": column}), out)
    return out.getvalue()


def arrow():
    return ipc(pa.table({"image": PICTURES}))


def tar(parts, ending="jpg"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for number, data in enumerate(parts):
            for name, part in ((f"{number:06}.{ending}", data), (f"{number:06}.cls", b"7")):
                info = tarfile.TarInfo(name)
                info.size = len(part)
                archive.addfile(info, io.BytesIO(part))
    return out.getvalue()


def zipped(names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number, name in enumerate(names):
            samples = {"jpg": PICTURES, "png": PICTURES, "wav": SOUNDS}.get(name.rpartition(".")[2])
            archive.writestr(name, samples[number] if samples else "text")
    return out.getvalue()


FILES = {
    "Parquet of bytes": parquet(PICTURES),
    "Parquet of images": parquet([{"bytes": one, "path": "a.jpg"} for one in PICTURES]),
    "Arrow": arrow(),
    "webdataset": tar(PICTURES),
    "a webdataset of which the head was read": tar([*PICTURES, bytes(9_000_000)]),
    "a damaged sample": parquet([PICTURES[0][:60], *PICTURES[1:]]),
    "ZIP": zipped(["a.jpg", "b.png", "read.me"]),
}


@pytest.mark.parametrize("name", FILES)
def test_the_first_pictures_inside_a_file_are_shown(name):
    page = Seen(tile(Value(FILES[name])).html)
    (source,) = page.values("src")
    assert source.startswith("data:image/jpeg;base64,")


def halves(mode="RGB", **options):
    """A square picture with an upper half and a lower half; turned by its EXIF data, if any."""
    whole = Image.new("RGB", (120, 120), "#c08040")
    whole.paste("#204060", (0, 0, 120, 60))
    out = io.BytesIO()
    if mode == "I;16":
        whole = Image.fromarray(np.asarray(whole.convert("L"), np.uint16) * 100)
    whole.save(out, "PNG", **options)
    return out.getvalue()


TURNED = Image.Exif()
TURNED[0x0112] = 6


@pytest.mark.parametrize(
    "data",
    [
        halves(),
        halves(exif=TURNED),
        halves(icc_profile=rgb_profile(P3)),
        halves("I;16"),
    ],
    ids=["plain", "turned", "profile", "16 bits"],
)
def test_a_picture_inside_a_file_looks_as_in_a_tile_of_its_own(data):
    def drawn(whole):
        (source,) = Seen(tile(Value(whole)).html).values("src")
        image = Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2])))
        return image.convert("RGB")

    alone, inside = drawn(data), drawn(parquet([data] * 3))
    side = inside.height
    inside = inside.crop((0, 0, side - 8, side)).resize((64, 64))
    far = np.asarray(alone.resize((64, 64)), float) - np.asarray(inside, float)
    assert np.abs(far[4:28, 4:28]).mean() < 3  # a quarter in which turning shows
    assert np.abs(far[36:60, 4:28]).mean() < 3


def test_an_enlarged_tile_also_shows_the_names():
    page = Seen(tile(Value(FILES["ZIP"]), size=SINGLE).html)
    assert "img" in page.tags
    assert "read.me" in page.text


def test_a_file_with_few_pictures_shows_its_names_or_rows():
    page = Seen(tile(Value(zipped(["a.jpg", *(f"{n}.txt" for n in range(5))]))).html)
    assert ("img" in page.tags, "5.txt" in page.text or "4.txt" in page.text) == (False, True)
    assert "<3 B>" in Seen(tile(Value(parquet([b"abc"] * len(PICTURES)))).html).text


WITH_SOUNDS = {
    "Parquet of bytes": (parquet(SOUNDS), "row 1"),
    "Parquet of sounds": (parquet([{"bytes": one, "path": "b.wav"} for one in SOUNDS]), "b.wav"),
    "webdataset": (tar(SOUNDS, "wav"), "000001.wav"),
    "ZIP": (zipped(["a.wav", "b.wav", "read.me"]), "b.wav"),
    "a damaged sample": (parquet([b"fLaC", *SOUNDS]), "row 1"),
}


@pytest.mark.parametrize("size", [GRID, SINGLE], ids=["tile", "single"])
@pytest.mark.parametrize("name", WITH_SOUNDS)
def test_sounds_inside_a_file_are_listed_and_small_sounds_have_players(name, size):
    data, title = WITH_SOUNDS[name]
    made = tile(Value(data), size=size)
    page = Seen(made.html)
    assert title in page.text
    assert "0:02 · 16 kHz · mono" in page.text
    played = [base64.b64decode(source.partition(",")[2]) for source in page.values("src")]
    assert played == SOUNDS[:2]  # players have at most 256 KiB in total
    assert ("read.me" in page.text) == (name == "ZIP" and size is SINGLE)
