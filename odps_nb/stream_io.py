"""The stream classes that people know from the SDK, on our verified core (face)."""

from odps_nb._stream_io.blobs import BlobDataIterator, BlobStreamReader
from odps_nb._stream_io.payload import CrcStrippingStream
from odps_nb.wire.frames import BlobRecord

__all__ = ["BlobDataIterator", "BlobRecord", "BlobStreamReader", "CrcStrippingStream"]
