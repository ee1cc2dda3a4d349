"""Invalid input raises one typed error that states what failed, where, and what to do.

No write is partial.
"""

import inspect
import io
import re
import types
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
import odps_nb.torch
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    ConversionError,
    NotFoundError,
    OdpsNbError,
    QueryError,
    StateError,
    explain,
)
from odps_nb.terms import PartitionSpec
from tests.support.odd_objects import ODD, Mistake
from tests.support.service.connecting import connected, keys_of
from tests.support.service.services import by_storage_api, by_tunnel
from tests.support.signatures import MADE, callables


@pytest.fixture
def table(odps, new_name):
    made = odps.create_table(
        new_name("bad"),
        "id bigint, amount decimal(10,2), note varchar(5)",
        partitioned_by="ds string",
    )
    return made


def rows_in(table) -> int:
    return table.read().to_arrow().num_rows


def has_three_lines(error: BaseException) -> bool:
    lines = explain(error)
    return 2 <= len(lines) <= 3 and lines[-1].startswith("to do: ")


# -- numbers ------------------------------------------------------------------------------------


EMPTY = {
    "list": [],
    "tuple": (),
    "set": set(),
    "generator": lambda: iter(()),
    "Series": pd.Series([], dtype=object),
    "array": np.array([], dtype=object),
    "index": pd.Index([]),
    "dict": {},
    "text": "",
    "blank": "  ",
    "separators": ",/",
    "spec": PartitionSpec(),
    "list of an empty one": ["ds=2024-01-01", ""],
    "list of an empty dict": [{}],
}
READS = {
    "read": lambda table, given: table.read(partitions=given).to_arrow(),
    "head": lambda table, given: table.head(2, partitions=given),
    "blobs": lambda table, given: table.blobs("content", partitions=given),
    "explore": lambda table, given: table.read(partitions=given).explore(),
    "partitions": lambda table, given: table.partitions(given),
    "partition_details": lambda table, given: table.partition_details(given),
}


@pytest.mark.parametrize("what", EMPTY)
@pytest.mark.parametrize("way", READS)
def test_an_empty_list_of_partitions_never_selects_all_partitions(odps, what, way):
    """A job that finds no new days passes an empty list."""
    given = EMPTY[what]
    table = odps.table("media" if way == "blobs" else "orders")
    with pytest.raises(ArgumentError) as caught:
        READS[way](table, given() if callable(given) else given)
    assert has_three_lines(caught.value)


def test_a_query_that_is_not_text_is_refused(odps):
    with pytest.raises(ArgumentError, match="query is of type int; it must be a string"):
        odps.sql(7)


@pytest.mark.parametrize("name", ["limit", "splits", "split_bytes", "max_bytes"])
@pytest.mark.parametrize("value", ["5", 2.5, True, -1, float("nan")])
def test_the_error_for_an_invalid_number_names_the_argument(odps, name, value):
    with pytest.raises(ArgumentError, match=f"{name} is {value!r}"):
        odps.table("orders").read(**{name: value})


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ({"columns": 7}, "^columns is of type ", ""),
        ({"columns": (c for c in "ab")}, "^columns is of type ", ""),
        ({"columns": ["id", None]}, "^columns is a list of NoneType, str; it must be a list", ""),
        ({"columns": {"id", "status"}}, "^columns is of type set", ""),
        ({"params": {"id": 7}}, "params has values, but where is missing", "as where="),
        ({"columns": "id"}, "columns", r"^pass e\.g\. columns=\['id'\]$"),
        ({"columns": ["id", "quantiti"]}, "no column 'quantiti'", "did you mean 'quantity'\\?"),
        ({"where": 5}, "^where is of type ", r"^pass e\.g\. where='…'$"),
        ({"where": ""}, "where", "^pass where=None to read all rows$"),
        ({"where": " \n"}, "where", "^pass where=None to read all rows$"),
        ({"limit": "5"}, "limit is '5'", r"^pass e\.g\. limit=5$"),
        ({"session_id": " "}, "session_id is blank", "of a scan"),
        ({"char_padding": "yes"}, "char_padding", "^pass True or False$"),
        ({"splits": 2, "split_bytes": 1 << 20}, "splits and split_bytes", ""),
        ({"partitions": "dt=2024-01-01"}, "'dt' is not a partition column", "columns are: ds"),
        ({"compression": "snappy"}, "unknown compression", ""),
    ],
)
def test_invalid_options_of_a_read_are_refused_before_a_session_is_opened(odps, given, said, hint):
    with pytest.raises((ArgumentError, NotFoundError), match=said) as caught:
        odps.table("orders").read(**given)
    assert re.search(hint, caught.value.hint)
    assert has_three_lines(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"workers": 0}, "workers is 0"), ({"compression": "gzip"}, "unknown compression 'gzip'")],
)
def test_invalid_options_of_a_write_are_refused(table, given, said):
    with pytest.raises(ArgumentError, match=said):
        table.write(pa.table({"id": [1]}), partition="ds=x", **given)


def test_numpy_numbers_are_bound_as_numbers(odps):
    read = odps.table("orders").read(["id"], limit=np.int64(3), splits=np.int8(2))
    assert read.to_arrow().num_rows == 3


# -- calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said", "hint"),
    [
        (lambda t: t.read(partition="ds=x"), "Table.read has no argument", "mean partitions=?"),
        (lambda t: t.read(["id"], "id > 1"), "too many positional", "by keyword: where="),
        (lambda t: t.head(n=3), "Table.head has no argument n=", "its arguments are: rows,"),
        (lambda t: t.write(), "missing a required argument: 'data'", "data, partition"),
        (lambda t: t.upsert([], delete="x"), "no argument delete=", "did you mean deleted=?"),
        (lambda t: t.blobs(filter="id > 1"), "no argument filter=", "column, limit, keep"),
        (lambda t: t.open_write(overwite=True), "no argument overwite=", "overwrite=?"),
        (lambda t: t.read().to_pandas(dtype={}), "to_pandas has no argument", "dtypes=?"),
        (lambda t: t.connection.sql("select 1", param={}), "Connection.sql has no", "params=?"),
        (
            lambda t: t.connection.create_table("x", "id int", partition_by="d"),
            "no",
            "partitioned_",
        ),
        (lambda t: t.connection.tables("a", "b"), "tables: too many", "arguments are: pattern"),
        (lambda t: odps_nb.spark.read(None, t, "x", column=["a"]), "read has no", "columns=?"),
        (lambda t: odps_nb.torch.rows(t, batch=5), "rows has no argument batch=", "batch_size"),
        (lambda _: odps_nb.torch.loader(), "loader: missing a required", "dataset, collate_fn"),
        (lambda t: odps_nb.spark.attach(None, t, "x", db=1), "attach has no", "tables, database"),
        (lambda _: odps_nb.spark.register(), "register: missing a required", "spark, odps"),
        (lambda t: odps_nb.spark.options(t, t), "options: too many", "arguments are: odps"),
        (lambda _: odps_nb.ClientOptions(3), "ClientOptions: too many", "keyword: retries="),
        (lambda _: odps_nb.NewBlob(b"", name="x"), "NewBlob has no argument name=", "file_name"),
    ],
)
def test_the_error_for_a_wrong_argument_explains_the_call(odps, call, said, hint):
    with pytest.raises(ArgumentError) as caught:
        call(odps.table("orders"))
    assert said in str(caught.value)
    assert hint in caught.value.hint


@pytest.mark.storage_api("blobs")
def test_a_type_error_in_the_function_of_the_caller_is_not_changed(odps):
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        odps.table("media").blobs("content", keep=lambda: True)


def test_wrapped_functions_keep_their_signatures():
    parameters = list(inspect.signature(odps_nb.Table.head).parameters)
    assert parameters[:3] == ["self", "rows", "partitions"]
    assert "def head(" in inspect.getsource(odps_nb.Table.head)


# -- names --------------------------------------------------------------------------------------


def test_an_error_for_an_unknown_table_suggests_similar_names(odps):
    with pytest.raises(NotFoundError) as caught:
        odps.table("ordrs").read().to_arrow()
    assert (caught.value.code, caught.value.hint) == ("NoSuchTable", "did you mean orders?")
    with pytest.raises(NotFoundError) as caught:
        _ = odps.table("ordrs").schema
    assert caught.value.hint == "did you mean orders?"
    assert caught.value.request_id
    assert has_three_lines(caught.value)


def test_a_suggested_name_finds_the_table_in_its_schema(service_pool, new_name):
    service = service_pool.get(options=("--schemas",), samples=False)
    odps = connected(service)
    shelf, base = new_name("shelf"), new_name("near")
    odps.sql(f"create schema {shelf}")
    project = service.project
    odps.create_table(f"{project}.{shelf}.{base}_lines", "id bigint")
    odps.create_table(f"{base}_cards", "id bigint")
    with connected(service, schema=shelf) as mine:
        for connection, wrong, meant in (
            (mine, f"{base}_line", f"{base}_lines"),
            (mine, f"{project}.{base}_card", f"{project}.{base}_cards"),
            (odps, f"{base}_card", f"{base}_cards"),
            (odps, f"{project}.{shelf}.{base}_line", f"{project}.{shelf}.{base}_lines"),
        ):
            for ask in (lambda table: table.schema, lambda table: table.read().to_arrow()):
                with pytest.raises(NotFoundError) as caught:
                    ask(connection.table(wrong))
                assert caught.value.hint == f"did you mean {meant}?"
            assert connection.table(meant).exists()
        for ask in (lambda table: table.schema, lambda table: table.read().to_arrow()):
            with pytest.raises(NotFoundError) as caught:
                ask(odps.table(f"{shelf}.{base}_lines"))
            assert f"write {project}.{shelf}.{base}_lines if {shelf} is a" in caught.value.hint
        with pytest.raises(ArgumentError) as refused:
            odps.create_table(f"{project}.{shelf}.new", [{"id": 1}], if_not_exists=True)
        assert f"odps.table('{project}.{shelf}.new').write(" in refused.value.hint
    odps.close()


STALE = {
    "write": lambda table: table.write([{"id": 1, "later": 1}]),
    "write a frame": lambda table: table.write(pd.DataFrame({"id": [1], "later": [1]})),
    "write a table": lambda table: table.write(pa.table({"id": [1], "later": [1]})),
    "upsert": lambda table: table.upsert(pa.table({"id": [1], "later": [1]})),
    "open_write": lambda table: table.open_write().write([{"id": 1, "later": 1}]),
    "columns": lambda table: table.read(["later"]),
    "where": lambda table: table.read(where="later > 1"),
    "head": lambda table: table.head(columns=["later"]),
    "blobs": lambda table: table.blobs("later"),
}


@pytest.mark.parametrize("way", STALE)
def test_an_error_for_a_recently_added_column_suggests_reload(odps, new_name, way):
    table = odps.create_table(new_name("older"), "id bigint", primary_key="id")
    assert table.schema.names == ("id",)
    odps.sql(f"alter table {table.name} add columns (later bigint)")
    with pytest.raises(OdpsNbError) as caught:
        STALE[way](table)
    assert "table.reload()" in caught.value.hint
    assert table.reload().schema.names == ("id", "later")


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("status = paid", "write text in quotes: 'paid'"),
        ("paid <> status", "write text in quotes: 'paid'"),
        ("status in ('new', paid)", "write text in quotes: 'paid'"),
        ("ds = 2024-01-01", "'2024-01-01'"),
        ("ds >= 2024-01-01 and id > 1", "'2024-01-01'"),
        ("ds < 2024-01-01 10:00:00", "'2024-01-01"),
        ("ds between 2024-01-01 and 2024-01-02", "'2024-01-01'"),
        ("statsu = 'paid'", "did you mean status"),
    ],
)
def test_an_error_explains_that_quotes_are_missing(odps, where, hint):
    with pytest.raises(ArgumentError) as caught:
        odps.table("orders").read(where=where)
    assert hint in caught.value.hint
    with pytest.raises(QueryError) as failed:
        odps.sql(f"select id from orders where {where}").to_arrow()
    assert hint in failed.value.hint


@pytest.mark.parametrize(
    ("kind", "name", "advice"),
    [
        ("connection", "get_table", "call odps.table('name')"),
        ("connection", "write", "call odps.table('name').write(…)"),
        ("connection", "[]", "call odps.table('id')"),
        ("connection", "gallery", "call odps.table('name').blobs()"),
        ("table", "gallery", "call table.blobs()"),
        ("scan", "blobs", "call odps.table('name').blobs(…, where='…')"),
        ("result", "gallery", "odps.blobs(frame, 'column')"),
        ("table", "to_pandas", "call table.read().to_pandas()"),
        ("table", "where", "call table.read(['column'], where='…').to_pandas()"),
        ("table", "[]", "call table.read(['id']).to_pandas()"),
        ("scan", "head", "limit=5"),
        ("scan", "[]", "call .to_pandas()['id']"),
        ("result", "to_dask", "call odps.table(…).to_dask()"),
        ("result", "[]", "call .to_pandas()['id']"),
    ],
)
def test_the_error_for_a_missing_method_names_the_method_to_call(odps, kind, name, advice):
    table = odps.table("orders")
    if kind == "result":
        found = odps.sql("select 1 as id")
    else:
        found = {"table": table, "connection": odps}.get(kind) or table.read(limit=1)
    with pytest.raises((AttributeError, TypeError)) as caught:
        found["id"] if name == "[]" else getattr(found, name)
    assert advice in str(caught.value)
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        getattr(found, "nothing")  # noqa: B009


@pytest.mark.parametrize("kind", ["table", "scan", "result"])
def test_the_error_for_each_attribute_and_subscript_of_a_data_frame_says_what_to_call(odps, kind):
    table = odps.table("orders")
    found = {"table": table, "scan": table.read(limit=1), "result": odps.sql("select 1 as id")}[
        kind
    ]
    names = [one for one in dir(pd.DataFrame) if not one.startswith("_")]
    for name in set(names) - set(dir(type(found))):
        with pytest.raises(AttributeError, match=rf"'{name}': (call|see) "):
            getattr(found, name)
    for key in ("id", ["id"], 0, slice(5)):
        with pytest.raises(TypeError, match="has no items: call ") as caught:
            found[key]
        call = str(caught.value).partition(": call ")[2].partition(", or")[0]
        call = call if kind == "table" else f"found{call}"
        if isinstance(key, (str, list)) or kind == "table":
            assert len(eval(call, {"table": table, "found": found}))  # noqa: S307
    with pytest.raises(TypeError, match=r"loop over .*\.batches\(\)"):
        next(iter(found))


@pytest.mark.parametrize(
    "query", ["select * from {rows}", "select * from orders where id in :rows"]
)
def test_the_error_for_a_data_frame_in_a_query_says_to_write_it_to_a_table(odps, query):
    with pytest.raises(ArgumentError) as caught:
        odps.sql(query, params={"rows": pd.DataFrame({"id": [1]})})
    assert "write(rows, create=True)" in caught.value.hint


def test_a_partition_cannot_be_bound_as_a_value(odps):
    spec = PartitionSpec.of("ds=x,Hour=3")
    assert (spec["ds"], spec["hour"]) == ("x", "3")
    for key in ("day", 0, None):
        with pytest.raises(KeyError) as missing:
            spec[key]
        assert isinstance(missing.value, ArgumentError)
        assert missing.value.hint == "use one of its keys: ds, Hour"
    with pytest.raises(ArgumentError, match="a PartitionSpec cannot be bound") as caught:
        odps.sql("select :p", params={"p": spec})
    assert "spec['ds']" in caught.value.hint


@pytest.mark.parametrize(
    ("missing", "near"),
    [
        ("ds=1999-01-01", "partition is ds=2024-01-01"),
        ("ds=2024-01-09", "partition is ds=2024-01-08"),
        ("ds=2024-01-03a", "partitions are ds=2024-01-03 and ds=2024-01-04"),
        ("ds=2024-1-3", "partition is ds=2024-01-03"),
        (["ds=2024-01-01", "ds=20240103"], "partition is ds=2024-01-08"),
    ],
)
def test_the_error_for_a_missing_partition_suggests_the_nearest_values(odps, missing, near):
    with pytest.raises(NotFoundError) as caught:
        odps.table("orders").read(partitions=missing).to_arrow()
    assert caught.value.code == "NoSuchPartition"
    assert caught.value.hint == f"the nearest {near}"
    assert has_three_lines(caught.value)


def test_an_error_for_a_missing_partition_suggests_values_of_the_same_level(odps, new_name):
    table = odps.create_table(new_name("levels"), "id bigint", partitioned_by=["d int", "h int"])
    with pytest.raises(NotFoundError) as caught:
        table.read(partitions="d=1").to_arrow()
    assert caught.value.hint == "the table has no partitions; write rows first"
    for day in (2, 10):
        table.write([(1, day, 5)])
    with pytest.raises(NotFoundError) as caught:
        table.read(partitions="d=3").to_arrow()
    assert caught.value.hint == "the nearest partitions are d=2 and d=10"


@pytest.mark.parametrize(
    "name",
    [
        "orders; drop table orders",
        "orders` x",
        "a b",
        "../orders",
        "orders--",
        "o\x00",
        "a.b.c.d",
        "",
    ],
)
def test_a_table_name_that_contains_sql_is_never_sent(odps, name):
    for use in (odps.table, lambda n: odps.drop_table(n, if_exists=True)):
        with pytest.raises(ArgumentError, match="name"):
            use(name)
    with pytest.raises(ArgumentError, match="name"):
        odps.create_table(name, "id bigint")
    assert "orders" in odps.tables()


def test_a_column_name_that_contains_sql_is_never_sent(odps, new_name):
    name = new_name("inj")
    evil = pa.schema([("a` bigint); drop table orders; --", pa.int64())])
    with pytest.raises(ArgumentError, match="not a valid column name"):
        odps.create_table(name, evil)
    with pytest.raises(ArgumentError):
        odps.create_table(name, "id bigint); drop table orders; --")
    assert name not in odps.tables()
    assert "orders" in odps.tables()


def test_sql_in_a_partition_value_is_not_executed(odps, table):
    evil = "x; drop table orders; --"
    table.write(pa.table({"id": [1], "ds": [evil]}))
    assert [dict(spec)["ds"] for spec in table.partitions()] == [evil]
    read = table.read(["id"], partitions={"ds": evil}).to_arrow()
    assert read.to_pylist() == [{"id": 1}]
    assert "orders" in odps.tables()


def test_creating_or_dropping_a_table_twice_is_an_error_by_default(odps, table):
    with pytest.raises(ConflictError, match="already exist") as caught:
        odps.create_table(table.name, "id bigint")
    assert "if_not_exists" in caught.value.hint
    odps.create_table(table.name, "id bigint", if_not_exists=True)
    assert table.schema.find("amount") is not None
    odps.drop_table(table.name)
    with pytest.raises(NotFoundError):
        odps.drop_table(table.name)
    odps.drop_table(table.name, if_exists=True)


def test_a_failed_query_states_the_reason(odps):
    with pytest.raises(QueryError, match="nope") as caught:
        odps.sql("select nope from orders")
    assert has_three_lines(caught.value)
    with pytest.raises(NotFoundError, match="no_such_table"):
        odps.sql("select * from no_such_table")
    with pytest.raises(ArgumentError, match="empty"):
        odps.sql("  \n ")


# -- connecting ---------------------------------------------------------------------------------


def test_calls_after_close_raise_a_state_error(service):
    closed = odps_nb.connect(**keys_of(service))
    table = closed.table("orders")
    closed.close()
    closed.close()
    for use in (closed.tables, lambda: closed.sql("select 1"), lambda: table.read().to_arrow()):
        with pytest.raises(StateError, match="closed"):
            use()
    assert repr(table) == f"Table {table.name}"
    assert "closed" in table._repr_mimebundle_()["text/plain"]


# -- data that does not fit ---------------------------------------------------------------------

CONSUMED = ({"id": number} for number in range(2))
list(CONSUMED)
BAD_DATA = [
    (pd.DataFrame({"id": ["one"]}), ConversionError, "id"),
    (pd.DataFrame({"id": [1.5]}), ConversionError, r"id\[0\] = 1\.5"),
    (pd.DataFrame({"idd": [1]}), ConversionError, "did you mean 'id'"),
    (pd.DataFrame({"amount": [1.005]}), ConversionError, r"amount\[0\]"),
    (pd.DataFrame({"note": ["too long for it"]}), ConversionError, r"note\[0\]"),
    (pd.DataFrame([[1]]), ConversionError, "is not text"),
    (pa.table({"id": pa.array([2**63], pa.uint64())}), ConversionError, r"id\[0\]"),
    (pa.table({"id": pa.array([1], pa.time64("ns"))}), ConversionError, "time64"),
    ({"id": 1}, ConversionError, "the column 'id' is of type int, not a list"),
    (
        {"id": pd.Series([1, 2], [0, 0]), "amount": pd.Series([1], [1])},
        ConversionError,
        "the indexes of the columns cannot be aligned",
    ),
    ({"id": [1], "note": []}, ConversionError, "'note' has 0 values, but another has 1"),
    ({"id": [1, "two"]}, ConversionError, r"id\[1\] = 'two'"),
    ([1, 2], ConversionError, "row 0 is of type int: 1"),
    (["id", "note"], ConversionError, "row 0 is of type str"),
    ([dict], ConversionError, "row 0 is of type type"),
    (
        [{"id": 1}, {"idd": 1}],
        ConversionError,
        r"row 1 has the key 'idd', which is not a column of the table \(did you mean 'id'\?\)",
    ),
    ([{"id": 1}, {"ID": 1, "id": 2}], ConversionError, "row 1 has two values for the column 'id'"),
    ([{"id": 1}, {5: 1}], ConversionError, "row 1 has the key 5 of type int"),
    (
        [{"id": 1}, (1, None, None)],
        ConversionError,
        "row 1 is of type tuple, but the first row is a row with names",
    ),
    ([{"id": 1}, None], ConversionError, "row 1 is of type NoneType"),
    ([(1, None, None), (1, None)], ConversionError, "row 1 has 2 values, but there are 3 columns"),
    ([{"id": 1}, {"id": 2.5}], ConversionError, r"id\[1\] = 2\.5"),
    ([{"id": 1, "ds": "other"}], ConversionError, "values that differ from the partition"),
    ([pd.DataFrame({"id": [1]}), {"id": 2}], ConversionError, "a dict after 1 tables"),
    ([{"id": 2}, pd.DataFrame({"id": [1]})], ConversionError, "row 1 is of type DataFrame"),
    ([pa.table({"id": [1]}), pa.table({"idd": [1]})], ConversionError, "did you mean 'id'"),
    (iter([{"id": 2}, pd.DataFrame({"id": [1]})]), ConversionError, "a DataFrame after 1 rows"),
    (pd.Series([1]), ConversionError, "the Series has no name"),
    ("id", ConversionError, "a str cannot be written"),
    (np.array(5), ConversionError, "an ndarray cannot be written"),
    (np.zeros(2), ConversionError, "row 0 is of type float64"),
    (np.zeros((2, 2)), ConversionError, "row 0 has 2 values, but there are 3 columns"),
    (np.zeros((2, 3, 1)), ConversionError, "row 0 is of type ndarray"),
    (None, ConversionError, "a NoneType cannot be written"),
    (CONSUMED, ConversionError, "the generator was already consumed"),
    (pd.DataFrame, ConversionError, "a type cannot be written"),
    (pd.DataFrame(index=[1, 2]), ConversionError, "no columns to write"),
    (pa.table({"ds": ["x"]}), ConversionError, "no columns to write"),
    (
        pa.table({"id": [1], "ds": ["other"]}),
        ConversionError,
        "values that differ from the partition",
    ),
]


@pytest.mark.gate(15)
@pytest.mark.parametrize(("data", "kind", "said"), BAD_DATA)
def test_data_that_does_not_fit_is_refused_and_nothing_is_written(table, data, kind, said):
    with pytest.raises(kind, match=said) as caught:
        table.write(data, partition="ds=x")
    assert has_three_lines(caught.value)
    assert rows_in(table) == 0
    # The upload session of the first rows creates its partition, as stock pyodps does.
    left = [] if not by_tunnel() or said != "a DataFrame after 1 rows" else ["ds=x"]
    assert [str(one) for one in table.partitions()] == left
    for one in left:
        table.drop_partition(one)


def test_one_error_lists_all_values_that_do_not_fit(table):
    frame = pd.DataFrame(
        {"id": [1, 2], "amount": [1.0, 1.005], "note": ["toolong", "x"]},
    )
    with pytest.raises(ConversionError) as caught:
        table.write(frame, partition="ds=x")
    assert "amount[1]" in str(caught.value)
    assert "note[0]" in str(caught.value)


def test_a_write_to_a_partitioned_table_needs_a_partition_for_each_row(table):
    with pytest.raises(ArgumentError, match="partitioned by 'ds'") as caught:
        table.write(pd.DataFrame({"id": [1]}))
    assert "partition='ds=…'" in caught.value.hint
    with pytest.raises(ConversionError, match="null"):
        table.write(pd.DataFrame({"id": [1, 2], "ds": ["x", None]}))
    assert rows_in(table) == 0


def test_a_column_that_repeats_the_partition_is_accepted(table):
    table.write(pd.DataFrame({"id": [1], "ds": ["x"]}), partition="ds=x")
    table.write(pa.table({"id": [2], "DS": ["x"]}), partition="ds=x")
    assert rows_in(table) == 2


def test_a_stream_with_a_bad_value_writes_nothing(table):
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    first = pa.record_batch({"id": [1], "note": ["ok"]}, schema=schema)
    second = pa.record_batch({"id": [2], "note": ["much too long"]}, schema=schema)
    reader = pa.RecordBatchReader.from_batches(schema, [first, second])
    with pytest.raises(ConversionError, match=r"note\[1\]") as caught:
        table.write(reader, partition="ds=x")
    assert any("none of its rows are in the table" in note for note in caught.value.notes)
    assert rows_in(table) == 0


def test_a_failing_source_writes_nothing(table):
    schema = pa.schema([("id", pa.int64())])

    def batches():
        yield pa.record_batch({"id": [1]}, schema=schema)
        raise ValueError("the source broke")

    with pytest.raises((ValueError, OdpsNbError), match="the source broke"):
        table.write(pa.RecordBatchReader.from_batches(schema, batches()), partition="ds=x")
    assert rows_in(table) == 0


# -- blobs --------------------------------------------------------------------------------------


@pytest.fixture
def blobs(odps, new_name):
    made = odps.create_table(
        new_name("badblob"), "id bigint, data blob, many array<struct<n:tinyint,b:blob>>"
    )
    return made


@pytest.mark.storage_api("blobs")
def test_values_next_to_a_nested_blob_are_checked_before_anything_is_sent(blobs):
    for bad in ({"n": 999, "b": b"x"}, {"n": "x", "b": b"x"}, {"zz": 1}):
        with pytest.raises(ConversionError, match=r"many\[1\]"):
            blobs.write(pd.DataFrame({"id": [1, 2], "many": [[], [bad]]}))
    assert rows_in(blobs) == 0


class Unreadable(io.RawIOBase):
    """A file that raises an error when it is read."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        raise self._error


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("the disk is gone")])
def test_an_interrupt_or_a_broken_file_writes_nothing(blobs, error):
    frame = pd.DataFrame({"id": range(300), "data": [b"x"] * 299 + [Unreadable(error)]})
    with pytest.raises(type(error)):
        blobs.write(frame)
    assert rows_in(blobs) == 0


FORMS = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(),
    "batches": lambda table: iter(table.to_batches()),
    "frame": lambda table: pd.concat(
        [
            column.to_pandas().rename(name)
            for name, column in zip(table.column_names, table.columns, strict=True)
        ],
        axis=1,
    ),
}


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("form", FORMS)
def test_a_repeated_column_is_refused_before_anything_is_sent(blobs, form):
    ids, cells = pa.array([1, 2]), pa.array([b"a", b"b"])
    for twin, columns in (
        ("data", {"id": ids, "data": cells, "data ": cells}),
        ("Data", {"id": ids, "data": cells, "Data": cells}),
        ("ID", {"id": ids, "ID": ids}),
    ):
        names = [name.strip() for name in columns]
        data = FORMS[form](pa.Table.from_arrays(list(columns.values()), names=names))
        with pytest.raises(ConversionError, match=f"more than once: .*{twin}") as caught:
            blobs.write(data)
        assert caught.value.column.casefold() == twin.casefold()
        assert "not case-sensitive" in caught.value.hint
    assert rows_in(blobs) == 0


@pytest.mark.storage_api("blobs")
def test_text_in_an_arrow_column_of_blobs_is_refused(blobs):
    blobs.write(pa.table({"id": [1], "data": [b"x"]}))
    with pytest.raises(ConversionError, match="Arrow string does not fit blob") as caught:
        blobs.write(blobs.read().to_arrow())
    assert "odps.blob(reference)" in caught.value.hint
    assert rows_in(blobs) == 1


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("separator", ["ab", "\n", '"', "é", "😀"])
def test_a_separator_is_one_ascii_character(blobs, separator):
    blobs.write(pa.table({"id": [1], "data": [b"a,b\n1,2\n"]}))
    with pytest.raises(ArgumentError, match="it must be one ASCII character") as caught:
        blobs.blobs("data")[0].to_table(separator=separator)
    assert caught.value.argument == "separator"


# -- arbitrary objects as arguments -------------------------------------------------------------

OF_BLOBS = pytest.mark.storage_api("blobs")
METHODS = {
    (where, name): function
    for made in MADE
    for where, function in callables(made.__name__, made)
    if not isinstance(inspect.getattr_static(made, where.partition(".")[2]), property)
    for name in list(inspect.signature(function).parameters)[1:]
}


WITH_BLOBS = {"Connection.blob", "Connection.blobs", "Table.blobs", "Table.write_files"}


@pytest.fixture(scope="module")
def owners(odps):
    """An object of each class, with correct arguments for its methods."""
    columns = "id bigint, note string" + ", content blob" * by_storage_api()
    table = odps.create_table("odd", columns, partitioned_by="ds string")
    keyed = odps.create_table("odd_keyed", "id bigint, note string", primary_key="id")
    content = {"content": b"abc"} if by_storage_api() else {}
    table.write([{"id": 1, "note": "a"} | content], partition="ds=x")
    result = odps.sql("select 1 as id, 'a' as note")
    blob = table.blobs("content")[0] if content else None
    reference = str(blob.reference) if blob else ""
    right = {"name": "odd_new", "columns": "id bigint", "query": "select 1 as id", "x": "id"}
    right |= {"reference": reference, "references": [reference], "instance_id": result.instance_id}
    right |= {"rows": 1, "data": [{"id": 1}], "folder": ".", "partition": "ds=x", "path": "file"}
    right |= {"index": 0, "places": [0], "spark": None}
    made = {
        "Connection": lambda: odps,
        "Table": lambda: table,
        "keyed": lambda: keyed,
        "Scan": lambda: table.read(["id", "note"]),
        "Result": lambda: result,
        "Blob": lambda: blob,
        "BlobColumn": lambda: table.blobs("content"),
    }
    yield made, right
    for one in (table, keyed):
        odps.drop_table(one.name)


@pytest.mark.gate(20)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("where", "name"),
    [
        pytest.param(where, name, marks=OF_BLOBS if where in WITH_BLOBS or "Blob" in where else ())
        for where, name in METHODS
    ],
)
def test_any_argument_is_accepted_or_the_error_explains_it(
    odps, owners, tmp_path, monkeypatch, where, name
):
    monkeypatch.chdir(tmp_path)
    made, right = owners
    owner, _, method = where.partition(".")
    parameters = list(inspect.signature(METHODS[where, name]).parameters.values())[1:]
    needed = {one.name for one in parameters if one.default is one.empty}
    for label, make in ODD.items():
        if name in ("keep", "file_name") and label in ("class", "enum class"):
            continue  # an error of the caller's function
        target = made["keyed" if method in ("upsert", "delete") else owner]()
        given = {one: right[one] for one in needed} | {name: make()}
        with check_error_explains(f"{where}({name}={label})"):
            found = getattr(target, method)(**given)
            if isinstance(found, types.GeneratorType):
                list(found)
            if method == "create_table":
                odps.drop_table(found.name)


@contextmanager
def check_error_explains(label):
    try:
        yield
    except Mistake:
        assert "generator" in label
    except OdpsNbError as error:
        lines = explain(error)
        if not lines[-1].startswith("to do: "):
            pytest.fail(f"{label}: {lines}")
    except Exception as error:
        error.add_note(label)
        raise


def create_and_drop(odps, *given, **options):
    odps.drop_table(odps.create_table("odd_new", *given, **options).name)


VALUES = {
    "row": lambda odps, t, one: t.write([{"id": one, "note": one}], partition="ds=x"),
    "column": lambda odps, t, one: t.write({"note": one}, partition="ds=x"),
    "map": lambda odps, t, one: t.write([{"tags": one}], partition="ds=x"),
    "item": lambda odps, t, one: t.write([{"tags": {"a": one}}], partition="ds=x"),
    "iterator": lambda odps, t, one: t.write(iter([{"id": 1}, one]), partition="ds=x"),
    "blob": lambda odps, t, one: t.write([{"content": odps_nb.NewBlob(one)}], partition="ds=x"),
    "new table": lambda odps, t, one: create_and_drop(odps, [{"a": one, "b": [one]}]),
    "new column": lambda odps, t, one: create_and_drop(odps, {"a": one}),
    "key": lambda odps, t, one: create_and_drop(odps, "id bigint", primary_key=[one]),
    "property": lambda odps, t, one: create_and_drop(odps, "id bigint", properties={"k": one}),
    "partition": lambda odps, t, one: t.read(partitions={"ds": one}),
    "partitions": lambda odps, t, one: t.read(partitions=[one]),
    "bound": lambda odps, t, one: t.read(partitions={"ds >=": one}),
    "columns": lambda odps, t, one: t.read(["id", one]),
    "dtype": lambda odps, t, one: t.read(["id"], limit=1).to_pandas(dtypes={"id": one}),
    "params": lambda odps, t, one: t.read(where="note = :x", params={"x": one}),
    "name": lambda odps, t, one: t.read(where="{x} = 'a'", params={"x": one}),
    "settings": lambda odps, t, one: odps.sql_cost("select 1 as a", settings={"k": one}),
    "reference": lambda odps, t, one: odps.blobs([one]),
    "position": lambda odps, t, one: odps.blobs([])[one],
    "spec": lambda odps, t, one: PartitionSpec.of("ds=x")[one],
}
NEED_BLOBS = {"blob", "reference", "position"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=OF_BLOBS if way in NEED_BLOBS else ()) for way in VALUES]
)
@pytest.mark.gate(7)
def test_any_object_in_data_is_accepted_or_the_error_explains_it(odps, new_name, way):
    columns = (
        "id bigint, note string, tags map<string,bigint>" + ", content blob" * by_storage_api()
    )
    table = odps.create_table(new_name("values"), columns, partitioned_by="ds string")
    table.write([{"id": 1}], partition="ds=x")
    for label, make in ODD.items():
        with check_error_explains(f"{way}: {label}"):
            VALUES[way](odps, table, make())
