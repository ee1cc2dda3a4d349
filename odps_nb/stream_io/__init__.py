"""The stream classes of the vendor's SDK, with verified reads and typed errors.

Names and methods are the SDK's (``read``, ``write``, ``finish``, ``next``, ``get_status``,
``get_request_id``); failures are always typed errors, never ``None`` or ``False``.
``docs/coming-from-pyodps.md`` lists what is the same and what differs. All of them are context
managers; ``close`` is idempotent, and use after it raises `odps_nb.errors.StateError`.

============================  ====================================================
`StreamReader`                the body of a response, file-like
`ArrowReader`                 its record batches, up to the verified end
`BlobDataIterator`            the blobs of a body as records
`BlobStreamReader`            the same, streamed
`CrcStrippingStream`          the payload of CRC32C blocks, verified
`StreamWriter`                the body of a table write
`ArrowWriter`                 record batches in that body
`BlobStreamWriter`            the body of one blob's upload
============================  ====================================================
"""

from odps_nb.stream_io.blobs import BlobDataIterator, BlobStreamReader
from odps_nb.stream_io.payload import CrcStrippingStream
from odps_nb.stream_io.reader import Status, StreamReader
from odps_nb.stream_io.rows import ArrowReader, ArrowWriter
from odps_nb.stream_io.writers import (
    BlobStreamWriter,
    StreamWriter,
    WriteBlobResult,
    WriteResult,
)
from odps_nb.terms import Compression
from odps_nb.wire.frames import BlobRecord

__all__ = [
    "ArrowReader",
    "ArrowWriter",
    "BlobDataIterator",
    "BlobRecord",
    "BlobStreamReader",
    "BlobStreamWriter",
    "Compression",
    "CrcStrippingStream",
    "Status",
    "StreamReader",
    "StreamWriter",
    "WriteBlobResult",
    "WriteResult",
]
