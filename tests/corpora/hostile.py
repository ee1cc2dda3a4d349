"""The malicious files of the tests, and the peak memory that each needs.

    python -m tests.corpora.hostile [NAME …]    prints the peaks of each as JSON

Peaks are of resident memory, minus the memory of the process before the job. For the parser
process, the peak is that of the fork that runs the job: beyond the memory shared with its parent,
but including library pages.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tempfile
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.document_files import files as documents
from fuzz.office_files import docx, odf
from odps_nb.access.blob import MAX_PIXELS
from odps_nb.convert import blob_conversion
from odps_nb.errors import ConversionError, LimitExceededError
from odps_nb.formats.parsers import document
from odps_nb.formats.shared import SINGLE
from odps_nb.notebook.preview.tile import TILE_BUDGET, tile
from odps_nb.parsing import client
from odps_nb.parsing.values import Limits
from tests.convert.test_hostile_content import PARQUET, repeated_string
from tests.notebook.preview.test_budgets import arrow_bomb, parquet_bomb, zstd_bomb
from tests.notebook.preview.test_decoders import BOMBS, WIDE, nested_forms
from tests.support.previews import Value
from tests.support.samples import bomb
from tests.support.svgs import HOSTILE as SVGS
from tests.support.svgs import nested

MIB = 1 << 20


def _wide_line() -> bytes:
    line = "1,2,3," * 300_000
    return f"{line}\n{line}\n".encode()


def _long_sound() -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((2, 4, 192_000, 0, "NONE", ""))
        file.writeframes(bytes(7 * MIB))
    return out.getvalue()


#: Displayed as a large preview.
SHOWN: dict[str, Callable[[], bytes]] = {
    **{name: make for name, (make, _) in BOMBS.items()},
    **{name: lambda data=data: data for name, data in WIDE.items()},
    **{f"SVG: {name}": lambda text=text: text.encode() for name, text in SVGS.items()},
    "144 megapixels of PNG": bomb,
    "400 megapixels of PNG": lambda: bomb(20_000),
    "40 megapixels of PNG": lambda: bomb(6_300),
    "a gigabyte of text as zstd": zstd_bomb,
    "100 MB of text as gzip": lambda: gzip.compress(b"all work and no play\n" * (5 * MIB)),
    "an Arrow file that expands to 67 MB": arrow_bomb,
    "a Parquet file that expands to 67 MB": parquet_bomb,
    "a Parquet file with one repeated value": lambda: repeated_string(400_000, 16_384),
    "SVG: ten levels": lambda: nested('<use href="#l10"/>', 10).encode(),
    "a Word document with many elements": lambda: docx(
        body="<w:x/>" * (document.MAX_UNPACKED // 6 + 1)
    ),
    "a deeply nested Word document": lambda: docx(body="<w:p>" * 100_000),
    "a deeply nested OpenDocument": lambda: odf("text", "<text:p>" * 100_000),
    "a CSV with very wide lines": _wide_line,
    "JSON, nested": lambda: b"[" * 200_000,
    "7 MiB of sound": _long_sound,
    # Must be last, because a job that follows a time-out gets less time.
    "a PDF page that never finishes": nested_forms,
}
#: Converted: method, bytes, options.
CONVERTED: dict[str, tuple[str, Callable[[], bytes], dict[str, Any]]] = {
    "to_table: a Parquet file with one repeated value": (
        "table",
        lambda: repeated_string(400_000, 16_384),
        {"mime": PARQUET, "max_bytes": 64 * MIB},
    ),
    "to_table: a Parquet file that expands": (
        "table",
        parquet_bomb,
        {"mime": PARQUET, "max_bytes": 128 * MIB},
    ),
    "to_table: a CSV with very wide lines": (
        "table",
        _wide_line,
        {"mime": "text/csv", "max_bytes": 64 * MIB},
    ),
    "to_pil: 144 megapixels of PNG": (
        "picture",
        bomb,
        {"mime": "image/png", "max_pixels": MAX_PIXELS},
    ),
    "to_pil: 40 megapixels of PNG": (
        "picture",
        lambda: bomb(6_300),
        {"mime": "image/png", "max_pixels": MAX_PIXELS},
    ),
}

_BOOT = (
    "import sys; sys.path[:] = sys.argv[1:]; from tests.corpora.parser_peak import main; main({!r})"
)


def measure(name: str, noted: Path) -> dict[str, Any]:
    """Return the peaks and limits of both processes while this file is displayed or converted."""
    convert, data = _job(name)
    Path("/proc/self/clear_refs").write_text("5")  # reset the recorded peak
    before = status("VmRSS")
    noted.unlink(missing_ok=True)
    said = convert()
    kernel = max(0, status("VmHWM") - before)
    # the parser process was not used, or was killed by this process
    none = {"child": None, "memory": Limits().memory, "answer": Limits().answer}
    peak = json.loads(noted.read_text()) if noted.exists() else none
    bound = 2 * len(data) + peak["answer"] + TILE_BUDGET
    return {"name": name, "size": len(data), "said": said, "kernel": kernel, "bound": bound, **peak}


def main(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        noted = Path(place) / "peak.json"
        client._BOOT = _BOOT.format(str(noted))
        warm_up()
        for name in names or [*SHOWN, *CONVERTED]:
            print(json.dumps(measure(name, noted)), flush=True)


def _job(name: str) -> tuple[Callable[[], str], bytes]:
    if name in SHOWN:
        data = SHOWN[name]()
        return lambda: _said(Value(data, "", name)), data
    way, make, options = CONVERTED[name]
    data = make()

    def convert() -> str:
        try:
            made = getattr(blob_conversion, way)(data, **options)
        except (ConversionError, LimitExceededError) as error:
            return str(error)
        return f"{way} of {getattr(made, 'nbytes', 0) or made.size}"

    return convert, data


def _said(value: Value) -> str:
    made = tile(value, size=SINGLE)
    return "; ".join((made.words, *made.notes))


def warm_up() -> None:
    """Load the modules that a kernel has loaded before it displays the second blob."""
    small = bomb(8)
    for data in (*documents().values(), small):
        tile(Value(data, "", "small"))
    blob_conversion.picture(small, "image/png", max_pixels=100)
    blob_conversion.table(b"a,b\n1,2\n", "text/csv", max_bytes=MIB)


def status(name: str) -> int:
    """Return a value of `/proc/self/status` in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main(sys.argv[1:])
