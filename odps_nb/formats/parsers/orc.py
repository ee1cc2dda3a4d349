"""ORC: column names, types and first rows; see `odps_nb.formats.parsers.arrow`."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from pyarrow import orc

from odps_nb.formats.parsers.arrow import empty_batch, first_rows
from odps_nb.formats.shared import Size
from odps_nb.terms import count_of


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    file = orc.ORCFile(pa.BufferReader(data))
    count = count_of(file.nrows, "row")
    if not file.nstripes:
        return empty_batch(file.schema), count
    return file.read_stripe(0).slice(0, size.rows), count


parse = partial(first_rows, _read)
