"""ORC: column names, types and first rows. Only small stripes are decompressed."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow import orc

from odps_nb.formats.parsers.arrow import check_unpacked, empty_batch, first_rows
from odps_nb.formats.shared import Size
from odps_nb.terms import count_of

# Maximum expansion of a stripe in ordinary files. If run-length encoding expands more, the memory
# limit of the parser process applies.
_GROWTH: Final = 8


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    file = orc.ORCFile(pa.BufferReader(data))
    count = count_of(file.nrows, "row")
    if not file.nstripes:
        return empty_batch(file.schema), count
    check_unpacked(file.content_length // file.nstripes * _GROWTH)
    return file.read_stripe(0).slice(0, size.rows), count


parse = partial(first_rows, _read)
