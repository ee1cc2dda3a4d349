"""The rows of a table as a query process is told of them: a schema and the names of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Visible rows of a table: Parquet files, each with what holds for all of its rows.

    A condition is a `pyarrow.compute.Expression` about partition columns, or ``None``. With
    ``mixed`` some TIMESTAMPs need nanoseconds and others microseconds.
    """

    schema: pa.Schema
    files: tuple[tuple[str, Any], ...]
    mixed: bool = False

    @property
    def unread(self) -> dict[str, str]:
        """Columns that DuckDB has no type for, and why."""
        found = {one.name: _WIDE for one in self.schema if _any(pt.is_decimal256, one.type)}
        if self.mixed:
            found |= {one.name: _MIXED for one in self.schema if _any(_is_fine, one.type)}
        return found

    def open(self) -> Any:
        """Return what DuckDB can scan: a dataset of the files, or an empty table.

        Columns that are `unread` are left out.
        """
        import pyarrow.dataset as ds  # it imports pandas, which the service does without
        from pyarrow import fs

        schema = pa.schema([field for field in self.schema if field.name not in self.unread])
        if not self.files:
            return schema.empty_table()
        parquet, here = ds.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            parquet.make_fragment(path, here, partition_expression=condition)
            for path, condition in self.files
        ]
        return ds.FileSystemDataset(fragments, schema, parquet, here)


_WIDE = "SQL of the embedded service works with DECIMAL of 38 digits at most; read the table"
_MIXED = (
    "a column has TIMESTAMPs out of the range of nanoseconds and others with digits below a"
    " microsecond, which SQL of the embedded service does not read; read the table with"
    " timestamp_unit=us"
)


def _is_fine(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) and kind.unit in ("us", "ns")


def _any(test: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    """Return whether a type or one inside of it passes a test."""
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return test(kind) or any(_any(test, one) for one in inner)
