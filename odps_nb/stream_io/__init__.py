"""The stream classes of the vendor's SDK, with verified reads.

Names and methods are those of the SDK (``read``, ``write``, ``finish``, ``next``, ``get_status``,
``get_request_id``). Failures raise errors from `odps_nb.errors` instead of returning ``None`` or
``False``. ``docs/coming-from-pyodps.md`` lists the similarities and differences. All classes are
context managers; ``close`` is idempotent, and using a closed object raises
`odps_nb.errors.StateError`.

============================  ====================================================
`StreamReader`                a response body as a file-like object
`ArrowReader`                 the record batches of a body, verified to the end
`BlobDataIterator`            a body's blobs as records
`BlobStreamReader`            a body's blobs as a file-like object
`CrcStrippingStream`          the verified payload of CRC32C blocks
`StreamWriter`                the request body of a table write
`ArrowWriter`                 record batches in that body
`BlobStreamWriter`            the request body of a blob upload
============================  ====================================================
"""

from odps_nb.stream_io.base import Status
from odps_nb.stream_io.blobs import BlobDataIterator, BlobStreamReader
from odps_nb.stream_io.payload import CrcStrippingStream
from odps_nb.stream_io.reader import StreamReader
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
