"""polars and DuckDB read DECIMALs with up to 38 digits; longer values raise an error."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from odps_nb.errors import ConversionError

if TYPE_CHECKING:
    from odps_nb.access.table import Table

COLUMNS = (
    "id bigint, d decimal(60,20), l array<decimal(54,18)>, m map<string,decimal(54,18)>, "
    "s struct<x:decimal(54,18)>"
)
LARGE = Decimal("123456789012345678.00000000000000000001")


@pytest.fixture
def table(odps, new_name):
    made = odps.create_table(new_name("wide"), COLUMNS)
    made.write(rows([1, 2], [LARGE, None]))
    return made


def duck(query: str, table: Table) -> list[Any]:
    with duckdb.connect() as database:
        return database.register("data", table.dataset()).sql(query).fetchall()


def rows(ids: list[int], values: list[Decimal | None]) -> pa.Table:
    inner = [None if one is None else one.to_integral_value() for one in values]
    wide = pa.decimal256(54, 18)
    return pa.table(
        {
            "id": ids,
            "d": pa.array(values, pa.decimal256(60, 20)),
            "l": pa.array([[one] for one in inner], pa.list_(wide)),
            "m": pa.array([[("k", one)] for one in inner], pa.map_(pa.string(), wide)),
            "s": pa.array([{"x": one} for one in inner], pa.struct({"x": wide})),
        }
    )


def test_values_of_38_digits_are_unchanged(odps, table):
    whole = LARGE.to_integral_value()
    wanted = [(1, LARGE, [whole], {"x": whole}), (2, None, [None], {"x": None})]
    for frame in (
        table.read().to_polars().drop("m"),
        table.scan_polars().drop("m").collect(),
        table.dataset().to_table().drop_columns(["m"]),
    ):
        found = [tuple(row.values()) for row in pl.DataFrame(frame).sort("id").to_dicts()]
        assert found == wanted
    assert table.scan_polars().filter(pl.col("d") > 1).select("id").collect().item() == 1
    query = "select d, l, s.x from data where d > 1"
    assert duck(query, table) == [(LARGE, [whole], whole)]
    assert table.read().arrow_schema.field("d").type == pa.decimal256(60, 20)


def test_a_longer_value_raises_an_error_only_if_its_column_is_read(table):
    table.write(rows([3], [Decimal(10) ** 30]))
    for read in (lambda: table.read().to_polars(), lambda: table.scan_polars().collect()):
        with pytest.raises(ConversionError, match="'d'") as caught:
            read()
        assert caught.value.column == "d"
        assert "38 digits" in caught.value.hint
    assert table.scan_polars().select(pl.col("id").sum()).collect().item() == 6
    assert duck("select sum(id) from data", table) == [(6,)]
    with pytest.raises(duckdb.Error, match="'d'"):
        duck("select d from data", table)
    longest = table.read().to_pandas(progress=False).d.dropna().max()
    assert longest == Decimal(10) ** 30


@pytest.mark.nightly
def test_a_query_result_becomes_a_polars_data_frame(odps):
    found = odps.sql("select id, amount from orders order by id limit 3").to_polars(progress=False)
    assert isinstance(found, pl.DataFrame)
    assert found.schema == {"id": pl.Int64, "amount": pl.Decimal(18, 2)}
    assert found["id"].is_sorted()
