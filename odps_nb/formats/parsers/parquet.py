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
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        filled = [number for number, group in enumerate(groups) if group.num_rows][:1]
        if not filled:
            return empty_batch(file.schema_arrow), count
        check_encryption(data, file.metadata)
        batches = file.iter_batches(
            batch_size=size.rows, row_groups=filled, columns=names, use_threads=False
        )
        return next(batches, None) or empty_batch(file.schema_arrow), count


parse = partial(first_rows, _read)
