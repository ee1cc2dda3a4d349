"""Lengths of the buffers of uploaded Arrow batches."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.errors import InvalidRequestError
from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.local.writing.ingest import check_buffers
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.tunnel.chunks import encode_chunks
from odps_nb.wire.type_text import parse_columns
from tests.support.arrow_bodies import ipc
from tests.support.named import NewTable
from tests.support.service.peer import Peer
from tests.support.service.tunnel import Tunnel

COLUMNS: dict[str, Any] = {
    "decimal": pa.array([Decimal("1.5")] * 99, pa.decimal128(38, 18)),
    "decimal?": pa.array([Decimal("1.5"), None, Decimal("2.5")] * 33, pa.decimal128(38, 18)),
    "wide": pa.array([Decimal("1.5")] * 99, pa.decimal256(54, 18)),
    "number": [1, None, 3] * 33,
    "bool": [True, None, False] * 33,
    "text": ["a", None, "ccc"] * 33,
    "long": pa.array(["a", None, "ccc"] * 33, pa.large_string()),
    "list": [[1], None, [2, 3]] * 33,
    "vector": pa.array([[1.0, 2.0]] * 99, pa.list_(pa.float32(), 2)),
    "struct": [{"x": 1, "y": ["a"]}, None, {"x": 3, "y": None}] * 33,
    "map": pa.array([[("k", 1)], None, []] * 33, pa.map_(pa.string(), pa.int32())),
    "dictionary": pa.array(["a", "b", "a"] * 33).dictionary_encode(),
    "null": pa.nulls(99),
    "fixed": pa.array([b"abc"] * 99, pa.binary(3)),
}


def received(batch: pa.RecordBatch, schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Return a batch as read with the schema of another batch."""
    if schema is None:
        return pa.ipc.open_stream(ipc(batch)).read_next_batch()
    return pa.ipc.open_stream(body_of(batch, schema)).read_next_batch()


def body_of(batch: pa.RecordBatch, schema: pa.Schema) -> bytes:
    return bytes(schema.serialize()) + bytes(batch.serialize()) + END_MARKER


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("rows", [slice(0, 99), slice(0, 2), slice(7, 12), slice(3, 4)])
def test_whole_and_sliced_columns_are_accepted(name: str, rows: slice) -> None:
    batch = pa.record_batch({name: COLUMNS[name]})
    check_buffers(received(batch.slice(rows.start, rows.stop - rows.start)))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 99])
def test_wide_decimals_are_refused_as_narrow_decimals(count: int) -> None:
    batch = pa.record_batch({"d": COLUMNS["wide"][:count]})
    narrow = received(batch, pa.schema({"d": pa.decimal128(38, 18)}))
    with pytest.raises(InvalidRequestError, match=r"'d' has \d+ bytes, but \d+ values of decimal1"):
        check_buffers(narrow)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (pa.array(range(99), pa.int64()), pa.int32()),
        (pa.array([[n] for n in range(99)], pa.list_(pa.int64())), pa.list_(pa.int32())),
        (pa.array([{"x": 1}] * 99), pa.struct({"x": pa.int8()})),
        (pa.array(["a"] * 99, pa.large_string()), pa.string()),
        (pa.array([[1]] * 99, pa.large_list(pa.int8())), pa.list_(pa.int8())),
    ],
    ids=str,
)
def test_wider_values_are_refused_at_any_level(sent: pa.Array, read: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match="'c' has"):
        check_buffers(received(pa.record_batch({"c": sent}), pa.schema({"c": read})))


OTHER_TYPES = {
    "decimal(38,18)": COLUMNS["wide"][:2],
    "bigint": pa.array([1] * 99, pa.int32()),
    "int": pa.array([1] * 99, pa.int64()),
    "boolean": pa.array([1] * 99, pa.int64()),
    "string": pa.array(["a"] * 99, pa.large_string()),
    "array<int>": pa.array([[1, 2]] * 99, pa.list_(pa.int64())),
    "struct<x:bigint>": pa.array([{"x": 1}] * 99, pa.struct({"x": pa.int16()})),
    "map<string,bigint>": pa.array([[("k", 1)]] * 99, pa.map_(pa.string(), pa.int8())),
}


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_bodies_whose_buffers_contradict_the_type_are_refused(
    peer: Peer, new_table: NewTable, kind: str
) -> None:
    name, sent = new_table(f"(c {kind})"), pa.record_batch({"c": OTHER_TYPES[kind]})
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    body = body_of(sent, arrow_schema(parse_columns(f"c {kind}")))
    with pytest.raises(InvalidRequestError, match=r"[Bb]uffer|offset") as caught:
        peer.put(name, session, "0", pa.table({"c": []}), count=sent.num_rows, body=body)
    assert (caught.value.status, caught.value.code) == (400, "MalformedDataStream")
    streams = Tunnel(peer, name, "streams")
    upload = streams.ask("POST").json()["session_name"]
    chunks = b"".join(map(bytes, encode_chunks([sent.serialize()])))
    refused = streams.refusal("PUT", chunks, uploadid=upload, slotid=0, arrow="")
    assert refused[:2] == (400, "MalformedDataStream")
    assert peer.read(name).num_rows == 0
