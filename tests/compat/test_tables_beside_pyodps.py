"""Both clients see the same tables and partitions, whichever client creates or drops them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from odps import ODPS, errors

import odps_nb
from odps_nb import Connection, Table
from odps_nb.errors import ConflictError, NotFoundError
from odps_nb.local.server.launch import LocalService, start
from tests.support.compat.stock import STOCK, stock_client

pytestmark = STOCK


@pytest.fixture(scope="module")
def local() -> Iterator[LocalService]:
    with start(samples=False, options=("--schemas",)) as running:
        yield running


@pytest.fixture(scope="module")
def theirs(local: LocalService) -> ODPS:
    return stock_client(local)


@pytest.fixture(scope="module")
def ours(theirs: ODPS) -> Iterator[Connection]:
    with odps_nb.connect(theirs) as connection:
        yield connection


@pytest.fixture
def table(ours: Connection) -> Iterator[Table]:
    made = ours.create_table("both", "id bigint", partitioned_by="ds string, h bigint")
    made.write(pa.table({"id": [1, 2], "ds": ["a", "b"], "h": [1, 2]}))
    yield made
    ours.drop_table("both", if_exists=True)


def test_both_clients_see_the_same_tables(ours: Connection, theirs: ODPS, table: Table) -> None:
    assert table.exists() == theirs.exist_table("both") == True  # noqa: E712
    assert ours.table("other").exists() == theirs.exist_table("other") == False  # noqa: E712
    theirs.delete_table("both")
    assert table.exists() == theirs.exist_table("both") == False  # noqa: E712


def test_both_clients_see_the_same_partitions(theirs: ODPS, table: Table) -> None:
    their = theirs.get_table("both")
    table.add_partition("ds=c,h=3")
    assert their.exist_partition("ds=c,h=3")
    their.create_partition("ds=d,h=4")
    assert table.exists("ds=d,h=4")
    their.delete_partition("ds=c,h=3")
    assert not table.exists("ds=c,h=3")
    table.drop_partition("ds=d,h=4")
    assert not their.exist_partition("ds=d,h=4")
    assert [p.partition_spec.kv for p in their.partitions] == [
        {"ds": spec["ds"], "h": spec["h"]} for spec in map(dict, table.partitions())
    ]


def test_both_clients_are_refused_with_the_same_errors(theirs: ODPS, table: Table) -> None:
    their = theirs.get_table("both")
    with pytest.raises(ConflictError):
        table.add_partition("ds=a,h=1")
    with pytest.raises(errors.ODPSError, match="already exists"):
        their.create_partition("ds=a,h=1")
    table.add_partition("ds=a,h=1", if_not_exists=True)
    their.create_partition("ds=a,h=1", if_not_exists=True)
    with pytest.raises(NotFoundError):
        table.drop_partition("ds=z,h=1")
    with pytest.raises(errors.ODPSError, match="does not exist"):
        their.delete_partition("ds=z,h=1")
    table.drop_partition("ds=z,h=1", if_exists=True)
    their.delete_partition("ds=z,h=1", if_exists=True)


def test_both_clients_truncate_the_same_rows(theirs: ODPS, table: Table) -> None:
    their = theirs.get_table("both")
    table.truncate("ds=a,h=1")
    assert [row["id"] for row in theirs.read_table("both", partition="ds=b,h=2")] == [2]
    assert list(theirs.read_table("both", partition="ds=a,h=1")) == []
    their.truncate("ds=b,h=2")
    assert table.read().row_count == 0
    assert len(table.partitions()) == len(list(their.partitions)) == 2


def test_both_clients_list_the_same_projects_and_schemas(ours: Connection, theirs: ODPS) -> None:
    theirs.create_schema("more")
    assert ours.projects() == sorted(project.name for project in theirs.list_projects())
    assert ours.schemas() == sorted(schema.name for schema in theirs.list_schemas())
    assert ours.schemas() == ["default", "more"]
    theirs.delete_schema("more")
    assert ours.schemas() == ["default"]
