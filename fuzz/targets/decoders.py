"""Targets for the decoders in `odps_nb.wire`: blocks, compression, frames, Arrow, schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from odps_nb.errors import ArgumentError, ProtocolError
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import END_MARKER, EndMarkerCheck
from odps_nb.wire.blocks import BlockDecoder, encode_blocks
from odps_nb.wire.codings import decoder, encoder
from odps_nb.wire.frames import BlobData, BlobRecord, BlobStart, FrameDecoder, FrameScanner
from odps_nb.wire.layers import BlobBodyDecoder
from odps_nb.wire.schema_json import decode_flat, decode_nested, encode_flat, encode_nested
from odps_nb.wire.type_text import format_columns, format_type, parse_columns, parse_type

BUDGET = 1 << 20
SMALL = {"max_header": 1 << 12, "max_blob": 1 << 16}


def _split(data: bytes) -> tuple[int, list[bytes]]:
    """Read a mode and three cut positions; return the mode and the remaining bytes in pieces."""
    head, rest = data[:4].ljust(4, b"\0"), data[4:]
    places = sorted(place * len(rest) // 256 for place in head[1:])
    return head[0], [rest[a:b] for a, b in pairwise([0, *places, len(rest)])]


def _run(make: Callable[[], Any], chunks: Iterable[bytes]) -> Any:
    """Feed a new decoder; return its outputs, or the class of its error."""
    decoding, out = make(), []
    try:
        for chunk in chunks:
            out.append(decoding.feed(chunk))
        out.append(decoding.feed_eof())
    except ProtocolError as error:
        return type(error)
    return out


def _same(one: Any, other: Any) -> bool:
    """Whether two runs have the same outcome; the classes of two errors may differ."""
    return one == other or (isinstance(one, type) and isinstance(other, type))


def _bytes_of(result: Any) -> Any:
    return result if isinstance(result, type) else b"".join(result)


def _events_of(result: Any) -> Any:
    if isinstance(result, type):
        return result
    merged: list[Any] = []
    for events in result:
        for event in events:
            if isinstance(event, BlobData) and merged and isinstance(merged[-1], BlobData):
                merged[-1] = BlobData(merged[-1].data + event.data)
            else:
                merged.append(event)
    return merged


def blocks(data: bytes) -> None:
    """Any bytes raise an error, or decode to a payload that encodes to them, however split."""
    mode, chunks = _split(data)
    stored = b"".join(chunks)
    if mode & 1:  # a valid stream, or one with a single byte changed
        stored = encode_blocks(stored)
        assert _bytes_of(_run(BlockDecoder, [stored])) == b"".join(chunks)
        if mode & 2 and stored:
            at = mode * len(stored) // 256
            stored = stored[:at] + bytes([stored[at] ^ (mode | 1)]) + stored[at + 1 :]
            assert isinstance(_run(BlockDecoder, [stored]), type)
    whole = _bytes_of(_run(BlockDecoder, [stored]))
    cut = _split(bytes([mode]) + data[1:4].ljust(3, b"\0") + stored)[1]
    assert _bytes_of(_run(BlockDecoder, cut)) == whole
    if isinstance(whole, bytes):
        assert encode_blocks(whole) == stored


def codings(data: bytes) -> None:
    """Any bytes raise an error, or decode to the same data within the budget, however split.

    zstd detects some damage only in a frame that is fed in one piece.
    """
    mode, chunks = _split(data)
    name = (Compression.ZSTD, Compression.LZ4)[mode & 1]
    if mode & 2:
        plain = b"".join(chunks)
        coder = encoder(name)
        chunks = [coder.feed(plain), coder.finish()]
        if not mode & 4:
            assert _bytes_of(_run(lambda: decoder(name), chunks)) == plain
        else:
            chunks = [chunk[: len(chunk) * mode // 256] for chunk in chunks]

    def make() -> Any:
        return decoder(name, max_output=BUDGET)

    whole = _bytes_of(_run(make, [b"".join(chunks)]))
    assert isinstance(whole, type) or len(whole) <= BUDGET
    parts = _bytes_of(_run(make, chunks))
    if name is Compression.LZ4 or (isinstance(whole, bytes) and isinstance(parts, bytes)):
        assert _same(parts, whole)


def frames(data: bytes) -> None:
    """Any bytes decode to events or raise an error, however split; the scanner finds the same."""
    mode, chunks = _split(data)
    stream, count = b"".join(chunks), None if mode & 8 else mode & 7

    def make() -> Any:
        return FrameDecoder(count, **SMALL)

    whole = _events_of(_run(make, [stream]))
    assert _events_of(_run(make, chunks)) == whole
    assert _events_of(_run(make, [stream[at : at + 1] for at in range(len(stream))])) == whole
    records, stop = FrameScanner(**SMALL).scan(stream, 0, 1000)
    taken = _events_of(_run(lambda: FrameDecoder(len(records), **SMALL), [stream[:stop]]))
    assert not isinstance(taken, type)
    assert _records_of(taken) == records


def _records_of(events: list[Any]) -> list[BlobRecord]:
    records: list[BlobRecord] = []
    for event in events:
        if isinstance(event, BlobStart):
            records.append(BlobRecord(b"", event.content_type, event.custom_file_name))
        elif isinstance(event, BlobData):
            records[-1].data = event.data
    return records


def layers(data: bytes) -> None:
    """Any body decodes to events within the budget or raises an error, however it is split."""
    mode, chunks = _split(data)
    encoding = (None, "zstd", "x-lz4-frame", "identity")[mode & 3]
    count, body = mode >> 2 & 3, b"".join(chunks)
    if mode & 16:  # with valid checksums of the blocks
        body = encode_blocks(body)
    if mode & 32 and encoding in ("zstd", "x-lz4-frame"):
        coder = encoder("zstd" if encoding == "zstd" else "lz4")
        body = coder.feed(body) + coder.finish()
    if mode & 64:
        body = encode_blocks(body)

    def make() -> Any:
        return BlobBodyDecoder(encoding, count, BUDGET, max_blob=SMALL["max_blob"])

    whole = _events_of(_run(make, [body]))
    pieces = _split(data[:4].ljust(4, b"\0") + body)[1]
    assert _same(_events_of(_run(make, pieces)), whole)


def arrow_stream(data: bytes) -> None:
    """Any bytes are accepted or rejected; a stream is complete only with its end marker."""
    _, chunks = _split(data)
    stream = b"".join(chunks)
    outcomes = []
    for parts in ([stream], chunks):
        check = EndMarkerCheck(max_metadata=1 << 16, max_body=1 << 20)
        try:
            for part in parts:
                check.feed(part)
        except ProtocolError as error:
            outcomes.append(type(error))
            continue
        assert not check.complete or stream.endswith(END_MARKER)
        outcomes.append((check.complete, check.rows, check.total))
    assert outcomes[0] == outcomes[1]


def type_text(data: bytes) -> None:
    """Any text is a type or columns that survive formatting and parsing, or raises an error."""
    text = data.decode("utf-8", "replace")
    try:
        found = parse_type(text)
    except ArgumentError:
        pass
    else:
        assert parse_type(format_type(found)) == found
    try:
        columns = parse_columns(text)
    except ArgumentError:
        return
    assert parse_columns(format_columns(columns)) == columns


def schema_json(data: bytes) -> None:
    """Any JSON object is a schema that survives encoding and decoding, or raises an error."""
    try:
        members = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(members, dict):
        return
    try:
        flat = decode_flat(encode_flat(decode_flat(members)))
        assert decode_flat(encode_flat(flat)) == flat
    except ProtocolError:
        pass
    try:
        nested = decode_nested(members)
    except ProtocolError:
        return
    text = json.dumps(encode_nested(nested))  # a bare DECIMAL becomes DECIMAL(38,18)
    again = decode_nested(json.loads(text))
    assert json.dumps(encode_nested(again)) == text
    assert again.schema.names == nested.schema.names


TARGETS = (blocks, codings, frames, layers, arrow_stream, type_text, schema_json)
