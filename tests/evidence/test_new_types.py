"""Columns of types that odps_nb does not know, and of the newest types: GEOGRAPHY and VECTOR.

A proxy changes the name of a type in each document of the service, so the column's rows stay the
same but no document names a type that odps_nb knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.errors import (
    ArgumentError,
    ConversionError,
    InvalidRequestError,
    OdpsNbWarning,
    QueryError,
)
from odps_nb.local.server.launch import LocalService
from odps_nb.notebook.explore import explorer as exploring
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import format_type
from tests.support.compat.recorder import Recorder
from tests.support.messages import Browser
from tests.support.named import NewName
from tests.support.reverse_proxy import Answer, Request
from tests.support.service.connecting import connected
from tests.support.service.raw import Raw

BYTES = [b"\x01", None, b"\xff\x00"]


class Rewriting(Recorder):
    """Changes the types in documents, but no rows."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        kind = dict(answer.headers).get("content-type", "")
        return self.rewrite(answer.body) if "json" in kind or "xml" in kind else answer.body

    def rewrite(self, body: bytes) -> bytes:
        """Return the changed document."""
        raise NotImplementedError


class Renaming(Rewriting):
    """Gives the type BINARY another name and number."""

    text = "FOO(3)"

    def rewrite(self, body: bytes) -> bytes:
        body = body.replace(b"binary", self.text.encode())
        return re.sub(rb'("Type": ?)11\b', rb"\g<1>77", body)


class Untyped(Rewriting):
    """Replaces the text of the type BINARY with other JSON, or omits the member."""

    written = ""

    def rewrite(self, body: bytes) -> bytes:
        member = rb'"\1": ' + self.written.encode() + rb"\2" if self.written else b""
        return re.sub(rb'"([Tt]ype)": ?"binary"(, ?)', member, body)


@contextmanager
def through(service: LocalService, proxy: Rewriting) -> Iterator[Connection]:
    """Connect to the service through a proxy."""
    with (
        proxy.running(),
        connected(service, endpoint=proxy.endpoint, tunnel_endpoint=proxy.base) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def proxy(empty_service: LocalService) -> Renaming:
    return Renaming(empty_service.tunnel_endpoint)


@pytest.fixture(scope="module")
def odps(empty_service: LocalService, proxy: Renaming) -> Iterator[Connection]:
    with through(empty_service, proxy) as found:
        yield found


@pytest.fixture(scope="module")
def name(raw: Raw) -> str:
    """A table with three rows whose column ``x`` has a type that no document names."""
    name = raw.make("(id bigint, x binary, xs array<binary>, s string)")
    rows = {"id": [1, 2, 3], "x": BYTES, "xs": [[b"a"], [], None], "s": ["a", "b", "c"]}
    raw.write(name, pa.table(rows, schema=WRITTEN))
    return name


WRITTEN = pa.schema(
    {"id": pa.int64(), "x": pa.binary(), "xs": pa.list_(pa.binary()), "s": pa.string()}
)


def types_of(schema: TableSchema) -> list[str]:
    return [format_type(column.type) for column in schema]


# -- unknown types ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["FOO", "geometry(4326)", "timestamp with local zone", "odd [{?"])
def test_a_table_shows_the_text_of_an_unknown_type(
    odps: Connection, proxy: Renaming, name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence 154, 155: a type text that cannot be parsed is kept, in both kinds of documents."""
    monkeypatch.setattr(proxy, "text", text)
    scan = odps.table(name).read()
    shown = types_of(odps.table(name).schema)
    assert shown[:2] == types_of(scan.schema)[:2] == ["bigint", text]
    assert shown[2] == f"array<{text}>"
    assert scan.to_arrow()["x"].to_pylist() == BYTES


@pytest.mark.gate(3)
@pytest.mark.parametrize("written", ["", '""', '" "', "null", "1.5", "true"])
def test_a_table_with_an_unreadable_type_text_is_read(
    empty_service: LocalService, name: str, written: str
) -> None:
    """Evidence 154: the type is unknown in all documents, and causes no second request."""
    proxy = Untyped(empty_service.tunnel_endpoint)
    proxy.written = written
    with through(empty_service, proxy) as odps:
        assert types_of(odps.table(name).schema)[0] == "bigint"
        proxy.take()
        rows = odps.table(name).read().to_arrow()
        asked = [one.action for one in proxy.take()]
    assert (rows["id"].to_pylist(), rows["x"].to_pylist()) == ([1, 2, 3], BYTES)
    assert asked.count("TableCreateReadSession") == asked.count("TableRead") == 1


def test_an_unknown_column_is_returned_unchanged(odps: Connection, name: str) -> None:
    """Evidence 154: other columns are read as usual, and the unknown column with its Arrow type."""
    rows = odps.table(name).read().to_arrow()
    assert rows.schema.field("x").type == pa.binary()
    assert rows["x"].to_pylist() == BYTES
    assert rows["xs"].to_pylist() == [[b"a"], [], None]
    frame = odps.table(name).read().to_pandas()
    assert frame["s"].tolist() == ["a", "b", "c"]
    assert frame["x"].tolist() == BYTES
    assert odps.table(name).read().to_polars()["x"].to_list() == BYTES
    assert pa.table(odps.table(name).read())["x"].to_pylist() == BYTES
    assert odps.table(name).head(2)["id"].tolist() == [1, 2]


def test_an_unknown_column_needs_no_additional_request(
    odps: Connection, proxy: Renaming, name: str
) -> None:
    """Evidence 154: nothing is retried because of a type."""
    proxy.take()
    odps.table(name).read().to_arrow()
    actions = [one.action for one in proxy.take() if one.action]
    assert sorted(actions) == sorted(set(actions))


def test_results_of_sql_may_have_columns_of_unknown_types(odps: Connection, name: str) -> None:
    """Evidence 154: the read session of an instance uses the nested form."""
    result = odps.sql(f"select id, x from {name} order by id")
    assert result.to_pandas()["x"].tolist() == BYTES
    assert types_of(result.schema) == ["bigint", "type 77"]


def test_an_empty_table_is_read_with_its_columns(odps: Connection, raw: Raw) -> None:
    name = raw.make("(id bigint, x binary)")
    assert odps.table(name).read().to_arrow().schema.names == ["id", "x"]
    assert list(odps.table(name).read().to_pandas().columns) == ["id", "x"]


def test_a_column_of_an_unknown_type_can_only_be_tested_for_null(
    odps: Connection, proxy: Renaming, name: str
) -> None:
    """Evidence 154: a condition on an unknown type is rejected before anything is sent."""
    table = odps.table(name)
    assert table.read(where="s = 'b'").to_arrow()["x"].to_pylist() == [None]
    assert table.read(where="x is null").to_arrow()["id"].to_pylist() == [2]
    table.schema  # noqa: B018  fetches the columns
    proxy.take()
    with pytest.raises(ArgumentError, match=r"x \(FOO\(3\)\) can only be tested for null"):
        table.read(where="x = 'a'").to_arrow()
    assert "TableRead" not in [one.action for one in proxy.take()]


def test_engines_that_need_types_in_advance_refuse_an_unknown_column_by_name(
    odps: Connection, name: str
) -> None:
    """Evidence 154: the error names the column and type, and the columns to select instead."""
    table = odps.table(name)
    named = table.read(columns=["id", "x"])
    for refused in (named.dataset, named.scan_polars, named.to_dask, named.to_ray):
        with pytest.raises(ConversionError, match=r"'x' \(FOO\(3\)\)") as caught:
            refused()
        assert caught.value.column == "x"
        assert caught.value.hint == "read only the other columns: read(columns=['id'])"


WITHOUT_TYPES: dict[str, Callable[[Table], Any]] = {
    "dataset": lambda table: table.dataset().to_table(columns=["id", "s"]).to_pydict(),
    "all": lambda table: table.dataset().to_table().to_pydict(),
    "polars": lambda table: table.scan_polars().collect().to_dict(as_series=False),
    "dask": lambda table: table.to_dask().compute().to_dict("list"),
    "duckdb": lambda table: duckdb.from_arrow(table.dataset()).arrow().read_all().to_pydict(),
    "ray": lambda table: {"id": [1, 2, 3], "s": _ray_column(table)},
}


def _ray_column(table: Table) -> list[str]:
    """Return the rows that Ray's tasks read, without Ray."""
    (task,) = table.read()._with_types("a Ray Dataset")._split_tasks()
    assert task.schema.names == ["id", "s"]
    return task.table()["s"].to_pylist()


@pytest.mark.parametrize("form", WITHOUT_TYPES)
def test_engines_that_need_types_in_advance_omit_an_unknown_column(
    odps: Connection, name: str, form: str
) -> None:
    """Evidence 154: the other columns are read, and one warning names the omitted ones."""
    with pytest.warns(OdpsNbWarning, match=r"x \(FOO\(3\)\)|x \(type 77\)") as told:
        found = WITHOUT_TYPES[form](odps.table(name))
    assert found == {"id": [1, 2, 3], "s": ["a", "b", "c"]}
    assert len(told) == 1
    assert "xs (" in str(told[0].message)


def test_a_known_type_in_an_unknown_arrow_form_is_returned_unchanged(
    odps: Connection, proxy: Renaming, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence 155: no source shows the Arrow form of a VECTOR in a session."""
    monkeypatch.setattr(proxy, "text", "vector(float,3)")
    table = odps.table(name)
    assert types_of(table.schema)[1] == "vector(float,3)"
    assert table.read().to_arrow()["x"].to_pylist() == BYTES
    assert table.read().to_pandas()["x"].tolist() == BYTES
    assert table.dataset().to_table(columns=["s"])["s"].to_pylist() == ["a", "b", "c"]
    with pytest.raises(ConversionError, match="'x' does not fit fixed_size_list") as caught:
        table.dataset().to_table(columns=["x"])
    assert "to_arrow()" in str(caught.value.hint)


def test_a_write_leaves_an_unknown_column_null(odps: Connection, raw: Raw) -> None:
    """Evidence 154: other columns are written as usual; values for the unknown one are rejected."""
    table = odps.table(raw.make("(id bigint, x binary, s string)"))
    table.write(pd.DataFrame({"id": [1], "s": ["a"]}))
    table.write(pa.table({"id": [2], "x": pa.nulls(1)}))
    assert table.read().to_arrow()["x"].to_pylist() == [None, None]
    for data in ({"id": [3], "x": [b"a"]}, pa.table({"id": [3], "x": [b"a"]})):
        with pytest.raises(ConversionError, match=r"FOO\(3\)\): values of this type cannot be"):
            table.write(data)
    assert len(table.read().to_pandas()) == 2


def test_a_table_with_an_unknown_column_type_is_not_created(odps: Connection, name: str) -> None:
    with pytest.raises(ArgumentError, match=r"'x' has the type 'FOO\(3\)'"):
        odps.create_table(f"{name}_copy", odps.table(name).schema)


def test_an_unknown_column_can_be_explored(odps: Connection, name: str) -> None:
    """Evidence 154: the explorer displays and profiles the table, and lists show the type."""
    assert "FOO(3)" in odps.table(name).read()._repr_mimebundle_()["text/html"]
    view = exploring.explore(odps.table(name).read(), seed=1)
    view._widget = browser = Browser()
    view.receive({"do": "ready"})
    assert [one["type"] for one in browser.wait("table")[0]["columns"]][1] == "FOO(3)"
    cells = json.loads(browser.wait("page", start=0)[1][0])
    assert cells[0] == ["1", "2", "3"]
    assert len(browser.wait("profile")[0]["columns"]) == 4
    view.close()


# -- GEOGRAPHY and VECTOR -----------------------------------------------------------------------

POINT = bytes.fromhex(
    "0101000000000000000000244000000000000034 40".replace(" ", "")
)  # POINT (10 20)


@pytest.fixture(scope="module")
def local(empty_service: LocalService) -> Iterator[Connection]:
    """The service without a proxy."""
    with connected(empty_service) as found:
        yield found


@pytest.fixture(scope="module")
def places(local: Connection, raw: Raw) -> str:
    """A table with a column of each type."""
    name = raw.make("(id bigint, g geography, v vector(float,3), w array<vector(double,2)>)")
    local.table(name).write(
        {
            "id": [1, 2, 3],
            "g": [POINT, None, b""],
            "v": [[0.5, 1, 2], np.array([3, 4, 5], "float64"), None],
            "w": [[[1.0, 2.0], [3.0, 4.0]], [None], None],
        }
    )
    return name


def test_a_geography_is_read_as_bytes(local: Connection, places: str) -> None:
    """Evidence 154: WKB (Go: geography_ft_test), unchanged."""
    table = local.table(places)
    assert types_of(table.schema)[1] == "geography"
    rows = table.read().to_arrow()
    assert rows.schema.field("g").type == pa.binary()
    assert rows["g"].to_pylist() == table.read().to_pandas()["g"].tolist() == [POINT, None, b""]
    assert local.sql(f"select g from {places} where id = 1").to_pandas()["g"].tolist() == [POINT]
    assert table.dataset().to_table(columns=["g"])["g"].to_pylist() == [POINT, None, b""]
    with pytest.raises(ConversionError, match="text does not fit GEOGRAPHY") as caught:
        table.write({"id": [9], "g": ["POINT (10 20)"]})
    assert "shapely.to_wkb" in str(caught.value.hint)


def test_a_vector_is_a_list_of_fixed_length(local: Connection, places: str) -> None:
    """Evidence 155: vector(float,3), from lists and NumPy arrays, with nulls."""
    table = local.table(places)
    assert types_of(table.schema)[2:] == ["vector(float,3)", "array<vector(double,2)>"]
    rows = table.read().to_arrow()
    assert rows.schema.field("v").type == pa.list_(pa.float32(), 3)
    assert rows["v"].to_pylist() == [[0.5, 1, 2], [3, 4, 5], None]
    assert rows["w"].to_pylist() == [[[1, 2], [3, 4]], [None], None]
    frame = table.read().to_pandas()
    assert frame["v"][0].dtype == np.float32
    assert np.stack(frame["v"][:2].tolist()).tolist() == [[0.5, 1, 2], [3, 4, 5]]
    assert frame["v"][2] is None
    assert table.read().to_polars()["v"].to_list() == [[0.5, 1, 2], [3, 4, 5], None]
    dataset = table.dataset()
    assert dataset.schema.field("v").type == pa.list_(pa.float32(), 3)
    found = duckdb.sql("select array_distance(v, v) from dataset where id < 3")
    assert found.fetchall() == [(0.0,), (0.0,)]


def test_vectors_of_a_result_are_lists(local: Connection, places: str) -> None:
    """Evidence 155: SQL can select these columns; a result as text does not contain their types."""
    found = local.sql(f"select v, v[1] as second from {places} where id = 2").to_arrow()
    assert found["v"].to_pylist() == [[3, 4, 5]]
    assert found["second"].to_pylist() == [4]
    local.sql(f"create table {places}_copy as select * from {places}").to_pandas()
    local.sql(f"insert into {places}_copy (id, v) values (4, vector(1.0F, 2.0F, 3.0F))").to_pandas()
    copy = local.table(f"{places}_copy")
    assert copy.schema == local.table(places).schema
    assert copy.read().to_arrow()["v"].to_pylist() == [[0.5, 1, 2], [3, 4, 5], None, [1, 2, 3]]
    with pytest.raises(QueryError, match="does not have 3 elements"):
        local.sql(f"insert into {places} (v) values (vector(1.0F))").to_pandas()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([1.0, 2.0], "it does not have 3 elements"),
        (np.ones(4), "it does not have 3 elements"),
        ([1.0, None, 2.0], "an element is null"),
        ("abc", "does not fit VECTOR"),
        (1.5, "a float does not fit VECTOR"),
        (["a", "b", "c"], "text does not fit FLOAT"),
        ([1e300, 0.0, 0.0], "out of range for float"),
    ],
)
def test_an_invalid_vector_is_refused(
    local: Connection, places: str, value: object, problem: str
) -> None:
    """Evidence 155: a vector of a different length is an error that names the row."""
    for rows in ({"id": [8, 9], "v": [[1, 2, 3], value]}, pd.DataFrame({"v": [None, value]})):
        with pytest.raises(ConversionError, match=problem) as caught:
            local.table(places).write(rows)
        assert (caught.value.column, caught.value.row) == ("v", 1)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.float32()),
        pa.large_list(pa.float64()),
        pa.list_(pa.float32(), 3),
        pa.list_(pa.float16()),
        pa.list_(pa.int64()),
    ],
    ids=str,
)
def test_arrow_lists_can_be_vectors(local: Connection, raw: Raw, kind: pa.DataType) -> None:
    """Evidence 155: every form of lists is accepted."""
    table = local.table(raw.make("(v vector(float,3))"))
    rows = [[1, 2, 3], None, [4, 5, 6]]
    if pa.types.is_float16(kind.value_type):
        rows = [None if row is None else np.array(row, "float16") for row in rows]
    table.write(pa.table({"v": pa.array(rows, kind)}))
    table.write(pa.table({"v": pa.array(rows, kind).slice(1)}))
    found = table.read().to_arrow()["v"].to_pylist()
    assert found == [[1, 2, 3], None, [4, 5, 6], None, [4, 5, 6]]


def test_a_matrix_is_accepted_as_a_column_of_vectors(local: Connection, raw: Raw) -> None:
    """Evidence 155: Two-dimensional NumPy arrays and tensors are written row by row."""
    table = local.table(raw.make("(id bigint, v vector(double,2))"))
    matrix = np.arange(6.0).reshape(3, 2)
    table.write({"id": [1, 2, 3], "v": matrix})
    assert np.array_equal(np.stack(table.read().to_pandas()["v"]), matrix)
    with pytest.raises(ConversionError, match="it does not have 2 elements"):
        table.write({"id": [1, 2], "v": matrix.reshape(2, 3)})


def test_the_service_refuses_vectors_of_another_length(raw: Raw) -> None:
    """Evidence 155: even for rows that no client has checked."""
    name = raw.make("(v vector(float,3))")
    with pytest.raises(InvalidRequestError, match="3 elements"):
        raw.write(name, pa.table({"v": pa.array([[1.0]], pa.list_(pa.float32()))}))


def test_unsupported_functions_are_reported(local: Connection, places: str) -> None:
    """Evidence 154: there are no geography functions."""
    with pytest.raises(
        QueryError, match="the embedded service does not support function st_geogfromtext"
    ):
        local.sql(f"select ST_GEOGFROMTEXT('POINT (1 2)') from {places}").to_pandas()


# -- the bare DECIMAL ---------------------------------------------------------------------------


class Bare(Rewriting):
    """Declares columns as DECIMAL whose rows are DECIMAL(54,18)."""

    def rewrite(self, body: bytes) -> bytes:
        body = body.replace(b"decimal(54,18)", b"decimal")
        return re.sub(rb'"Precision": ?54, ?"Scale": ?18', b'"Precision":0,"Scale":0', body)


READS: dict[str, Callable[[Connection, Table], Any]] = {
    "to_arrow": lambda _, table: table.read().to_arrow()["d"].to_pylist(),
    "to_pandas": lambda _, table: table.read().to_pandas(decimals="exact")["d"].tolist(),
    "where": lambda _, table: table.read(where="id < 9").to_arrow()["d"].to_pylist(),
    "head": lambda _, table: [table.head(1)["d"][0], None],
    "sql": lambda odps, table: odps.sql(f"select d from {table.name}").to_arrow()["d"].to_pylist(),
    "to_polars": lambda _, table: table.read().to_polars()["d"].to_list(),
    "scan_polars": lambda _, table: table.scan_polars().collect()["d"].to_list(),
    "dataset": lambda _, table: table.dataset().to_table()["d"].to_pylist(),
    "stream": lambda _, table: pa.table(table.read())["d"].to_pylist(),
    "dask": lambda _, table: table.to_dask().compute()["d"].tolist(),
}
NARROW = ("dask", "to_polars", "scan_polars", "dataset", "stream")


@pytest.mark.parametrize("digits", [20, 36])
def test_a_bare_decimal_may_have_more_than_38_digits(
    empty_service: LocalService, local: Connection, new_name: NewName, digits: int
) -> None:
    """Evidence 174: each way reads DECIMAL(54,18), or its error names the value and the remedy."""
    value = Decimal("1" * digits + ".5")
    made = local.create_table(new_name("bare"), "id bigint, d decimal(54,18)")
    made.write({"id": [1, 2], "d": [value, None]})
    with through(empty_service, Bare(empty_service.tunnel_endpoint)) as odps:
        table = odps.table(made.name.table)
        assert types_of(table.schema) == ["bigint", "decimal"]
        for way, read in READS.items():
            if digits > 20 and way in NARROW:
                with pytest.raises((ConversionError, pa.ArrowInvalid), match="'d' does not fit"):
                    read(odps, table)
            elif digits > 20 and way == "sql":
                with pytest.raises(
                    QueryError, match="embedded service does not support DECIMAL of more"
                ):
                    read(odps, table)
            else:
                found = read(odps, table)
                assert [None if one is pd.NA else one for one in found] == [value, None], way
