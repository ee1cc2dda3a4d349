"""``docs/spark-sql.md``: each line of the page is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

import odps_nb.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[3] / "docs" / "spark-sql.md"
TABLES = ("trades", "ledger")
ROWS = {"trades": [(1, 0.5, "a"), (2, 1.5, "b")], "ledger": [(1,)]}


class Line(NamedTuple):
    """A row of a table on the page: the code, the outcome, and the calls that its error names."""

    code: str
    outcome: str
    named: tuple[str, ...]


def lines(heading: str) -> list[Line]:
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}")[2].partition("\n## ")[0]
    found = re.findall(r"^\| `(.+?)` \| (\w+) \| (.*) ?\|$", section, re.MULTILINE)
    return [
        Line(code, outcome, tuple(re.findall("`(.+?)`", rest))) for code, outcome, rest in found
    ]


@pytest.fixture(scope="module")
def tables(spark_session: SparkSession, odps: Connection) -> Iterator[None]:
    odps_nb.spark.register(spark_session, odps, progress=False)
    odps.create_table("trades", "id bigint, amount double", partitioned_by="ds string")
    odps.create_table("ledger", "id bigint")
    yield
    spark_session.sql("drop database if exists odps cascade")
    for name in TABLES:
        odps.drop_table(name)


@pytest.fixture
def place(tables: None, spark: SparkSession, odps: Connection) -> dict[str, Any]:
    """The names that the page uses."""
    import pyarrow as pa

    if stored_rows(odps) != ROWS:  # the previous line changed the table
        odps.table("trades").truncate()
        rows = {"id": [1, 2], "amount": [0.5, 1.5], "ds": ["a", "b"]}
        odps.table("trades").write(pa.table(rows), progress=False)
        odps.table("ledger").write(pa.table({"id": [1]}), overwrite=True, progress=False)
    df = spark.range(9, 10).selectExpr("id", "2.5D as amount", "'a' as ds")
    return {"spark": spark, "odps": odps, "odps_nb": odps_nb, "df": df, "F": F}


def stored_rows(odps: Connection) -> dict[str, list[tuple[Any, ...]]]:
    tables = {name: odps.table(name).read().to_arrow().to_pylist() for name in TABLES}
    return {name: sorted(tuple(row.values()) for row in rows) for name, rows in tables.items()}


def catalog(spark: SparkSession) -> list[str]:
    """The entries in Spark's catalog for the names on the page."""
    names = ("trades", "fresh", "odps.trades", "odps.ledger", "odps.fresh")
    return [name for name in names if spark.catalog.tableExists(name)]


def run(code: str, place: dict[str, Any]) -> list[Any]:
    """Run a line. Collect the rows of a query, because some errors occur only then."""
    made = eval(code, place)  # noqa: S307
    return made.collect() if hasattr(made, "collect") else []


def check(line: Line, place: dict[str, Any]) -> None:
    spark, odps = place["spark"], place["odps"]
    there = catalog(spark)
    if line.outcome in ("refused", "fails"):
        with pytest.raises(Exception) as caught:  # noqa: PT011  of Spark's and ours, any kind
            run(line.code, place)
        told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
        told += f"\n{getattr(caught.value, 'hint', '')}"
        assert line.named, f"the page names no other call for {line.code}"
        assert line.outcome == "fails" or line.named[0] in told
        assert (stored_rows(odps), catalog(spark)) == (ROWS, there)
        return
    rows = run(line.code, place)
    after = stored_rows(odps)
    if line.outcome == "reads":
        assert sorted(tuple(row) for row in rows) == ROWS["trades"]
    elif line.outcome == "adds":
        assert [row for row in after["trades"] if row not in ROWS["trades"]] == [after["trades"][2]]
        assert after["trades"][2][0] == (7 if "values" in line.code else 9)
    elif line.outcome == "replaces":
        assert after == _replaced(line.code)
    else:
        assert after == ROWS


def _replaced(code: str) -> dict[str, list[tuple[Any, ...]]]:
    if "ledger" in code:
        return {**ROWS, "ledger": [(5,)]}
    new = (7, 1.5, "a") if "values" in code else (9, 2.5, "a")
    kept = [] if re.search("['\"]all['\"]", code) else ROWS["trades"][1:]
    return {**ROWS, "trades": [*kept, new]}


@pytest.mark.gate(3)
@pytest.mark.parametrize("line", lines("Without `attach`"), ids=lambda line: line.code)
def test_each_line_of_the_page_is_true_without_attach(line: Line, place: dict[str, Any]) -> None:
    place["spark"].sql("drop database if exists odps cascade")
    check(line, place)


@pytest.mark.gate(3)
@pytest.mark.parametrize("line", lines("After `odps_nb.spark.attach"), ids=lambda line: line.code)
def test_each_line_of_the_page_is_true_after_attach(line: Line, place: dict[str, Any]) -> None:
    if not place["spark"].catalog.tableExists("odps.trades"):
        names = odps_nb.spark.attach(place["spark"], place["odps"], TABLES, progress=False)
        assert names == ("odps.trades", "odps.ledger")
    check(line, place)


@pytest.mark.storage_api("versions")
@pytest.mark.nightly  # tables in Spark's catalog; other tests cover streams
def test_a_stream_copies_an_attached_table_to_another(
    place: dict[str, Any], odps: Connection, new_name: Any, tmp_path: Path
) -> None:
    spark, copy = place["spark"], new_name("copied")
    odps.create_table(copy, "id bigint, amount double", partitioned_by="ds string")
    odps_nb.spark.attach(spark, odps, ["trades", copy], progress=False)
    writer = spark.readStream.table("odps.trades").writeStream.trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).toTable(f"odps.{copy}")
    query.awaitTermination()
    rows = odps.table(copy).read().to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == ROWS["trades"]
    odps.drop_table(copy)
