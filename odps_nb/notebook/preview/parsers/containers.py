"""Opens films and sound with FFmpeg, for `film` and `sound`.

FFmpeg gets bytes, the one container that the first bytes proved (no playlist is ever recognised),
and decoders of everyday formats; it can open nothing else.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, NoReturn

from odps_nb.errors import MissingDependencyError
from odps_nb.parsing.reasons import refusal_of
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    from av.container import InputContainer

#: Name of FFmpeg's demuxer, and of all names that it goes by, by media type.
_MOV: Final = ("mov", "mov,mp4,m4a,3gp,3g2,mj2")
_MATROSKA: Final = ("matroska", "matroska,webm")
_ASF: Final = ("asf", "asf")
_DEMUXERS: Final = {
    "video/mp4": _MOV,
    "audio/mp4": _MOV,
    "video/quicktime": _MOV,
    "video/webm": _MATROSKA,
    "video/x-matroska": _MATROSKA,
    "video/x-msvideo": ("avi", "avi"),
    "video/ogg": ("ogg", "ogg"),
    "audio/ogg": ("ogg", "ogg"),
    "audio/mpeg": ("mp3", "mp3"),
    "audio/flac": ("flac", "flac"),
    "audio/aac": ("aac", "aac"),
    "audio/wav": ("wav", "wav"),
    "video/3gpp": _MOV,
    "video/x-ms-asf": _ASF,
    "audio/x-ms-wma": _ASF,
    "video/mp2t": ("mpegts", "mpegts"),
    "video/mpeg": ("mpeg", "mpeg"),
    "video/x-flv": ("flv", "flv"),
    "audio/amr": ("amr", "amr"),
    "audio/aiff": ("aiff", "aiff"),
    "audio/basic": ("au", "au"),
    "audio/ac3": ("ac3", "ac3"),
}
#: Decoders that are used, by FFmpeg's name, and what people call them.
DECODERS: Final = {
    "h264": "H.264",
    "hevc": "H.265",
    "vp8": "VP8",
    "vp9": "VP9",
    "libdav1d": "AV1",
    "av1": "AV1",
    "mpeg4": "MPEG-4",
    "mjpeg": "MJPEG",
    "theora": "Theora",
    "mpeg1video": "MPEG-1",
    "mpeg2video": "MPEG-2",
    "h263": "H.263",
    "flv": "Sorenson H.263",
    **dict.fromkeys(("wmv1", "wmv2", "wmv3"), "WMV"),
    "vc1": "VC-1",
    "aac": "AAC",
    "alac": "ALAC",
    "flac": "FLAC",
    "mp3": "MP3",
    "mp3float": "MP3",
    "opus": "Opus",
    "vorbis": "Vorbis",
    "ac3": "AC-3",
    "amrnb": "AMR",
    "amrwb": "AMR-WB",
    **dict.fromkeys(("wmav1", "wmav2"), "WMA"),
    "wmapro": "WMA Pro",
    **dict.fromkeys(("adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt"), "ADPCM"),
    "gsm_ms": "GSM",
    **dict.fromkeys(("pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_s16be", "pcm_s24be"), "PCM"),
    **dict.fromkeys(("pcm_f32le", "pcm_f64le", "pcm_u8", "pcm_alaw", "pcm_mulaw"), "PCM"),
    **dict.fromkeys(("pcm_s8", "pcm_f32be", "pcm_f64be", "pcm_s32be"), "PCM"),
}

try:
    import av
except ImportError:  # said when a film is asked for
    av = None  # type: ignore[assignment]

#: What PyAV raises for bytes that it cannot decode.
FAILURES: Final = (OSError, ValueError, *(() if av is None else (av.error.FFmpegError,)))


def opened(data: bytes, mime: str) -> InputContainer:
    """Return the file, opened; its streams are known, nothing is decoded. The caller closes it."""
    if av is None:
        raise MissingDependencyError("its length and a picture of it need PyAV", extra="previews")
    name, names = _DEMUXERS[mime]
    bounds = {
        "format_whitelist": names,
        "codec_whitelist": ",".join(DECODERS),
        "protocol_whitelist": "none",
        "enable_drefs": "0",
        "max_streams": "16",
    }
    try:
        return av.open(
            io.BytesIO(data),
            mode="r",
            format=name,
            container_options=bounds,
            metadata_errors="replace",
            io_open=_refuse,
        )
    except FAILURES as error:
        raise UnshowableError(refusal_of(error)) from None


def _refuse(url: str, flags: int, options: dict[str, Any]) -> NoReturn:
    raise PermissionError("a blob opens no other file")
