"""ORC: names, types and first rows. A stripe is unpacked as a whole, so only a small one is."""

from __future__ import annotations

from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow import orc

from odps_nb.notebook.preview.parsers.arrow import check_unpacked, empty_batch, first_rows
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of

# What a byte of a stripe becomes at most, as far as anybody would write one. Runs may promise more:
# the memory of this process ends that.
_GROWTH: Final = 8


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    file = orc.ORCFile(pa.BufferReader(data))
    count = count_of(file.nrows, "row")
    if not file.nstripes:
        return empty_batch(file.schema), count
    check_unpacked(file.content_length // file.nstripes * _GROWTH)
    return file.read_stripe(0).slice(0, size.rows), count


parse = partial(first_rows, _read)
