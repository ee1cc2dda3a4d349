"""A chart of two million rows, compared with running the same SQL by hand.

``python -m benchmarks.bench_chart``. By hand means the statements that the chart sent, run one
after the other with `Connection.sql` and with pyodps. A histogram needs two statements, because its
bins depend on the smallest and the largest value. Drawing is measured separately.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import odps_nb
from benchmarks._measure import Case, Goal, compare, figure, header, judged, summary
from benchmarks._peer import pyodps_entry
from odps_nb.access.paging.sql_job import JOB_SETTINGS
from odps_nb.notebook.explore.charts.chart import Chart

CHARTS: dict[str, dict[str, Any]] = {
    "rows by day and status": {"x": "created", "color": "status", "step": "day"},
    "sum by status": {"x": "status", "y": "amount", "agg": "sum"},
    "histogram": {"x": "id", "kind": "histogram", "bins": 20},
}
STATEMENTS = {"rows by day and status": 1, "sum by status": 1, "histogram": 2}
AS_SQL = 1 / 1.2
DRAWN = 0.100
MESSAGE = 100_000


def measure(connection: odps_nb.Connection, entry: Any, name: str, options: dict[str, Any]) -> None:
    """Compare one chart with the query that it runs, and judge its drawing."""
    table = connection.table("orders")
    before = {*connection.queries()}
    chart = table.chart(**options)
    assert isinstance(chart, Chart)
    texts = [one.sql for one in reversed(connection.queries()) if one not in before]
    if len(texts) > STATEMENTS[name]:
        raise SystemExit(f"bench: the chart sent {len(texts)} statements")

    def by_hand() -> list[int]:
        found = [connection.sql(text, settings=JOB_SETTINGS) for text in texts]
        return [one.to_arrow(progress=False).num_rows for one in found]

    def by_pyodps() -> list[int]:
        counts = []
        for text in texts:
            with entry.execute_sql(text, hints=JOB_SETTINGS).open_reader(tunnel=True) as reader:
                counts.append(len([record.values for record in reader]))
        return counts

    if by_hand() != by_pyodps():
        raise SystemExit("bench: pyodps returned other rows")
    compare(
        f"chart: {name}, {table.read().row_count:,} rows",
        Case("chart()", lambda: table.chart(**options)),
        Case("the same SQL by hand", by_hand),
        Case("the same SQL by pyodps", by_pyodps),
        goals=[Goal("the same SQL by hand", AS_SQL)],
    )
    again = partial(Chart, "orders", chart._choice, chart._figures, chart._read, chart._connection)
    drawn = compare(f"drawing: {name}", Case("draw", lambda: again().message({})))
    seconds = drawn.seconds["draw"]
    size = len(str(chart.message({})))
    print(" ", judged(f"drawing {name}: {seconds * 1e3:.1f} ms", seconds <= DRAWN))
    print(" ", judged(f"message of {name}: {size:,} bytes", size <= MESSAGE))
    figure(f"message of the chart {name}", size, "B")


def main() -> int:
    """Run the benchmark; return 0 if all goals are met."""
    with odps_nb.connect("local") as connection:
        entry = pyodps_entry(connection.profile)
        header("charts: loopback")
        for name, options in CHARTS.items():
            measure(connection, entry, name, options)
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
