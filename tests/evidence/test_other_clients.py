"""Behaviour that production readers and other clients' live tests need, with our client."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.compat.recorder import recording
from tests.support.service.connecting import connected


@pytest.mark.parametrize("where", [None, "a > 5"])
@pytest.mark.parametrize("columns", [None, ["b"]])
def test_an_empty_table_reads_as_no_rows(
    empty_service: LocalService, where: str | None, columns: list[str] | None
) -> None:
    """Evidence 177: by ranges, and by Size with a condition (maxframe: live)."""
    with connected(empty_service) as odps:
        table = odps.create_table("no_rows", "a bigint, b string", if_not_exists=True)
        found = table.read(columns, where=where).to_arrow()
    assert (found.num_rows, found.column_names) == (0, columns or ["a", "b"])


def test_the_quota_pay_as_you_go_may_be_named(empty_service: LocalService) -> None:
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
