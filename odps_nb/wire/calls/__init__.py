"""Requests and answers of the Storage API as values: one pair per action.

The only place that knows the wire format of calls (``docs/protocol.md`` sections 1, 3, 6.1, 7.5,
8.1). ``request.encode()`` returns a `WireRequest`; `decode_request` turns it back into the request:
the client uses the one, the embedded service the other, so both share one format.
"""

# ruff: noqa: F401
# mypy: implicit-reexport

from odps_nb.wire.calls.answers import EmptyAnswer, parse_answer
from odps_nb.wire.calls.blob import (
    BLOB_TARGET,
    ReadBlobs,
    WriteBlob,
    WriteBlobAnswer,
    WriteBlobBatch,
)
from odps_nb.wire.calls.block import (
    BlockSessionAnswer,
    CommitBlocks,
    CreateBlockSession,
    GetBlockSession,
    WriteBlock,
    WriteBlockAnswer,
)
from odps_nb.wire.calls.core import (
    ACCESS_TOKEN,
    HTTP_CODINGS,
    JSON_TYPE,
    REQUEST_ID,
    ROUTE_TOKEN,
    STREAM_TYPE,
    Call,
    Scope,
    StreamingCall,
    WireRequest,
    accepted_coding,
    content_coding,
    decode_partition,
    encode_partition,
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
from odps_nb.wire.calls.routing import REQUESTS, StorageRequest, decode_request
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
