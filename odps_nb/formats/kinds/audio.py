"""Audio: the waveform, and a player with the original bytes if they fit into the page.

PyAV (the ``previews`` extra) decodes the sound in the parser process; the browser plays it.
"""

from __future__ import annotations

import re
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.boxes import place_of_index
from odps_nb.formats.drawing import Drawing, Excerpt, card, framed, reason_to_show
from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import parse
from odps_nb.formats.shared import ASF, ASF_FILM, OTHER_CODEC, Size
from odps_nb.html import Html, data_url, element
from odps_nb.parsing.lengths import boxes
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import format_bytes

_WAV = Format("audio/wav", "WAV", aliases=("audio/x-wav", "audio/wave", "audio/vnd.wave"))
_MP3 = Format("audio/mpeg", "MP3", aliases=("audio/mp3", "audio/x-mpeg"))
_FLAC = Format("audio/flac", "FLAC", aliases=("audio/x-flac",), starts=(b"fLaC",))
_OGG = Format("audio/ogg", "Ogg", aliases=("application/ogg", "audio/opus", "audio/vorbis"))
_M4A = Format(
    "audio/mp4", "M4A", aliases=("audio/x-m4a", "audio/m4a", "video/mp4"), brands=(b"M4A ", b"M4B ")
)
_AIFF = Format("audio/aiff", "AIFF", aliases=("audio/x-aiff",))
_AAC = Format(
    "audio/aac", "AAC", aliases=("audio/aacp", "audio/x-aac", "audio/x-hx-aac-adts", "audio/mp4")
)
_WMA = Format("audio/x-ms-wma", "WMA", aliases=("video/x-ms-asf", "audio/x-ms-asf", "audio/wma"))
_FORMATS = (
    _WAV,
    _AIFF,
    _AAC,
    Format("audio/basic", "AU", aliases=("audio/x-au",), starts=(b".snd\x00\x00\x00",)),
    Format(
        "audio/amr",
        "AMR",
        aliases=("audio/amr-wb", "audio/amr-nb", "audio/3gpp"),
        starts=(b"#!AMR\n", b"#!AMR-WB\n"),  # RFC 4867, 5.1
    ),
    _WMA,
    _MP3,
    _FLAC,
    _OGG,
    _M4A,
)
# kbit/s of MPEG-1 and MPEG-2 layer III; index 0 is "free", 15 is not allowed
_RATES_1: Final = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_RATES_2: Final = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
#: Media types that browsers play, and WAV format codes that they play (integer, float, A-law,
#: µ-law, extensible).
_PLAYED: Final = (
    *("audio/wav", "audio/mpeg", "audio/flac", "audio/ogg", "audio/mp4", "audio/aac"),
    *("video/mp4", "video/webm"),
)
_PLAYED_CODES: Final = (1, 3, 6, 7, 0xFFFE)
_COLUMNS: Final = 480  # columns of the drawing
_HERTZ: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        return _WAV
    if data.startswith(b"FORM") and data[8:12] in (b"AIFF", b"AIFC"):
        return _AIFF
    if data.startswith(ASF):
        return None if ASF_FILM in data else _WMA
    if data.startswith(b"OggS"):
        return None if b"\x80theora" in data[:512] else _OGG
    if data[4:8] == b"ftyp":
        return _M4A if head.brand and _has_sound_alone(data) else None
    if data.startswith(b"ID3"):
        begins = _behind_tag(data)
        if data.startswith(b"fLaC", begins):
            return _FLAC
        return _AAC if _aac_frame(data, begins) else _MP3
    # without a tag, require two consecutive frames, because a sync word has only 11 bits
    for format, frame in ((_MP3, _mp3_frame), (_AAC, _aac_frame)):
        length = frame(data, 0)
        if length and frame(data, length):
            return format
    return None


def _behind_tag(data: bytes) -> int:
    """Return the offset after an ID3 tag, whose length field uses 7 bits of each byte."""
    length = 0
    for byte in data[6:10]:
        length = length << 7 | byte & 0x7F
    footer = 10 if len(data) > 5 and data[5] & 0x10 else 0
    return 10 + length + footer


def _has_sound_alone(data: bytes) -> bool:
    """Whether an MP4 file's index is in the first bytes and lists audio tracks but no video."""
    for name, begin, end in boxes(data):
        if name == b"moov":
            index = data[begin:end]
            handlers = set(re.findall(rb"hdlr.{8}(.{4})", index, re.DOTALL))
            return end <= len(data) and b"soun" in handlers and b"vide" not in handlers
    return False


def _aac_frame(head: bytes, at: int) -> int | None:
    """Return the length of the ADTS frame at ``at`` (ISO/IEC 14496-3, 1.A.2), or ``None``."""
    if len(head) < at + 7 or head[at] != 0xFF or head[at + 1] & 0xF6 != 0xF0:
        return None
    length = int.from_bytes(head[at + 3 : at + 6], "big") >> 5 & 0x1FFF
    return length if length > 7 and head[at + 2] >> 2 & 15 < 13 else None


def _mp3_frame(head: bytes, at: int) -> int | None:
    """Return the length of the MPEG layer III frame at ``at``, or ``None`` if there is none."""
    if len(head) < at + 4 or head[at] != 0xFF or head[at + 1] & 0xE6 != 0xE2:
        return None
    version, rate, hertz = head[at + 1] >> 3 & 3, head[at + 2] >> 4, head[at + 2] >> 2 & 3
    if version == 1 or rate in (0, 15) or hertz == 3:
        return None
    kilobits = (_RATES_1 if version == 3 else _RATES_2)[rate]
    samples = 144 if version == 3 else 72
    return samples * kilobits * 1000 // _HERTZ[version][hertz] + (head[at + 2] >> 1 & 1)


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw a sound; also used for a file in a video format that contains only sound."""
    facts: tuple[str, ...] = ()
    wave = note = cut = player = ""
    may_play = excerpt.whole
    try:
        length = excerpt.size or len(excerpt.data)
        parsed = parse(
            "sound", excerpt.data, size, mime=format.mime, whole=excerpt.whole, length=length
        )
        # omit the codec if the name of the format implies it
        facts = tuple(fact for fact in parsed.texts("facts") if fact != format.label)
        wave, cut = _waveform(parsed.data, size), parsed.text("note")
    except (UnshowableError, MissingDependencyError) as error:
        if excerpt.whole:
            note = reason_to_show(error)
        # for any other error, the browser cannot play the file either
        may_play &= isinstance(error, MissingDependencyError) or note.startswith(OTHER_CODEC)
    played = format.mime in _PLAYED and _wav_code(excerpt.data, format) in _PLAYED_CODES
    if may_play and played and len(excerpt.data) + len(wave) <= excerpt.room:
        player = data_url(format.mime, excerpt.data)
    elif not note:
        note = "too large to play here" if played else "browsers cannot play it"
    note = "; ".join(filter(None, (cut, note)))
    if wave or player:
        html = _stacked(wave, player, size, name=name)
        return Drawing(html=html, facts=facts, note=note, picture=wave, player=player)
    if not facts and excerpt.whole:
        raise UnshowableError(note)
    shown = facts or ("large sound",)
    offset = place_of_index(excerpt) if format.mime == _M4A.mime else None
    if offset is not None:
        shown = ("its index is at the end",)
        note = f"duration unknown: the index begins after the first {format_bytes(offset)}"
    return Drawing(html=card(format.label, shown, size), facts=facts, note=note)


def _wav_code(data: bytes, format: Format) -> int:
    """Return the format code of a WAV file; 1 for other files."""
    at = data.find(b"fmt ", 0, 4096)
    is_known = format.mime == _WAV.mime and at >= 0
    return int.from_bytes(data[at + 8 : at + 10], "little") if is_known else 1


def _stacked(wave: str, player: str, size: Size, *, name: str) -> Html:
    """Return the waveform above the player; either is omitted if its ``data:`` URL is empty."""
    style = f"width:92%;height:{_height(size)}px;display:block;margin:0 auto 6px auto"
    alt = f"loudness of {name} over time"
    attrs = {"controls": "", "preload": "metadata", "src": player, "aria-label": name}
    parts = [
        element("img", attributes={"src": wave, "alt": alt}, style=style) if wave else "",
        element("audio", attributes={**attrs}, style="width:92%") if player else "",
    ]
    return framed(element("div", *parts, style="width:100%;text-align:center"), size)


def _height(size: Size) -> int:
    return min(size.height // 2, 96)


def _waveform(levels: bytes, size: Size) -> str:
    """Draw the levels (lowest and highest byte of each column) as an SVG ``data:`` URL."""
    columns = min(len(levels) // 2, _COLUMNS)
    if not columns:
        return ""
    width, height = size.width, _height(size)
    bars = "".join(
        f"M{(at + 0.5) * width / columns:.1f} {(255 - levels[2 * at + 1]) * height / 255 - 0.4:.1f}"
        f"V{(255 - levels[2 * at]) * height / 255 + 0.4:.1f}"
        for at in range(columns)
    )
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><path stroke="#3b82f6" '
        f'stroke-width="{width / columns * 0.7:.2f}" d="{bars}"/></svg>'
    )
    return data_url("image/svg+xml", drawing.encode())


KIND = Kind(name="audio", formats=_FORMATS, draw=draw, recognise=_recognise, limit=8 * MIB)
