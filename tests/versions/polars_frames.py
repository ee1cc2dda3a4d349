"""polars accepts a `Scan` unchanged; tables accept its DataFrames. Run by ``make versions``.

Not in ``make test``: polars is large, and odps_nb itself does not import it.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

import odps_nb
from odps_nb.client.calls.progress import silent
from odps_nb.errors import ConversionError

UTC = dt.UTC
COLUMNS = (
    "id bigint, s string, b binary, c string, e string, d date, ntz timestamp_ntz, ts timestamp, "
    "at datetime, dec decimal(20,4), l array<string>, st struct<a:int,b:string>, ok boolean, "
    "f double"
)


def frame() -> pl.DataFrame:
    """Each kind of polars column, with a null and with values that its views distinguish."""
    long = "more than the twelve bytes that a view holds in itself"
    return pl.DataFrame(
        {
            "id": pl.Series([1, 2, 3], dtype=pl.UInt32),
            "s": ["", long, None],
            "b": [b"", long.encode(), None],
            "c": pl.Series(["u", long, None], dtype=pl.Categorical),
            "e": pl.Series(["x", "y", None], dtype=pl.Enum(["x", "y"])),
            "d": [dt.date(1969, 12, 31), dt.date(9999, 12, 31), None],
            "ntz": [dt.datetime(2024, 1, 2, 3, 4, 5, 6), dt.datetime(1969, 1, 1), None],
            "ts": [
                dt.datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
                dt.datetime(1969, 1, 1, tzinfo=UTC),
                None,
            ],
            "at": [dt.datetime(2024, 1, 2, 3, 4, 5, 6000, UTC), None, None],
            "dec": pl.Series(
                [Decimal("-0.0001"), Decimal("9" * 16), None], dtype=pl.Decimal(20, 4)
            ),
            "l": [[], ["a", None, long], None],
            "st": [{"a": 1, "b": long}, {"a": None, "b": None}, None],
            "ok": [True, False, None],
            "f": [1.5, float("inf"), None],
        }
    )


def moments(column: pl.Series) -> list:
    """Values; instants arrive in UTC without a zone, and are equal."""
    values = column.to_list()
    return [v.replace(tzinfo=None) if isinstance(v, dt.datetime) else v for v in values]


def test_a_polars_frame_is_written_and_read(odps, new_name):
    name = new_name("polars")
    odps.create_table(name, COLUMNS)
    given = frame()
    assert odps.table(name).write(given, progress=silent).rows == 3
    back = pl.DataFrame(odps.table(name).read()).sort("id")
    for column in given.columns:
        wanted = given[column]
        if wanted.dtype in (pl.Categorical, pl.Enum):
            wanted = wanted.cast(pl.String)
        assert moments(back[column]) == moments(wanted), column


@pytest.mark.parametrize("fixed", [None, "ds=a"])
def test_a_categorical_column_can_be_the_partition_column(odps, new_name, fixed):
    name = new_name("polars")
    odps.create_table(name, "id bigint", partitioned_by="ds string")
    given = pl.DataFrame({"id": [1, 2], "ds": pl.Series(["a", "a"], dtype=pl.Categorical)})
    odps.table(name).write(given, partition=fixed, progress=silent)
    assert odps.table(name).read(partitions="ds=a").to_arrow(progress=silent).num_rows == 2


def test_binary_columns_of_a_frame_become_blobs(odps, new_name):
    name = new_name("polars")
    odps.create_table(name, "id bigint, p blob")
    given = pl.DataFrame({"id": [1, 2], "p": [b"xyz" * 9, None]})
    assert odps.table(name).write(given, progress=silent).blobs == 1
    assert odps.table(name).blobs("p")[0].bytes() == b"xyz" * 9


@pytest.mark.parametrize("table", ["orders", "types_all"])
def test_polars_accepts_a_scan_unchanged(odps, table):
    scan = odps.table(table).read(limit=200)
    arrow = scan.to_arrow(progress=silent)
    taken = pl.DataFrame(scan)
    assert (taken.columns, taken.height) == (arrow.schema.names, arrow.num_rows)
    assert taken[taken.columns[0]].to_list() == arrow.column(0).to_pylist()


def test_polars_accepts_a_result_unchanged(odps):
    result = odps.sql("select status, count(*) as n from orders group by status", progress=silent)
    assert pl.DataFrame(result).height == result.row_count


def test_an_object_that_is_not_a_frame_is_refused(odps, new_name):
    for wrong in (frame()["id"], frame().lazy()):
        with pytest.raises(ConversionError, match="cannot be written") as caught:
            odps.table("orders").write(wrong, progress=silent)
        assert "polars" in caught.value.hint
    too_big = pl.DataFrame({"id": pl.Series([2**63], dtype=pl.UInt64)})
    with pytest.raises(ConversionError, match="9223372036854775808"):
        odps.table("orders").write(too_big, partition="ds=2099-01-01", progress=silent)


def test_the_page_about_types_names_the_polars_types(odps, new_name):
    page = (Path(__file__).parents[2] / "docs" / "types-and-times.md").read_text("utf-8")
    rows = page.split("<!-- types -->")[1].split("<!-- end -->")[0].strip().splitlines()[2:]
    told = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows]
    columns = ", ".join(f"c{i} {row[0].lower()}" for i, row in enumerate(told))
    name = new_name("polars")
    odps.create_table(name, columns)
    found = pl.DataFrame(odps.table(name).read())
    assert [shown(kind) for kind in found.dtypes] == [row[3] for row in told]


def shown(kind: pl.DataType) -> str:
    """Write a type as the page does."""
    if isinstance(kind, (pl.Datetime, pl.Duration)):
        zone = getattr(kind, "time_zone", None)
        return f"{type(kind).__name__}({kind.time_unit}{f', {zone}' if zone else ''})"
    if isinstance(kind, pl.List):
        return f"List({shown(kind.inner)})"
    if isinstance(kind, pl.Decimal):
        return f"Decimal({kind.precision}, {kind.scale})"
    return type(kind).__name__


def test_polars_uses_the_zone_of_the_connection(profile, new_name):
    with odps_nb.connect(profile, timezone="Asia/Shanghai") as odps:
        table = odps.create_table(new_name("polars"), "d datetime, n timestamp_ntz")
        clock = dt.datetime(2024, 1, 31, 10)
        table.write(pl.DataFrame({"d": [clock], "n": [clock]}))
        found = pl.DataFrame(table.read())
        assert list(map(shown, found.dtypes)) == ["Datetime(ms, Asia/Shanghai)", "Datetime(ns)"]
        assert found["d"][0].astimezone(UTC) == dt.datetime(2024, 1, 31, 2, tzinfo=UTC)
        assert found["n"][0] == clock
        table.write(found)
        assert pl.DataFrame(table.read(limit=2)).unique().height == 1
