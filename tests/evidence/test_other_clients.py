"""Behaviour that other readers and the live tests of other clients need, tested with odps_nb."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

from odps_nb.local.server.launch import LocalService, start
from tests.support.compat.recorder import recording
from tests.support.service.connecting import connected


@pytest.mark.parametrize("where", [None, "a > 5"])
@pytest.mark.parametrize("columns", [None, ["b"]])
def test_a_read_of_an_empty_table_returns_no_rows(
    empty_service: LocalService, where: str | None, columns: list[str] | None
) -> None:
    """Evidence 177: reads by row ranges, and by Size with a condition (maxframe: live)."""
    with connected(empty_service) as odps:
        table = odps.create_table("no_rows", "a bigint, b string", if_not_exists=True)
        found = table.read(columns, where=where).to_arrow()
    assert (found.num_rows, found.column_names) == (0, columns or ["a", "b"])


def test_the_quota_pay_as_you_go_is_accepted(empty_service: LocalService) -> None:
    """Evidence 178: Doris and TorchEasyRec request it by default."""
    with (
        recording(empty_service.tunnel_endpoint) as recorder,
        connected(
            empty_service,
            endpoint=recorder.endpoint,
            tunnel_endpoint=None,
            quota="pay-as-you-go",
        ) as odps,
    ):
        table = odps.create_table("paid", "a bigint", if_not_exists=True)
        table.write(pa.table({"a": [1]}), overwrite=True)
        assert table.read().to_arrow()["a"].to_pylist() == [1]
        (asked,) = (one for one in recorder.take() if one.path.endswith("/tunnel"))
    assert ("quotaName", "pay-as-you-go") in asked.params


def test_a_project_may_have_the_time_zone_of_shanghai() -> None:
    """Evidence 187 and 190: the default zone, and local times before 1928 (zoneinfo)."""
    options = ("--form", "project_zone=Asia/Shanghai")
    with start(samples=False, options=options) as service, connected(service) as odps:
        texts = (
            "current_timezone() as zone, cast(date '2024-01-31' as datetime) as new, "
            + ", ".join(
                f"cast(date '{year}-01-31' as datetime) as y{year}" for year in (1910, 1890)
            )
        )
        (row,) = odps.sql(f"select {texts}").to_arrow().to_pylist()
    assert row.pop("zone") == "Asia/Shanghai"
    offsets = {
        name: datetime.timedelta(hours=24)
        - (time - datetime.datetime(*time.timetuple()[:3], tzinfo=time.tzinfo))
        for name, time in row.items()
    }
    plain, old = datetime.timedelta(hours=8), datetime.timedelta(hours=8, minutes=5, seconds=43)
    assert offsets == {"new": plain, "y1910": plain, "y1890": old}
