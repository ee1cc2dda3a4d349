"""Partial updates compared with a merge row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import InvalidRequestError
from odps_nb.local.writing.partial import UPDATED, check_places, completed

NAMES = ["k", "j", "a", "b"]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from("xy"),
        st.none() | st.integers(0, 99),
        st.none() | st.integers(0, 99),
        st.none() | st.lists(st.integers(0, 3), max_size=3),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


def one_by_one(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Apply rows in order; return each updated row, and each delete as sent."""
    state: dict[tuple[int, str], dict[str, Any]] = {}
    found = []
    for k, j, a, b, places, gone in rows:
        sent = dict(zip(NAMES, (k, j, a, b), strict=True))
        if gone:
            state.pop((k, j), None)
            found.append(sent)
            continue
        old = state.get((k, j), dict.fromkeys(NAMES))
        named = NAMES if not places else ["k", "j", *(NAMES[place] for place in places)]
        state[k, j] = {name: sent[name] if name in named else old[name] for name in NAMES}
        found.append(state[k, j])
    return found


@given(ROWS)
def test_each_column_has_the_latest_value_that_a_row_of_its_key_set(
    rows: list[tuple[Any, ...]],
) -> None:
    *columns, places, gone = zip(*rows, strict=True)
    types = (pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.list_(pa.int64()))
    arrays = [pa.array(one, kind) for one, kind in zip((*columns, places), types, strict=True)]
    table = pa.table(arrays, names=[*NAMES, UPDATED.name])
    whole = completed(table, ["k", "j"], np.array(gone))
    assert whole.drop_columns([UPDATED.name]).to_pylist() == one_by_one(rows)


@pytest.mark.parametrize("places", [[-1], [4], [None]])
def test_column_positions_outside_of_the_table_are_refused(places: list[Any]) -> None:
    array = pa.array([[0, 3], None, [], places], pa.list_(pa.int64()))
    check_places(array[:3], 4, enabled=True)
    with pytest.raises(InvalidRequestError, match="outside of 0 to 3"):
        check_places(array, 4, enabled=True)


def test_a_table_without_partial_updates_refuses_them() -> None:
    check_places(pa.array([None, []], pa.list_(pa.int64())), 4, enabled=False)
    with pytest.raises(InvalidRequestError, match=r"set acid\.partial\.fields\.update\.enable"):
        check_places(pa.array([[1]], pa.list_(pa.int64())), 4, enabled=False)
