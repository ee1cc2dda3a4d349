"""Tiles of files that contain pictures or sounds show the first of them."""

import base64
import io
import tarfile
import wave
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.arrow_bodies import ipc
from tests.support.previews import Seen, Value


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
