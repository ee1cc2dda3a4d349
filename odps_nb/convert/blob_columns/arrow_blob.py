"""Arrow extension type for columns of blob references, stored as text.

A Parquet file keeps the extension name, so a column written by pandas is read back as blobs. Other
libraries see a text column.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

TEXT = pa.string()
_NAME = "odps.blob"


def is_reference(arrow: pa.DataType) -> bool:
    """Whether the type is the extension type of blob references."""
    return isinstance(arrow, pa.BaseExtensionType) and arrow.extension_name == _NAME


class ArrowBlob(pa.ExtensionType):  # type: ignore[misc]  # pyarrow is untyped
    """The type of blob references, stored as text in any of Arrow's layouts."""

    def __init__(self, storage: pa.DataType = TEXT) -> None:
        super().__init__(storage, _NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        """Return empty metadata: the type has no parameters."""
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> ArrowBlob:
        """Return the type with this storage type; polars stores text in another layout."""
        return cls(storage_type)

    def to_pandas_dtype(self) -> Any:
        """Return the pandas dtype of a column of this type."""
        from odps_nb.convert.blob_columns.blob_array import BlobDtype

        return BlobDtype()


pa.register_extension_type(ArrowBlob())
