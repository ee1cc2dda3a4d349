"""Arbitrary bytes in place of rows give valid values or an odps_nb error."""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.preview import fetch_preview
from odps_nb.client.read.requests import InstanceRows
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_split
from odps_nb.client.sql.result import ResultSession, iter_result
from odps_nb.errors import FramingError, LimitExceededError
from odps_nb.http.retry import RetryPolicy
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.schema import TableSchema
from odps_nb.stream_io import ArrowReader, StreamReader
from odps_nb.terms import RowRangeSplit
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.calls import Preview
from odps_nb.wire.control import SQL_TASK
from odps_nb.wire.type_text import parse_columns
from tests.support.sockets.peers import Peer, answers
from tests.support.sockets.scripted import SCHEMA, TABLE, ControlService, Service, ipc, numbers, raw

ROOT = Path(__file__).parents[3]
ONCE = RetryPolicy(max_attempts=1)


def by_row_stream(response) -> list[pa.RecordBatch]:
    return list(iter(RowStream(response).next, None))


def by_arrow_reader(response) -> list[pa.RecordBatch]:
    return list(ArrowReader(StreamReader(response)))


READERS = [by_row_stream, by_arrow_reader]


def sent(body: bytes, reader) -> list[pa.RecordBatch]:
    """Let a reader read a body from a socket."""
    transport = RequestsTransport()

    with Peer(answers(body)) as peer:
        request = HttpRequest(method="GET", url=peer.url, read_timeout=5.0)
        with transport.send(request) as response:
            try:
                return reader(response)
            finally:
                transport.close()


def bare(array: pa.Array) -> bytes:
    """Return the unvalidated stream of one column."""
    batch = pa.record_batch({"c": array})
    return batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes() + END_MARKER


def offsets(*values: int) -> pa.Buffer:
    return pa.py_buffer(struct.pack(f"<{len(values)}i", *values))


TEXT = pa.py_buffer(b"abcdef")


def lost(kind: pa.DataType, *children: pa.Array) -> pa.Array:
    """Return empty list columns whose first offset is far away."""
    buffers = [None, pa.py_buffer(struct.pack("<q", 1 << 23))]
    return pa.Array.from_buffers(kind, 0, buffers, children=list(children))


PAIR = pa.StructArray.from_arrays(
    [pa.array([], pa.string()), pa.array([], pa.int64())],
    fields=[pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int64())],
)
WITHOUT = pa.array([], pa.int64())
LOST_INSIDE = {
    "list": lost(pa.list_(pa.int64()), WITHOUT),
    "large list": lost(pa.large_list(pa.int64()), WITHOUT),
    "map": lost(pa.map_(pa.string(), pa.int64()), PAIR),
}


def empty_lists_of(inner: pa.Array) -> pa.Array:
    kind = pa.list_(inner.type)
    return pa.Array.from_buffers(kind, 2, [None, offsets(0, 0, 0)], children=[inner])


# Wrong offsets in the middle, which a check of only the first and last offset would miss.
DAMAGED = {
    "string": pa.Array.from_buffers(pa.string(), 3, [None, offsets(0, 1 << 30, 4, 6), TEXT]),
    "string backwards": pa.Array.from_buffers(pa.string(), 3, [None, offsets(0, 5, 2, 6), TEXT]),
    "binary": pa.Array.from_buffers(pa.binary(), 3, [None, offsets(0, 1 << 30, 4, 6), TEXT]),
    "list": pa.Array.from_buffers(
        pa.list_(pa.int64()), 2, [None, offsets(0, 1 << 28, 1)], children=[pa.array([1])]
    ),
    "struct of text": pa.StructArray.from_arrays(
        [pa.Array.from_buffers(pa.string(), 2, [None, offsets(0, 1 << 30, 6), TEXT])], ["s"]
    ),
    "dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 99], pa.int8()), pa.array(["a"]), safe=False
    ),
    **{f"{name} inside": empty_lists_of(inner) for name, inner in LOST_INSIDE.items()},
    "list in a dictionary": pa.DictionaryArray.from_arrays(
        pa.array([None, None], pa.int8()), LOST_INSIDE["list"], safe=False
    ),
    "list in a struct in a list": empty_lists_of(
        pa.StructArray.from_arrays([LOST_INSIDE["list"]], ["x"])
    ),
    "decimal": pa.Array.from_buffers(
        pa.decimal128(3, 0), 1, [None, pa.py_buffer((10**20).to_bytes(16, "little"))]
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("what", DAMAGED)
def test_an_offset_outside_of_its_buffer_is_an_error_and_never_read(what, reader):
    with pytest.raises(FramingError) as caught:
        sent(bare(DAMAGED[what]), reader)
    assert caught.value.request_id == "req-1"


@pytest.mark.parametrize("reader", READERS)
def test_a_name_that_is_not_text_raises_an_error(reader):
    body = bare(pa.array([1])).replace(b"\1\0\0\0c\0", b"\1\0\0\0\xff\0")
    with pytest.raises(FramingError):
        sent(body, reader)


def test_metadata_that_names_a_pickle_is_never_unpickled(tmp_path):
    trap = tmp_path / "sprung"
    pickled = f"cbuiltins\nexec\n(S\"open({str(trap)!r},'w')\"\ntR.".encode()
    names = {"ARROW:extension:name": "arrow.py_extension_type"}
    field = pa.field("c", pa.int64(), metadata={**names, "ARROW:extension:metadata": pickled})
    batch = pa.record_batch([pa.array([1])], schema=pa.schema([field]))
    body = batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes() + END_MARKER
    assert [one.num_rows for one in sent(body, by_row_stream)] == [1]
    assert not trap.exists()


# -- streams that expand in memory ------------------------------------------------------------


@functools.cache
def squeezed(megabytes: int, codec: str) -> bytes:
    """Return a small stream that expands to ``megabytes`` MiB, a tenth of them in each column."""
    rows = megabytes * 2**20 // 80
    zeros = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(bytes(8 * rows))])
    table = pa.table([zeros] * 10, names=[f"c{n}" for n in range(10)])
    return ipc(table, rows=rows, compression=codec)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("reader", READERS)
def test_a_batch_that_would_exceed_its_limit_is_refused_before_decompression(reader, codec):
    body = squeezed(520, codec)
    before = pa.total_allocated_bytes()
    with pytest.raises(LimitExceededError, match="after decompression") as caught:
        sent(body, reader)
    assert len(body) < 8 * 2**20
    assert caught.value.limit == 512 * 2**20
    assert caught.value.actual > caught.value.limit
    assert caught.value.request_id == "req-1"
    assert pa.total_allocated_bytes() - before < 2 * len(body)


def read(response, bound: int) -> list[pa.RecordBatch]:
    return list(iter(RowStream(response, max_decompressed=bound).next, None))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_the_decompression_limit_applies_per_batch_and_can_be_set(codec):
    body = ipc(numbers(0, 50_000), rows=10_000, compression=codec)
    assert (
        len(sent(body, lambda one: list(iter(RowStream(one, max_decompressed=80_000).next, None))))
        == 5
    )
    with pytest.raises(LimitExceededError):
        sent(body, lambda one: read(one, 79_999))
    with pytest.raises(LimitExceededError):
        sent(body, lambda one: ArrowReader(StreamReader(one), max_decompressed=79_999).read())


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(1 << 30),
        pa.RunEndEncodedArray.from_arrays(pa.array([1 << 30], pa.int64()), pa.array([1])),
        pa.FixedSizeListArray.from_arrays(pa.nulls(1 << 22), 1 << 20),
    ],
    ids=["nulls", "runs", "fixed lists"],
)
def test_rows_without_bytes_are_limited(reader, array):
    with pytest.raises(LimitExceededError, match="values"):
        sent(bare(array), reader)


# -- columns that the session does not have -----------------------------------------------------


def session_of(columns: str) -> ReadSession:
    schema = TableSchema(columns=parse_columns(columns))
    return ReadSession(
        table=TABLE, session_id="s", schema=schema, splits=plan_ranges(3, 1), row_count=3
    )


def split_of(promised: str, came: pa.Table, **facts) -> pa.Table:
    with Service(ReadRows=[raw(ipc(came))]) as service, service.client(retry=ONCE) as storage:
        batches = list(iter_split(storage, session_of(promised), RowRangeSplit(0, 3), **facts))
    return pa.Table.from_batches(batches)


IDS = pa.array([1, 2, 3])
WORDS = pa.array(["a", "b", "c"])
MOMENTS = pa.array([1000, 2000, None], pa.timestamp("ns"))
PROMISED = [
    ("s string", pa.table({"s": pa.array([[1] * 60] * 3)})),
    ("s string", pa.table({"s": IDS.dictionary_encode()})),
    ("s string", pa.table({"s": IDS})),
    ("id bigint", pa.table({"id": WORDS})),
    ("id bigint", pa.table({"id": IDS.cast(pa.float64())})),
    ("id bigint", pa.table({"id": pa.RunEndEncodedArray.from_arrays([3], ["a"])})),
    ("id array<bigint>", pa.table({"id": pa.array([[1]] * 3, pa.list_view(pa.int64()))})),
    ("id bigint", pa.table([IDS, IDS], names=["id", "id"])),
    ("id bigint", pa.table([IDS, IDS], names=["id", "ID"])),
    ("id bigint", pa.table({"id": IDS, "more": IDS})),
    ("id bigint, s string", pa.table({"id": IDS})),
    ("id bigint", pa.table({"other": IDS})),
    ("ts timestamp", pa.table({"ts": pa.array([{"nano": 1, "sec": 1}] * 3)})),
    ("d decimal(10,2)", pa.table({"d": pa.array([1, 2, 3], pa.decimal128(10, 3))})),
    ("a array<bigint>", pa.table({"a": pa.array([["x"]] * 3)})),
    ("a array<string>", pa.table({"a": pa.array([[["x"]]] * 3)})),
    ("m map<string,bigint>", pa.table({"m": pa.array([[("k", "v")]] * 3, pa.map_("str", "str"))})),
    ("r struct<a:bigint>", pa.table({"r": pa.array([{"b": 1}] * 3)})),
    ("r struct<a:bigint>", pa.table({"r": pa.array([{"a": 1, "b": 1}] * 3)})),
    ("r struct<a:bigint>", pa.table({"r": pa.StructArray.from_arrays([IDS, IDS], ["a", "A"])})),
]


@pytest.mark.parametrize(("columns", "came"), PROMISED, ids=str)
def test_a_column_of_another_type_than_the_session_is_refused_by_name(columns, came):
    with pytest.raises(FramingError) as caught:
        split_of(columns, came)
    assert caught.value.request_id == "req-1"
    assert re.search(rf"'({columns.split()[0]}|s|ID|more)\b", str(caught.value))


TAKEN = [
    ("s string", pa.table({"s": WORDS.cast(pa.large_string())})),
    ("s string", pa.table({"S": WORDS})),
    ("dt datetime", pa.table({"dt": MOMENTS.cast(pa.timestamp("us"))})),
    ("span interval_day_time", pa.table({"span": MOMENTS})),
    ("months interval_year_month", pa.table({"months": IDS.cast(pa.int32())})),
    ("d decimal(10,2)", pa.table({"d": pa.array([1, 2, 3], pa.decimal128(38, 2))})),
    ("d decimal", pa.table({"d": pa.array([1, 2, 3], pa.decimal256(54, 18))})),
    ("photo blob", pa.table({"photo": WORDS})),
    ("photo blob", pa.table({"photo": WORDS.cast(pa.binary())})),
    ("r struct<a:bigint,b:string>", pa.table({"r": pa.array([{"B": "x", "a": 1}] * 3)})),
    ("a array<bigint>", pa.table({"a": pa.array([[1]] * 3, pa.large_list(pa.int64()))})),
]


@pytest.mark.parametrize(("columns", "came"), TAKEN, ids=str)
def test_every_arrow_form_of_a_column_is_accepted(columns, came):
    assert split_of(columns, came).equals(came)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("columns", ["s varchar(9)", "s string", "s char(9)"])
def test_text_sent_as_bytes_becomes_text(columns, kind):
    came = pa.table({"s": WORDS.cast(kind)})
    text = pa.string() if kind == pa.binary() else pa.large_string()
    assert split_of(columns, came).equals(pa.table({"s": WORDS.cast(text)}))


def test_columns_sent_in_another_order_are_returned_in_the_order_of_the_session():
    came = pa.table({"s": WORDS, "id": IDS})
    assert split_of("id bigint, s string", came).column_names == ["id", "s"]


def test_the_stream_of_a_read_with_selected_columns_may_have_more_columns():
    came = pa.table({"more": IDS, "s": WORDS, "id": IDS})
    assert split_of("id bigint, s string", came, columns=("id",)).column_names == ["id"]
    with pytest.raises(FramingError, match="int64"):
        split_of("id string, s string", came, columns=("id",))


def test_a_query_result_is_checked_against_its_session():
    session = ResultSession(
        instance_id="i",
        schema=SCHEMA,
        row_count=3,
        source=InstanceRows(project="p", instance_id="i", session_id="s", task=SQL_TASK),
    )
    for body in (ipc(pa.table({"id": WORDS})), bare(DAMAGED["string"])):
        with (
            ControlService(ReadInstance=[raw(body)]) as service,
            service.client(retry=ONCE) as storage,
            pytest.raises(FramingError) as caught,
        ):
            list(iter_result(storage, session))
        assert caught.value.request_id == "req-1"


def test_a_query_may_have_two_columns_with_one_name():
    schema = TableSchema(columns=parse_columns("a bigint, b string"))
    twins = replace(schema, columns=tuple(replace(c, name="x") for c in schema.columns))
    came = pa.table([IDS, WORDS], names=["x", "x"])
    session = ResultSession(
        instance_id="i",
        schema=twins,
        row_count=3,
        source=InstanceRows(project="p", instance_id="i", session_id="s", task=SQL_TASK),
    )
    with (
        ControlService(ReadInstance=[raw(ipc(came))]) as service,
        service.client(retry=ONCE) as storage,
    ):
        assert pa.Table.from_batches(iter_result(storage, session)).equals(came)


def test_a_preview_is_checked_against_the_known_columns():
    with (
        Service(Preview=[raw(ipc(pa.table({"id": WORDS})))]) as service,
        service.client(retry=ONCE) as storage,
        pytest.raises(FramingError, match="'id'") as caught,
    ):
        fetch_preview(storage, Preview(table=TABLE, limit=3), columns=tuple(SCHEMA))
    assert caught.value.request_id == "req-1"


# -- random damage -------------------------------------------------------------------------------


@pytest.mark.nightly
def test_damaged_streams_crash_no_process_and_raise_only_typed_errors():
    """Some inputs of ``fuzz/mutate_streams.py``, which can run for any length of time."""
    command = [sys.executable, str(ROOT / "fuzz" / "mutate_streams.py"), "--count", "75"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    tally = dict(re.findall(r"^(\w+: \w+) +(\d+)$", done.stdout, re.MULTILINE))
    readers = ["row_stream", "session_rows", "coded_rows", "arrow_reader", "end_marker"]
    readers += ["replaced_rows", "rows_as_bytes"]
    for reader in readers:  # complete streams are read, damaged ones are not
        assert int(tally[f"{reader}: rows"]) >= 6
        assert int(tally[f"{reader}: FramingError"]) >= 20
    for reader in ("uploaded", "tunnelled"):
        assert int(tally[f"{reader}: rows"]) >= 3
        assert int(tally[f"{reader}: InvalidRequestError"]) >= 20
