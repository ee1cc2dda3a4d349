"""Questions about write sessions, streams and blobs."""

from __future__ import annotations

import datetime

import pyarrow as pa

from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import CannotTell, Observation, Questions
from odps_nb.probe.scratch import numbers
from odps_nb.probe.steps import STREAM, ProbeUpload, count, load, read_all, written
from odps_nb.terms import BlobReference
from odps_nb.wire.calls import BLOB_TARGET
from odps_nb.wire.schema_json import decode_nested

QUESTIONS = Questions()
asks = QUESTIONS.asks


def _rows(number: int = 1) -> pa.Table:
    return pa.table({"c1": numbers(number), "c2": ["t"] * number})


@asks("Can a session be committed twice?", {"rows_added": 1}, "into")
def _commit_twice(asker: Asker) -> Observation:
    before, upload = count(asker, "into"), written(asker, "into", _rows())
    upload.commit(STREAM).need()
    again = upload.commit(STREAM)
    state = upload.send("TableGetWriteSession")
    return {
        "rows_added": count(asker, "into") - before,
        "second": again.word,
        "code": again.code,
        "state": "refused" if state.is_refusal else state.members.get("SessionStatus"),
    }


@asks("What does an abort after the commit do?", {"rows_added": 1, "refused": True}, "into")
def _abort_after_commit(asker: Asker) -> Observation:
    before, upload = count(asker, "into"), written(asker, "into", _rows())
    upload.commit(STREAM).need()
    late = upload.send("TableAbortWriteSession")
    return {"rows_added": count(asker, "into") - before, **late.outcome()}


def _open_stream(asker: Asker, *streams: str) -> Observation:
    """Commit a session with a closed stream (1 row) and an open one (2 rows)."""
    before, upload = count(asker, "into"), written(asker, "into", _rows())
    upload.open("s1").need()
    upload.put(_rows(2), stream="s1").need()
    listed = upload.send("TableGetWriteSession").need().members.get("Streams") or {}
    outcome = upload.commit(*streams).outcome()
    return {
        "listed": sorted(listed),
        **outcome,
        "rows_added": count(asker, "into") - before,
    }


asks(
    "Does a commit without stream ids include open streams?",
    {"listed": [STREAM], "refused": False, "rows_added": 1},
    "into",
    id="commit-open-streams",
)(_open_stream)
asks("Can an open stream be committed?", {"rows_added": (0, 1, 3)}, "into", id="commit-named-open")(
    lambda asker: _open_stream(asker, STREAM, "s1")
)


@asks(
    "Are columns of a body matched by name or position, and can some be missing?",
    {"too_few": "refused", "too_many": "refused"},
    "into",
)
def _columns_matching(asker: Asker) -> Observation:
    plain = _rows()
    shapes = {
        "other_order": plain.select(["c2", "c1"]),
        "other_names": plain.rename_columns(["x", "y"]),
        "too_few": plain.select(["c1"]),
        "too_many": plain.append_column("c3", pa.array(["t"])),
    }
    seen: Observation = {}
    for name, rows in shapes.items():
        upload = ProbeUpload(asker, "into")
        upload.open().need()
        seen[name] = upload.put(rows).word
    return seen


@asks(
    "Does an overwrite keep partitions that receive no rows?",
    {"rows_of_x": 1, "rows_of_y": 2},
    "into_parts",
)
def _overwrite_partitions(asker: Asker) -> Observation:
    for parts, flags in (["x", "y", "y"], {}), (["x"], {"overwrite": "true"}):
        rows = pa.table({"c1": numbers(len(parts)), "p": parts})
        load(asker, "into_parts", rows, **flags)
    return {
        f"rows_of_{part}": count(asker, "into_parts", RequiredPartitions=[f"p={part}"])
        for part in "xy"
    }


@asks(
    "How does a stream with ExactlyOnceMode handle repeated offsets and gaps?",
    {"first": "taken", "gap": "refused", "next": "taken", "rows_added": 2},
    "into",
)
def _exactly_once(asker: Asker) -> Observation:
    before, upload = count(asker, "into"), ProbeUpload(asker, "into")
    token = upload.open(ExactlyOnceMode=True).need().members.get("AccessToken") or None
    seen: Observation = {"token": token is not None}
    for name, offset in (("first", 0), ("again", 0), ("gap", 5), ("next", 1)):
        seen[name] = upload.put(_rows(), token=token, offset=offset).word
    upload.finish()
    return {**seen, "rows_added": count(asker, "into") - before}


@asks(
    "Can another process take over a stream with TableGetWriteStream?",
    {"refused": False, "offset": 1, "old_token": "refused", "new_token": "taken"},
    "into",
)
def _stream_takeover(asker: Asker) -> Observation:
    upload = ProbeUpload(asker, "into")
    old = upload.open(ExactlyOnceMode=True).need().members.get("AccessToken") or None
    upload.put(_rows(), token=old, offset=0).need()
    stream = {"StreamId": STREAM, "StreamVersion": 1, "ExactlyOnceMode": True}
    takeover = upload.send("TableGetWriteStream", {**stream, "ExactlyOnceMode": "true"}, stream)
    if takeover.is_refusal:
        return takeover.outcome()
    new = takeover.members.get("AccessToken") or None
    return {
        "refused": False,
        "offset": takeover.members.get("RowOffset"),
        "old_token": upload.put(_rows(), token=old, offset=1).word,
        "new_token": upload.put(_rows(), token=new, offset=1).word,
    }


@asks("How are TIMESTAMPs in microseconds stored?", {"refused": False, "micro": True}, "typed")
def _write_microseconds(asker: Asker) -> Observation:
    moment = datetime.datetime(9000, 1, 2, 3, 4, 5, 678_000)
    day = pa.array([datetime.date(2024, 1, 2)], pa.date32())
    time = pa.array([moment], pa.timestamp("us"))
    upload = ProbeUpload(asker, "typed")
    upload.open().need()
    response = upload.put(pa.table({"c1": numbers(), "d": day, "ts": time, "s": ["'"]}))
    if response.is_refusal:
        return response.outcome()
    upload.finish()
    seen: Observation = {"refused": False}
    for unit in ("micro", "milli"):
        options = {"TimestampUnit": unit, "DatetimeUnit": "milli"}
        seen[unit] = read_all(asker, "typed", ArrowOptions=options)["ts"].to_pylist() == [moment]
    return seen


@asks(
    "Which columns does a stream of an AUTO PARTITIONED table have?",
    {"columns": (["c1", "d"], ["c1", "d", "pt"])},
    "auto",
)
def _auto_partitions(asker: Asker) -> Observation:
    return {"columns": sorted(ProbeUpload(asker, "auto").schema().column_ids)}


# -- blobs -------------------------------------------------------------------------------------

CONTENT = b"odps-nb probe " * 20
MANY = 1001


def _blob_stream(asker: Asker, table: str) -> tuple[ProbeUpload, int]:
    """Open a session and a stream; return the upload and the BLOB column's id."""
    upload = ProbeUpload(asker, table)
    schema = upload.open().need().members.get("TableSchema") or {}
    return upload, decode_nested(schema).blob_ids["b"]


def _send_blob(upload: ProbeUpload, column: int, partition: str = "") -> Response:
    params = {"StreamId": STREAM, "StreamVersion": 1}
    params |= {"PartitionValues": partition, "ColumnIndex": column}
    return upload.send("TableWriteBlob", params, data=CONTENT)


def _reference(asker: Asker) -> str:
    """Write a row with a blob; return the blob's reference as read back. Sends eight requests."""
    upload, column = _blob_stream(asker, "blobs")
    uploaded = _send_blob(upload, column).need().members.get("BlobReference")
    reference = BlobReference.from_text(str(uploaded))
    upload.put(pa.table({"c1": numbers(), "b": pa.array([reference.raw], pa.binary())})).need()
    upload.finish()
    cells = read_all(asker, "blobs")["b"].to_pylist()
    if not cells or not cells[0]:
        raise CannotTell("the row read back has no blob reference")
    text = cells[0].decode() if isinstance(cells[0], bytes) else str(cells[0])
    asker.redactor.number(text, "reference")
    return text


@asks(f"Does BlobRead accept {MANY} references?", {"refused": False, "whole": True}, "blobs")
def _blob_references(asker: Asker) -> Observation:
    body = {"BlobReferences": [_reference(asker)] * MANY}
    response = asker.send("BlobRead", BLOB_TARGET, body=body, kind="data")
    # the response also contains block checksums, so it may be longer than the blobs
    return {**response.outcome(), "whole": len(response.data) >= MANY * len(CONTENT)}


@asks("What separates levels in a blob's PartitionValues?", {"comma": "taken"}, "blob_parts")
def _blob_partition_values(asker: Asker) -> Observation:
    upload, column = _blob_stream(asker, "blob_parts")
    signs = {"comma": ",", "slash": "/"}
    return {
        name: _send_blob(upload, column, f"p1=x{sign}p2=y").word for name, sign in signs.items()
    }
