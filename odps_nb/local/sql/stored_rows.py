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

    def open(self) -> Any:
        """Return what DuckDB can scan: a dataset of the files, or an empty table."""
        import pyarrow.dataset as ds  # it imports pandas, which the service does without
        from pyarrow import fs

        if not self.files:
            return self.schema.empty_table()
        parquet, here = ds.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            parquet.make_fragment(path, here, partition_expression=condition)
            for path, condition in self.files
        ]
        return ds.FileSystemDataset(fragments, self.schema, parquet, here)
