"""Sample tables as values: a schema, and rows that are generated on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBlob:
    """The content of one BLOB cell, with its media type and file name."""

    data: bytes = field(repr=False)
    mime_type: str = ""
    file_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBatch:
    """Rows of one partition, in which each BLOB is null.

    ``blobs`` has the Python values of the columns that hold BLOBs, with a `SampleBlob` or ``None``
    in the place of each reference.
    """

    batch: pa.RecordBatch
    partition: PartitionSpec = field(default_factory=PartitionSpec)
    blobs: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def with_references(self, store: Callable[[SampleBlob], bytes]) -> pa.RecordBatch:
        """Return the batch with the bytes that ``store`` returns for each blob, row by row."""
        columns = list(self.batch.columns)
        for name, values in self.blobs.items():
            index = self.batch.schema.get_field_index(name)
            stored = [_with_references(value, store) for value in values]
            columns[index] = pa.array(stored, self.batch.schema.field(index).type)
        return pa.RecordBatch.from_arrays(columns, schema=self.batch.schema)


def _with_references(value: Any, store: Callable[[SampleBlob], bytes]) -> Any:
    if isinstance(value, SampleBlob):
        return store(value)
    if isinstance(value, list):
        return [_with_references(item, store) for item in value]
    if isinstance(value, dict):
        return {key: _with_references(item, store) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample table; ``rows()`` generates the same batches each time, partition by partition."""

    name: str
    schema: TableSchema
    comment: str
    rows: Callable[[], Iterator[SampleBatch]] = field(repr=False)
