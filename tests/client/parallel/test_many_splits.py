"""Tables with so many splits that the cost of each split matters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odps_nb.client.read.plan import ReadPlan, ReadSession
from odps_nb.client.read.session import DEFAULT_SPLITS, MAX_SPLITS
from odps_nb.client.reading import open_read_session
from odps_nb.errors import ArgumentError
from odps_nb.terms import SplitMode
from odps_nb.wire.calls import ReadSessionAnswer
from tests.support.sockets.scripted import SCHEMA, TABLE, Service, give

PETABYTE = 10**15
ROWS = 10**13
HUGE = ReadSessionAnswer(
    session_id="s",
    split_mode=SplitMode.ROW_OFFSET,
    record_count=ROWS,
    schema=SCHEMA,
    estimated_size=10 * PETABYTE,
)
CUT_BY_SIZE = ReadSessionAnswer(session_id="s", splits_count=DEFAULT_SPLITS, schema=SCHEMA)


def opened(*answers: ReadSessionAnswer, **plan) -> tuple[ReadSession, Service]:
    with Service(CreateReadSession=[give(answer) for answer in answers]) as service:
        return open_read_session(service.storage, ReadPlan(table=TABLE, **plan)), service


@pytest.mark.parametrize("size", [10 * PETABYTE, None])
def test_splits_grow_if_their_number_would_exceed_the_maximum(size: int | None):
    session, _ = opened(replace(HUGE, estimated_size=size))
    assert len(session.splits) == DEFAULT_SPLITS == 100_000
    assert session.row_count == ROWS
    assert {split.count for split in session.splits} == {ROWS // DEFAULT_SPLITS}


def test_larger_splits_are_requested_if_the_service_created_too_many():
    finest = replace(CUT_BY_SIZE, splits_count=149_011_612)
    session, service = opened(finest, CUT_BY_SIZE, where="id > 0", schema=SCHEMA)
    first, second = service.calls["CreateReadSession"]
    assert second == replace(first, split_number=64 * 2**20 * 1491)
    assert len(session.splits) == DEFAULT_SPLITS


def test_an_acceptable_number_of_splits_is_not_requested_again():
    session, service = opened(CUT_BY_SIZE, where="id > 0", schema=SCHEMA)
    assert len(service.calls["CreateReadSession"]) == 1
    assert len(session.splits) == DEFAULT_SPLITS


def test_a_requested_number_of_splits_up_to_a_million_is_used():
    session, _ = opened(replace(HUGE, estimated_size=PETABYTE), split_bytes=8 * 10**9)
    assert len(session.splits) == 125_000
    session, _ = opened(HUGE, splits=DEFAULT_SPLITS + 1)
    assert len(session.splits) == DEFAULT_SPLITS + 1


@pytest.mark.parametrize(
    ("answer", "plan"),
    [
        (HUGE, {"split_bytes": 64 * 2**20}),
        (HUGE, {"splits": MAX_SPLITS + 1}),
        (replace(CUT_BY_SIZE, splits_count=MAX_SPLITS + 1), {"where": "id > 0", "split_bytes": 1}),
        (replace(CUT_BY_SIZE, splits_count=MAX_SPLITS + 1), {"where": "id > 0", "splits": 5}),
    ],
)
def test_too_many_splits_are_refused_before_they_fill_the_memory(
    answer: ReadSessionAnswer, plan: dict
):
    with pytest.raises(ArgumentError, match="the maximum is 1,000,000") as caught:
        opened(answer, **plan)
    assert caught.value.code == "TooManySplits"
    assert "split_bytes=" in str(caught.value.hint)


def test_a_session_has_at_most_one_split_for_each_row():
    session, _ = opened(replace(HUGE, record_count=5), splits=10**9)
    assert len(session.splits) == 5
