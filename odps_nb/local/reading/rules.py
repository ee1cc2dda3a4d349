"""Limits that the real service sets on reads, and the granularity of its filters.

The limits are known from live tests of its own clients: aliyun-odps-sdk-cpp
(``test/max_storage_api/table_read_test.cpp``) and, of the older protocol, aliyun-odps-python-sdk
(``odps/apis/storage_api/tests``). What nobody has tested is in ``docs/open-questions.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.local import faults
from odps_nb.local.forms import Forms
from odps_nb.local.store.tables import Table
from odps_nb.schema import has_blob
from odps_nb.terms import SplitMode
from odps_nb.wire.calls import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    MIN_BATCH_BYTES,
    CreateReadSession,
    ReadRows,
)

CLUSTERED_BLOCK_ROWS = 1_000
"""Under 2,000 rows come of a clustered table that holds one match (TestPredicate…ClusterTable)."""

_KEY_SPLITS = {
    "both": (SplitMode.ROW_OFFSET, SplitMode.SIZE),
    "RowOffset": (SplitMode.ROW_OFFSET,),
    "Size": (SplitMode.SIZE,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """Read limits, set when a service is started; the defaults are those of the real one.

    ``min_split_bytes`` is the smallest split by size. A filter leaves out whole blocks of
    ``filter_block_rows`` rows of a file, or single rows where that is 1. Row ranges of a session
    with a filter address the rows as they are stored, or with ``kept_ranges`` those that the
    filter keeps; which of both the real service does is untested.
    """

    min_split_bytes: int = 10 * 2**20
    filter_block_rows: int = 10_000
    kept_ranges: bool = False

    def block_rows(self, table: Table) -> int:
        """Return the rows per block of this table: a filter keeps or drops whole blocks."""
        if table.is_clustered:
            return min(CLUSTERED_BLOCK_ROWS, self.filter_block_rows)
        return self.filter_block_rows

    def check_split(self, table: Table, request: CreateReadSession, forms: Forms) -> None:
        """Refuse with 400 a split mode that this table does not support, or too small splits."""
        mode, name = request.split_mode, table.name.table
        keyed, taken = bool(table.key_columns), tuple(SplitMode)
        if keyed and request.incremental_read:
            taken = (SplitMode.ROW_OFFSET, SplitMode.BUCKET)
        elif any(has_blob(c.type) for c in table.schema.columns):
            taken = (SplitMode.ROW_OFFSET,)
        elif keyed:
            taken = _KEY_SPLITS[forms.key_splits]
        elif table.is_append2:
            taken = (SplitMode.ROW_OFFSET,)
        if mode not in taken:
            modes = " or ".join(one.value for one in taken)
            raise faults.invalid(
                f"{name} is a transactional table: it takes SplitMode {modes}, not {mode.value}"
            )
        if mode is SplitMode.BUCKET and not keyed and not table.is_clustered:
            raise faults.invalid(f"{name} has no buckets: it is not clustered")
        if mode is SplitMode.SIZE and request.split_number < self.min_split_bytes:
            raise faults.invalid(
                f"SplitNumber {request.split_number} is too small: a split by size has at least"
                f" {self.min_split_bytes} bytes"
            )


def check_batch(request: ReadRows) -> None:
    """Refuse with 400 batch sizes outside the limits of the service."""
    if request.max_batch_rows > MAX_BATCH_ROWS:
        raise faults.invalid(f"MaxBatchRows {request.max_batch_rows} is more than {MAX_BATCH_ROWS}")
    size = request.max_batch_raw_size
    if size and not MIN_BATCH_BYTES <= size <= MAX_BATCH_BYTES:
        raise faults.invalid(
            f"MaxBatchRawSize {size} is neither 0 nor {MIN_BATCH_BYTES} to {MAX_BATCH_BYTES}"
        )
