"""A child process draws videos, sound, documents and science files, and opens no connection."""

import contextlib
import io
import re
import socket
import struct
import subprocess
import sys
import wave
import zipfile
from functools import partial

import av
import numpy as np
import pydicom
import pytest
from PIL import Image

from fuzz import document_files, media_files, science_files
from fuzz.media_files import psd
from odps_nb.convert.pictures import PICTURES
from odps_nb.convert.workbook import MAX_UNPACKED
from odps_nb.formats import parsing
from odps_nb.formats.boxes import boxes
from odps_nb.formats.kind import HEAD, MIB
from odps_nb.formats.parsers import containers
from odps_nb.formats.registry import kinds, sniff
from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.explore.static import thumbnail
from odps_nb.notebook.preview.tile import tile
from odps_nb.parsing import client
from odps_nb.parsing.values import Limits, UnshowableError
from tests.notebook.preview.test_more_kinds import Page
from tests.support.previews import Seen, Value, picture_in
from tests.support.sockets.peers import own_address

FILMS = media_files.files()


def page_of(data, name="it", **options):
    return Page(tile(Value(data, "", name), **options).html)


def rgb(page, attribute="src"):
    return picture_in(page, attribute).convert("RGB")


def has_colour(picture, at, colour):
    return all(abs(a - b) < 40 for a, b in zip(picture.getpixel(at), colour, strict=True))


def test_previews_and_to_pil_support_the_same_pictures():
    assert {format.mime for format in kinds()["image"].formats} == PICTURES.keys()


# -- videos ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["clip.mp4", "clip.webm"])
def test_a_video_has_a_player_with_a_frame(name):
    page = page_of(FILMS[name])
    poster = rgb(page, "poster")
    assert poster.size == (64, 48)
    assert has_colour(poster, (10, 24), (200, 40, 40))
    assert has_colour(poster, (50, 40), (0, 0, 0))
    assert page.tags.count("video") == 1


def test_a_video_taken_in_portrait_is_shown_in_portrait():
    data = bytearray(FILMS["clip.mp4"])
    matrix = data.index(b"tkhd") + 44  # rotated a quarter to the right, as phones write it
    data[matrix : matrix + 36] = struct.pack(">9i", 0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    made = tile(Value(bytes(data)))
    assert "48 × 64" in made.text
    poster = rgb(Seen(made.html), "poster")
    assert has_colour(poster, (24, 10), (200, 40, 40))
    assert has_colour(poster, (10, 55), (0, 0, 0))


@pytest.mark.parametrize(
    ("dark", "colour"), [(6, (200, 40, 40)), (18, (200, 40, 40)), (24, (0, 0, 0))]
)
def test_a_video_shows_a_frame_that_is_not_black_if_there_is_one(dark, colour):
    film = media_files.film("mp4", "libx264", dark=dark)
    assert has_colour(rgb(page_of(film), "poster"), (10, 24), colour)


def test_a_video_too_large_for_the_page_shows_only_a_frame():
    for more in (1 * MIB, 9 * MIB):
        blob = Value(FILMS["clip.webm"] + bytes(more), "", "long.webm")
        made = tile(blob)
        assert made.text.startswith("long.webm  WebM · 0:02 · 64 × 48 · VP8")
        page = Seen(made.html)
        assert "too large to play here" in page.text
        assert "video" not in page.tags
        assert rgb(page).size == (64, 48)
    assert blob.was_read == MIB


@pytest.mark.parametrize(
    "tail",
    [
        struct.pack(">I4s7x", 32, b"mdat"),
        struct.pack(">I4s8x", 0, b"mdat"),
        struct.pack(">I4s24x", 7, b"mdat"),
    ],
)
def test_boxes_end_before_a_truncated_or_invalid_header(tail):
    assert list(boxes(struct.pack(">I4s16x", 24, b"ftyp") + tail)) == [(b"ftyp", 0, 24)]


def test_a_large_video_with_its_index_at_the_end_says_why_it_has_no_frame():
    film = FILMS["clip.mp4"]
    index = film.index(b"moov") - 4
    begin = film.index(b"mdat") - 4
    assert begin < index
    longer = struct.pack(">I4s", 20 * MIB, b"mdat") + bytes(20 * MIB - 8)
    blob = Value(film[:begin] + longer + film[index:], "", "long.mp4")
    made = tile(blob)
    assert made.text.startswith("long.mp4  MP4 · 21.0 MB")
    page = Seen(made.html)
    assert "its index is at the end" in page.text
    assert "no frame: the index begins after the first 21.0 MB" in page.text
    assert "pre" not in page.tags
    assert blob.was_read == MIB
    huge = struct.pack(">I4sQ", 1, b"mdat", 1 << 62)
    for lie in (huge, struct.pack(">I4s", 0, b"mdat"), struct.pack(">I4s", 2, b"mdat")):
        page = page_of(film[:begin] + lie + bytes(9 * MIB))
        assert "its index is at the end" not in page.text
        assert "no frame" not in page.text


def test_a_large_mp4_sound_shows_its_length_or_says_that_its_index_is_at_the_end():
    song = FILMS["song.m4a"]
    index, begin = song.index(b"moov") - 4, song.index(b"mdat") - 4
    assert begin < index
    longer = struct.pack(">I4s", 20 * MIB, b"mdat") + bytes(20 * MIB - 8)
    blob = Value(song[:begin] + longer + song[index:], "audio/x-m4b", "book.m4b")
    page = Page(tile(blob).html)
    assert "its index is at the end" in page.text
    assert "duration unknown: the index begins after the first 21.0 MB" in page.text
    assert "pre" not in page.tags
    assert blob.was_read < 2 * HEAD
    in_front = Value(song[:begin] + song[index:] + longer, "", "book.m4b")
    page = Page(tile(in_front).html)
    assert "0:02" in page.text
    assert "too large to play here" in page.text
    assert in_front.was_read < 2 * HEAD
    mp3 = Page(tile(Value(FILMS["song.mp3"] * 2000)).html)
    assert re.search(r"1:0\d:\d\d\s*48 kHz\s*mono", mp3.text)
    assert "pre" not in mp3.tags


def test_an_old_workbook_is_a_table_and_other_compound_files_are_not():
    made = tile(Value(document_files.xls(), "application/octet-stream", "old"))
    assert made.text.startswith("old  Excel 97 · 1 sheet · 2 rows × 2 columns")
    other = document_files.xls().replace(
        "Workbook".encode("utf-16-le"), "Document".encode("utf-16-le")
    )
    assert sniff(other[:512] + bytes(512) + other[1024:], len(other)).kind == "binary"
    assert (
        "1,000 rows"
        in tile(Value(document_files.xls(tuple((n, 0.5) for n in range(200)) * 5))).text
    )


def test_a_truncated_video_is_reported_and_has_no_player():
    page = page_of(FILMS["clip.mp4"][:1500])
    assert "video" not in page.tags
    assert "no video track found" in page.text


@pytest.mark.parametrize(("container", "codec"), [("webm", "libopus"), ("mp4", "aac")])
def test_a_voice_recording_in_a_video_format_has_a_waveform_and_a_player(container, codec):
    made = tile(Value(media_files.sound(container, codec)))
    assert made.notes == ()
    assert "0:02 · 48 kHz · mono" in made.text
    page = Page(made.html)
    assert {"img", "audio"} <= set(page.tags)
    assert "video" not in page.tags


def test_the_explorer_shows_frames_and_waveforms_as_thumbnails():
    for name, start in (("clip.mp4", "png"), ("clip.mkv", "png"), ("song.mp3", "svg+xml")):
        made = thumbnail(Value(FILMS[name], "", name))
        assert made.src.startswith(f"data:image/{start};base64,"), name
        assert "0:02" in made.text


# -- sound ------------------------------------------------------------------------------------


def levels_of(data, mime):
    parsed = parsing.parse("sound", data, GRID, mime=mime)
    pairs = np.frombuffer(parsed.data, np.uint8).reshape(-1, 2).astype(int)
    return parsed.texts("facts"), pairs[:, 1] - pairs[:, 0]


@pytest.mark.parametrize("name", ["song.mp3", "song.ogg", "song.flac", "song.m4a"])
def test_a_waveform_is_higher_where_the_sound_is_louder(name):
    data = FILMS[name]
    facts, heights = levels_of(data, sniff(data, len(data)).mime)
    assert facts[:3] == ("0:02", "48 kHz", "mono")
    assert len(heights) == 240
    assert heights[5] < 60 < 180 < heights[-20]
    page = page_of(data, name)
    assert f"loudness of {name} over time" in page.values("alt")
    assert page.tags.count("audio") == 1


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_is_read_with_any_sample_width(width):
    tone = np.sin(np.arange(8000) / 4) * np.linspace(0, 0.9, 8000)
    whole = (tone * (1 << 8 * width - 1)).astype(np.int64) + (128 if width == 1 else 0)
    raw = whole.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((1, width, 8000, 0, "NONE", ""))
        file.writeframes(raw)
    facts, heights = levels_of(out.getvalue(), "audio/wav")
    assert facts == ("0:01", "8 kHz", "mono")
    assert heights[:20].max() < 30
    assert heights[-20:].min() > 180


def test_wav_with_float_samples_is_read():
    tone = (np.sin(np.arange(8000) / 4) * np.linspace(0, 0.9, 8000)).astype("<f4").tobytes()
    form = struct.pack("<HHIIHH", 3, 1, 8000, 32000, 4, 32)
    chunks = b"fmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", 32000) + tone
    data = b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks
    facts, heights = levels_of(data, "audio/wav")
    assert facts == ("0:01", "8 kHz", "mono")
    assert heights[:20].max() < 30
    assert heights[-20:].min() > 180


@pytest.mark.nightly
def test_a_long_sound_is_decoded_only_at_points_spread_over_its_length():
    for container, codec, mime in (
        ("flac", "flac", "audio/flac"),
        ("mp3", "libmp3lame", "audio/mpeg"),
        ("ogg", "libopus", "audio/ogg"),
    ):
        data = media_files.sound(container, codec, seconds=40)
        facts, heights = levels_of(data, mime)
        assert facts[0] == "0:40"
        assert len(heights) == 120
        assert heights[2] < 40 < 150 < np.median(heights[60:])


# -- documents, workbooks, science files --------------------------------------------------------


def test_the_first_page_of_a_pdf_is_drawn():
    data = document_files.pdf()
    drawn = rgb(page_of(data, size=SINGLE))
    assert drawn.width == 2 * drawn.height
    middle = (drawn.width * 70 // 200, drawn.height * 50 // 100)
    assert has_colour(drawn, middle, (51, 102, 230))
    assert has_colour(drawn, (3, 3), (255, 255, 255))


def test_a_pdf_that_is_not_drawn_shows_a_card_with_the_reason():
    page = page_of(b"%PDF-1.4\n/Title (Tea) /Type /Page \n" + bytes(100))
    assert "img" not in page.tags
    assert "Tea" in page.text
    assert "not decoded here: the decoder found invalid data in it" in page.text


PALETTE = {
    "PhotometricInterpretation": "PALETTE COLOR",
    **{f"{name}PaletteColorLookupTableDescriptor": [2, 0, 16] for name in ("Red", "Green", "Blue")},
    "RedPaletteColorLookupTableData": struct.pack("<2H", 0x40FF, 0xC0FF),
    "GreenPaletteColorLookupTableData": bytes(4),
    "BluePaletteColorLookupTableData": bytes(4),
    "PixelData": struct.pack("<H", 1) * 32 * 48,
}
COLOURS = {
    "PhotometricInterpretation": "RGB",
    "SamplesPerPixel": 3,
    "PlanarConfiguration": 0,
    "PixelData": struct.pack("<3H", 0xC0FF, 0, 0) * 32 * 48,
}


@pytest.mark.parametrize("elements", [PALETTE, COLOURS])
def test_colours_of_dicom_are_drawn(elements):
    made = page_of(dicom_with(**elements))
    assert has_colour(rgb(made), (10, 10), (0xC0, 0, 0))


def test_dicom_with_a_window_of_no_width_is_drawn_in_full_range():
    data = dicom_with(WindowCenter=10, WindowWidth=0)
    assert rgb(page_of(data)).tobytes() == rgb(page_of(document_files.dicom())).tobytes()


def dicom_with(**elements):
    dataset = pydicom.dcmread(io.BytesIO(document_files.dicom()))
    for name, value in elements.items():
        setattr(dataset, name, value)
        dataset[name].VR = dataset[name].VR.removesuffix(" or SS")
    out = io.BytesIO()
    dataset.save_as(out)
    return out.getvalue()


def test_dicom_shows_no_personal_data():
    for data in (document_files.dicom(), document_files.dicom(pixels=b"12")):
        made = tile(Value(data), size=SINGLE)
        assert "DICOM · MR · 48 × 32" in made.text
        assert "Doe" not in made.html
    assert "not drawn" in made.html
    assert "HEAD" in made.html
    assert "no picture inside" in page_of(document_files.dicom(pixels=b"")).text


def test_the_first_rows_of_a_workbook_are_a_table():
    page = page_of(document_files.xlsx())
    assert [text for text in page.texts if text in ("name", "price", "<b>tea", "3", "4.5")] == [
        *("name", "price", "<b>tea", "3", "4.5"),
    ]
    assert "no cells" in page_of(document_files.xlsx(rows="")).text


def test_source_code_is_highlighted():
    page = page_of(b"import os\n\n\ndef f(x):\n    return 'tea'  # why\n")
    styles = [value for tag, name, value in page.attributes if (tag, name) == ("span", "style")]
    assert len({style for style in styles if style.startswith("color:")}) >= 3


# -- bombs --------------------------------------------------------------------------------------


def false_size(data, size):
    """Return a ZIP that declares a false size of its largest file."""
    raw = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = max(archive.infolist(), key=lambda info: info.file_size)
    raw[info.header_offset + 22 : info.header_offset + 26] = struct.pack("<I", size)
    at = raw.rindex(info.filename.encode()) - 46
    raw[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(raw)


def far_cell(first="A1", form="<row r='{}'><c r='{}{}'><v>2</v></c></row>"):
    rows = f'<row r="1"><c r="{first}"><v>1</v></c></row>'
    return document_files.xlsx(rows=rows + form.format(1048576, "XFD", 1048576))


def entities():
    """Return XML whose nested entities expand to 10⁹ words ("billion laughs")."""
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE sst [<!ENTITY l0 "ha">{laughs}]><sst><si><t>&l9;</t></si></sst>'
    data = document_files.xlsx(strings="<si><t>LAUGHS</t></si>")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            is_strings = info.filename.endswith("sharedStrings.xml")
            new.writestr(info, body if is_strings else old.read(info))
    return out.getvalue()


def wide_film():
    """Return a video whose header declares a width of 30,000 pixels."""
    data = bytearray(FILMS["clip.mp4"])
    at = data.index(b"avc1", data.index(b"stsd")) + 28
    assert data[at : at + 4] == struct.pack(">HH", 64, 48)
    data[at : at + 4] = struct.pack(">HH", 30_000, 30_000)
    return bytes(data)


def nested_forms():
    """Return a PDF with seven levels of forms, each drawing the next form ten times."""
    form = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9]"
        b" /Resources << /XObject << /X %d 0 R >> >> /Length 60 >>\nstream\n%b\nendstream"
    )
    forms = tuple(form % (number + 1, b"/X Do " * 10) for number in range(5, 12))
    page = b"/MediaBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >>"
    return document_files.pdf(content=b"/X Do", page=page, more=forms)


BOMBS = {
    "a workbook that expands to 134 MB": (
        lambda: false_size(document_files.xlsx(), MAX_UNPACKED),
        "would expand to 134.2 MB: not decompressed",
    ),
    "a workbook that declares a false size": (
        lambda: false_size(document_files.xlsx(strings=f"<si><t>{' ' * (64 << 20)}</t></si>"), 9),
        "",
    ),
    "a far cell": (far_cell, "not decoded here: its cells are too far apart"),
    "a far cell, styled": (
        lambda: far_cell(form='<row r="{}"><c s="1" r = "{}{}" t="n" ><v>2</v></c></row>'),
        "not decoded here: its cells are too far apart",
    ),
    "a far corner alone": (
        lambda: far_cell("XFD1048575"),
        "2 rows × 1 column",
    ),
    "entities": (entities, ""),
    "a page of spaces": (
        lambda: document_files.pdf(content=b" " * (48 << 20) + b"0 0 9 9 re f", packed=True),
        "1 page",
    ),
    "a huge page": (
        lambda: document_files.pdf(page=b"/MediaBox [0 0 99999999 99999999]"),
        "1 page",
    ),
    "a page that is its own parent": (
        lambda: document_files.pdf().replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]"),
        "",
    ),
    "a wide DICOM image": (
        lambda: document_files.dicom(rows=65535, columns=65535, pixels=b"12"),
        "mega",
    ),
    "a deflated DICOM image": (
        lambda: document_files.dicom(syntax=b"1.2.840.10008.1.2.1.99", pixels=bytes(64 << 20)),
        "DICOM · MR",
    ),
    "a wide video": (wide_film, ""),
}


@pytest.mark.gate(4)
@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_becomes_a_tile(name):
    make, says = BOMBS[name]
    data = make()
    assert len(data) < 8 * MIB
    page = page_of(data)
    assert page.tags[0] == "figure"
    assert says in page.text


def test_a_page_that_takes_too_long_to_draw_is_stopped(monkeypatch):
    monkeypatch.setattr(client, "Limits", partial(Limits, seconds=1))
    monkeypatch.setattr(parsing, "_parser", parser := parsing.Parser())
    try:
        page = page_of(nested_forms())
    finally:
        parser.close()
    assert "PDF · version 1.7" in page.text
    assert "img" in page.tags or "too much time" in page.text


# -- connections --------------------------------------------------------------------------------


def files_that_connect(url):
    """Return files that try to open ``url``, each recognised as another kind."""
    target = url.encode()
    playlist = b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\n" + target + b"\n#EXT-X-ENDLIST\n"
    concat = b"ffconcat version 1.0\nfile " + target + b"\n"
    film = bytearray(FILMS["clip.mp4"])
    at = film.index(b"url \0\0\0\1")  # this entry means that the data is in the same file
    film[at : at + 8] = b"url \0\0\0\0"
    external = b"<< /Type /Filespec /FS /URL /F (" + target + b") >>"
    uri = b"<< /S /URI /URI (" + target + b") >>"
    script = b"<< /S /JavaScript /JS (app.launchURL\\('" + target + b"'\\)) >>"
    form = b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /BitsPerComponent 8"
    link = (
        '<Relationship Id="rId9" Type="http://schemas.openxmlformats.org/officeDocument/2006/'
        f'relationships/externalLink" TargetMode="External" Target="{url}"/>'
    )
    return {
        "playlist.mp3": b"ID3\x04\0\0\0\0\0\0" + playlist,
        "concat.flac": b"fLaC\0" + concat,
        "concat.ogg": b"OggS\0" + concat,
        "playlist.mp4": b"\0\0\0\x10ftypisom\0\0\0\0" + playlist,
        "playlist.avi": b"RIFF\x24\0\0\0AVI LIST" + playlist,
        "elsewhere.mp4": bytes(film),
        "links.xlsx": document_files.xlsx(more=link),
        "opens.pdf": document_files.pdf(catalog=b"/OpenAction 5 0 R", more=(uri,)),
        "script.pdf": document_files.pdf(catalog=b"/OpenAction 5 0 R", more=(script,)),
        "outside.pdf": document_files.pdf(
            content=b"9 0 0 9 0 0 cm /X Do",
            page=b"/MediaBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >>",
            more=(
                form + b" /ColorSpace /DeviceGray /F 6 0 R /Length 0 >>\nstream\n\nendstream",
                external,
            ),
        ),
        "page.md": f"# A\n\n![x]({url})\n\n<img src='{url}'>\n".encode(),
    }


def test_no_decoder_uses_the_network(monkeypatch):
    """Python observes no network use during imports or while a file is parsed."""
    hook = (
        "import os, sys; sys.addaudithook(lambda event, _: event.startswith("
        "('socket.connect', 'socket.get', 'urllib', 'http.client')) and os._exit(99))"
    )
    monkeypatch.setattr(client, "_BOOT", f"{hook}\n{client._BOOT}")
    monkeypatch.setattr(parsing, "_parser", parser := parsing.Parser())
    try:
        for name, data in {**FILMS, **document_files.files(), **science_files.files()}.items():
            assert "exit status" not in page_of(data, name).text, name
    finally:
        parser.close()
    asks = f"{hook}\nimport socket; socket.create_connection(('127.0.0.1', 9))"
    assert subprocess.run([sys.executable, "-c", asks], check=False).returncode == 99


def test_no_decoder_opens_a_connection():
    with socket.create_server((own_address(), 0)) as server:
        url = "http://{}:{}/x".format(*server.getsockname())
        kinds_seen = set()
        for name, data in files_that_connect(url).items():
            for size in (GRID, SINGLE):
                made = tile(Value(data, "", name), size=size, render=True)
                kinds_seen.add(made.format.kind)
                assert not [s for s in Seen(made.html).values("src") if not s.startswith("data:")]
        assert kinds_seen == {"audio", "video", "workbook", "pdf", "code"}
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
        server.setblocking(True)
        with socket.create_connection(server.getsockname()):  # the listener does record connections
            server.accept()[0].close()


def test_a_playlist_opens_no_other_file(tmp_path, monkeypatch):
    """A playlist is not opened as a playlist, and FFmpeg could not connect to an address in it."""
    (tmp_path / "clip.ts").write_bytes(media_files.film("mpegts", "libx264"))
    text = f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{tmp_path}/clip.ts\n#EXT-X-ENDLIST\n"
    (tmp_path / "list.m3u8").write_text(text)
    with av.open(str(tmp_path / "list.m3u8"), format="hls") as found:  # the playlist is valid
        assert found.streams.video
    with pytest.raises(UnshowableError, match="invalid data"):
        containers.opened(text.encode(), "video/mp4")
    monkeypatch.setitem(containers._DEMUXERS, "video/mp4", "hls")
    monkeypatch.setitem(containers._NAMES, "hls", "hls,mpegts")
    refused = contextlib.suppress(UnshowableError)
    with refused, containers.opened(text.encode(), "video/mp4") as found:
        assert len(found.streams) == 0


# -- without the libraries ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_libraries():
    """Tiles from a parser process in which no library for previews is installed."""
    missing = ["av", "pypdfium2", "python_calamine", "pydicom", "pygments", "h5py", "rarfile"]
    boot = f"import sys; sys.modules.update(dict.fromkeys({missing}))\n{client._BOOT}"
    parser = parsing.Parser()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "_BOOT", boot)
        patch.setattr(parsing, "_parser", parser)
        files = {**FILMS, **document_files.files(), **science_files.files()}
        found = {name: page_of(data, name) for name, data in files.items()}
    parser.close()
    return found


@pytest.mark.parametrize(
    ("name", "library", "tag"),
    [
        ("clip.mp4", "PyAV", "video"),
        ("clip.webm", "PyAV", "video"),
        ("clip.mkv", "PyAV", "em"),
        ("song.mp3", "PyAV", "audio"),
        ("song.flac", "PyAV", "audio"),
        ("page.pdf", "pypdfium2", "div"),
        ("book.xlsx", "python-calamine", "em"),
        ("scan.dcm", "pydicom", "em"),
        ("grid.h5", "h5py", "em"),
        ("names.rar", "rarfile", "em"),
    ],
)
def test_a_tile_names_a_missing_library_to_install(without_libraries, name, library, tag):
    page = without_libraries[name]
    assert re.search(rf"needs? {library}: pip install 'odps-nb\[previews\]'", page.text)
    assert tag in page.tags


def test_previews_that_need_no_library_work_without_any(without_libraries):
    assert "def main(name):" in without_libraries["tool.py"].text


WIDE = {
    "a wide PSD": psd(7, 5)[:14] + (9000).to_bytes(4, "big") * 2 + psd(7, 5)[22:],
    "a wide PPM": b"P6\n9000 9000\n255\n" + bytes(300),
    "a wide DDS": b"DDS \x7c\0\0\0\7\x10\0\0"
    + (9000).to_bytes(4, "little") * 2
    + bytes(60)
    + struct.pack("<II4sIIIII", 32, 64, b"", 24, 255, 255 << 8, 255 << 16, 0)
    + bytes(20),
}


@pytest.mark.parametrize("data", WIDE.values(), ids=WIDE)
def test_a_picture_with_too_many_declared_pixels_is_not_decoded(data):
    made = tile(Value(data))
    assert "<img" not in made.html
    assert "81 megapixels, more than 40: not decoded" in made.notes[0]


def test_layers_of_a_picture_are_not_an_animation():
    layer = struct.pack(">4iH", 0, 0, 5, 7, 0) + b"8BIMnorm" + bytes(4) + struct.pack(">I", 0)
    info = struct.pack(">h", 2) + layer * 2
    data = psd(7, 5, layers=struct.pack(">I", len(info)) + info)
    for size in (GRID, SINGLE):
        made = tile(Value(data), size=size)
        assert "animated" not in made.text
        assert "7 × 5" in made.text


def test_the_pages_of_a_tiff_are_not_an_animation():
    out, page = io.BytesIO(), Image.linear_gradient("L").resize((40, 30))
    page.save(out, "TIFF", save_all=True, append_images=[page, page])
    for size in (GRID, SINGLE):
        assert (
            "40 × 30 · the first of several pictures" in tile(Value(out.getvalue()), size=size).text
        )


def test_the_length_of_an_amr_file_is_the_sum_of_its_frames():
    """FFmpeg guesses the length from the bit rate of the first frames, which silence changes."""
    made = FILMS["call.amr"]
    silent = b"\x7c" * 3000  # frames without data: 20 ms, a byte each
    data = made[:6] + made[6:] * 20 + silent
    seconds = ((len(made) - 6) // 13 * 20 + 3000) // 50
    assert f"AMR · {seconds // 60}:{seconds % 60:02d} · " in tile(Value(data)).text


def test_the_length_of_an_aac_file_is_the_sum_of_its_frames():
    made = FILMS["song.aac"]
    with av.open(io.BytesIO(made), format="aac") as file:
        frames = [bytes(packet) for packet in file.demux(audio=0) if packet.size]
    data = made + min(frames, key=len) * 3000
    seconds = (len(frames) + 3000) * 1024 // 48_000
    assert f"AAC · {seconds // 60}:{seconds % 60:02d} · " in tile(Value(data)).text


def test_a_large_video_stream_shows_an_early_frame_and_no_length():
    whole = FILMS["clip.ts"]
    made = tile(Value(whole * (9 * MIB // len(whole)), "", "clip.ts"))
    assert made.text.startswith("clip.ts  MPEG-TS · 64 × 48 · MPEG-2 · 9.4 MB")
    assert "<img" in made.html


def test_formats_that_browsers_do_not_play_get_no_player():
    for name in ("call.wav", "call.amr"):
        page = page_of(FILMS[name], name)
        assert "audio" not in page.tags
        assert "img" in page.tags
    assert "audio" in page_of(FILMS["song.aac"]).tags
