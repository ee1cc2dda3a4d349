"""Rejects files that would make pyarrow crash the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.errors import ConversionError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

_SIGNATURE = 28  # bytes of a footer's nonce and authentication tag


def check_encryption(data: bytes, metadata: FileMetaData) -> None:
    """Raise for Parquet files with encrypted columns but a plaintext footer.

    Such a footer has a signature after its metadata (Parquet's encryption format, 5.5). Inspecting
    an encrypted column with pyarrow crashes the process.
    """
    footer = int.from_bytes(data[-8:-4], "little")
    if footer == metadata.serialized_size + _SIGNATURE:
        raise ConversionError(
            "its columns are encrypted, and reading them requires their keys",
            source_type="encrypted Parquet",
            target_type="table",
            hint="read blob.open(seek=True) with pyarrow.parquet.ParquetFile and its"
            " decryption_properties=",
        )


def check_unions(schema: pa.Schema) -> None:
    """Raise for unions whose type codes are not 0, 1, 2, …."""
    types = list(schema.types)
    while types:
        kind = types.pop()
        types += [kind.field(at).type for at in range(kind.num_fields)]
        if pa.types.is_dictionary(kind):
            types.append(kind.value_type)
        if pa.types.is_union(kind) and kind.type_codes != list(range(kind.num_fields)):
            raise ConversionError(
                "the table contains a union with custom type codes, which pyarrow cannot read",
                source_type=str(kind)[:200],
                target_type="table",
                hint="save it again with the type codes 0, 1, 2, …",
            )
