"""Blobs of the real service: one test for each known fact.

The public sources are live tests of aliyun-odps-python-sdk (``odps/maxstorage/tests/
test_e2e_blob.py`` and ``conftest.py``, ``odps/apis/storage_api_v2/tests/test_blob.py``) and the
vendor's pages on the BLOB type.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.terms import BlobReference, Compression, PartitionSpec
from odps_nb.wire import calls
from odps_nb.wire.blocks import BlockDecoder
from odps_nb.wire.frames import BlobData, BlobStart, FrameHeader, encode_frame
from odps_nb.wire.layers import BlobBodyDecoder
from odps_nb.wire.schema_json import WriteSchema, decode_nested
from tests.support.named import NewName
from tests.support.service.raw_writes import Writer

Make = Callable[..., Writer]

FRAME_LIKE = b"\x05" + bytes(7) + b" looks like a frame"
NUMPY = b"\x93NUMPY\x01\x00v\x00"


@pytest.fixture
def make(odps: Connection, new_name: NewName) -> Make:
    def make(columns: str, partitioned_by: str | None = None) -> Writer:
        table = odps.create_table(new_name("evb"), columns, partitioned_by=partitioned_by)
        return Writer(odps._storage, table.name)

    return make


@pytest.fixture
def writer(make: Make) -> Writer:
    return make("a bigint, b blob", "pt string")


def stored(odps: Connection, writer: Writer, *blobs: tuple[bytes, FrameHeader]) -> list[str]:
    """Write a row for each blob, and return the references as read."""
    session = writer.begin("pt=x")
    writer.stream(session)
    frames = b"".join(encode_frame(data, header) for data, header in blobs)
    references = writer.blob_frames(session, frames).references
    raws = pa.array([one.raw for one in references], pa.binary())
    writer.send(session, pa.table({"a": range(len(blobs)), "b": raws}))
    writer.close(session)
    writer.commit(session)
    table = odps.table(writer.table).read(["a", "b"]).to_arrow().sort_by("a")
    return table["b"].cast(pa.string()).to_pylist()


def header(**members: Any) -> FrameHeader:
    return FrameHeader(column_index=2, **members)


def fetch(
    odps: Connection, texts: list[str], coding: Compression = Compression.NONE
) -> tuple[bytes, str | None]:
    """Return the unchanged body of a BlobRead, and its coding."""
    references = tuple(BlobReference.from_text(text) for text in texts)
    request = calls.ReadBlobs(references=references, compression=coding)
    with odps._storage.open(request) as response:
        body = b"".join(response.chunks())
        return body, response.headers.get("Content-Encoding")


def bare(body: bytes) -> bytes:
    """Return a body without its block checksums."""
    blocks = BlockDecoder()
    return bytes(blocks.feed(body)) + bytes(blocks.feed_eof())


def test_blobs_may_be_nested(odps: Connection, make: Make) -> None:
    """evidence 122: test_e2e_blob.py writes and reads ARRAY<BLOB> and ARRAY<STRUCT<…, BLOB>>."""
    writer = make("a bigint, c2 array<blob>, c3 array<struct<f1:string,f2:blob>>")
    table = odps.table(writer.table)
    table.write(pd.DataFrame({"a": [1], "c2": [[b"x", None]], "c3": [[{"f1": "n", "f2": b"yy"}]]}))
    blobs = [*table.blobs("c2.element"), *table.blobs("c3.element.f2")]
    assert [one.bytes() for one in blobs] == [b"x", b"yy"]


def test_column_ids_count_from_one_in_pre_order(make: Make) -> None:
    """evidence 123, 124: test_blob_write_and_read sends 2 for `b` of (a, b, pt); its mocks."""
    writer = make("c1 bigint, c2 array<blob>, c3 array<struct<f1:string,f2:blob>>", "pt string")
    schema = writer.stream(writer.begin("pt=x")).schema
    assert schema.column_ids["c1"] == 1
    assert schema.blob_ids == {"c2.element": 3, "c3.element.f2": 7}
    session = writer.begin("pt=x")
    answer = writer.raw(calls.GetWriteSchema, session_id=session)
    assert decode_nested(answer["TableSchema"]).column_ids == schema.column_ids


def test_the_client_uses_the_column_ids_of_the_response(writer: Writer) -> None:
    """evidence 123, 124: ids are resolved by path and never computed."""
    answer = writer.raw(calls.GetWriteSchema, session_id=writer.begin("pt=x"))["TableSchema"]
    answer["DataColumns"][1]["columnType"]["ColumnId"] = 77
    found: WriteSchema = decode_nested(answer)
    assert found.blob_ids == {"b": 77}


def test_blob_references_are_sent_as_bytes_and_read_as_text(
    odps: Connection, writer: Writer
) -> None:
    """evidence 125, 126: comment in storage_api_v2/tests/test_blob.py; Java SDK manual."""
    (text,) = stored(odps, writer, (b"data", header()))
    assert BlobReference.from_text(text).token == text
    body, coding = fetch(odps, [text])
    assert (bare(body), coding) == (b"data", None)


@pytest.mark.parametrize("data", [b"data", b"", FRAME_LIKE, NUMPY], ids=repr)
def test_a_single_reference_returns_the_unframed_blob(
    odps: Connection, writer: Writer, data: bytes
) -> None:
    """evidence 127: test_single_blob_download and the header comment of test_e2e_blob.py."""
    (text,) = stored(odps, writer, (data, header()))
    assert bare(fetch(odps, [text])[0]) == data
    assert odps.blob(text).bytes() == data


def test_several_references_give_frames_in_their_order(odps: Connection, writer: Writer) -> None:
    """evidence 128, 129, 131: test_e2e_blob.py; types and names come in frames only."""
    texts = stored(
        odps,
        writer,
        (FRAME_LIKE, header(content_type="image/png", custom_file_name="a.png")),
        (NUMPY, header()),
        (b"", header(content_type="text/plain")),
    )
    asked = [texts[2], texts[0], texts[1], texts[0]]
    body, _ = fetch(odps, asked)
    decoder = BlobBodyDecoder(None, len(asked))
    events = [*decoder.feed(body), *decoder.feed_eof()]
    starts = [event for event in events if isinstance(event, BlobStart)]
    assert [one.content_type for one in starts] == ["text/plain", "image/png", None, "image/png"]
    assert [one.custom_file_name for one in starts] == [None, "a.png", None, "a.png"]
    assert b"".join(bytes(e.data) for e in events if isinstance(e, BlobData)) == (
        FRAME_LIKE + NUMPY + FRAME_LIKE
    )
    ours = list(odps.blobs(asked).fetch())
    assert [one.data for one in ours] == [b"", FRAME_LIKE, NUMPY, FRAME_LIKE]


def test_a_single_upload_sends_neither_type_nor_name(odps: Connection, writer: Writer) -> None:
    """evidence 129: asserts of test_e2e_blob.py."""
    session = writer.begin("pt=x")
    writer.stream(session)
    (one,) = writer.blob(session, b"one", 2, "pt=x").references
    (other,) = writer.blob(session, b"other", 2).references
    writer.send(session, pa.table({"a": [1, 2], "b": pa.array([one.raw, other.raw])}))
    writer.close(session)
    writer.commit(session)
    found = list(odps.blobs(odps.table(writer.table).read(["b"]).to_arrow()["b"]).fetch())
    assert [(r.data, r.mime_type, r.custom_file_name) for r in found] == [
        (b"one", None, None),
        (b"other", None, None),
    ]


@pytest.mark.parametrize("count", [1, 2])
def test_an_uncompressed_response_can_be_requested(
    odps: Connection, writer: Writer, count: int
) -> None:
    """evidence 130: test_e2e_blob.py, compression raw."""
    data = b"text " * 1000
    texts = stored(odps, writer, *[(data, header(content_type="text/plain"))] * count)
    body, coding = fetch(odps, texts)
    assert coding is None
    assert bare(body).count(data) == count


def test_blob_references_from_a_query_are_valid(odps: Connection, writer: Writer) -> None:
    """evidence 132: test_delta_blob_record_writer reads blobs by the references of a SELECT."""
    stored(odps, writer, (b"first", header()), (b"second", header()))
    result = odps.sql(f"select b from {writer.table.table} where a = 1").to_arrow()
    assert [one.data for one in odps.blobs(result["b"]).fetch()] == [b"second"]


def test_a_blob_upload_may_omit_the_partition_of_its_session(writer: Writer) -> None:
    """evidence 133: test_blob.py sends PartitionValues empty; the client sends it anyway."""
    session = writer.begin("pt=x")
    for partition in ("", "pt=x"):
        assert len(writer.blob(session, b"data", 2, partition).references) == 1
    request = calls.WriteBlob(
        table=writer.table,
        session_id=session,
        stream_id="0",
        stream_version=1,
        column_id=2,
        partition=PartitionSpec.of("pt=x"),
    )
    assert ("PartitionValues", "pt=x") in request.encode().params


def test_blobs_may_be_null_and_frames_can_lack_a_partition(
    odps: Connection, writer: Writer
) -> None:
    """evidence 134: test_e2e_blob.py; pyodps sends empty partition values in frames."""
    session = writer.begin("pt=x")
    writer.stream(session)
    frames = encode_frame(b"data", header(partition_values=()))
    (reference,) = writer.blob_frames(session, frames).references
    cells = pa.array([reference.raw, None], pa.binary())
    writer.send(session, pa.table({"a": [1, 2], "b": cells}))
    writer.close(session)
    writer.commit(session)
    found = odps.table(writer.table).read(["a", "b"]).to_arrow().sort_by("a")
    assert [cell is None for cell in found["b"].to_pylist()] == [False, True]


def test_a_file_is_written_as_a_blob_of_its_type(
    odps: Connection, writer: Writer, tmp_path: Path
) -> None:
    """evidence 129, 131: uploads by ``Table.write`` keep MIME type and file name."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    frame = pd.DataFrame({"a": [1, 2], "b": [tmp_path / "a.png", b"bytes"]})
    odps.table(writer.table).write(frame, partition="pt=y")
    first, second = odps.blobs(odps.table(writer.table).read(["b"]).to_arrow()["b"]).fetch()
    assert (first.mime_type, first.custom_file_name) == ("image/png", "a.png")
    assert second.data == b"bytes"
