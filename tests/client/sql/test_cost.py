"""``max_bytes`` of a query: a query whose estimate exceeds it does not run."""

from __future__ import annotations

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import LimitExceededError

WHOLE = "select count(*) as n from orders"


@pytest.mark.parametrize("wait", [True, False])
def test_a_query_above_the_limit_is_not_run_and_the_error_names_its_partitions(
    odps: Connection, wait: bool
) -> None:
    size, ran = odps.table("orders").info.size, len(odps.queries())
    assert size is not None
    with pytest.raises(LimitExceededError, match="was not run") as caught:
        odps.sql(WHOLE, max_bytes=size - 1, wait=wait)
    assert (caught.value.limit, caught.value.actual) == (size - 1, size)
    assert "orders is partitioned by ds" in str(caught.value.hint)
    assert len(odps.queries()) == ran
    assert odps.sql(WHOLE, max_bytes=size, wait=wait).row_count == 1


def test_a_condition_on_a_partition_and_statements_without_input_stay_below_the_limit(
    odps: Connection,
) -> None:
    one_day = f"{WHOLE} where ds = :day"
    assert odps.sql(one_day, params={"day": "2024-01-01"}, max_bytes=100_000_000).row_count == 1
    odps.sql("drop table if exists never_made", max_bytes=1)
