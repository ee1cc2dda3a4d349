"""Results that are read without a session: whole, in order, and gone on with after a break."""

from __future__ import annotations

import pytest

from odps_nb.errors import NotFoundError

QUERY = "select id, status from orders where ds = '2024-01-01' and id < 1000200 order by id"


def test_rows_of_an_instance_come_without_a_session(odps):
    ran = odps.sql(QUERY)
    expected = ran.to_arrow()
    assert expected.num_rows > 100
    with odps.accelerated_rows(ran.instance_id, 0) as reader:
        assert reader.read_all().equals(expected)
    with odps.accelerated_rows(ran.instance_id, 0, columns=["status"]) as reader:
        assert reader.read_all().equals(expected.select(["status"]))


def test_a_result_without_rows_has_none(odps):
    ran = odps.sql("select id from orders where id < 0")
    with odps.accelerated_rows(ran.instance_id, 0) as reader:
        assert reader.read_all().num_rows == 0


def test_an_instance_that_is_not_there_says_so(odps):
    with pytest.raises(NotFoundError):
        odps.accelerated_rows("20240101000000000nothing", 0)
