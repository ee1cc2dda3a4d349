"""The cost of filtering every row in the client, compared with unfiltered reads.

The service only skips whole blocks of rows, so `Table.read` filters the rows that arrive. Both
sides open the same session, whose condition skips no block here, and read the same bytes; one side
does not filter the rows. The peer reads them with the same predicate and filters in Arrow, as its
users have to.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

import odps_nb
from benchmarks._measure import Case, Goal, compare, header, summary
from benchmarks.bench_tables import COLUMNS, TABLE, pyodps_client
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session

ROUNDS = 9
CONDITIONS = {
    "one column, every row is kept": "id > 0",
    "one column, half of the rows are kept": "quantity > 5",
    "four columns": "id > 0 and quantity > 2 and status <> 'x' and weight is not null",
}


def main() -> int:
    """Run the benchmark; print ratios of medians."""
    header("filters: 2,048,000 rows × 6 columns of the embedded service, over loopback HTTP")
    with odps_nb.connect("local") as odps:
        table, client = odps.table(TABLE), pyodps_client(odps)

        def read(where: str, *, again: bool) -> int:
            session = open_read_session(
                odps._storage, table.read(columns=COLUMNS, where=where)._plan
            )
            if not again:
                session = replace(session, filter=None, hidden=())
            return sum(batch.num_rows for batch in iter_batches(odps._storage, session))

        def theirs(where: str) -> int:
            session = client.create_table_read_session(
                TABLE, columns=list(COLUMNS), filter_predicate=where
            )
            rows = 0
            for split in session.splits:
                with session.open_arrow_reader(split, max_batch_rows=20_000) as reader:
                    for batch in reader:
                        rows += batch.filter(pc.greater(batch["quantity"], 5)).num_rows
            return rows

        half = CONDITIONS["one column, half of the rows are kept"]
        if read(half, again=True) != theirs(half):
            raise SystemExit("bench: odps_nb and pyodps kept different rows")
        for title, where in CONDITIONS.items():
            peer = [Case("pyodps, filtered by Arrow", lambda: theirs(half))] * (where == half)
            compare(
                title,
                Case("rows that match", lambda where=where: read(where, again=True)),
                Case("rows as they come", lambda where=where: read(where, again=False)),
                *peer,
                rounds=ROUNDS,
                goals=[Goal("rows as they come", 0.75)],  # filtering takes 10 to 30 ms
            )
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
