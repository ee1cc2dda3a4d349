"""Text that is not UTF-8, as Arrow strings, and a way to store it: `Table.write` rejects it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from odps_nb import Connection
from odps_nb.arrow.text import as_bytes
from odps_nb.client.write.session import open_write_session


def text_of(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Return bytes as an Arrow string, or as a nested or dictionary type of strings."""
    kind = kind or pa.string()
    if pa.types.is_dictionary(kind):
        return pa.array(values, as_bytes(kind.value_type)).dictionary_encode().view(kind)
    return pa.array(values, as_bytes(kind)).view(kind)


def send(odps: Connection, name: str, columns: dict[str, pa.Array]) -> None:
    """Write columns into a table without checks."""
    batch = pa.record_batch(columns)
    with open_write_session(odps._storage, odps.table(name).name) as session:
        with session.open_stream() as stream:
            stream.write([batch])
        session.commit()
