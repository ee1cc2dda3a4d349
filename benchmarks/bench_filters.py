"""What it costs to look at every row again: filtered reads beside unfiltered ones, and pyodps.

The service leaves out whole blocks by a condition, so `Table.read` applies it to what arrives.
Here nothing can be left out, so that the same bytes travel on all roads: read all of it, read it
through a condition that keeps every row, or half of them, and the peer's read of the same rows
with its condition in pandas.
"""

from __future__ import annotations

import pyarrow.compute as pc

import odps_nb
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks.bench_tables import COLUMNS, TABLE, peer_arrow, pyodps_client

ROUNDS = 9


def main() -> int:
    """Run the benchmark; print ratios of medians."""
    header("filters: 2,048,000 rows × 6 columns of the embedded service, over loopback HTTP")
    with odps_nb.connect("local") as odps:
        table, client = odps.table(TABLE), pyodps_client(odps)

        def read(where: str | None = None) -> int:
            return table.read(columns=COLUMNS, where=where).to_arrow().num_rows

        def theirs() -> int:
            rows = peer_arrow(client)
            return rows.filter(pc.greater(rows["quantity"], 5)).num_rows

        if read("quantity > 5") != theirs():
            raise SystemExit("bench: odps_nb and pyodps kept different rows")
        compare(
            "a condition on one column that keeps every row",
            Case("with the condition", lambda: read("id > 0")),
            Case("without one", read),
            rounds=ROUNDS,
            goals=[Goal("without one", 0.9)],
        )
        compare(
            "a condition on one column that keeps half of the rows",
            Case("with the condition", lambda: read("quantity > 5")),
            Case("without one", read),
            Case("pyodps, filtered by Arrow", theirs),
            rounds=ROUNDS,
            goals=[Goal("without one", 0.9)],
        )
        compare(
            "four conditions",
            Case(
                "with the conditions",
                lambda: read("id > 0 and quantity > 2 and status <> 'x' and weight is not null"),
            ),
            Case("without one", read),
            rounds=ROUNDS,
        )
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
