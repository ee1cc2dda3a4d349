"""The order of an epoch has each row once, depends only on the seed, and can start at any row."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.access.learning.order import MAX_CHUNKS, EpochOrder, slice_of
from odps_nb.errors import ArgumentError


def numbers(order: EpochOrder, epoch: int, low: int, high: int) -> list[int]:
    """Return the row numbers of a part of an epoch."""
    chunks = order.chunks(epoch=epoch, low=low, high=high)
    return [row for chunk in chunks for row in range(chunk.offset, chunk.offset + chunk.count)]


@settings(max_examples=30)
@given(
    rows=st.integers(0, 300),
    chunk_rows=st.integers(1, 50),
    shards=st.integers(1, 9),
    seed=st.integers(0, 2**32 - 1),
    shuffle=st.booleans(),
)
def test_shards_contain_each_row_once_and_differ_by_at_most_one_row(
    rows, chunk_rows, shards, seed, shuffle
):
    order = EpochOrder(rows=rows, chunk_rows=chunk_rows, window_rows=7, seed=seed, shuffle=shuffle)
    parts = [
        numbers(order, 3, *slice_of(rows, shard, shards, even=False)) for shard in range(shards)
    ]
    assert sorted(itertools.chain(*parts)) == list(range(rows))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    even = [slice_of(rows, shard, shards, even=True) for shard in range(shards)]
    assert {high - low for low, high in even} == {rows // shards}


@settings(max_examples=30)
@given(
    rows=st.integers(1, 200), chunk_rows=st.integers(1, 50), cut=st.integers(0, 200), data=st.data()
)
def test_the_order_from_any_row_on_is_a_part_of_the_whole_order(rows, chunk_rows, cut, data):
    order = EpochOrder(rows=rows, chunk_rows=chunk_rows, window_rows=7, seed=5)
    whole = numbers(order, 1, 0, rows)
    low = min(cut, rows)
    high = data.draw(st.integers(low, rows))
    assert numbers(order, 1, low, high) == whole[low:high]


def test_each_epoch_and_seed_has_its_own_order_and_chunks_stay_together():
    order = EpochOrder(rows=1000, chunk_rows=10, window_rows=100, seed=1)
    other = EpochOrder(rows=1000, chunk_rows=10, window_rows=100, seed=2)
    orders = [numbers(order, 0, 0, 1000), numbers(order, 1, 0, 1000), numbers(other, 0, 0, 1000)]
    assert orders[0] == numbers(order, 0, 0, 1000)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    first = np.array(orders[0]).reshape(-1, 10)
    assert (np.diff(first, axis=1) == 1).all()


def test_each_window_has_its_own_permutation_even_for_numbers_over_32_bits():
    order = EpochOrder(rows=10, chunk_rows=10, window_rows=50, seed=1)
    drawn = [order.permutation(epoch=0, at=at, count=50).tolist() for at in (0, 50, 2**33, 2**33)]
    assert drawn[2] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    assert all(sorted(one) == list(range(50)) for one in drawn)


def test_the_order_is_the_same_in_every_version():
    """Later versions load saved states, so these numbers must never change."""
    order = EpochOrder(rows=20, chunk_rows=3, window_rows=8, seed=7)
    assert numbers(order, 2, 0, 20) == [
        15,
        16,
        17,
        3,
        4,
        5,
        9,
        10,
        11,
        12,
        13,
        14,
        0,
        1,
        2,
        6,
        7,
        8,
        18,
        19,
    ]
    assert order.permutation(epoch=2, at=8, count=8).tolist() == [4, 3, 7, 2, 1, 0, 6, 5]


def test_without_shuffling_the_order_is_that_of_the_rows():
    order = EpochOrder(rows=20, chunk_rows=3, window_rows=8, seed=7, shuffle=False)
    assert numbers(order, 2, 0, 20) == list(range(20))
    assert order.permutation(epoch=2, at=8, count=8).tolist() == list(range(8))


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_does_not_fit_into_32_bits_is_refused(seed):
    with pytest.raises(ArgumentError, match="seed"):
        EpochOrder(rows=1, chunk_rows=1, window_rows=1, seed=seed)


def test_the_error_for_too_many_chunks_states_a_sufficient_chunk_size():
    with pytest.raises(ArgumentError) as caught:
        EpochOrder(rows=5 * MAX_CHUNKS, chunk_rows=4, window_rows=1, seed=0)
    assert "chunk_rows=5" in caught.value.hint
    EpochOrder(rows=5 * MAX_CHUNKS, chunk_rows=5, window_rows=1, seed=0)
