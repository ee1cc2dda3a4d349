"""Runs the conversions of `blob_conversion` in the parser process.

All imports are at the top, so they run only once: each job runs in a fork of a process that has
already loaded this module.
"""

from __future__ import annotations

import base64
import contextlib
import io
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from odps_nb.convert import blob_content
from odps_nb.convert.pictures import KEPT_INFO, register
from odps_nb.errors import OdpsNbWarning

if TYPE_CHECKING:
    from PIL import Image

with contextlib.suppress(ImportError):  # the caller checks that Pillow is installed
    register()
    from PIL import Image as _Image

    _Image.init()


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Convert a blob to an Arrow stream (a table) or to a picture's pixels."""
    to = options.pop("to")
    if to == "table":
        with warnings.catch_warnings(record=True, category=OdpsNbWarning) as caught:
            rows = blob_content.as_table(data, **options)
        return {"warnings": [str(warning.message) for warning in caught]}, _stream(rows)
    return _pixels(blob_content.as_picture(data, **options))


def _stream(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_table(rows)
    return out.getvalue()


def _pixels(image: Image.Image) -> tuple[dict[str, Any], bytes]:
    header: dict[str, Any] = {
        "width": image.width,
        "height": image.height,
        "mode": image.mode,
        "format": str(image.format),
        "palette": [],
        "info": [],
    }
    if image.palette is not None and image.mode in ("P", "PA"):
        palette = image.palette.mode
        header["palette"] = [
            palette,
            base64.b64encode(bytes(image.getpalette(palette) or [])).decode(),
        ]
    info = ((name, _text(image.info.get(name))) for name in KEPT_INFO)
    header["info"] = [[name, *text] for name, text in info if text]
    return header, image.tobytes()


def _text(value: object) -> tuple[str, str] | None:
    """Return a `PIL.Image.Image.info` value's type and text; ``None`` for an unsupported type."""
    if isinstance(value, bytes):
        return "bytes", base64.b64encode(value).decode()
    if isinstance(value, (int, float)):
        return type(value).__name__, str(value)
    if isinstance(value, tuple) and value:
        kind = "ints" if all(isinstance(number, int) for number in value) else "floats"
        return kind, " ".join(str(number if kind == "ints" else float(number)) for number in value)
    return None
