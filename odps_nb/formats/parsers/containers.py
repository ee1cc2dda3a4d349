"""Opens video and audio with FFmpeg, for `film` and `sound`.

FFmpeg receives only the bytes, the container format recognised from them (never a playlist) and
decoders of common formats. It cannot open other files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.shared import Beginning
from odps_nb.parsing.reasons import refusal_of
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    from av.container import InputContainer

#: FFmpeg's demuxer, by media type.
_DEMUXERS: Final = {
    "video/mp4": "mov",
    "audio/mp4": "mov",
    "video/quicktime": "mov",
    "video/3gpp": "mov",
    "video/webm": "matroska",
    "video/x-matroska": "matroska",
    "video/x-msvideo": "avi",
    "video/x-ms-asf": "asf",
    "audio/x-ms-wma": "asf",
    "video/ogg": "ogg",
    "audio/ogg": "ogg",
    "video/mp2t": "mpegts",
    "video/mpeg": "mpeg",
    "video/x-flv": "flv",
    "audio/mpeg": "mp3",
    "audio/basic": "au",
    **{f"audio/{name}": name for name in ("flac", "aac", "wav", "amr", "aiff")},
}
#: All names of a demuxer that has several.
_NAMES: Final = {"mov": "mov,mp4,m4a,3gp,3g2,mj2", "matroska": "matroska,webm"}
_USED: Final = {
    "H.264": "h264",
    "H.265": "hevc",
    "VP8": "vp8",
    "VP9": "vp9",
    "AV1": "libdav1d av1",
    "MPEG-4": "mpeg4",
    "MJPEG": "mjpeg",
    "Theora": "theora",
    "MPEG-1": "mpeg1video",
    "MPEG-2": "mpeg2video",
    "H.263": "h263",
    "Sorenson H.263": "flv",
    "WMV": "wmv1 wmv2 wmv3",
    "VC-1": "vc1",
    "AAC": "aac",
    "ALAC": "alac",
    "FLAC": "flac",
    "MP3": "mp3 mp3float",
    "Opus": "opus",
    "Vorbis": "vorbis",
    "AC-3": "ac3",
    "AMR": "amrnb",
    "AMR-WB": "amrwb",
    "WMA": "wmav1 wmav2",
    "WMA Pro": "wmapro",
    "ADPCM": "adpcm_ms adpcm_ima_wav adpcm_ima_qt",
    "GSM": "gsm_ms",
    "PCM": "pcm_s16le pcm_s24le pcm_s16be pcm_s24be pcm_s32le pcm_s32be pcm_f32le pcm_f32be "
    "pcm_f64le pcm_f64be pcm_u8 pcm_s8 pcm_alaw pcm_mulaw",
}
#: Allowed decoders: FFmpeg's name and display name.
DECODERS: Final = {
    decoder: name for name, decoders in _USED.items() for decoder in decoders.split()
}

try:
    import av
except ImportError:  # `opened` reports that PyAV is missing
    av = None  # type: ignore[assignment]

#: Errors that PyAV raises for bytes that it cannot decode.
FAILURES: Final = (OSError, ValueError, *(() if av is None else (av.error.FFmpegError,)))


def opened(data: bytes, mime: str, length: int = 0) -> InputContainer:
    """Open the file and read its stream information, without decoding. The caller closes it.

    ``length`` is the length of the whole file, if ``data`` is its beginning.
    """
    if av is None:
        raise MissingDependencyError("decoding it needs PyAV", extra="previews")
    name = _DEMUXERS[mime]
    bounds = {
        "format_whitelist": _NAMES.get(name, name),
        "codec_whitelist": ",".join(DECODERS),
        "protocol_whitelist": "none",
        "enable_drefs": "0",
        "max_streams": "16",
    }
    try:
        return av.open(
            Beginning(data, max(length, len(data))),
            mode="r",
            format=name,
            container_options=bounds,
            metadata_errors="replace",
            io_open=_refuse,
        )
    except FAILURES as error:
        raise UnshowableError(refusal_of(error)) from None


def _refuse(url: str, flags: int, options: dict[str, Any]) -> NoReturn:
    raise PermissionError("a blob must not open other files")
