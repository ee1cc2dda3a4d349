"""Reads by download sessions of the tunnel return all rows with the same columns, or fail."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import odps_nb
from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.tunnel import open_downloads, reopen_downloads
from odps_nb.errors import FramingError, NotFoundError, SessionExpiredError
from odps_nb.terms import PartitionSpec
from tests.support.named import NewName
from tests.support.reverse_proxy import Answer, Request, ReverseProxy
from tests.support.service.connecting import connected
from tests.support.service.services import Pool


@pytest.fixture
def odps(service_pool: Pool) -> Iterator[Connection]:
    options = ("--services", "tunnel")
    with connected(service_pool.get(samples=False, options=options)) as connection:
        yield connection


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    """A table with a row in each of two partitions."""
    made = odps.create_table(new_name("parts"), "id bigint", partitioned_by="p string")
    made.write(pa.table({"id": [1, 2], "p": ["a", "b"]}))
    return made


def test_a_reopened_session_has_all_its_partitions(odps: Connection, table: Table) -> None:
    plan = ReadPlan(table=table.name)
    opened = open_downloads(odps._storage, plan)
    assert reopen_downloads(odps._storage, plan, opened.session_id).row_count == 2
    fewer = ReadPlan(table=table.name, partitions=(PartitionSpec.of("p=a"),))
    with pytest.raises(SessionExpiredError, match="selects 1 of its 2 partitions"):
        reopen_downloads(odps._storage, fewer, opened.session_id)


def test_a_reopened_session_returns_each_row_in_its_own_partition(
    odps: Connection, table: Table
) -> None:
    whole, first = table.read(), table.read(partitions="p=a")
    expected = whole.to_arrow().sort_by("id")
    session, of_first = whole.session_id, first.session_id
    table.write(pa.table({"id": [3, 4], "p": ["0", "aa"]}))  # new partitions, also before others
    assert table.read(session_id=session).to_arrow().sort_by("id") == expected
    assert table.read(session_id=of_first).to_arrow().to_pylist() == [{"id": 1, "p": "a"}]
    with pytest.raises(SessionExpiredError, match="selects 0 of its 1 partitions"):
        table.read(session_id=of_first, partitions="p=b").to_arrow()
    table.drop_partition("p=b")
    with pytest.raises(SessionExpiredError, match="selects 1 of its 2 partitions"):
        table.read(session_id=session).to_arrow()


class _Expired(ReverseProxy):
    """Reports each download session as expired when a client asks for its state."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        is_state = request.method == "GET" and "downloadid" in dict(request.params)
        return answer.body.replace(b'"normal"', b'"expired"') if is_state else answer.body


def test_an_expired_session_is_refused_when_it_is_reopened(odps: Connection, table: Table) -> None:
    proxy, plan = _Expired(odps.profile.endpoint), ReadPlan(table=table.name)
    opened = open_downloads(odps._storage, plan)
    with (
        proxy.running(),
        odps_nb.connect(odps.profile, tunnel_endpoint=proxy.base) as behind,
        pytest.raises(SessionExpiredError, match=r"download session .* is EXPIRED"),
    ):
        reopen_downloads(behind._storage, plan, opened.session_id)


def test_partitions_with_different_columns_are_not_read_together(
    odps: Connection, table: Table
) -> None:
    plan = ReadPlan(table=table.name)
    before = open_downloads(odps._storage, plan).session_id.split(",")
    table.add_columns("note string")
    after = open_downloads(odps._storage, plan).session_id.split(",")
    with pytest.raises(FramingError, match=r"the columns of .* differ"):
        reopen_downloads(odps._storage, plan, f"{before[0]},{after[1]}")


def test_partitions_that_do_not_exist_are_an_error(odps: Connection, new_name: NewName) -> None:
    made = odps.create_table(new_name("deep"), "id bigint", partitioned_by="p string, q string")
    made.write(pa.table({"id": [1], "p": ["a"], "q": ["b"]}))
    plan = ReadPlan(table=made.name, partitions=(PartitionSpec.of("p=c"),))
    with pytest.raises(NotFoundError, match=r"no partition of .* matches p=c"):
        open_downloads(odps._storage, plan)
