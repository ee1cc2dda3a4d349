"""Questions about blobs: uploads and ``BlobRead``."""

from __future__ import annotations

import pyarrow as pa

from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import CannotTell, Observation, Questions
from odps_nb.probe.scratch import numbers
from odps_nb.probe.steps import STREAM, ProbeUpload, read_all
from odps_nb.terms import BlobReference
from odps_nb.wire.calls import BLOB_TARGET
from odps_nb.wire.schema_json import decode_nested

QUESTIONS = Questions()
asks = QUESTIONS.asks
CONTENT = b"odps-nb probe " * 20
MANY = 1001
_ORDERS = ("none", "checksums outside", "compression outside")


def _stream(asker: Asker, table: str) -> tuple[ProbeUpload, int]:
    """Open a session and a stream; return the id of the BLOB column, too."""
    upload = ProbeUpload(asker, table)
    schema = upload.open().need().members.get("TableSchema") or {}
    return upload, decode_nested(schema).blob_ids["b"]


def _send(upload: ProbeUpload, column: int, partition: str = "") -> Response:
    params = {"StreamId": STREAM, "StreamVersion": 1}
    params |= {"PartitionValues": partition, "ColumnIndex": column}
    return upload.send("TableWriteBlob", params, data=CONTENT)


def _reference(asker: Asker) -> str:
    """Write one row with one blob; return its reference as read back: eight requests."""
    upload, column = _stream(asker, "blobs")
    uploaded = _send(upload, column).need().members.get("BlobReference")
    found = BlobReference.from_text(str(uploaded))
    upload.put(pa.table({"c1": numbers(), "b": pa.array([found.raw], pa.binary())})).need()
    upload.finish()
    cells = read_all(asker, "blobs")["b"].to_pylist()
    if not cells or not cells[0]:
        raise CannotTell("the row has no reference")
    text = cells[0].decode() if isinstance(cells[0], bytes) else str(cells[0])
    asker.redactor.number(text, "reference")
    return text


@asks(f"Does one BlobRead take {MANY} references?", {"refused": False, "whole": True}, "blobs")
def _blob_references(asker: Asker) -> Observation:
    body = {"BlobReferences": [_reference(asker)] * MANY}
    found = asker.send("BlobRead", BLOB_TARGET, body=body, kind="data")
    # blocks with checksums add bytes: the size shows it
    return {**found.outcome(), "whole": len(found.data) >= MANY * len(CONTENT)}


@asks("Which sign separates levels in a blob's PartitionValues?", {"comma": "taken"}, "blob_parts")
def _blob_partition_values(asker: Asker) -> Observation:
    upload, column = _stream(asker, "blob_parts")
    signs = {"comma": ",", "slash": "/"}
    return {name: _send(upload, column, f"p1=x{sign}p2=y").word for name, sign in signs.items()}
