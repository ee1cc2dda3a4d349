"""Sample tables as values.

A sample has a schema and generates its rows on demand; the service stores them. Blobs are kept
beside the Arrow batch, since only the service can turn them into references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBlob:
    """The content of one BLOB cell, with its media type and file name."""

    data: bytes
    mime_type: str = ""
    file_name: str = ""

    def __repr__(self) -> str:
        return (
            f"SampleBlob({self.file_name!r}, {self.mime_type!r}, <{format_bytes(len(self.data))}>)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBatch:
    """Rows of one partition.

    Attributes
    ----------
    partition
        Where the rows belong; empty for a table without partitions.
    batch
        The data columns in schema order, in the Arrow types of ``docs/protocol.md`` section 5.1.
        Each BLOB is null here.
    blobs
        For each top-level column that holds BLOBs, its name and one value per row: what the row
        is in Python (lists and dicts for nested columns), with a `SampleBlob` or ``None`` where
        the reference belongs.
    """

    partition: PartitionSpec
    batch: pa.RecordBatch
    blobs: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def with_references(self, store: Callable[[SampleBlob], bytes]) -> pa.RecordBatch:
        """Return the batch with each BLOB replaced by the bytes that ``store`` returns for it.

        ``store`` is called once per blob, row by row, in the order of the columns.
        """
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
    """A sample table: name, schema, comment, and ``rows()``, which generates its batches.

    ``rows()`` gives the same rows each time; partitions come in order, each in one run.
    """

    name: str
    schema: TableSchema
    comment: str
    rows: Callable[[], Iterator[SampleBatch]] = field(repr=False)
