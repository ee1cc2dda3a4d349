"""Videos: duration, frame size, codec, and one frame as a picture."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from odps_nb.formats.parsers.containers import DECODERS, FAILURES, opened
from odps_nb.formats.parsers.picture import MAX_PIXELS, check_pixels, thumbnail
from odps_nb.formats.shared import ONLY_SOUND, OTHER_CODEC, Size, answer, length_of
from odps_nb.parsing.reasons import DAMAGED, refusal_of
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream
    from PIL import Image

_PACKETS: Final = 400  # maximum packets before the first frame
_DULL: Final = 24  # brightness range (of 256 levels) below which a frame is considered blank
# If the first frame is blank, frames at 1/6 to 5/6 of the duration are tried.
_LATER: Final = 6
_SKIPPED: Final = 12  # frames to skip between tries if only part of the video was read
_INDEXED: Final = (
    *("video/mp4", "video/quicktime", "video/3gpp"),
    *("video/webm", "video/x-matroska", "video/x-ms-asf"),
)


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return duration, frame size and codec as facts, and a frame as an encoded picture."""
    mime, whole = options["mime"], options["whole"]
    try:
        return _parsed(data, mime, Size(**options["size"]), whole=whole)
    except FAILURES as error:
        reason = str(error) if isinstance(error, UnshowableError) else refusal_of(error)
        if not whole and (DAMAGED in reason or reason.startswith("no ")):
            reason = "no frame found in the part that was read"
        raise UnshowableError(reason) from None


def _parsed(data: bytes, mime: str, size: Size, *, whole: bool) -> tuple[dict[str, Any], bytes]:
    with opened(data, mime) as container:
        film = next((stream for stream in container.streams.video if not _is_cover(stream)), None)
        if film is None:
            raise UnshowableError(ONLY_SOUND if container.streams.audio else "no video track found")
        context = film.codec_context
        name = context.name if context is not None else ""
        if name not in DECODERS:
            raise UnshowableError(f"{OTHER_CODEC} {name or 'unknown'}")
        check_pixels(film.width, film.height)
        picture = _poster(container, film, whole=whole)
        facts = [f"{picture.width} × {picture.height}", DECODERS[name]]
        # without a leading index, FFmpeg would return the duration of the part that was read
        if container.duration and (whole or mime in _INDEXED):
            facts.insert(0, length_of(container.duration / 1_000_000))
        return answer(facts, thumbnail(picture, size))


def _is_cover(film: VideoStream) -> bool:
    return bool(film.disposition & film.disposition.attached_pic)


def _poster(container: InputContainer, film: VideoStream, *, whole: bool) -> Image.Image:
    """Return the first frame or, if it is blank, a later frame that is not blank."""
    film.codec_context.thread_count = 1
    film.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    first = _next_frame(container, film)
    if first is None:
        raise UnshowableError("no frame found in its first packets")
    if not _is_blank(first):
        return first
    with contextlib.suppress(*FAILURES):
        for part in range(1, _LATER):
            after = 0.0
            if whole and container.duration:
                position = container.duration * part // _LATER
                container.seek(position)  # seeks to the key frame before this position
                after = position / 1_000_000
            frame = _next_frame(container, film, after=after, skip=0 if whole else _SKIPPED)
            if frame is not None and not _is_blank(frame):
                return frame
    return first


def _is_blank(picture: Image.Image) -> bool:
    dark, bright = np.percentile(np.asarray(picture.convert("L")), (2, 98))
    return bool(bright - dark < _DULL)


def _next_frame(
    container: InputContainer, film: VideoStream, *, after: float = 0.0, skip: int = 0
) -> Image.Image | None:
    for packet in itertools.islice(container.demux(film), _PACKETS):
        for frame in packet.decode():
            if skip or (frame.time is not None and frame.time < after):
                skip = max(0, skip - 1)
                continue
            check_pixels(frame.width, frame.height)  # the header may state another size
            picture: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
            return picture.rotate(frame.rotation, expand=True) if frame.rotation else picture
    return None
