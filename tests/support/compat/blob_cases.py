"""Valid and damaged blob bodies, and the results of pyodps and odps_nb.

``.venv/bin/python -m tests.support.compat.blob_cases`` writes ``docs/results/blob-bodies.md``; the
tests check each line with both libraries.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from types import SimpleNamespace
from typing import Any

from odps.maxstorage.blob import BlobManager
from odps.maxstorage.io.blob_reader import BlobDataIterator as PyodpsIterator
from odps.maxstorage.io.blob_reader import BlobStreamReader as PyodpsReader

from odps_nb.errors import (
    ChecksumError,
    FramingError,
    OdpsNbError,
    OversizeError,
    TruncatedError,
)
from odps_nb.stream_io import BlobDataIterator, BlobStreamReader
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.codings import encoder
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame

DOCUMENT = Path(__file__).parents[3] / "docs" / "results" / "blob-bodies.md"

Blobs = list[tuple[bytes, str | None]]  # content, type
Outcome = Blobs | type[BaseException]


@dataclass(frozen=True)
class Case:
    """One body. Our outcome is the returned data, or the class of the error."""

    title: str
    body: bytes
    count: int
    ours: Outcome
    encoding: str | None = None
    skip: bool = False  # stream without reading the data


# -- bodies ------------------------------------------------------------------------------------


def framed(*blobs: bytes, checksum: ChecksumKind = ChecksumKind.CRC32) -> bytes:
    """Return frames of type ``a/b``."""
    header = FrameHeader(content_type="a/b")
    return b"".join(encode_frame(blob, header, checksum=checksum) for blob in blobs)


def frame(header: bytes, data: bytes, footer: bytes) -> bytes:
    """Return a frame of any three parts."""
    return b"".join(pack("<q", len(part)) + part for part in (header, data, footer))


def coded(name: str, *parts: bytes) -> bytes:
    """Return parts as consecutive frames of a coding."""
    out = b""
    for part in parts:
        coder = encoder(name)
        out += coder.feed(part) + coder.finish()
    return out


def flipped(body: bytes, at: int) -> bytes:
    """Return a body with one bit changed."""
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


TWO = framed(b"one", b"two")
LONG = bytes(range(256)) * 400
GOOD: Blobs = [(b"one", "a/b"), (b"two", "a/b")]
FOOTER = len(framed(b"")) - 8 - len(FrameHeader(content_type="a/b").encode()) - 8


def cases() -> Iterator[Case]:
    """Return all cases: valid bodies, then bodies with faults, then compressed bodies."""
    blocks = encode_blocks
    yield Case("two blobs", blocks(TWO), 2, GOOD)
    yield Case("one raw blob", blocks(b"hello"), 1, [(b"hello", None)])
    yield Case("one raw blob that looks like frames", blocks(TWO), 1, [(TWO, None)])
    yield Case("empty blobs in frames", blocks(framed(b"", b"")), 2, [(b"", "a/b")] * 2)
    yield Case("an empty raw blob", b"", 1, [(b"", None)])
    yield Case("no references, an empty body", b"", 0, [])
    yield from faults()
    for name, http_name in (("zstd", "zstd"), ("lz4", "x-lz4-frame")):
        yield from codings(name, http_name)


def faults() -> Iterator[Case]:
    """Uncompressed bodies with a fault."""
    blocks = encode_blocks
    body = blocks(framed(bytes(9000), b"two"))
    yield Case("a flipped bit in a block", flipped(body, 5000), 2, ChecksumError)
    yield Case("one to four bytes after the last block", body[:8203], 2, TruncatedError)
    yield Case(
        "data that does not match its CRC-32 footer",
        blocks(TWO.replace(b"one", b"One")),
        2,
        ChecksumError,
    )
    md5 = framed(b"one", b"two", checksum=ChecksumKind.MD5)
    yield Case(
        "data that does not match its MD5 footer",
        blocks(md5.replace(b"one", b"One")),
        2,
        ChecksumError,
    )
    yield Case("fewer frames than references", blocks(TWO), 3, TruncatedError)
    yield Case("more frames than references", blocks(TWO + framed(b"three")), 2, FramingError)
    yield Case("other bytes after the last frame", blocks(TWO + b"junk"), 2, FramingError)
    yield Case("frames although no blob was requested", blocks(TWO), 0, FramingError)
    yield Case("a body without the last footer", blocks(TWO[: -FOOTER - 8]), 2, TruncatedError)
    yield Case("a body cut inside the last footer", blocks(TWO[:-5]), 2, TruncatedError)
    cut = framed(b"one", bytes(9000))[:5000]
    yield Case("a body cut inside the last blob's data", blocks(cut), 2, TruncatedError)
    yield Case(
        "a body cut inside the last blob's data, which is skipped",
        blocks(cut),
        2,
        TruncatedError,
        skip=True,
    )
    yield Case("a header that is not JSON", blocks(frame(b"(", b"x", b"") * 2), 2, FramingError)
    yield Case(
        "a header that is a JSON list", blocks(frame(b"[1]", b"x", b"") * 2), 2, FramingError
    )
    number = frame(b'{"ContentType": 5}', b"x", b"") * 2
    yield Case("a content type that is a number", blocks(number), 2, FramingError)
    yield Case("a footer that is not JSON", blocks(frame(b"", b"x", b"(") * 2), 2, FramingError)
    unknown = frame(b"", b"x", b'{"Checksum": {"Type": 9}}') * 2
    yield Case("a footer with an unknown checksum type", blocks(unknown), 2, FramingError)
    for place in range(3):
        parts = bytes(8 * place) + pack("<q", -1) + bytes(50)
        what = ("header", "data", "footer")[place]
        yield Case(f"a negative {what} length", blocks(parts), 2, FramingError)
    absurd = pack("<q", 1 << 40) + bytes(100)
    yield Case("a header length of one terabyte", blocks(absurd), 2, OversizeError)


def codings(name: str, encoding: str) -> Iterator[Case]:
    """Compressed bodies."""
    blocks = encode_blocks
    whole = coded(name, LONG)
    yield Case(f"{name}, CRC outermost", blocks(coded(name, TWO)), 2, GOOD, encoding)
    yield Case(f"{name}, CRC innermost", coded(name, blocks(TWO)), 2, GOOD, encoding)
    yield Case(
        f"{name}, two compressed frames in a row",
        blocks(coded(name, b"first ", b"second")),
        1,
        [(b"first second", None)],
        encoding,
    )
    yield Case(
        f"{name}, the compressed stream cut inside its frame",
        blocks(whole[:200]),
        1,
        TruncatedError,
        encoding,
    )
    plain = blocks(b"plain text")
    yield Case(
        f"{name} in the header, an uncompressed body", plain, 1, [(b"plain text", None)], encoding
    )


# -- both libraries ----------------------------------------------------------------------------


def outcome(read: Callable[[], Blobs]) -> Outcome:
    """Return the data, or the class of the error."""
    try:
        return read()
    except OdpsNbError as error:
        return type(error)
    except Exception as error:  # noqa: BLE001  whatever the other library raises is its outcome
        return type(error)


def read_theirs(case: Case, *, stream: bool) -> Outcome:
    """Read a body as `BlobManager.read_blobs` of pyodps does."""

    def read() -> Blobs:
        headers = {"Content-Encoding": case.encoding} if case.encoding else {}
        answer = SimpleNamespace(raw=io.BytesIO(case.body), headers=headers)
        payload = BlobManager._wrap_download_stream(None, answer)
        records = PyodpsIterator(
            payload, api_version="3", expected_count=case.count, crc_strip=False
        )
        if stream:
            return drain(PyodpsReader(records), skip=case.skip)
        return [(record.data, record.mime_type) for record in records]

    return outcome(read)


def read_ours(case: Case, *, stream: bool) -> Outcome:
    """Read the same body with our classes."""

    def read() -> Blobs:
        records = BlobDataIterator(
            io.BytesIO(case.body), expected_count=case.count, content_encoding=case.encoding
        )
        if stream:
            return drain(BlobStreamReader(records), skip=case.skip)
        return [(record.data, record.mime_type) for record in records]

    return outcome(read)


def drain(reader: Any, *, skip: bool) -> Blobs:
    """Read one blob after another, as the documentation of both libraries shows."""
    blobs: Blobs = []
    while reader is not None:
        parts = []
        while not skip and (part := reader.read(1000)):
            parts.append(part)
        blobs.append((b"".join(parts), reader.mime_type))
        reader = reader.next()
    return blobs


# -- the document ------------------------------------------------------------------------------


def words(case: Case, result: Outcome) -> str:
    """Return the text of an outcome for a cell: an error, the data, or the data that was lost."""
    if isinstance(result, type):
        return f"`{result.__name__}`"
    if isinstance(case.ours, type):
        return f"**no error**: {shown(result)}"
    if result == case.ours:
        return "the data" if result else "no blob, as expected"
    return f"**no error**: {shown(result)}"


def shown(blobs: Blobs) -> str:
    """Return the text of blobs for a cell."""
    if not blobs:
        return "no blob"
    texts = [
        f"{len(data)} bytes" if len(data) > 12 else f"`{data.decode()}`" if data else "empty"
        for data, _ in blobs
    ]
    return ", ".join(texts)


def row(case: Case) -> str:
    """Return the table row of a case."""
    theirs, streamed = (words(case, read_theirs(case, stream=stream)) for stream in (False, True))
    both = theirs if theirs == streamed else f"{theirs}; streamed: {streamed}"
    return f"| {case.title} | {both} | {words(case, case.ours)} |"


def document() -> str:
    """Return ``docs/results/blob-bodies.md``."""
    from odps import __version__

    head = f"""# Blob streams compared with pyodps

Both libraries read the same bytes through `BlobDataIterator` and `BlobStreamReader`: pyodps
{__version__} (`odps.maxstorage`) and odps_nb (`odps_nb.stream_io`).
`tests/support/compat/blob_cases.py` writes this page, and a test runs both libraries for every
line. If a fault raises no error, the cell shows the returned data instead.

| body | pyodps | odps_nb |
|---|---|---|
"""
    tail = """
Other differences:

- Both verify CRC32C block by block. Errors of odps_nb name the block, its offset and both values.
- The repr of a `BlobRecord` contains all bytes in pyodps, and only their number in odps_nb.
- pyodps returns a file name only with API version 3; odps_nb returns the name in the frame.
- pyodps buffers a blob of any announced size; odps_nb has limits (`max_blob`, `max_output`), and
  allocates memory only as the bytes arrive.
- After an error, the iterator of pyodps continues and parses the following bytes as a frame; the
  iterator of odps_nb raises an error again.
- The older class in pyodps 0.13.1 verifies nothing, and its run time grows with the square of the
  blob size. The run time of the other two classes grows linearly ([growth](growth.png)).
"""
    return head + "\n".join(row(case) for case in cases()) + "\n" + tail


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
    sys.stdout.write(f"{DOCUMENT} written\n")
