"""A near service is read by one connection, until waiting for it takes longer than the work."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read import alone
from odps_nb.client.read.alone import LATE, WINDOW, Rest, read_alone
from odps_nb.client.read.splits import iter_batches
from odps_nb.terms import IndexSplit, RowRangeSplit, Split
from odps_nb.wire.calls import decode_request
from tests.support.sockets.read_sessions import ROWS, SESSION, cut_rows, serve_rows
from tests.support.sockets.scripted import Service, asked_split, ids, ipc, numbers, wire_of

SPLITS = (RowRangeSplit(0, 40), RowRangeSplit(40, 40))


@dataclass
class Line:
    """Brings splits in batches of ten rows; each takes so many seconds, some of them of work."""

    seconds: float = 0.0
    worked: float = 0.0
    first: float = 0.0
    now: float = 0.0
    used: float = 0.0
    batches: int = 0
    divides: bool = True
    ended: list[str] = field(default_factory=list)

    def read(self, splits: tuple[Split, ...] = SPLITS) -> Rest:
        def rows(split: Split) -> Any:
            assert isinstance(split, RowRangeSplit)
            return Rows(self, split.count)

        found = read_alone(
            splits,
            rows,
            lambda rest: self.divides,
            clock=lambda: self.now,
            processor=lambda: self.used,
        )
        while True:
            try:
                next(found)
            except StopIteration as end:
                rest = end.value
                assert isinstance(rest, Rest)
                return rest
            self.now += 5.0  # the consumer's own time


class Rows:
    def __init__(self, line: Line, count: int) -> None:
        self._line, self._count, self.next_row = line, count, 0

    def __iter__(self) -> Rows:
        return self

    def __next__(self) -> pa.RecordBatch:
        line = self._line
        if self.next_row == self._count:
            raise StopIteration
        line.batches += 1
        line.now += line.first if line.batches == 1 else line.seconds
        line.used += 0.0 if line.batches == 1 else line.worked
        self.next_row += 10
        return pa.record_batch({"id": range(10)})

    def leave(self) -> None:
        self._line.ended.append("left")

    def close(self) -> None:
        self._line.ended.append("closed")


def test_a_busy_thread_reads_all_splits():
    line = Line(seconds=0.02, worked=0.015)
    assert line.read() == Rest()
    assert (line.batches, line.ended) == (8, ["closed", "closed"])


def test_a_thread_that_waits_leaves_the_rest_at_the_exact_row():
    line = Line(seconds=0.02, worked=0.001)
    assert line.read() == Rest(SPLITS, 20)
    assert line.ended == ["left", "closed"]


def test_a_first_batch_that_comes_late_is_enough():
    assert Line(first=LATE).read() == Rest(SPLITS, 10)
    assert Line(first=LATE / 2).read() == Rest()


def test_a_split_whose_rows_have_all_come_is_read_to_its_end():
    line = Line(first=LATE)
    assert line.read((RowRangeSplit(0, 10), *SPLITS)) == Rest(SPLITS)
    assert line.ended == ["closed"]


def test_later_on_one_slow_batch_is_no_reason_and_a_slow_line_is():
    line = Line(seconds=WINDOW / 20, worked=WINDOW / 20)  # the first window is over
    rows = (RowRangeSplit(0, 400),)

    class Once(Line):
        @property
        def worked(self) -> float:  # type: ignore[override]
            return 0.0 if self.batches == 10 else WINDOW / 20

        @worked.setter
        def worked(self, value: float) -> None:
            pass

    assert Once(seconds=WINDOW / 20).read(rows) == Rest()
    line.seconds = WINDOW
    assert line.read(rows).splits == rows


def test_what_is_left_is_not_given_away_where_it_is_for_one_connection():
    line = Line(first=LATE, divides=False)
    assert line.read() == Rest()
    assert (line.batches, line.ended) == (8, ["closed", "closed"])


def near(storage: StorageClient) -> StorageClient:
    storage.quickest = 0.0
    return storage


def test_one_request_for_each_split_of_a_near_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "LATE", math.inf)
    monkeypatch.setattr(alone, "BUSY", 0.0)
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(near(storage), SESSION)) == list(range(ROWS))
        assert [str(one.split) for one in service.calls["ReadRows"]] == [
            str(split) for split in SESSION.splits
        ]


def test_broken_splits_of_a_near_service_go_on_at_the_exact_row():
    with (
        Service(ReadRows=[cut_rows(0.6), cut_rows(0.9), serve_rows]) as service,
        service.client() as storage,
    ):
        assert ids(iter_batches(near(storage), SESSION)) == list(range(ROWS))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_line_that_proves_slow_is_read_side_by_side_from_the_next_row(
    monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    monkeypatch.setattr(alone, "LATE", 0.0)

    def some(line, seen) -> None:
        split = asked_split(seen)
        line.answer(ipc(numbers(split.offset, split.offset + split.count), rows=10))

    tracker = ProgressTracker("read", "t")
    for split in SESSION.splits:
        tracker.plan_split(str(split), rows=split.count)
    with Service(ReadRows=[some]) as service, service.client() as storage:
        found = ids(iter_batches(near(storage), SESSION, ordered=ordered, tracker=tracker))
        asked = sorted((one.split for one in service.calls["ReadRows"]), key=lambda s: s.offset)
    assert (found if ordered else sorted(found)) == list(range(ROWS))
    assert asked[:2] == [RowRangeSplit(0, 25), RowRangeSplit(10, 15)]
    assert asked[2:] == list(SESSION.splits[1:])
    shown = tracker.snapshot()
    assert all(split.done for split in shown.splits)
    assert shown.complete_bytes == shown.decoded_bytes == 8 * ROWS


def test_a_split_that_only_the_service_cuts_goes_on_behind_the_rows_that_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alone, "LATE", 0.0)
    splits = tuple(IndexSplit(number) for number in range(4))
    session = replace(SESSION, splits=splits)

    def some(line, seen) -> None:
        request = decode_request(wire_of(seen))
        first = request.split.index * 25
        line.answer(ipc(numbers(first + request.skip_rows, first + 25), rows=10))

    with Service(ReadRows=[some]) as service, service.client() as storage:
        assert ids(iter_batches(near(storage), session)) == list(range(ROWS))
        asked = {(one.split.index, one.skip_rows) for one in service.calls["ReadRows"]}
    assert asked == {(0, 0), (0, 10), (1, 0), (2, 0), (3, 0)}


def test_a_filtered_read_that_proves_slow_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, odps: Connection
) -> None:
    monkeypatch.setattr(alone, "LATE", 0.0)
    odps.storage.quickest = 0.0
    table = odps.table("orders")
    found = table.read(columns=["id"], where="quantity >= 9").to_arrow()
    monkeypatch.setattr(alone, "LATE", 60.0)
    assert found == table.read(columns=["id"], where="quantity >= 9").to_arrow()
    assert found == table.read(columns=["id", "quantity"]).to_arrow().filter(
        pc.field("quantity") >= 9
    ).select(["id"])
