"""Converts blob content in the parser process, and the results to Python objects.

`blob_parser` runs in that process. If native code crashes on untrusted bytes or exhausts memory,
only the parser process ends. The results are checked before use: Arrow batches are validated, and
pixel data must have the stated size.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.arrow.validation import validate
from odps_nb.convert import blob_content
from odps_nb.convert.pictures import KEPT_INFO
from odps_nb.convert.warning import warn
from odps_nb.errors import ConversionError, LimitExceededError, visible
from odps_nb.parsing.client import Parsed, Parser, ParserStoppedError, at_exit
from odps_nb.parsing.values import Limits, UnshowableError
from odps_nb.terms import format_bytes, shorten
from odps_nb.wire.arrow_stream import DEFAULT_MAX_DECOMPRESSED, EndMarkerCheck

if TYPE_CHECKING:
    from PIL import Image

_LIBRARIES = 512 << 20
"""Bytes of memory that a conversion may use in addition to its blob and its result."""
_IPC = 1 << 20
"""Maximum size in bytes of a result's schema and headers."""
_MIN_SECONDS = 30
_BYTES_PER_SECOND = 4 << 20
_parser = at_exit(Parser())


def picture(data: bytes, mime: str, *, max_pixels: int) -> Image.Image:
    """Decode a picture like `blob_content.as_picture`, but in the parser process."""
    blob_content.check_picture(mime)
    from PIL import Image

    size = max_pixels * 16  # the widest mode has four channels of four bytes
    parsed = _parsed(data, mime, "picture", size, max_pixels=max_pixels)
    try:
        width, height = parsed.number("width"), parsed.number("height")
        image = Image.frombytes(parsed.text("mode"), (width, height), parsed.data)
        if palette := parsed.texts("palette"):
            image.putpalette(base64.b64decode(palette[1]), palette[0])
        image.format = parsed.text("format")
        for name, kind, value in parsed.rows("info"):
            if name in KEPT_INFO:
                image.info[name] = _READ[kind](value)
    except Exception as error:  # noqa: BLE001  # the process that parsed the blob is not trusted
        raise _stopped(mime, "picture", f"invalid result: {error}") from None
    return image


def table(
    data: bytes, mime: str, *, max_bytes: int, **options: str | int | list[str] | None
) -> pa.Table:
    """Parse a table like `blob_content.as_table`, but in the parser process."""
    parsed = _parsed(data, mime, "table", max_bytes, max_bytes=max_bytes, **options)
    check = EndMarkerCheck(max_decompressed=max(max_bytes, DEFAULT_MAX_DECOMPRESSED))
    try:
        check.feed(parsed.data)
        check.require()
        with pa.ipc.open_stream(pa.py_buffer(parsed.data)) as reader:
            rows = reader.read_all()
        for batch in rows.to_batches():
            validate(batch)
        warned = parsed.texts("warnings")
    except Exception as error:  # noqa: BLE001  # as above
        raise _stopped(mime, "table", f"invalid result: {error}") from None
    for message in warned[:1]:
        warn(shorten(visible(message), 200))
    return rows


_READ: dict[str, Any] = {
    "bytes": base64.b64decode,
    "int": int,
    "float": float,
    "ints": lambda text: tuple(int(number) for number in text.split()),
    "floats": lambda text: tuple(float(number) for number in text.split()),
}


# -- in the caller's process ---------------------------------------------------------------------


def _parsed(data: bytes, mime: str, to: str, answer: int, **options: Any) -> Parsed:
    memory = _LIBRARIES + 2 * len(data) + 3 * answer
    limits = Limits(
        seconds=_MIN_SECONDS + (len(data) + answer) // _BYTES_PER_SECOND,
        memory=memory,
        answer=answer + _IPC,
    )
    try:
        return _parser.parse("conversion", data, {"to": to, "mime": mime, **options}, limits)
    except ParserStoppedError as error:
        if error.why == "too much memory" or "too long" in error.why:
            raise LimitExceededError(
                f"converting the blob requires more than {format_bytes(memory)} of memory",
                limit=memory,
                hint="pass a larger max_bytes= or max_pixels=, or read blob.open(seek=True)",
            ) from None
        raise _stopped(mime, to, error.why) from None
    except UnshowableError as error:
        raise ConversionError(
            f"the blob begins like {mime} but cannot be converted: {error}",
            source_type=mime,
            target_type=to,
            hint="use blob.bytes(), or blob.open(seek=True) with another library",
        ) from None


def _stopped(mime: str, to: str, why: str) -> ConversionError:
    return ConversionError(
        f"the blob begins like {mime}, but its conversion crashed the parser process ({why})",
        source_type=mime,
        target_type=to,
        hint="pass trusted=True to convert it in this process, which may crash as well,"
        " or use blob.bytes()",
    )
