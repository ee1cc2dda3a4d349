"""One DuckDB query over a table: the cost of each way to pass the table to DuckDB.

The query is the push-down example of the README: two data columns, one partition of eight.
``dataset()`` transfers only the data that the query needs; a `Scan` transfers the whole table; the
peer, pyodps' `maxstorage`, transfers the columns and the partition that its user names, one split
after the other.
"""

from __future__ import annotations

import duckdb
import polars as pl
import pyarrow as pa

import odps_nb
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks.bench_tables import TABLE, pyodps_client

DAY = "2024-01-01"
COLUMNS = ["status", "quantity"]
QUERY = """
select status, sum(quantity) from rows
where ds = '2024-01-01' and quantity >= 9 group by 1 order by 1
"""


def queried(rows: object) -> list[tuple[object, ...]]:
    """Run the query; DuckDB finds ``rows`` by its name."""
    return duckdb.sql(QUERY).fetchall()


def main() -> int:
    """Run the benchmark; print ratios of medians."""
    header("one query over 2,048,000 rows × 22 columns of the embedded service, loopback HTTP")
    with odps_nb.connect("local") as odps:
        table, client = odps.table(TABLE), pyodps_client(odps)
        orders = table.dataset()

        def lazy() -> list[tuple[object, ...]]:
            frame = table.scan_polars()
            kept = frame.filter((pl.col("ds") == DAY) & (pl.col("quantity") >= 9))
            sums = kept.group_by("status").agg(pl.col("quantity").sum())
            return sums.sort("status").collect().rows()

        def theirs() -> list[tuple[object, ...]]:
            session = client.create_table_read_session(
                TABLE, partitions=[f"ds={DAY}"], columns=[*COLUMNS, "ds"]
            )
            batches = []
            for split in session.splits:
                with session.open_arrow_reader(split, max_batch_rows=20_000) as reader:
                    batches += list(reader)
            return queried(pa.Table.from_batches(batches))

        if not queried(orders) == lazy() == queried(table.read()) == theirs():
            raise SystemExit("bench: the cases returned different rows")
        compare(
            "sum by status, of one day",
            Case("DuckDB over dataset()", lambda: queried(orders)),
            Case("polars over scan_polars()", lazy),
            Case("DuckDB over a Scan", lambda: queried(table.read())),
            Case("DuckDB over pyodps, told what to read", theirs),
            goals=[Goal("DuckDB over a Scan", 3)],
        )
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
