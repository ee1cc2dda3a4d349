"""Text that is not UTF-8 as Arrow strings, and a way to store it without `Table.write`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from odps_nb import Connection
from odps_nb.arrow.text import as_bytes
from odps_nb.client.write.session import open_write_session
from odps_nb.terms import PartitionSpec


def text_of(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Return bytes as an Arrow string, or as a nested or dictionary type of strings."""
    kind = kind or pa.string()
    if pa.types.is_dictionary(kind):
        words = pa.array(values, as_bytes(kind.value_type)).dictionary_encode()
        indices = words.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, words.dictionary).view(kind)
    return pa.array(values, as_bytes(kind)).view(kind)


def send(odps: Connection, name: str, columns: dict[str, pa.Array]) -> None:
    """Write columns into a table without checks, one partition after another.

    Over the tunnel, one write to several partitions would run SQL, and the embedded SQL does not
    accept this text.
    """
    table = odps.table(name)
    keys = [column.name for column in table.schema.partition_columns]
    batch = pa.record_batch(columns)
    groups = pa.Table.from_batches([batch]).select(keys).group_by(keys).aggregate([]).to_pylist()
    for values in groups if keys else [{}]:
        chosen = [row == values for row in batch.select(keys).to_pylist()] if keys else None
        rows = batch if chosen is None else batch.filter(pa.array(chosen))
        rows = rows.select([one for one in rows.schema.names if one not in keys])
        spec = PartitionSpec(tuple((key, str(value)) for key, value in values.items()))
        with open_write_session(odps._storage, table.name, partition=spec) as session:
            with session.open_stream() as stream:
                stream.write([rows])
            session.commit()


def replaced(value: Any) -> Any:
    """Decode bytes at any depth with Python's ``errors="replace"``."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return type(value)(map(replaced, value))
    if isinstance(value, dict):
        return {key: replaced(one) for key, one in value.items()}
    return value
