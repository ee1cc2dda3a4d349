"""Video: a frame, and a player with the original bytes if they fit into the page.

PyAV (the ``previews`` extra) decodes the frame in the parser process; the browser plays the video.
A large file with its index at the end gets a card, because the protocol has no range requests.
"""

from __future__ import annotations

import re
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.boxes import place_of_index
from odps_nb.formats.drawing import (
    Drawing,
    Excerpt,
    encoded_url,
    framed,
    pictured,
    placeholder,
    reason_to_show,
)
from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.kinds import audio
from odps_nb.formats.parsing import parse
from odps_nb.formats.shared import ASF, ASF_FILM, ONLY_SOUND, OTHER_CODEC, Size
from odps_nb.html import TINT, Html, data_url, element
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import format_bytes

_WEBM = Format("video/webm", "WebM", aliases=("audio/webm", "video/x-matroska"))
_OGG = Format("video/ogg", "Ogg video", aliases=("application/ogg",))
_MATROSKA = Format("video/x-matroska", "Matroska", aliases=("video/matroska", "audio/x-matroska"))
_AVI = Format("video/x-msvideo", "AVI", aliases=("video/avi", "video/msvideo"))
_MP4 = Format(
    "video/mp4",
    "MP4",
    aliases=("video/x-m4v", "audio/mp4", "application/mp4"),
    brands=(
        *(b"isom", b"iso2", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42"),
        *(b"avc1", b"M4V ", b"dash"),
    ),
)
_QUICKTIME = Format("video/quicktime", "QuickTime", brands=(b"qt  ",))
# old files lack an ftyp box: they begin with media data, the index, or free space before these
_QUICKTIME_START = re.compile(
    rb".{4}(?:mdat|moov.{4}(?:mvhd|cmov|rmra))"
    rb"|\0\0\0\x08(?:wide|free|skip).{4}(?:mdat|moov)",
    re.DOTALL,
)
_3GP = Format(
    "video/3gpp",
    "3GP",
    aliases=("audio/3gpp", "video/3gpp2", "audio/3gpp2"),
    brands=tuple(f"3g{name}".encode() for name in ("p4", "p5", "p6", "p7", "2a", "2b", "2c")),
)
_WMV = Format("video/x-ms-asf", "WMV", aliases=("video/x-ms-wmv", "video/x-ms-asx"))
_TS = Format(
    "video/mp2t",
    "MPEG-TS",
    aliases=("video/vnd.dlna.mpeg-tts", "video/mpeg", "text/vnd.trolltech.linguist"),
)
_PS = Format(
    "video/mpeg",
    "MPEG-PS",
    aliases=("video/mp2p", "video/dvd", "video/x-mpeg"),
    starts=(b"\x00\x00\x01\xba",),
)
_FLV = Format("video/x-flv", "FLV", aliases=("video/flv",), starts=(b"FLV\x01",))
#: MPEG-TS packet size and offset of the sync byte, without and with a leading timestamp.
_TS_PACKETS: Final = ((188, 0), (192, 4))
#: Media types of videos based on ISO boxes.
_BOXED: Final = (_MP4.mime, _QUICKTIME.mime, _3GP.mime)
#: Media types that browsers play.
_PLAYED: Final = (_MP4.mime, _WEBM.mime, _OGG.mime)


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return {b"webm": _WEBM, b"matroska": _MATROSKA}.get(_doc_type(data[:96]))
    if _QUICKTIME_START.match(data):
        return _QUICKTIME
    if data.startswith(b"RIFF") and data[8:12] == b"AVI ":
        return _AVI
    if data.startswith(ASF) and ASF_FILM in data:
        return _WMV
    for length, first in _TS_PACKETS:
        marks = data[first : length * 8 : length]
        if len(marks) >= 4 and not marks.strip(b"G"):
            return _TS
    return _OGG if data.startswith(b"OggS") and b"\x80theora" in data[:512] else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    offset = place_of_index(excerpt) if format.mime in _BOXED else None
    if offset is not None:
        note = f"no frame: the index begins after the first {format_bytes(offset)}"
        return placeholder("its index is at the end", size, note=note)
    playable = excerpt.whole and format.mime in _PLAYED
    poster = note = ""
    facts: tuple[str, ...] = ()
    try:
        parsed = parse("film", excerpt.data, size, mime=format.mime, whole=excerpt.whole)
        poster, facts = encoded_url(parsed.data), parsed.texts("facts")
    except (UnshowableError, MissingDependencyError) as error:
        note = reason_to_show(error)
        if note == ONLY_SOUND:
            return audio.draw(excerpt, format, size, name=name)
        # for any other error, the browser cannot play the file either
        may_play = isinstance(error, MissingDependencyError) or note.startswith(OTHER_CODEC)
        if not (may_play and playable) or len(excerpt.data) > excerpt.room:
            raise
    if playable and len(excerpt.data) + len(poster) <= excerpt.room:
        source = data_url(format.mime, excerpt.data)
        html = _player(source, poster, size, name=name)
        return Drawing(html=html, facts=facts, note=note, picture=poster, player=source)
    note = "too large to play here" if format.mime in _PLAYED else "browsers cannot play it"
    return pictured(poster, size, alt=f"a frame of {name}", facts=facts, note=note)


def _doc_type(data: bytes) -> bytes:
    """Return the EBML element DocType (42 82) without its padding.

    The position of the first set bit gives the number of bytes in the length field (RFC 8794, 4).
    """
    at = data.find(b"\x42\x82") + 2
    if at < 2 or at >= len(data) or not data[at]:
        return b""
    width = 9 - data[at].bit_length()
    length = int.from_bytes(data[at : at + width], "big") & (1 << 7 * width) - 1
    return data[at + width : at + width + length].rstrip(b"\0")


def _player(source: str, poster: str, size: Size, *, name: str) -> Html:
    player = element(
        "video",
        attributes={
            "controls": "",
            "preload": "metadata",
            **({"poster": poster} if poster else {}),
            "src": source,
            "aria-label": name,
        },
        style=f"max-width:100%;height:{size.height}px;background-color:{TINT}",
    )
    return framed(player, size)


KIND = Kind(
    name="video",
    formats=(_MP4, _QUICKTIME, _3GP, _WEBM, _MATROSKA, _OGG, _AVI, _WMV, _TS, _PS, _FLV),
    draw=_draw,
    recognise=_recognise,
    limit=8 * MIB,
    head=MIB,  # 1 MiB usually contains the index and a first frame
)
