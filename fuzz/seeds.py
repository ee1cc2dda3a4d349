"""Writes the seeds of the corpus: small right inputs from which fuzzing starts.

``.venv/bin/python fuzz/seeds.py``; files that fuzzing found stay as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from odps_nb.schema import TableSchema
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.codings import encoder
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame
from odps_nb.wire.schema_json import encode_flat, encode_nested
from odps_nb.wire.type_text import parse_columns

CORPUS = Path(__file__).parent / "corpus"
TYPES = "map<string, array<struct<f1: decimal(10,2), `odd name`: varchar(7)>>>"
COLUMNS = "id bigint not null, note string comment 'it\\'s', photo blob, deep " + TYPES


def _coded(name: str, data: bytes) -> bytes:
    coder = encoder(name)
    return coder.feed(data) + coder.finish()


def _ipc() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": [1, 2, 3]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
        writer.write(batch.slice(1))
    return sink.getvalue().to_pybytes()


def seeds() -> Iterator[tuple[str, str, bytes]]:
    """Give target, name and bytes."""
    cuts = b"\x20\x80\xc0"
    header = FrameHeader(content_type="a/b", custom_file_name="n")
    upload = FrameHeader(partition_values=("ds=x",), column_index=1, distribution_key=b"key")
    one = encode_frame(b"hello", header)
    two = one + encode_frame(b"", upload, checksum=ChecksumKind.MD5)
    for mode in (0, 1, 3):
        yield "blocks", f"mode{mode}", bytes([mode]) + cuts + bytes(range(200))
    yield "blocks", "stored", b"\0" + cuts + encode_blocks(b"hello")
    yield "blocks", "long", b"\0" + cuts + encode_blocks(bytes(4100))
    for mode, name in ((0, "zstd"), (1, "lz4")):
        yield "codings", name, bytes([mode]) + cuts + _coded(name, b"hello hello hello") * 2
        yield "codings", f"{name}-plain", bytes([mode | 2]) + cuts + b"hello hello hello"
        yield "codings", f"{name}-cut", bytes([mode | 6 | 128]) + cuts + b"hello hello hello"
    yield "frames", "one", b"\x01" + cuts + one
    yield "frames", "two", b"\x02" + cuts + two
    yield "frames", "any", b"\x08" + cuts + two + one
    yield "frames", "empty", b"\x01" + cuts + bytes(24)
    yield "layers", "raw", b"\x04" + cuts + encode_blocks(b"hello")
    yield "layers", "frames", b"\x08" + cuts + encode_blocks(two)
    yield "layers", "zstd-outermost", b"\x05" + cuts + encode_blocks(_coded("zstd", b"hello"))
    yield "layers", "zstd-innermost", b"\x05" + cuts + _coded("zstd", encode_blocks(b"hello"))
    yield "layers", "lz4-made", bytes([2 | 8 | 32 | 64]) + cuts + two
    yield "layers", "zstd-made", bytes([1 | 8 | 16 | 32]) + cuts + two
    yield "arrow_stream", "batches", b"\0" + cuts + _ipc()
    yield "type_text", "type", TYPES.encode()
    yield "type_text", "columns", COLUMNS.encode()
    schema = TableSchema(
        columns=parse_columns(COLUMNS), partition_columns=parse_columns("ds string")
    )
    yield "schema_json", "flat", json.dumps(encode_flat(schema)).encode()
    yield "schema_json", "nested", json.dumps(encode_nested(schema)).encode()


def main() -> None:
    """Write them."""
    for target, name, data in seeds():
        home = CORPUS / target
        home.mkdir(parents=True, exist_ok=True)
        (home / f"seed-{name}").write_bytes(data)
    sys.stdout.write(f"{sum(1 for _ in CORPUS.rglob('seed-*'))} seeds in {CORPUS}\n")


if __name__ == "__main__":
    main()
