"""Decodes any Storage API request into its request value (the server's entry)."""

from __future__ import annotations

from odps_nb.terms import WriteMode
from odps_nb.wire.calls.blob import ReadBlobs, WriteBlob, WriteBlobBatch
from odps_nb.wire.calls.block import CommitBlocks, CreateBlockSession, GetBlockSession, WriteBlock
from odps_nb.wire.calls.core import Params, WireRequest
from odps_nb.wire.calls.instance import (
    CreateInstanceReadSession,
    GetInstanceReadSession,
    ReadInstance,
)
from odps_nb.wire.calls.read import CreateReadSession, GetReadSession, Preview, ReadRows
from odps_nb.wire.calls.write import (
    AbortWriteSession,
    CloseWriteStream,
    CommitWriteSession,
    CreateWriteSession,
    CreateWriteStream,
    GetWriteSchema,
    GetWriteSession,
    GetWriteStream,
    WriteRows,
)
from odps_nb.wire.json_fields import in_request

StorageRequest = (
    CreateReadSession
    | GetReadSession
    | ReadRows
    | Preview
    | CreateWriteSession
    | GetWriteSession
    | CommitWriteSession
    | AbortWriteSession
    | GetWriteSchema
    | CreateWriteStream
    | GetWriteStream
    | CloseWriteStream
    | WriteRows
    | WriteBlob
    | WriteBlobBatch
    | ReadBlobs
    | CreateInstanceReadSession
    | GetInstanceReadSession
    | ReadInstance
    | CreateBlockSession
    | GetBlockSession
    | WriteBlock
    | CommitBlocks
)
REQUESTS: tuple[type[StorageRequest], ...] = StorageRequest.__args__

_BLOCK = (CreateBlockSession, GetBlockSession, WriteBlock, CommitBlocks)
_BY_BLOCK_ACTION: dict[str, type[StorageRequest]] = {kind.ACTION: kind for kind in _BLOCK}
_BY_ACTION: dict[str, type[StorageRequest]] = {
    kind.ACTION: kind for kind in REQUESTS if kind not in _BLOCK and kind is not WriteBlobBatch
}


def decode_request(wire: WireRequest) -> StorageRequest:
    """Return the request value of a Storage API request.

    The method is ignored, since clients differ in it (``docs/protocol.md`` section 1.1), and so is
    the path, by which the request was routed here.

    Raises `InvalidRequestError`: unknown action, bad target, bad parameter or body; ``status`` and
    ``code`` are those to answer with.
    """
    params = Params(wire)
    action = params.text("Action")
    kind = _BY_ACTION.get(action)
    if params.optional("WriteMode") == WriteMode.BATCH_COMPATIBLE.value:
        kind = _BY_BLOCK_ACTION.get(action, kind)
    elif kind is WriteBlob and params.optional("Mode") == "Batch":
        kind = WriteBlobBatch
    if kind is None:
        raise in_request(f"Action {action[:40]!r} is unknown")
    return kind.decode(wire)
