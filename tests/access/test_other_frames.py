"""Libraries exchange data with odps_nb through the Arrow C stream interface."""

from __future__ import annotations

import dask.dataframe
import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import silent
from odps_nb.convert.fitting.nested import fit_array
from odps_nb.errors import ConversionError
from odps_nb.wire.type_text import parse_type

LONG = "more than the twelve bytes that a view holds in itself"


class Stream:
    """Implements only the Arrow C stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def views(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string_view())


@pytest.mark.parametrize(
    ("array", "text", "expected"),
    [
        (views(["", LONG, None]), "string", ["", LONG, None]),
        (pa.array([b"", LONG.encode()], pa.binary_view()), "binary", [b"", LONG.encode()]),
        (
            pa.DictionaryArray.from_arrays([1, None, 0, 1], views(["a", LONG])),
            "string",
            [LONG, None, "a", LONG],
        ),
        (pa.array([[LONG, None], [], None], pa.large_list(pa.string_view())), "array<string>",
         [[LONG, None], [], None]),
        (pa.array([LONG, None], pa.large_string()), "varchar(99)", [LONG, None]),
        (pa.array([{"a": LONG}, None], pa.struct([("a", pa.string_view())])), "struct<a:string>",
         [{"a": LONG}, None]),
        (pa.array([LONG, "a", LONG]).dictionary_encode(), "string", [LONG, "a", LONG]),
    ],
)  # fmt: skip
def test_string_views_dictionaries_and_large_types_are_written(array, text, expected):
    for one in (array, array.slice(1)):
        assert fit_array(one, parse_type(text)).to_pylist() == expected[len(expected) - len(one) :]


def test_a_stream_of_string_views_is_written(odps, new_name):
    name = new_name("stream")
    odps.create_table(name, "id bigint, s string, c string")
    category = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint32()), views([LONG]))
    given = pa.table({"id": [1, 2], "s": views([LONG, None]), "c": category})
    assert odps.table(name).write(Stream(given), progress=silent).rows == 2
    assert odps.table(name).read().to_arrow(progress=silent).to_pylist() == given.to_pylist()


@pytest.mark.parametrize("wrap", [lambda table: table, Stream])
@pytest.mark.parametrize("fixed", [None, "ds=a"])
def test_a_dictionary_of_string_views_may_be_the_partition_column(odps, new_name, wrap, fixed):
    name = new_name("stream")
    odps.create_table(name, "id bigint", partitioned_by="ds string")
    category = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.uint32()), views(["a"]))
    given = pa.table({"id": [1, 2], "ds": category})
    receipt = odps.table(name).write(wrap(given), partition=fixed, progress=silent)
    assert receipt.rows == 2
    assert odps.table(name).read(partitions="ds=a").to_arrow(progress=silent).num_rows == 2


def test_a_relation_of_duckdb_is_written(odps, new_name):
    name = new_name("duck")
    odps.create_table(
        name, "id bigint, s string, e string, d date, at timestamp_ntz, l array<bigint>, "
        "m map<string,bigint>, st struct<a:int,b:string>, dec decimal(18,2), big bigint"
    )  # fmt: skip
    relation = duckdb.sql(
        "select 1::bigint as id, 'abc' as s, 'x'::enum('x', 'y') as e, date '2020-01-01' as d, "
        "timestamp '2020-01-01 01:02:03.456789' as at, [1, null]::bigint[] as l, "
        "map {'k': 1::bigint} as m, {'a': 1, 'b': null::varchar} as st, "
        "1.25::decimal(18,2) as dec, 7::hugeint as big"
    )
    assert odps.table(name).write(relation, progress=silent).rows == 1
    back = duckdb.from_arrow(odps.table(name).read())
    assert back.fetchall() == relation.fetchall()


def test_duckdb_can_query_a_scan_and_a_result_by_name(odps):
    orders = odps.table("orders").read(limit=50, columns=["id", "quantity"])
    total = sum(orders.to_arrow(progress=silent).column("quantity").to_pylist())
    for _ in range(2):  # a scan can be read repeatedly
        assert duckdb.sql("select count(*), sum(quantity) from orders").fetchall() == [(50, total)]
    types = odps.table("types_all").read()
    counted = duckdb.sql("select * from types").fetchall()
    assert len(counted) == types.to_arrow(progress=silent).num_rows
    result = odps.sql("select count(*) as n from orders", progress=silent)
    assert duckdb.sql("select n from result").fetchall() == [(result.to_arrow()["n"][0].as_py(),)]


FRAME = pd.DataFrame({"id": [1, 2]})
WRONG = [
    (pa.array([1]), "DataFrame"),
    (pa.chunked_array([[1]]), "DataFrame"),
    (dask.dataframe.from_pandas(FRAME, npartitions=1), "data.compute()"),
    ({"id": pd.MultiIndex.from_frame(FRAME)}, "get_level_values"),
]


@pytest.mark.parametrize(("wrong", "cure"), WRONG, ids=lambda case: type(case).__name__)
def test_data_that_is_not_one_table_is_refused_with_a_cure(odps, wrong, cure):
    with pytest.raises(ConversionError) as caught:
        odps.table("orders").write(wrong, progress=silent)
    assert cure in caught.value.hint
