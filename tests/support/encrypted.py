"""Parquet with an encrypted column, as written by pyarrow."""

from __future__ import annotations

import base64
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe


class _Keys(pe.KmsClient):
    """Wraps keys in base64, because no test reads the encrypted data."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
        return base64.b64decode(wrapped)


def encrypted_parquet(*, plaintext_footer: bool) -> bytes:
    """Return a file with two columns, of which ``secret`` is encrypted."""
    rows = pa.table({"id": [1, 2, 3], "secret": ["a", "b", "c"]})
    asked = pe.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["secret"]}, plaintext_footer=plaintext_footer
    )
    factory = pe.CryptoFactory(_Keys)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), asked)
    out = io.BytesIO()
    with pq.ParquetWriter(out, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    return out.getvalue()
