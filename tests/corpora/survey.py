"""Displays and converts each file of a corpus, as a kernel does; writes one JSON document per line.

Runs as a child of the test, which detects whether it ends by a signal. Other libraries read the
same bytes only after our own results are recorded, so that a crash can be attributed.

    python -m tests.corpora.survey CORPUS FIRST
"""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from odps_nb.access.blob import MAX_BYTES, MAX_PIXELS
from odps_nb.convert import blob_content, blob_conversion
from odps_nb.convert.pictures import PICTURES
from odps_nb.errors import ConversionError, LimitExceededError, MissingDependencyError
from odps_nb.formats.kind import HEAD
from odps_nb.formats.registry import sniff
from odps_nb.formats.shared import GRID
from odps_nb.notebook.preview.tile import tile
from tests.corpora import references
from tests.support.corpora import files
from tests.support.previews import Seen, Value

#: The documented errors of the methods that read and convert a blob.
TYPED = (ConversionError, LimitExceededError, MissingDependencyError)
#: Must not appear in our text: an address, an error number, the repr of an object.
INTERNAL = re.compile(
    r"0x[0-9a-f]{7,}|\berrno\b|<[\w.]+(?: object)? at |avcodec_|\w+_\w+\(\)"
    r"|\b[\w/]+\.(?:cc|cpp|c):\d+|Traceback \(|\bPy_\w+|\bb['\"]\\x",
    re.IGNORECASE,
)
_REASON = re.compile(r"not decoded|truncated or damaged|stopped the parser|not drawn|as source")


def shown(data: bytes, name: str) -> dict[str, Any]:
    """Return the text of a gallery tile for these bytes."""
    began = time.perf_counter()
    made = tile(Value(data, "", name), size=GRID)
    page = Seen(made.html)
    said = " · ".join((made.words, *made.notes))
    # text from the file itself is allowed; all other text is from odps_nb
    inner = [found for found in INTERNAL.findall(page.text) if found.encode() not in data]
    hexed = made.format.kind != "binary" and any(
        value.startswith("first bytes of ") for value in page.values("aria-label")
    )
    return {
        "mime": made.format.mime,
        "label": made.format.label,
        "kind": made.format.kind,
        "encoding": made.format.encoding,
        "guessed": made.format.guessed,
        "aliases": list(made.format.aliases),
        "said": said,
        "internal": sorted({*INTERNAL.findall(said), *inner}),
        "refused": hexed or bool(_REASON.search(" ".join(made.notes))),
        "seconds": round(time.perf_counter() - began, 2),
    }


def converted(data: bytes, mime: str, file_name: str) -> dict[str, tuple[str, Any]]:
    """Return the outcome of each conversion of a blob: ``value``, ``refused`` or ``untyped``."""

    def picture() -> Any:
        return blob_conversion.picture(data, mime, max_pixels=MAX_PIXELS)

    def array() -> Any:
        # `Blob.to_numpy` decodes a picture as `to_pil` does
        return blob_content.as_array(data, mime)

    def rows() -> Any:
        kind, named = mime, ""
        if mime.startswith("text/") and mime not in blob_content.DELIMITED:
            named = file_name  # as `Blob.to_table` does
            kind = sniff(data[:HEAD], len(data), named).mime
        return blob_conversion.table(data, kind, max_bytes=MAX_BYTES, file_name=named)

    ways: dict[str, Callable[[], Any]] = {
        "to_pil": picture,
        "to_numpy": array,
        "to_text": lambda: blob_content.as_text(data, None),
        "to_table": rows,
    }
    ways = ways if mime not in PICTURES else {**ways, "to_numpy": picture}
    found: dict[str, tuple[str, Any]] = {}
    for name, convert in ways.items():
        if name == "to_numpy" and mime in PICTURES:
            way, value = found["to_pil"]
            found[name] = (way, blob_content.pixels_of(value) if way == "value" else value)
            continue
        try:
            found[name] = ("value", convert())
        except TYPED as error:
            found[name] = ("refused", f"{error}; {error.hint}")
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            found[name] = ("untyped", f"{type(error).__name__}: {error}")
    return found


def survey(corpus: str, first: int) -> None:
    """Record the results for each file, starting with number ``first``."""
    warnings.simplefilter("ignore")  # warnings of the libraries used for comparison
    for number, (name, path) in enumerate(files(corpus)):
        if number < first:
            continue
        note(begin=number, name=name, stage="odps_nb")
        data = path.read_bytes()
        about = shown(data, path.name)
        mime = sniff(data[:HEAD], len(data)).mime
        made = converted(data, mime, path.name)
        note(begin=number, name=name, stage="reference")
        ends = {way: end for way, (end, _) in made.items()}
        words = {way: str(value) for way, (end, value) in made.items() if end != "value"}
        internal = [hit for text in words.values() for hit in INTERNAL.findall(text)]
        compared = references.compare(data, about, made)
        note(
            name=name,
            size=len(data),
            ends=ends,
            words=words,
            compared=compared,
            **{**about, "internal": sorted({*about["internal"], *internal})},
        )
    note(done=True)


def note(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    survey(sys.argv[1], int(sys.argv[2]))
