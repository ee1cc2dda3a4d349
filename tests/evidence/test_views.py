"""Logical views: only SQL reads views, so reads of a view run a query (``docs/protocol.md`` 3.1).

Sources: the vendor's manual (*Overview of Open Storage*; *View-related operations*), pyodps
(``models/table.py``) and the Java SDK (``Table.java``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pyarrow as pa
import pytest
from odps import ODPS

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.access.table import Table
from odps_nb.errors import InvalidRequestError, NotFoundError, OdpsNbError, explain
from odps_nb.local.server.launch import LocalService
from tests.support.named import NewName


@pytest.fixture
def base(odps: Connection, new_name: NewName) -> Iterator[Table]:
    """A table of three rows in two partitions."""
    rows = pd.DataFrame({"id": [1, 2, 3], "price": [1.5, 2.5, 3.5], "ds": ["a", "a", "b"]})
    name = new_name("base")
    yield odps.create_table(name, rows, partitioned_by="ds")
    odps.drop_table(name, if_exists=True)


@pytest.fixture
def view(odps: Connection, base: Table, new_name: NewName) -> Iterator[str]:
    """The name of a view of the rows in the first partition."""
    name = new_name("view")
    odps.sql(f"create view {name} as select id, price * 2 as twice from {base.name} where ds = 'a'")
    yield name
    odps.sql(f"drop view if exists {name}")


def test_sql_reads_views_like_tables(odps: Connection, view: str, base: Table) -> None:
    found = odps.sql(f"select v.id, v.twice from {view} v order by id").to_pandas()
    assert found.to_dict("list") == {"id": [1, 2], "twice": [3.0, 5.0]}
    joined = odps.sql(
        f"select b.id from {base.name} b left join {view} on b.id = {view}.id"
        f" where {view}.id is null"
    )
    assert joined.to_pandas()["id"].to_list() == [3]
    odps.sql(f"insert into {base.name} partition (ds='a') select id + 10, twice from {view}")
    assert odps.sql(f"select count(*) n from {view}").to_pandas()["n"].to_list() == [4]


def test_a_view_has_the_types_of_its_query(odps: Connection, view: str) -> None:
    table = odps.table(view)
    info = table.info
    assert repr(table).splitlines()[1] == "view"
    assert [(c.name, c.type.code.name) for c in info.schema] == [
        ("id", "BIGINT"),
        ("twice", "DOUBLE"),
    ]
    assert info.is_view
    assert info.view_text.startswith("select id, price * 2")


@pytest.mark.parametrize(
    ("read", "ids", "statement"),
    [
        (lambda table: table.read().to_arrow(), [1, 2], "select `id`, `twice` from"),
        (
            lambda table: table.read(["id"], where="id > 1").to_arrow(),
            [2],
            "select `id` from {name} where (id > 1)",
        ),
        (lambda table: table.read(limit=1).to_arrow(), [1], "limit 1"),
        (lambda table: pa.Table.from_pandas(table.head(1)), [1], "limit 1"),
        (lambda table: table.dataset().to_table(), [1, 2], "select"),
    ],
    ids=["read", "chosen", "limit", "head", "dataset"],
)
def test_a_read_of_a_view_runs_a_query(
    odps: Connection,
    view: str,
    read: Callable[[Table], pa.Table],
    ids: list[int],
    statement: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table = odps.table(view)
    caplog.set_level("INFO", logger="odps_nb")
    assert read(table)["id"].to_pylist() == ids
    told = [
        line for line in caplog.messages if "is a view, so its rows are read by a query" in line
    ]
    assert told
    assert ", which reads " in told[-1]  # states the cost
    assert (
        statement.format(name=".".join(f"`{one}`" for one in str(table.name).split(".")))
        in told[-1]
    )


def test_a_view_can_be_explored_and_read_in_parallel(odps: Connection, view: str) -> None:
    scan = odps.table(view).read(splits=2)
    assert len(scan.splits) == 2
    assert scan.to_arrow()["twice"].to_pylist() == [3.0, 5.0]
    again = odps.table(view).read(session_id=scan.session_id)
    assert again.to_arrow()["id"].to_pylist() == [1, 2]
    assert rows_of(odps.table(view).read()).row_count == 2


def test_a_write_to_a_view_is_refused(odps: Connection, view: str, base: Table) -> None:
    table = odps.table(view)
    with pytest.raises(InvalidRequestError) as caught:
        table.write(pd.DataFrame({"id": [4], "twice": [8.0]}))
    assert f"{table.name} is a view" in "\n".join(explain(caught.value))
    for statement in (
        f"insert into {view} values (4, 8.0)",
        f"truncate table {view}",
        f"alter table {view} add columns (more bigint)",
        f"drop table {view}",
        f"drop view {base.name}",
    ):
        with pytest.raises(OdpsNbError, match="view"):
            odps.sql(statement)
    assert base.read().to_pandas()["id"].to_list() == [1, 2, 3]


def test_a_view_can_name_its_columns(odps: Connection, base: Table, new_name: NewName) -> None:
    name = new_name("view")
    query = f"select ds, max(price) from {base.name} group by ds"
    with pytest.raises(OdpsNbError, match="returns 2 columns, but the view lists 1"):
        odps.sql(f"create view {name} (day) as {query}")
    odps.sql(f"create view {name} (day comment 'of sale', most) comment 'by day' as {query}")
    info = odps.table(name).info
    assert [(c.name, c.comment) for c in info.schema] == [("day", "of sale"), ("most", "")]
    assert info.comment == "by day"
    found = odps.sql(f"select * from {name} order by day").to_pandas()
    assert found.to_dict("list") == {"day": ["a", "b"], "most": [2.5, 3.5]}
    odps.sql(f"drop view {name}")
    with pytest.raises(NotFoundError):
        odps.sql(f"select * from {name}")
    odps.sql(f"drop view if exists {name}")


def test_a_view_of_a_view_can_be_replaced_and_a_cycle_is_refused(
    odps: Connection, view: str, new_name: NewName
) -> None:
    outer, far = new_name("outer"), new_name("far")
    odps.sql(f"create view {outer} as with v as (select id from {view}) select id + 1 i from v")
    assert odps.sql(f"select sum(i) s from {outer}").to_pandas()["s"].to_list() == [5]
    with pytest.raises(OdpsNbError, match="already"):
        odps.sql(f"create view {outer} as select 1 as i")
    odps.sql(f"create view if not exists {outer} as select 1 as i")
    with pytest.raises(OdpsNbError, match="refers to itself"):
        odps.sql(f"create or replace view {view} as select i as id from {outer}")
    odps.sql(f"create or replace view {view} as select 7 as id")
    assert odps.sql(f"select i from {outer}").to_pandas()["i"].to_list() == [8]
    # renaming can create a cycle, which every reader detects
    odps.sql(f"alter view {view} rename to {far}")
    odps.sql(f"alter view {outer} rename to {view}")
    with pytest.raises(OdpsNbError, match="refers to itself"):
        odps.sql(f"select * from {view}")
    with pytest.raises(OdpsNbError, match="refers to itself"):
        odps.sql_cost(f"select * from {view}")
    odps.sql(f"drop view {far}")


def test_a_view_keeps_its_columns_when_columns_are_added_to_its_table(
    odps: Connection, base: Table, new_name: NewName
) -> None:
    name = new_name("view")
    odps.sql(f"create view {name} as select * from {base.name}")
    assert odps.sql_cost(f"select * from {name}").input_bytes == base.info.size
    odps.sql(f"alter table {base.name} add columns (more string)")
    found = odps.sql(f"select * from {name} order by id").to_pandas()
    assert list(found.columns) == ["id", "price", "ds"]
    assert found["ds"].to_list() == ["a", "a", "b"]
    two = new_name("two")
    odps.sql(
        f"create view {two} (one, other) as select a.id, b.id"
        f" from {base.name} a join {base.name} b on a.id = b.id - 1"
    )
    assert odps.sql(f"select * from {two} order by one").to_pandas().to_dict("list") == {
        "one": [1, 2],
        "other": [2, 3],
    }
    odps.sql(f"drop view {two}")
    odps.drop_table(base.name)
    with pytest.raises(NotFoundError):
        odps.sql(f"select * from {name}")
    odps.sql(f"drop view {name}")


def test_create_table_like_view_creates_a_table(
    odps: Connection, view: str, new_name: NewName
) -> None:
    name = new_name("like")
    odps.sql(f"create table {name} like {view}")
    table = odps.table(name)
    table.write(pd.DataFrame({"id": [9], "twice": [18.0]}))
    assert table.read().to_pandas()["id"].to_list() == [9]
    odps.drop_table(name)


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_pyodps_lists_reads_and_drops_a_view(service: LocalService, view: str) -> None:
    entry = ODPS(
        service.access_id, service.access_key, project=service.project, endpoint=service.endpoint
    )
    found = entry.get_table(view)
    assert found.is_virtual_view
    assert found.type == found.Type.VIRTUAL_VIEW
    assert found.view_text.startswith("select id, price * 2")
    with entry.execute_sql(f"select * from {view}").open_reader(tunnel=True) as reader:
        assert sorted(row["id"] for row in reader) == [1, 2]
    entry.delete_view(view)
    assert not entry.exist_table(view)
