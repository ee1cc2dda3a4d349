"""The stock client with the schema feature on, and changes of tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from odps import errors
from odps.maxstorage import MaxStorageClient
from odps.tunnel import TableTunnel

from odps_nb.local.server.launch import LocalService, start
from tests.support.compat.stock import STOCK, stock_client

pytestmark = STOCK


@pytest.fixture(scope="module")
def local() -> Iterator[LocalService]:
    with start(samples=False, options=("--schemas",)) as running:
        yield running


@pytest.mark.nightly
def test_a_table_in_a_schema_is_found_by_each_of_its_names(local: LocalService, name: str) -> None:
    entry = stock_client(local, schema=name)
    entry.create_schema(name)
    assert entry.exist_schema(name)
    assert not entry.exist_schema("no_such_schema")
    assert {"default", name} <= {schema.name for schema in entry.list_schemas()}
    table = entry.create_table("t", "id bigint", schema=name)
    with table.open_writer() as writer:
        writer.write([[7]])
    assert [table.name for table in entry.list_tables(schema=name)] == ["t"]
    for text in ("select id from t", f"select id from {name}.t"):
        with entry.execute_sql(text).open_reader() as reader:
            assert [record["id"] for record in reader] == [7]
    session = MaxStorageClient(odps=entry).create_table_read_session("t")
    assert session.open_arrow_reader(session.splits[0]).read().to_pydict() == {"id": [7]}
    with pytest.raises(errors.ODPSError):
        entry.delete_schema(name)
    entry.delete_table("t", schema=name)
    entry.delete_schema(name)
    assert not entry.exist_schema(name)


def test_signatures_of_version_4_are_accepted(local: LocalService, name: str) -> None:
    entry = stock_client(local, region_name="cn-hangzhou")
    entry.create_table(name, "id bigint")
    assert entry.exist_table(name)
    session = MaxStorageClient(odps=entry).create_table_read_session(name)
    assert session.splits == []


def test_a_table_is_renamed_described_and_extended(local: LocalService, name: str) -> None:
    entry = stock_client(local)
    table = entry.create_table(name, "id bigint")
    with table.open_writer() as writer:
        writer.write([[1]])
    table.add_columns("note string")
    table.set_comment("it's a comment")
    table.set_lifecycle(3)
    table.rename(name + "_new")
    assert not entry.exist_table(name)
    table = entry.get_table(name + "_new")
    table.reload()
    assert (table.comment, table.lifecycle) == ("it's a comment", 3)
    with table.open_reader() as reader:
        assert [list(record.values) for record in reader] == [[1, None]]


def test_the_tunnel_previews_a_table(local: LocalService, name: str) -> None:
    entry = stock_client(local)
    table = entry.create_table(name, "id bigint, note string")
    with table.open_writer() as writer:
        writer.write([[i, f"n{i}"] for i in range(10)])
    reader = TableTunnel(entry).open_preview_reader(table, limit=3, arrow=False)
    assert [list(record.values) for record in reader] == [[0, "n0"], [1, "n1"], [2, "n2"]]
