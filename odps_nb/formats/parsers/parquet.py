"""Parquet: column names, types and first rows; see `odps_nb.formats.parsers.arrow`."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from odps_nb.convert.unreadable import check_encryption
from odps_nb.formats.parsers.arrow import empty_batch, first_rows
from odps_nb.formats.shared import Size
from odps_nb.terms import count_of


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        names = file.schema_arrow.names
        count = count_of(file.metadata.num_rows, "row")
        if not file.metadata.num_row_groups:
            return empty_batch(file.schema_arrow), count
        check_encryption(data, file.metadata)
        batches = file.iter_batches(
            batch_size=size.rows, row_groups=[0], columns=names, use_threads=False
        )
        return next(batches, None) or empty_batch(file.schema_arrow), count


parse = partial(first_rows, _read)
