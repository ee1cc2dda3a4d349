"""Damages valid Arrow streams with all types and compressions; a seed determines the changes."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence
from struct import pack_into
from typing import Any

import pyarrow as pa

from odps_nb.errors import ProtocolError
from odps_nb.wire._ipc_message import parse_message
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.type_text import parse_columns

HOSTILE = (0, 1, -1, 2, 7, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 40), (1 << 63) - 1)
COLUMNS = parse_columns(
    "i bigint, j int, b boolean, f double, s string, v varchar(40), raw binary, d date, "
    "dt datetime, ts timestamp, ntz timestamp_ntz, dec decimal(10,2), wide decimal(50,5), "
    "photo blob, tags array<string>, m map<string,bigint>, r struct<a:bigint,b:string>, "
    "deep array<map<string,array<struct<x:decimal(10,2),y:array<string>>>>>"
)


def _python_rows(count: int) -> list[dict[str, Any]]:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 1000)
    rows = []
    for n in range(count):
        inner = {"x": None, "y": [None, f"ü{n}"]}
        rows.append(
            {
                "i": n, "j": -n, "b": n % 2 == 0, "f": n / 3, "s": f"text {n}" * (n % 4),
                "v": "é" * (n % 5), "raw": bytes([n, 255]), "d": moment.date(), "dt": moment,
                "ts": moment, "ntz": moment, "dec": None, "wide": None, "photo": b"cmVm",
                "tags": [f"t{k}" for k in range(n % 3)], "m": [(f"k{n}", n)],
                "r": {"a": n, "b": "x" * n}, "deep": [[("k", [inner] * (n % 2))]],
            }
        )  # fmt: skip
        if n % 5 == 3:
            rows[-1] = dict.fromkeys(rows[-1])
    return rows


def session_batch(count: int) -> pa.RecordBatch:
    from odps_nb.convert.arrow_schema import arrow_schema

    schema = arrow_schema(COLUMNS, for_write=True)
    return pa.RecordBatch.from_pylist(_python_rows(count), schema=schema)


def _exotic_batch(shift: int) -> pa.RecordBatch:
    """Return Arrow layouts that no service sends; only readers without a session accept them."""
    texts = pa.array(["aa", None, "bb", "aa", f"only {shift}"])
    entries = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.int64())])
    return pa.record_batch(
        {
            "dictionary": texts.dictionary_encode(),
            "view": texts.cast(pa.string_view()),
            "runs": pa.RunEndEncodedArray.from_arrays([2, 5], ["x", "y"]),
            "nothing": pa.nulls(5),
            "large": texts.cast(pa.large_string()),
            "lists": pa.array([[1], None, [2, 3], [], [4]], pa.large_list(pa.int16())),
            "views": pa.array([[1], None, [2, 3], [], [4]], pa.list_view(pa.int16())),
            "fixed": pa.array([[1, 2]] * 5, pa.list_(pa.int8(), 2)),
            "seconds": pa.array([1, 2, None, 4, 5], pa.time32("s")),
            "span": pa.array([1, 2, None, 4, 5], pa.duration("us")),
            "either": pa.UnionArray.from_sparse(
                pa.array([0, 1, 0, 1, 0], pa.int8()), [pa.array(range(5)), texts]
            ),
            "dense": pa.UnionArray.from_dense(
                pa.array([0, 1, 0, 1, 0], pa.int8()),
                pa.array([0, 0, 1, 1, 2], pa.int32()),
                [pa.array(range(5)), texts],
            ),
            "pairs": pa.array([[{"key": "k", "value": 1}]] * 5, pa.list_(entries)),
            "nested": pa.array([{"d": "x"}] * 5, pa.struct([("d", pa.string())])),
            "json": pa.array(["{}"] * 5, pa.json_()) if hasattr(pa, "json_") else texts,
        }
    )


def _ipc(batches: Sequence[pa.RecordBatch], compression: str | None, *, deltas: bool) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=deltas)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def seeds() -> list[bytes]:
    """Return valid streams, which are the same each time."""
    session = [session_batch(13), session_batch(0), session_batch(4)]
    exotic = [_exotic_batch(0), _exotic_batch(1)]
    return [
        _ipc(batches, compression, deltas=True)
        for batches in (session, session[:1], exotic)
        for compression in (None, "zstd", "lz4")
    ]


# -- mutations ----------------------------------------------------------------------------------


def messages(stream: bytes) -> list[tuple[int, int, int]]:
    """Return the offsets at which each message begins, its body begins, and it ends."""
    found, at = [], 0
    while stream[at : at + 8] != END_MARKER:
        size = int.from_bytes(stream[at + 4 : at + 8], "little")
        body = at + 8 + size
        end = body + parse_message(stream[at + 8 : body]).body_length
        found.append((at, body, end))
        at = end
    return found


class Mutator:
    """Generates inputs, each determined by the seed and the input's number."""

    def __init__(self, seed: int) -> None:
        self._seed, self._seeds = seed, seeds()
        self._parts = [messages(stream) for stream in self._seeds]

    def make(self, number: int) -> bytes:
        """Return the input with this number; the first inputs are the undamaged streams."""
        if number < len(self._seeds):
            return self._seeds[number]
        choose = random.Random(f"{self._seed}:{number}")
        index = choose.randrange(len(self._seeds))
        data = bytearray(self._seeds[index])
        for _ in range(choose.choice((1, 1, 1, 2, 3, 6))):
            kind = choose.choice(self._KINDS)
            data = bytearray(kind(self, data, self._parts[index], choose)) or bytearray(4)
        return bytes(data)

    def _place(self, data: bytearray, parts: list[tuple[int, int, int]], choose: Any) -> int:
        """Choose a byte: metadata more often than by size, because bodies are longer."""
        start, body, end = choose.choice(parts)
        low, high = (start, body) if choose.random() < 0.6 or body == end else (body, end)
        return min(choose.randrange(low, high), len(data) - 1)

    def _flip(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        data[self._place(data, parts, choose)] ^= 1 << choose.randrange(8)
        return data

    def _number(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Replace an aligned number with an extreme one."""
        size = choose.choice((4, 8))
        at = self._place(data, parts, choose) // size * size
        if at + size <= len(data):
            old = int.from_bytes(data[at : at + size], "little", signed=True)
            value = choose.choice((*HOSTILE, old + 1, old - 1, -old, old * 2, len(data)))
            pack_into("<q" if size == 8 else "<I", data, at, _fitted(value, size))
        return data

    def _cut(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = choose.randrange(len(data))
        return data[:at] + (END_MARKER if choose.random() < 0.5 else b"")

    def _remove(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = self._place(data, parts, choose)
        del data[at : at + choose.choice((1, 4, 8, 16))]
        return data

    def _insert(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = self._place(data, parts, choose)
        data[at:at] = choose.randbytes(choose.choice((1, 4, 8)))
        return data

    def _splice(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Insert a message of any stream before a message, such as a batch of another schema."""
        other = choose.randrange(len(self._seeds))
        start, _, end = choose.choice(self._parts[other])
        at = choose.choice(parts)[0]
        return data[:at] + self._seeds[other][start:end] + data[at:]

    def _swap_schema(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Replace the schema of a stream with that of another stream."""
        other = choose.randrange(len(self._seeds))
        end = self._parts[other][0][2]
        return self._seeds[other][:end] + data[parts[0][2] :]

    def _repeat(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        start, _, end = choose.choice(parts)
        return data[:end] + data[start:end] * choose.choice((1, 2, 50)) + data[end:]

    def _drop(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        start, _, end = choose.choice(parts)
        return data[:start] + data[end:]

    def _promise(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Change the decompressed size at the start of a compressed buffer."""
        start, body, end = choose.choice(parts)
        if body == end or end > len(data):
            return data
        try:
            promises = parse_message(bytes(data[start + 8 : body])).promises
        except ProtocolError:
            return data
        if promises:
            at = body + choose.choice(promises)
            value = choose.choice((*HOSTILE, 1 << 28, 1 << 33))
            if at + 8 <= len(data):
                pack_into("<q", data, at, value)
        return data

    _KINDS = (
        *(_flip, _flip, _flip, _number, _number, _number, _number, _cut, _remove, _insert),
        *(_splice, _swap_schema, _repeat, _drop, _promise),
    )


def _fitted(value: int, size: int) -> int:
    return value & 0xFFFFFFFF if size == 4 else max(-(1 << 63), min((1 << 63) - 1, value))
