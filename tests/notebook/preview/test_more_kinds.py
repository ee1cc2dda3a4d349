"""Tiles of kinds without a picture show text; other packages can add kinds."""

import io
import logging
import os
import pickle
import re
import struct
import textwrap
import zipfile

import pytest

from fuzz.preview_files import files, gguf, torch
from odps_nb.formats.registry import kinds, sniff
from odps_nb.formats.shared import GRID
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing.client import Parser
from odps_nb.parsing.values import UnshowableError
from tests.support.previews import NASTY, Seen, Value

FILES = files()

SAYS = {
    "weights.safetensors": ("safetensors · 2 tensors · 49,153 parameters", "encoder.weight F16"),
    "model.onnx": ("ONNX · IR version 9", "producer: pytorch"),
    "model.gguf": ("GGUF · 2 tensors · 48 parameters", "token_embd.weight F32 5×8"),
    "model.pt": ("PyTorch · 2 imports", "torch._utils._rebuild_tensor_v2"),
    "area.geojson": ("JSON · 2 keys", "type : “FeatureCollection”"),
    "report.ipynb": ("notebook · python · 2 cells · 1 output", "print('<b>1</b>')"),
    "sound.wav": ("WAV · 0:03 · 8 kHz · stereo", ""),
    "sound.flac": ("FLAC", "no sound inside"),
    "rows.orc": ("ORC · 3 rows × 2 columns", "<b>cake</b>"),
    "rows.avro": ("Avro · 2 columns, deflate", "<b>tea</b> 2 null"),
    "photo.heic": ("HEIC · 256 × 256", ""),
    "icon.ico": ("ICO · 32 × 32", ""),
    "system.pkl": ("pickle", "never loaded here: loading a pickle runs the code that it names"),
    "book.xlsx": ("Excel · 2 sheets · 3 rows × 2 columns", "Prices <b> of Prices <b>, Empty"),
    "book.ods": ("OpenDocument sheet · 1 sheet · 2 rows × 2 columns", "name price tea 3"),
    "book.xls": ("Excel 97 · 1 sheet · 2 rows × 2 columns", "name price <b>tea 3"),
    "page.pdf": ("PDF · version 1.7 · 1 page", ""),
    "scan.dcm": ("DICOM · MR · 48 × 32", ""),
    "notes.md": ("Markdown · 7 lines", "# Notes"),
    "tool.py": ("Python · 7 lines", "def main (name):"),
    "clip.mp4": ("MP4 · 0:02 · 64 × 48 · H.264", ""),
    "clip.mov": ("QuickTime · 0:02 · 64 × 48 · MPEG-4", "browsers cannot play it"),
    "clip.webm": ("WebM · 0:02 · 64 × 48 · VP8", ""),
    "clip.mkv": ("Matroska · 0:02 · 64 × 48 · H.264", "browsers cannot play it"),
    "clip.avi": ("AVI · 0:02 · 64 × 48 · MJPEG", "browsers cannot play it"),
    "song.mp3": ("MP3 · 0:02 · 48 kHz · mono", ""),
    "song.ogg": ("Ogg · 0:02 · 48 kHz · mono · Opus", ""),
    "song.flac": ("FLAC · 0:02 · 48 kHz · mono", ""),
    "call.amr": ("AMR · 0:02 · 8 kHz · mono", "browsers cannot play it"),
    "call.wav": ("WAV · 0:02 · 8 kHz · mono · ADPCM", "browsers cannot play it"),
    "call.au": ("AU · 0:02 · 8 kHz · mono", "browsers cannot play it"),
    "song.aiff": ("AIFF · 0:02 · 48 kHz · mono", "browsers cannot play it"),
    "song.aac": ("AAC · 0:02 · 48 kHz · mono", ""),
    "song.wma": ("WMA · 0:01 · 44.1 kHz · mono", "browsers cannot play it"),
    "clip.wmv": ("WMV · 0:02 · 64 × 48", "browsers cannot play it"),
    "clip.ts": ("MPEG-TS · 0:02 · 64 × 48 · MPEG-2", "browsers cannot play it"),
    "clip.mpg": ("MPEG-PS · 0.08 s · 64 × 48 · MPEG-2", "browsers cannot play it"),
    "clip.flv": ("FLV · 0:02 · 64 × 48 · Sorenson H.263", "browsers cannot play it"),
    "clip.3gp": ("3GP · 0:02 · 64 × 48 · MPEG-4", "browsers cannot play it"),
    "grid.h5": (
        "HDF5 · 6 datasets",
        "title: Heat <b> name shape type attributes heat 3 × 4 float32 units: K",
    ),
    "names.rar": ("RAR · 2 files", "tea.txt · 4 B dir/<b>.txt · 4 B"),
    "photo.jp2": ("JPEG 2000 · 64 × 48", ""),
    "photo.ppm": ("PPM · 64 × 48", ""),
    "photo.dds": ("DDS · 64 × 48", ""),
    "photo.qoi": ("QOI · 64 × 48", ""),
    "photo.psd": ("PSD · 64 × 48", ""),
    "letter.docx": (
        "Word · 3 pages · 1,200 words",
        "A <i>letter by Bob Dear <b> Ann best wishes letter",
    ),
    "talk.pptx": ("PowerPoint · 2 slides", "comes <b> first comes second"),
    "letter.odt": ("OpenDocument text · 2 pages · 14 paragraphs", "Ledger Dear reader bye"),
    "talk.odp": ("OpenDocument slides · 2 slides", "Ledger First <b>"),
    "story.epub": ("EPUB · 2 sections", "Night by Ann <b> One It was dark. Two It was dark."),
    "shop.sqlite": ("SQLite · 2 tables", "table rows columns or<b>ders 2 id, tea empty 0 x"),
    "note.eml": (
        "message · 1 attachment",
        "Rechnung für <b>März</b> From: Jörg <joerg@example.org> To: ann@example.org Date: Tue, "
        "24 Nov 2026 10:00:00 +0100 attached: Rechnung März.pdf · 1.5 kB Guten Tag, im Anhang: ü.",
    ),
    "song.m4a": ("M4A · 0:02 · 48 kHz · mono · AAC", ""),
}


def words(page):
    return re.sub(r"\s+", " ", " ".join(page.texts))


class Page(Seen):
    """A `Seen` page with its texts as a list."""

    def __init__(self, text):
        self.texts = []
        super().__init__(text)

    def handle_data(self, data):
        super().handle_data(data)
        self.texts.append(data)


@pytest.mark.gate(25)
@pytest.mark.parametrize("name", SAYS)
def test_a_tile_shows_the_expected_texts_of_a_file(name):
    made = tile(Value(FILES[name], "", name))
    line, inside = SAYS[name]
    assert made.text.startswith(f"{name}  {line} · ")
    page = Page(made.html)
    assert inside in words(page)
    assert {"img", "audio", "video"} & set(page.tags) or inside


def test_every_sample_file_has_expected_texts():
    assert SAYS.keys() == FILES.keys()


@pytest.mark.gate(20)
@pytest.mark.parametrize("name", SAYS)
def test_truncated_files_and_files_with_malicious_names_have_a_tile(name):
    data = FILES[name]
    for cut in (9, len(data) // 2, len(data) - 1):
        page = Page(tile(Value(data[:cut], NASTY, NASTY)).html)
        assert "script" not in page.tags
        assert NASTY in page.text


def test_no_pickle_is_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return open, (str(tmp_path / "sprung"), "w")

    page = Page(tile(Value(pickle.dumps(Trap()))).html)
    assert "never loaded here" in words(page)
    assert not (tmp_path / "sprung").exists()


def test_sound_that_is_too_large_to_play_still_shows_its_length():
    data = FILES["sound.wav"] + bytes(3_000_000)
    made = tile(Value(data))
    assert "0:03 · 8 kHz · stereo" in made.text
    assert "too large to play here" in made.html


# -- kinds of other packages --------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, monkeypatch, repo):
    """Install the package in ``docs/previews.md``, with additional entry points for some tests."""

    def install(entries=""):
        page = (repo / "docs" / "previews.md").read_text(encoding="utf-8")
        code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
        group, entry = re.search(
            r'```toml\n\[project\.entry-points\."(.*?)"\]\n(.*?)\n', page
        ).groups()
        (tmp_path / "midi_preview.py").write_text(code, encoding="utf-8")
        about = tmp_path / "midi_preview-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: midi-preview\nVersion: 1\n")
        entry = entry.replace('"', "")
        (about / "entry_points.txt").write_text(f"[{group}]\n{entry}\n{textwrap.dedent(entries)}")
        monkeypatch.syspath_prepend(str(tmp_path))
        kinds.cache_clear()

    yield install
    kinds.cache_clear()


MIDI = b"MThd\x00\x00\x00\x06\x00\x01\x00\x03\x01\xe0" + bytes(40)


def test_the_kind_of_an_installed_package_draws_its_files(installed):
    assert sniff(MIDI, len(MIDI)).kind == "binary"
    installed()
    made = tile(Value(MIDI, "audio/midi", "<b>song.mid"))
    assert made.text.startswith("<b>song.mid  MIDI · 3 tracks · ")
    assert "&lt;b&gt;song.mid: 3 tracks" in made.html


def test_a_kind_that_fails_to_load_or_reuses_a_name_is_skipped_and_logged(
    installed, caplog, tmp_path
):
    (tmp_path / "others.py").write_text(
        textwrap.dedent(
            """
            from dataclasses import replace
            from midi_preview import KIND
            TAKEN = replace(KIND, name="image")
            def fails(head):
                raise RuntimeError("no idea")
            CURIOUS = replace(KIND, name="curious", formats=(), recognise=fails, precedence=0)
            """
        )
    )
    installed("gone = nowhere:KIND\ntaken = others:TAKEN\ncurious = others:CURIOUS\n")
    with caplog.at_level(logging.WARNING, "odps_nb"):
        assert sniff(MIDI, len(MIDI)).kind == "midi"
    assert [record.args[0] for record in caplog.records] == ["gone", "taken", "curious"]
    assert kinds()["image"].formats


def test_the_parser_of_an_installed_package_runs_in_the_parser_process(installed, tmp_path):
    (tmp_path / "midi_parser.py").write_text(
        "import os\n"
        "def parse(data, options):\n"
        "    return {'tracks': data[11], 'pid': os.getpid()}, b''\n"
    )
    installed("[odps_nb.preview_parsers]\nmidi = midi_parser\n")
    parser = Parser()
    try:
        size = {name: getattr(GRID, name) for name in GRID.__slots__}
        found = parser.parse("midi", MIDI, {"size": size})
        assert found.number("tracks") == 3
        assert found.number("pid") != os.getpid()
        with pytest.raises(UnshowableError, match="no parser"):
            parser.parse("os", MIDI, {"size": size})
    finally:
        parser.close()


def test_a_large_model_shows_its_settings_without_reading_its_parameters():
    made = tile(Value(gguf(tokens=100_000)))
    page = Seen(made.html)
    assert "GGUF · 2 tensors" in made.text
    assert "parameters" not in made.text
    assert "llama.block_count" in page.text


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (struct.pack("<I", 99), "its format is unknown to the decoder"),
        (struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 80_000, "it is nested too deeply"),
    ],
)
def test_invalid_settings_of_a_model_are_refused(setting, reason):
    head = struct.pack("<4sIQQQ1s", b"GGUF", 3, 0, 1, 1, b"k")
    assert tile(Value(head + setting)).notes == (f"not decoded here: {reason}",)


@pytest.mark.parametrize("data", [FILES["weights.safetensors"], gguf()[:-400]])
def test_a_truncated_model_has_a_note(data):
    assert tile(Value(data)).notes == ()
    assert tile(Value(data[:-30])).notes == ("truncated or damaged: its data ends early",)


def test_a_pytorch_file_names_the_code_that_it_would_run():
    made = tile(Value(torch(("os", "system"))))
    assert "os.system" in Seen(made.html).text
    assert "never loaded here" in made.notes[0]


def pytorch(pickled, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/version", "3")
    return out.getvalue()


class Command:
    """An object whose pickle runs a command."""

    def __reduce__(self):
        return os.system, ("true",)


PICKLES = {
    **{f"protocol {n}": pickle.dumps({"w": Command()}, protocol=n) for n in range(6)},
    "from the memo": b"\x80\x04\x8c\x05posix\x940\x8c\x06system\x940h\x00h\x01\x93.",
    "of an instance": b"(S'true'\niposix\nsystem\n.",
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", PICKLES)
def test_every_import_of_a_pickle_is_listed(name, method):
    made = tile(Value(pytorch(PICKLES[name], method)))
    assert "posix.system" in Seen(made.html).text
    assert "1 import" in made.words


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"\x80\x04\x8c\x05posix\x8c\x06system0\x8c\x01x\x85\x93.", "?"),  # a computed name
        (b"\x82\x01.", "?"),  # a number that copyreg resolves
        (b"\x80\x02}q\x00", "not known"),  # without an end
        (b"\xff", "not known"),
    ],
)
def test_imports_that_are_not_known_are_not_denied(data, shown):
    page = Seen(tile(Value(pytorch(data))).html)
    assert shown in page.text
    assert "no imports" not in page.text
