"""Upserts and deletes accept every kind of data and apply all rows of a call or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.client.write.operations import DELETE, UPSERT, Stamp, takes_operation
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.local.server.launch import LocalService
from odps_nb.wire.schema_json import WriteSchema
from odps_nb.wire.type_text import parse_columns
from tests.support.named import NewName
from tests.support.reverse_proxy import Answer, Request, ReverseProxy
from tests.support.service.connecting import connected
from tests.support.service.services import by_storage_api

pytestmark = pytest.mark.every_service(in_turn=True)

Make = Callable[..., Table]


@pytest.fixture
def make(odps: Connection, new_name: NewName) -> Make:
    def table(
        columns: str = "id BIGINT NOT NULL, v STRING", key: str = "id", by: str = ""
    ) -> Table:
        name = new_name("keyed")
        tail = f" PARTITIONED BY ({by})" if by else ""
        odps.sql(
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key})){tail}"
            " TBLPROPERTIES ('transactional'='true', 'table.format.version'='2')",
            settings={"odps.table.append2.enable": "true"},  # required for BLOBs
        )
        return odps.table(name)

    return table


def rows(table: Table) -> list[tuple[Any, ...]]:
    found = table.read().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def version(table: Table) -> int:
    return table.read().latest_version


def test_an_upsert_replaces_and_inserts_rows(make: Make) -> None:
    table = make()
    first = table.upsert(pd.DataFrame({"id": [1, 2, 1], "v": ["a", "b", "c"]}))
    assert (first.rows, first.verb) == (3, "upserted")
    assert "3 rows" in repr(first)
    assert "upserted in" in repr(first)
    table.upsert(pd.DataFrame({"v": ["b2", "d"], "ID": [2, 4]}))
    assert rows(table) == [(1, "c"), (2, "b2"), (4, "d")]
    assert table.primary_key == ("id",)


@pytest.mark.parametrize("kind", ["table", "batch", "reader", "duckdb"])
@pytest.mark.gate(2)
def test_arrow_data_of_any_library_is_upserted_and_deleted(make: Make, kind: str) -> None:
    def in_form(**columns: Any) -> Any:
        made = pa.table(columns)
        if kind == "batch":
            return made.to_batches()[0]
        if kind == "reader":
            return made.to_reader()
        if kind == "duckdb":
            return duckdb.from_arrow(made)
        return made

    table = make()
    table.upsert(in_form(id=[1, 2, 3], v=["a", "b", None]))
    gone = table.delete(in_form(v=["whatever", "x"], id=[3, 1], more=[1, 2]))
    assert (gone.rows, gone.verb) == (2, "deleted")
    assert rows(table) == [(2, "b")]


@pytest.mark.parametrize(
    "keys",
    [
        [1, 3],
        (1, 3),
        {1, 3},
        pa.array([1, 3]),
        pa.chunked_array([[1], [3]]),
        pd.DataFrame({"id": np.array([1, 3], np.int32), "other": [None, None]}),
    ],
    ids=lambda keys: type(keys).__name__,
)
@pytest.mark.gate(2)
def test_a_delete_needs_only_keys(make: Make, keys: Any) -> None:
    table = make("id BIGINT NOT NULL, v STRING NOT NULL, w ARRAY<BIGINT>")
    table.upsert(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"], "w": [[1], [2], [3]]}))
    table.delete(keys)
    assert rows(table) == [(2, "b", [2])]


def test_one_commit_may_contain_upserts_and_deletes(make: Make) -> None:
    table = make()
    table.upsert(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))
    before = version(table)
    changes = pd.DataFrame(
        {
            "id": [1, 2, 4, 3, 3],
            "v": ["a2", None, "d", "c2", None],
            "is_deleted": pd.array([False, True, None, False, True], "boolean"),
        }
    )
    receipt = table.upsert(changes, deleted="is_deleted")
    assert receipt.verb == "upserted or deleted"
    assert rows(table) == [(1, "a2"), (4, "d")]
    assert version(table) == before + 1 or not by_storage_api()  # other services report no version
    with pytest.raises(ArgumentError, match="deleted is 'v', which is already a column of"):
        table.upsert(changes, deleted="v")
    with pytest.raises(ConversionError, match="is_deleted"):
        table.upsert(changes)


def test_absent_columns_and_nulls_become_null(make: Make) -> None:
    table = make("id BIGINT NOT NULL, v STRING, w BIGINT")
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"], "w": [1, 2]}))
    table.upsert(pa.table({"id": [1], "w": pa.array([None], pa.int64())}))
    assert rows(table) == [(1, None, None), (2, "b", 2)]
    with pytest.raises(ConversionError, match="id"):
        table.upsert(pa.table({"id": pa.array([None], pa.int64()), "v": ["x"]}))
    with pytest.raises(ConversionError, match="id"):
        table.upsert(pa.table({"v": ["x"]}))
    with pytest.raises(ConversionError, match="no columns"):
        table.delete(pa.table({"v": ["x"]}))


STOCK = "id BIGINT NOT NULL, v STRING, n BIGINT, w DOUBLE"
CHANGED = pa.table({"N": pa.array([7, None, 9]), "id": [1, 2, 3]})


@pytest.mark.parametrize(
    "form",
    [
        lambda: CHANGED,
        lambda: CHANGED.to_reader(),
        lambda: CHANGED.to_pandas(),
        lambda: CHANGED.to_pylist(),
        lambda: iter(CHANGED.to_pylist()),
        lambda: (CHANGED.slice(at, 1) for at in range(3)),
        lambda: CHANGED.to_pandas().set_index("id"),
    ],
)
@pytest.mark.gate(2)
def test_a_partial_upsert_keeps_the_columns_that_the_data_lacks(
    make: Make, form: Callable[[], Any]
) -> None:
    table = make(STOCK)
    table.upsert([(1, "a", 1, 0.5), (2, "b", 2, 1.5)])
    data = form()
    index = True if isinstance(data, pd.DataFrame) and data.index.name else None
    receipt = table.upsert(data, partial=True, index=index)
    assert (receipt.rows, receipt.transfer.name) == (3, "TUNNEL")
    found = table.read().to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, "a", 7, 0.5),
        (2, "b", None, 1.5),
        (3, None, 9, None),
    ]


def test_a_partial_upsert_into_partitions_applies_the_last_row_and_deletes(make: Make) -> None:
    table = make(STOCK, by="ds STRING, h BIGINT")
    table.upsert([(1, "a", 1, 0.5, "x", 1), (1, "b", 2, 1.5, "y", 1), (2, "c", 3, 2.5, "x", 1)])
    frame = pd.DataFrame({"id": [1, 1, 2], "n": [8, 9, 0], "gone": [False, False, True], "h": 1})
    table.upsert(frame, partition="ds=x", deleted="gone", partial=True)
    assert rows(table) == [(1, "a", 9, 0.5, "x", 1), (1, "b", 2, 1.5, "y", 1)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([{"id": 1, "v": "a"}, {"id": 2, "n": 1}], "row 1 lacks the column 'v'|has the column 'n'"),
        ([{"id": 1, "v": "a"}, {"id": 2}], "row 1 lacks the column 'v'"),
        ([pa.table({"id": [1], "v": ["a"]}), pa.table({"id": [2]})], "parts of the data"),
        ({"id": [1], "x": [1.5]}, "the table has no column 'x'"),
        ({"v": ["a"]}, "id .*absent"),
    ],
)
@pytest.mark.gate(2)
def test_a_partial_upsert_needs_the_same_known_columns_in_every_row(
    make: Make, data: Any, problem: str
) -> None:
    table = make(STOCK)
    table.upsert([(1, "a", 1, 0.5)])
    with pytest.raises(ConversionError, match=problem) as refused:
        table.upsert(data, partial=True)
    assert refused.value.hint
    assert rows(table) == [(1, "a", 1, 0.5)]


def test_upserts_accept_keys_of_several_columns_and_partitions(make: Make) -> None:
    table = make("a BIGINT NOT NULL, v STRING, b STRING NOT NULL", key="b, a", by="ds STRING")
    data = pa.table(
        {"a": [1, 1, 1], "b": ["x", "y", "x"], "v": ["1", "2", "3"], "ds": ["p", "p", "q"]}
    )
    table.upsert(data)
    table.upsert(pa.table({"a": [1], "b": ["x"], "v": ["4"]}), partition="ds=q")
    assert rows(table) == [(1, "1", "x", "p"), (1, "2", "y", "p"), (1, "4", "x", "q")]
    table.delete(pa.table({"a": [1], "b": ["x"], "ds": ["p"]}))
    table.delete(pa.table({"b": ["x"], "a": [1]}), partition="ds=q")
    assert rows(table) == [(1, "2", "y", "p")]
    with pytest.raises(ConversionError, match="row 0 is of type int"):  # the key is ambiguous
        table.delete([1], partition="ds=q")
    with pytest.raises(ArgumentError, match="partitioned by 'ds'"):
        table.delete(data.drop_columns(["ds"]))


@pytest.mark.storage_api("blobs")
def test_rows_with_blobs_are_upserted(make: Make) -> None:
    table = make("id BIGINT NOT NULL, picture BLOB")
    table.upsert(pd.DataFrame({"id": [1, 2], "picture": [b"one", b"two"]}))
    table.upsert(pd.DataFrame({"id": [2, 3], "picture": [b"2", None]}))
    table.delete([1])
    assert [blob.bytes() for blob in table.blobs("picture")] == [b"2"]


@pytest.mark.storage_api("blobs")
def test_a_partial_upsert_keeps_blobs_and_refuses_new_blobs(make: Make) -> None:
    table = make("id BIGINT NOT NULL, n BIGINT, picture BLOB")
    table.upsert({"id": [1], "n": [1], "picture": [b"one"]})
    table.upsert({"id": [1, 2], "n": [5, 6]}, partial=True)
    assert sorted(table.read(["n"]).to_arrow()["n"].to_pylist()) == [5, 6]
    assert [blob.bytes() for blob in table.blobs("picture")] == [b"one"]
    with pytest.raises(ArgumentError, match="cannot write the BLOB column 'picture'"):
        table.upsert({"id": [1], "picture": [b"two"]}, partial=True)


def test_a_failure_during_the_write_leaves_the_table_unchanged(make: Make) -> None:
    table = make()
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    before, was = version(table), rows(table)

    def failing_batches() -> Any:
        schema = pa.schema({"id": pa.int64(), "v": pa.string()})
        for number in range(3):
            yield pa.record_batch({"id": [1], "v": [str(number)]}, schema=schema)
        raise ValueError("the source broke")

    schema = pa.schema({"id": pa.int64(), "v": pa.string()})
    with pytest.raises(ValueError, match="the source broke"):
        table.upsert(pa.RecordBatchReader.from_batches(schema, failing_batches()))
    with pytest.raises(ConversionError):
        table.upsert(pd.DataFrame({"id": [1, 2], "v": ["x", 3.5]}))
    assert (version(table), rows(table)) == (before, was)


def test_an_upsert_sends_all_rows_in_order_over_one_stream(make: Make) -> None:
    table = make()
    numbers = np.arange(40_000)
    data = pa.table({"id": numbers % 7, "v": [str(n) for n in numbers]})
    receipt = table.write(data, workers=4)  # a table without a key would use four workers
    assert rows(table) == sorted((n % 7, str(n)) for n in range(40_000 - 7, 40_000))
    assert receipt.streams == 1
    assert table.upsert(data).streams == 1


class HidesKeys(ReverseProxy):
    """Removes the primary key from the metadata; only the write session then names it."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        return answer.body.replace(b"PrimaryKey", b"OtherField")


@pytest.mark.storage_api("its requests")
def test_an_upsert_uses_one_stream_even_if_the_metadata_lack_the_key(
    make: Make, service: LocalService
) -> None:
    name = make().name.table
    data = pa.table({"id": [1] * 34, "v": [str(n) * 2**19 for n in range(34)]})  # over 16 MiB
    proxy = HidesKeys(service.endpoint)
    with proxy.running(), connected(service, endpoint=f"{proxy.base}/api") as odps:
        table = odps.table(name)
        assert table.primary_key == ()
        assert table.upsert(data).streams == 1
        assert rows(table) == [(1, data["v"][-1].as_py())]


def test_a_table_without_a_key_is_refused(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("plain"), "id bigint")
    for change in (table.upsert, table.delete):
        with pytest.raises(ArgumentError, match="no primary key") as caught:
            change(pa.table({"id": [1]}))
        assert caught.value.code == "NoPrimaryKey"
        assert "primary_key='id'" in str(caught.value.hint)
    assert table.primary_key == ()
    assert rows(table) == []


def test_the_operation_column_has_the_position_in_the_stream() -> None:
    columns = parse_columns("id bigint, v string")
    operation = parse_columns("__operation tinyint")
    batch = pa.record_batch({"id": [1, 2], "v": ["a", "b"]})
    from odps_nb.schema import TableSchema

    among_system = WriteSchema.of(TableSchema(columns=columns), system_columns=operation)
    among_data = WriteSchema.of(TableSchema(columns=(columns[0], *operation, columns[1])))
    nowhere = WriteSchema.of(TableSchema(columns=columns))
    assert [takes_operation(s) for s in (among_system, among_data, nowhere)] == [True, True, False]
    last = Stamp(operation=DELETE).put(batch, among_system)
    assert last.schema.names == ["id", "v", "__operation"]
    assert last.column(2).to_pylist() == [DELETE, DELETE]
    middle = Stamp().put(batch, among_data)
    assert middle.schema.names == ["id", "__operation", "v"]
    assert middle.column(1).to_pylist() == [UPSERT, UPSERT]
    assert Stamp().put(batch, nowhere) is batch
    with pytest.raises(ArgumentError, match="does not support upserts"):
        Stamp(operation=UPSERT).put(batch, nowhere)


@pytest.mark.storage_api("blobs")
def test_each_blob_is_sent_with_the_key_of_its_row(odps: Connection, new_name: NewName) -> None:
    """The service needs the key (evidence 206); the embedded service checks its columns."""
    columns = "id bigint, `S` string, photo blob, more array<blob>"
    options = {"partitioned_by": "ds string", "primary_key": ["id", "S"]}
    table = odps.create_table(new_name("keyed_blobs"), columns, **options)
    one, other = (odps_nb.NewBlob(text, mime_type="text/plain") for text in (b"one", b"other"))
    rows = [
        {"id": 1, "S": "a", "photo": b"first", "more": [one, None, other], "ds": "x"},
        {"id": 2, "S": "b", "photo": one, "more": None, "ds": "y"},
    ]
    table.upsert(rows)
    table.upsert([{**rows[0], "photo": b"second", "more": [b"only"]}])
    photos, more = table.blobs("photo"), table.blobs("more.element")
    assert sorted(blob.bytes() for blob in photos) == [b"one", b"second"]
    assert [blob.bytes() for blob in more] == [b"only"]
    table.delete([{"id": 1, "S": "a"}], partition="ds=x")
    assert [blob.bytes() for blob in table.blobs("photo")] == [b"one"]
