"""Dataclasses for Storage API requests and responses: one pair per action.

Only this package knows the wire format of calls (``docs/protocol.md`` sections 1, 3, 6.1, 8.1). The
client calls ``request.encode()``, which returns a `WireRequest`. The embedded service calls
`decode_request`, which returns the request. Both use the same definition of the format.
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
    """Decode a Storage API request.

    The HTTP method is ignored because clients use different methods (``docs/protocol.md`` section
    1.1). The path is ignored because routing has already used it.

    Raises `InvalidRequestError` for an unknown action or an invalid target, parameter or body; its
    ``status`` and ``code`` are those of the response to send.
    """
    params = Params(wire)
    action = params.text("Action")
    kind = _BY_ACTION.get(action)
    if kind is WriteBlob and params.optional("Mode") == "Batch":
        kind = WriteBlobBatch
    if kind is None:
        raise in_request(f"Action {action[:40]!r} is unknown")
    return kind.decode(wire)
