"""Arrow's extension type of a column of blob references: text with a name.

A Parquet file keeps the name, so that a column which pandas wrote comes back as one of blobs;
whoever does not know it sees text.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

TEXT = pa.string()
_NAME = "odps.blob"


def is_reference(arrow: pa.DataType) -> bool:
    """Whether the values are references of blobs, and say so."""
    return isinstance(arrow, pa.BaseExtensionType) and arrow.extension_name == _NAME


class ArrowBlob(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """The type of references; its storage is text, in any of Arrow's layouts."""

    def __init__(self, storage: pa.DataType = TEXT) -> None:
        super().__init__(storage, _NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        """Return no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> ArrowBlob:
        """Return the type; polars has another layout of text."""
        return cls(storage_type)

    def to_pandas_dtype(self) -> Any:
        """Return the dtype of such a column."""
        from odps_nb.convert.blob_columns.blob_array import BlobDtype

        return BlobDtype()


pa.register_extension_type(ArrowBlob())
