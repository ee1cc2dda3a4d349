"""Large splits are read in pieces, which only the service can observe."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.parallel.fan_out import DEFAULT_MAX_BYTES
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.sizes import PieceRanges, piece_bytes
from odps_nb.client.read.splits import iter_batches
from odps_nb.errors import AccessDeniedError
from odps_nb.schema import TableSchema
from odps_nb.terms import IndexSplit, RowRangeSplit
from odps_nb.wire.type_text import parse_columns
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
    fail,
    ids,
    ipc,
    numbers,
)

ROWS = 96
LARGE = ReadSession(
    table=TABLE,
    session_id="s",
    schema=SCHEMA,
    splits=plan_ranges(ROWS, 2),
    row_count=ROWS,
    estimated_size=8 * piece_bytes(DEFAULT_MAX_BYTES),
)


@given(
    rows=st.integers(0, 200),
    splits=st.integers(1, 9),
    size=st.integers(0, 60),
    row_bytes=st.none() | st.floats(0.0, 100.0),
    came=st.lists(st.integers(1, 9), max_size=20),
)
def test_pieces_cover_every_row_once_and_in_order(rows, splits, size, row_bytes, came):
    pieces = PieceRanges(plan_ranges(rows, splits), size=size, row_bytes=row_bytes)
    at, batches = 0, iter(came)
    for split, piece in pieces:
        assert piece.offset == at
        assert split.offset <= at < piece.offset + piece.count <= split.offset + split.count
        at += piece.count
        if (count := next(batches, None)) is not None:
            pieces.record(pa.record_batch({"id": range(count)}))
    assert at == rows


def test_piece_sizes_are_based_on_received_rows():
    cut = PieceRanges([RowRangeSplit(0, 100)], size=80, row_bytes=None)
    pieces = iter(cut)
    assert next(pieces) == (RowRangeSplit(0, 100), RowRangeSplit(0, 100))
    cut = PieceRanges([RowRangeSplit(0, 100)], size=80, row_bytes=4.0)
    pieces = iter(cut)
    assert next(pieces)[1] == RowRangeSplit(0, 20)
    assert cut.record(pa.record_batch({"id": [1, 2, 3]})) == 24
    assert next(pieces)[1] == RowRangeSplit(20, 10)


def test_a_split_defined_by_the_service_is_not_divided():
    pieces = PieceRanges([IndexSplit(0), IndexSplit(1)], size=1, row_bytes=100.0)
    assert list(pieces) == [(IndexSplit(0), IndexSplit(0)), (IndexSplit(1), IndexSplit(1))]


def test_two_large_splits_are_read_by_eight_connections_and_displayed_as_two_splits():
    together, tracker = threading.Barrier(8, timeout=20), ProgressTracker("read", "t")

    def step(line, seen) -> None:
        split = asked_split(seen)
        together.wait()  # no piece is served before all are requested
        line.answer(ipc(numbers(split.offset, split.offset + split.count), rows=5))

    for split in LARGE.splits:
        tracker.plan_split(str(split), rows=split.count)
    with Service(ReadRows=[step]) as service, service.client() as storage:
        assert ids(iter_batches(storage, LARGE, tracker=tracker)) == list(range(ROWS))
    assert sorted(call.split.count for call in service.calls["ReadRows"]) == [12] * 8
    shown = tracker.snapshot().splits
    assert [(one.rows, one.done) for one in shown] == [(48, True), (48, True)]


def test_a_split_is_incomplete_until_its_last_piece_is_read():
    tracker = ProgressTracker("read", "t")
    tracker.plan_split("a", rows=2)
    tracker.add(split="a", rows=1)
    tracker.split_done("a", part=True)
    assert not tracker.snapshot().splits[0].done
    tracker.add(split="a", rows=1)
    tracker.split_done("a", part=True)
    assert tracker.snapshot().splits[0].done


def test_a_limit_is_not_divided_into_pieces_because_of_unselected_columns():
    limited = replace(LARGE, splits=(RowRangeSplit(0, 8),), row_count=8, limit=8)

    def step(line, seen) -> None:
        split = asked_split(seen)
        line.answer(ipc(numbers(split.offset, split.offset + split.count)))

    with Service(ReadRows=[step]) as service, service.client() as storage:
        assert ids(iter_batches(storage, limited)) == list(range(8))
    assert [call.split for call in service.calls["ReadRows"]] == [RowRangeSplit(0, 8)]


def test_the_size_estimate_of_a_table_is_not_used_for_selected_columns():
    few = replace(LARGE, selects=True)

    def step(line, seen) -> None:
        split = asked_split(seen)
        line.answer(ipc(numbers(split.offset, split.offset + split.count)))

    with Service(ReadRows=[step]) as service, service.client() as storage:
        assert ids(iter_batches(storage, few)) == list(range(ROWS))
    assert sorted(call.split.count for call in service.calls["ReadRows"]) == [48, 48]


def test_piece_sizes_for_selected_columns_are_based_on_column_types():
    """The estimate may include all columns; pieces based on it would be four times too small."""
    chosen = TableSchema(columns=parse_columns("id bigint, quantity int, shipped date"))
    rows = 4 * piece_bytes(DEFAULT_MAX_BYTES) // 16
    some = replace(
        LARGE,
        schema=chosen,
        splits=plan_ranges(rows, 2),
        row_count=rows,
        estimated_size=64 * rows,
        selects=True,
    )
    asked = []

    def step(line, seen) -> None:
        asked.append(asked_split(seen).count)
        fail(403, "NoPermission")(line, seen)

    with Service(ReadRows=[step]) as service, pytest.raises(AccessDeniedError):
        list(iter_batches(service.storage, some, workers=16))
    assert set(asked) == {rows // 4}
