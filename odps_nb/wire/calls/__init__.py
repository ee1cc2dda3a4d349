"""Requests and answers of the Storage API as values: one pair per action.

The only place that knows the wire format of calls (``docs/protocol.md`` sections 1, 3, 6.1, 8.1).
``request.encode()`` returns a `WireRequest`; `decode_request` turns it back into the request: the
client uses the one, the embedded service the other, so both share one format.
"""

# ruff: noqa: F401
# mypy: implicit-reexport

from odps_nb.wire.calls.answers import EmptyAnswer
from odps_nb.wire.calls.blob import (
    BLOB_TARGET,
    ReadBlobs,
    WriteBlob,
    WriteBlobAnswer,
    WriteBlobBatch,
)
from odps_nb.wire.calls.core import (
    HTTP_CODINGS,
    REQUEST_ID,
    ROUTE_TOKEN,
    STREAM_TYPE,
    Call,
    Params,
    Scope,
    StreamingCall,
    WireRequest,
    decode_partition,
    find_header,
)
from odps_nb.wire.calls.errors import (
    STATUS_OF_CODE,
    decode_error,
    encode_error_json,
    encode_error_xml,
)
from odps_nb.wire.calls.instance import (
    LIMITED_RESULT_ROWS,
    CreateInstanceReadSession,
    GetInstanceReadSession,
    InstanceSessionAnswer,
    ReadInstance,
)
from odps_nb.wire.calls.read import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    MIN_BATCH_BYTES,
    CreateReadSession,
    GetReadSession,
    Preview,
    ReadRows,
    ReadSessionAnswer,
)
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
    WriteRowsAnswer,
    WriteSchemaAnswer,
    WriteSessionAnswer,
    WriteSessionStateAnswer,
    WriteStreamAnswer,
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
)
REQUESTS: tuple[type[StorageRequest], ...] = StorageRequest.__args__

_BY_ACTION: dict[str, type[StorageRequest]] = {
    kind.ACTION: kind for kind in REQUESTS if kind is not WriteBlobBatch
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
    if kind is WriteBlob and params.optional("Mode") == "Batch":
        kind = WriteBlobBatch
    if kind is None:
        raise in_request(f"Action {action[:40]!r} is unknown")
    return kind.decode(wire)
