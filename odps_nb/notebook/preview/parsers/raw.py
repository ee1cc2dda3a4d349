"""Camera RAW: the largest complete embedded JPEG, found by its signature."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import islice
from typing import Any, Final

from odps_nb.convert.pictures import open_picture
from odps_nb.notebook.preview.parsers.picture import drawn
from odps_nb.notebook.preview.shared import Size, answer
from odps_nb.parsing.values import UnshowableError

# the start-of-image marker, and a marker that may follow it (ITU-T T.81, B.1.1.3)
_JPEG: Final = re.compile(rb"\xff\xd8\xff[\xc4\xdb\xdd\xe0-\xef\xfe]")
_LOOKED_AT: Final = 32
"""Maximum JPEG candidates to examine; in 100 MB of RAW data, about one matches by chance."""
_MODEL, _ORIENTATION = 272, 274
_HEADER: Final = 1 << 20
"""Number of bytes in which to look for the first tag directory, or for the size of a JPEG."""


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the camera and the size of the embedded picture, and a thumbnail as data."""
    size = Size(**options["size"])
    places = [match.start() for match in islice(_JPEG.finditer(data), _LOOKED_AT)]
    tags = _tags(data)
    for _, at in sorted(((_pixels(data, at), at) for at in places), reverse=True):
        with contextlib.suppress(Exception):  # fails if the bytes are not a complete 8-bit JPEG
            return _shown(data[at:], tags, size)
    raise UnshowableError("no embedded preview in the bytes that were read")


def _pixels(data: bytes, at: int) -> int:
    with (
        contextlib.suppress(Exception),
        open_picture(data[at : at + _HEADER], "image/jpeg") as image,
    ):
        return image.width * image.height
    return 0


def _shown(data: bytes, tags: dict[int, Any], size: Size) -> tuple[dict[str, Any], bytes]:
    with open_picture(data, "image/jpeg") as image:
        exif = image.getexif()
        if _ORIENTATION not in exif and tags.get(_ORIENTATION) in range(2, 9):
            exif[_ORIENTATION] = tags[_ORIENTATION]
            image.info["exif"] = exif.tobytes()
        model = str(tags.get(_MODEL) or exif.get(_MODEL) or "").strip("\0 ")[:80]
        (pixels,), made = drawn(image, size)
    facts = [fact for fact in (model, f"preview {pixels}") if fact]
    note = "shows the preview embedded by the camera, not the RAW data"
    return answer(facts, made, note=note)


def _tags(data: bytes) -> dict[int, Any]:
    """Return the model and orientation in the first tag directory, by tag number, if present."""
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    # CR3 stores the tags in a separate box; some makers use another signature after the byte order
    at = data.find(b"CMT1", 0, _HEADER) + 4 if data[4:8] == b"ftyp" else 0
    mark = {b"II": b"II*\0", b"MM": b"MM\0*"}.get(data[at : at + 2])
    with contextlib.suppress(Exception):
        if mark is not None:
            file = io.BytesIO(mark + data[at + 4 : at + _HEADER])
            tags = ImageFileDirectory_v2(file.read(8))
            file.seek(tags.next)
            tags.load(file)
            return {tag: tags[tag] for tag in (_MODEL, _ORIENTATION) if tag in tags}
    return {}
