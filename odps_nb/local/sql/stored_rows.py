"""The rows of a table as a query process is told of them: a schema and the names of files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

__all__ = ["StoredRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Visible rows of a table: Parquet files, each with what holds for all of its rows.

    A condition is a `pyarrow.compute.Expression` about partition columns, or ``None``.
    """

    schema: pa.Schema
    files: tuple[tuple[str, Any], ...]

    @property
    def wide(self) -> list[str]:
        """Names of columns that DuckDB has no type for: DECIMAL of more than 38 digits."""
        return [field.name for field in self.schema if _is_wide(field.type)]

    def open(self) -> Any:
        """Return what DuckDB can scan: a dataset of the files, or an empty table.

        Columns that are `wide` are left out.
        """
        import pyarrow.dataset as ds  # it imports pandas, which the service does without
        from pyarrow import fs

        schema = pa.schema([field for field in self.schema if field.name not in self.wide])
        if not self.files:
            return schema.empty_table()
        parquet, here = ds.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            parquet.make_fragment(path, here, partition_expression=condition)
            for path, condition in self.files
        ]
        return ds.FileSystemDataset(fragments, schema, parquet, here)


def _is_wide(kind: pa.DataType) -> bool:
    inner = [kind.field(number).type for number in range(kind.num_fields)]
    return pa.types.is_decimal256(kind) or any(map(_is_wide, inner))
