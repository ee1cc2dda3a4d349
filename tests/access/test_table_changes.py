"""Tables, partitions, columns and schemas are created, listed, truncated and dropped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest

from odps_nb import Connection, Table, connect
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    ConversionError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
)
from odps_nb.local.server.launch import start
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns
from tests.support.named import NewName
from tests.support.reverse_proxy import Request, ReverseProxy
from tests.support.service.connecting import connected
from tests.support.sockets.peers import Line, Peer


@pytest.fixture
def days(odps: Connection, new_name: NewName) -> Iterator[Table]:
    """A table with two partition levels and a row in each of three partitions."""
    table = odps.create_table(new_name("days"), "id bigint", partitioned_by="ds string, h bigint")
    table.write(pa.table({"id": [1, 2, 3], "ds": ["a", "a", "b"], "h": [1, 2, 1]}))
    yield table
    odps.drop_table(table.name, if_exists=True)


def partitions_of(table: Table) -> list[str]:
    return [str(spec) for spec in table.partitions()]


def ids(table: Table) -> list[int]:
    return sorted(table.read(["id"]).to_arrow().column("id").to_pylist())


def test_a_table_does_not_exist_after_it_was_dropped(odps: Connection, days: Table) -> None:
    assert days.exists()
    assert odps.table(days.name).exists()
    odps.drop_table(days.name)
    assert not days.exists()


def test_a_missing_project_raises_an_error(odps: Connection) -> None:
    with pytest.raises(NotFoundError, match="no_such_project"):
        odps.table("no_such_project.orders").exists()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html><body>Not found</body></html>", "text/html"),
        (b'{"message": "no route"}', "application/json"),
        (b"", "text/plain"),
        (b"<Error><Code>NoSuchUpstream</Code><Message>none</Message></Error>", "application/xml"),
    ],
    ids=["page", "json", "empty", "another code"],
)
def test_a_404_of_a_proxy_does_not_mean_that_a_table_is_missing(
    body: bytes, content_type: str
) -> None:
    def reply(line: Line) -> None:
        while line.request() is not None:
            line.answer(body, 404, Content_Type=content_type)

    with Peer(*[reply] * 9) as peer, connect(
        endpoint=f"{peer.url}/api", tunnel_endpoint=peer.url, project="p",
        access_id="accessid", access_key="k" * 20,
    ) as there, pytest.raises(OdpsNbError):  # fmt: skip
        there.table("orders").exists()


def test_an_incomplete_partition_does_not_exist(days: Table) -> None:
    assert days.exists("ds=a,h=1")
    assert days.exists({"ds": "b", "h": 1})
    assert not days.exists("ds=b,h=2")
    with pytest.raises(ArgumentError, match="not a complete partition") as caught:
        days.exists("ds=a")
    assert caught.value.hint == "pass a value for each of: ds, h"


def test_adding_a_partition_twice_has_no_effect(days: Table) -> None:
    days.add_partition("ds=c,h=7")
    assert partitions_of(days) == ["ds=a,h=1", "ds=a,h=2", "ds=b,h=1", "ds=c,h=7"]
    with pytest.raises(ConflictError) as caught:
        days.add_partition("ds=c,h=7")
    assert caught.value.code == "ObjectAlreadyExists"
    days.add_partition({"ds": "c", "h": 7}, if_not_exists=True)
    assert ids(days) == [1, 2, 3]


def test_dropping_a_partition_keeps_the_others(days: Table) -> None:
    days.drop_partition("ds=a,h=2")
    assert (partitions_of(days), ids(days)) == (["ds=a,h=1", "ds=b,h=1"], [1, 3])
    with pytest.raises(NotFoundError):
        days.drop_partition("ds=a,h=2")
    days.drop_partition("ds=a,h=2", if_exists=True)
    with pytest.raises(ArgumentError, match="not a complete partition"):
        days.drop_partition("ds=a")
    assert ids(days) == [1, 3]


def test_truncating_a_partition_keeps_it_and_the_rows_of_others(days: Table) -> None:
    days.truncate("ds=a,h=1")
    assert (partitions_of(days), ids(days)) == (["ds=a,h=1", "ds=a,h=2", "ds=b,h=1"], [2, 3])
    with pytest.raises(ArgumentError, match="not a complete partition"):
        days.truncate("ds=a")
    with pytest.raises(NotFoundError):
        days.truncate("ds=z,h=1")
    assert ids(days) == [2, 3]


def test_a_truncated_table_is_empty(odps: Connection, new_name: NewName, days: Table) -> None:
    table = odps.create_table(new_name("plain"), "id bigint")
    table.write(pa.table({"id": [1, 2]}))
    table.truncate()
    assert (ids(table), table.exists()) == ([], True)
    for use in (table.exists, table.truncate, table.add_partition, table.drop_partition):
        with pytest.raises(ArgumentError, match="not partitioned"):
            use("ds=1")  # type: ignore[operator]
    days.truncate()
    assert ids(days) == []
    odps.drop_table(table.name)
    with pytest.raises(NotFoundError):
        table.truncate()


@pytest.mark.parametrize(
    "columns",
    [
        "price decimal(10,2), note string comment 'it''s'".replace("''", "\\'"),
        ["price decimal(10,2)", "note string"],
        {"price": "decimal(10,2)", "note": "string"},
        pa.schema({"price": pa.decimal128(10, 2), "note": pa.string()}),
        TableSchema(columns=parse_columns("price decimal(10,2), note string")),
    ],
)
def test_added_columns_are_null_in_old_rows_and_can_be_written(
    days: Table, columns: object
) -> None:
    with pytest.raises(ConversionError) as unknown:
        days.write({"id": [9], "note": ["n"]}, partition="ds=a,h=1")
    assert "table.add_columns('note string')" in unknown.value.hint
    days.add_columns(columns)
    assert [str(one.type) for one in days.schema] == [
        *("bigint", "decimal(10,2)", "string", "string", "bigint")
    ]
    days.write({"id": [9], "note": ["n"]}, partition="ds=a,h=1")
    rows = days.read(["id", "note"], where="ds = 'a' and h = 1").to_arrow().to_pylist()
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "note": None},
        {"id": 9, "note": "n"},
    ]
    with pytest.raises(ConflictError, match="has the column 'price', 'note'"):
        days.add_columns(columns)
    days.add_columns(columns, if_not_exists=True)
    assert len(days.schema) == 5


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("x double, X double", "occurs twice"),
        ("`a b` double", "not a valid column name"),
        ("x double not null", "cannot be NOT NULL"),
        ("x blob", "without BLOB columns"),
        ("x dubble", "'dubble' is not a type"),
        (", ".join(f"c{n} int" for n in range(1200)), "at most 1,200 columns"),
        (TableSchema(partition_columns=parse_columns("x string")), "only data columns"),
        (5, "columns is of type int"),
    ],
)
def test_invalid_columns_change_nothing(days: Table, columns: object, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        days.add_columns(columns)
    assert days.reload().schema.names == ("id", "ds", "h")


def test_a_partition_value_may_contain_sql(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("odd"), "id bigint", partitioned_by="`order` string")
    odd = "x) drop table orders; -- é $1"
    table.add_partition({"order": odd})
    assert [dict(spec.items) for spec in table.partitions()] == [{"order": odd}]
    assert table.exists({"order": odd})
    table.truncate({"order": odd})
    table.drop_partition({"order": odd})
    assert partitions_of(table) == []
    with pytest.raises(ArgumentError, match="no request can express it"):
        table.drop_partition({"order": "a'b"})
    odps.drop_table(table.name)


def test_projects_and_schemas_are_listed(odps: Connection) -> None:
    assert odps.profile.project in odps.projects()
    assert odps.projects("no_such*") == []
    with pytest.raises(InvalidRequestError, match="is not 3-tier model project") as caught:
        odps.schemas()
    assert "no schemas" in (caught.value.hint or "")


def test_a_created_schema_is_listed() -> None:
    with (
        start(samples=False, options=("--schemas",)) as local,
        connected(local) as odps,
    ):
        assert odps.schemas() == ["default"]
        odps.sql("create schema second")
        assert odps.schemas() == ["default", "second"]
        assert odps.schemas("d*") == ["default"]
        assert odps.schemas("x*") == []
        schemas = odps.sql("show schemas like 'def*'").to_arrow()
        assert [list(row.values()) for row in schemas.to_pylist()] == [["default"]]


class _Statements(ReverseProxy):
    """Records the text of each SQL job, and its setting for names of two parts."""

    def __init__(self, target: str) -> None:
        self.jobs: list[tuple[str, str | None]] = []
        super().__init__(target)

    def before_request(self, request: Request) -> None:
        if request.method == "POST" and b"<Query>" in request.body:
            body = html.unescape(request.body.decode())
            namespace = re.search(r'"odps.namespace.schema": ?"(\w+)"', body)
            text = body.partition("<Query>")[2].partition("</Query>")[0]
            self.jobs.append((text, namespace and namespace[1]))


@pytest.mark.parametrize("of_table", ["local.", "local.second."])
@pytest.mark.parametrize("of_connection", [None, "second"])
def test_names_in_generated_sql_do_not_depend_on_the_schema_of_the_connection(
    of_connection: str | None, of_table: str
) -> None:
    """In SQL, ``a.b`` is a table of a project or of a schema, depending on a setting."""
    with start(samples=False, options=("--schemas", "--services", "tunnel")) as local:
        proxy = _Statements(local.endpoint)
        with connected(local) as owner:
            owner.sql("create schema second")
        place = {"endpoint": f"{proxy.base}/api", "schema": of_connection, "transfer": "tunnel"}
        with proxy.running(), connected(local, **place) as odps:
            made = odps.create_table(f"{of_table}t", "id bigint", partitioned_by="p string")
            made.add_columns("note string")
            made.write(pa.table({"id": [2, 1], "p": ["a", "b"]}))
            assert rows_of(made.read()).query(f"select id {rows_of(made.read()).relation(None)}")
            made.truncate()
            keyed = odps.create_table(f"{of_table}k", "id bigint not null", primary_key=["id"])
            keyed.upsert(pa.table({"id": [1]}))
            assert keyed.read().to_arrow().num_rows == 1
            odps.drop_table(keyed.name)
            odps.drop_table(made.name)
    assert len(proxy.jobs) > 8
    for text, namespace in proxy.jobs:
        assert "`" + of_table.replace(".", "`.`") in text
        assert namespace == ("true" if "second" in of_table else "false"), text
