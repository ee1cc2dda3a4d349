"""Questions about ``BlobRead``."""

from __future__ import annotations

import pyarrow as pa

from odps_nb.probe.asking import Answer, Asker
from odps_nb.probe.question import CannotTell, Observation, OneOf, Question
from odps_nb.probe.steps import (
    STREAM,
    WRITES,
    close_stream,
    commit,
    new_stream,
    open_write,
    put,
    read_all,
)
from odps_nb.terms import BlobReference, TableName
from odps_nb.wire.calls import BLOB_TARGET
from odps_nb.wire.layers import has_own_checksum
from odps_nb.wire.schema_json import decode_nested

CONTENT = b"odps-nb probe " * 20
MANY = 1001


def _upload(
    asker: Asker, table: TableName, session: str, column: int, partition: str = ""
) -> Answer:
    params = {
        "SessionId": session,
        "StreamId": STREAM,
        "StreamVersion": 1,
        "PartitionValues": partition,
        "ColumnIndex": column,
    }
    return asker.send("TableWriteBlob", table, params, data=CONTENT)


def _stream(asker: Asker, table: TableName) -> tuple[str, int]:
    """Open a session and a stream; return its id and that of the BLOB column."""
    session = open_write(asker, table)
    schema = new_stream(asker, table, session).need().members.get("TableSchema") or {}
    return session, decode_nested(schema).blob_ids["b"]


def _reference(asker: Asker) -> str:
    """Write one row with one blob; return its reference as read back: eight requests."""
    table = asker.tables["blobs"]
    session, column = _stream(asker, table)
    uploaded = _upload(asker, table, session, column).need().members.get("BlobReference")
    found = BlobReference.from_text(str(uploaded))
    row = pa.table({"c1": pa.array([1], pa.int64()), "b": pa.array([found.raw], pa.binary())})
    put(asker, table, session, row).need()
    close_stream(asker, table, session).need()
    commit(asker, table, session, {STREAM: 1}).need()
    cells = read_all(asker, table)["b"].to_pylist()
    if not cells or not cells[0]:
        raise CannotTell("the row has no reference")
    text = cells[0].decode() if isinstance(cells[0], bytes) else str(cells[0])
    asker.redactor.number(text, "reference")
    return text


def _read(asker: Asker, references: list[str], coding: str = "") -> Answer:
    headers = {"Accept-Encoding": coding or None}
    body = {"BlobReferences": references}
    return asker.send("BlobRead", BLOB_TARGET, body=body, headers=headers, kind="data")


def _frames(asker: Asker) -> Observation:
    reference = _reference(asker)
    one, two = (_read(asker, [reference] * number).need().data for number in (1, 2))
    return {
        "one": "raw" if one.startswith(CONTENT) else "framed",
        "two": "raw" if two.startswith(CONTENT) else "framed",
    }


def _compression(asker: Asker) -> Observation:
    reference, seen = _reference(asker), {}
    for coding in ("zstd", "x-lz4-frame"):
        answer = _read(asker, [reference], coding).need()
        if answer.data.startswith(CONTENT):
            seen[coding] = "none"
        else:  # one block: its last four bytes are its checksum, if it is outermost
            outside = has_own_checksum(answer.data)
            seen[coding] = "checksums outside" if outside else "compression outside"
    return dict(seen)


def _many(asker: Asker) -> Observation:
    answer = _read(asker, [_reference(asker)] * MANY)
    # blocks with checksums add bytes: the size shows it
    return {**answer.outcome(), "whole": len(answer.data) >= MANY * len(CONTENT)}


def _partition_values(asker: Asker) -> Observation:
    table, seen = asker.tables["blob_parts"], {}
    session, column = _stream(asker, table)
    for name, sign in (("comma", ","), ("slash", "/")):
        answer = _upload(asker, table, session, column, f"p1=x{sign}p2=y")
        seen[name] = "refused" if answer.is_refusal else "taken"
    return dict(seen)


_ORDERS = OneOf(("none", "checksums outside", "compression outside"))

QUESTIONS = (
    Question(
        id="blob-frames",
        sends=f"{WRITES}, TableWriteBlob, TableCreateReadSession, TableRead, BlobRead",
        text="Is one blob sent raw, and are two sent in frames?",
        assumes="They are, which the number of references alone tells.",
        ask=_frames,
        expected={"one": "raw", "two": "framed"},
        needs=("blobs",),
        requests=14,
    ),
    Question(
        id="blob-compression",
        sends=f"{WRITES}, TableWriteBlob, TableCreateReadSession, TableRead, BlobRead",
        text="What is outermost in a BlobRead with a compression: blocks with CRC, or it?",
        assumes="It is told by the checksums; both orders are read.",
        ask=_compression,
        expected={"zstd": _ORDERS, "x-lz4-frame": _ORDERS},
        needs=("blobs",),
        requests=14,
    ),
    Question(
        id="blob-references",
        sends=f"{WRITES}, TableWriteBlob, TableCreateReadSession, TableRead, BlobRead",
        text=f"Does one BlobRead take {MANY} references?",
        assumes="It does, and gives a blob for each.",
        ask=_many,
        expected={"refused": False, "whole": True},
        needs=("blobs",),
        requests=14,
    ),
    Question(
        id="blob-partition-values",
        text="Which sign separates levels in the PartitionValues of a single blob?",
        assumes="The comma, as pyodps sends it; the embedded service takes the slash, too.",
        ask=_partition_values,
        sends="TableCreateWriteSession, TableCreateWriteStream, TableWriteBlob",
        expected={"comma": "taken"},
        needs=("blob_parts",),
    ),
)
