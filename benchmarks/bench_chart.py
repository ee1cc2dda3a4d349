"""A chart of two million rows, compared with manually running the same SQL and plotting it.

``python -m benchmarks.bench_chart``. By hand means the query that the chart names, run with
`Connection.sql` and with pyodps. Drawing is measured alone, from the figures that were read.
"""

from __future__ import annotations

from typing import Any

import odps_nb
from benchmarks._measure import Case, Goal, compare, figure, header, judged, summary
from benchmarks._peer import pyodps_entry
from odps_nb.access.looking.sql_job import JOB_SETTINGS
from odps_nb.notebook.explore.charts.chart import Chart

CHARTS: dict[str, dict[str, Any]] = {
    "rows by day and status": {"x": "created", "color": "status", "step": "day"},
    "sum by status": {"x": "status", "y": "amount", "agg": "sum"},
    "histogram": {"x": "id", "kind": "histogram", "bins": 20},
}
AS_SQL = 1 / 1.2
DRAWN = 0.100
MESSAGE = 100_000


def measure(connection: odps_nb.Connection, entry: Any, name: str, options: dict[str, Any]) -> None:
    """Compare one chart with the query that it runs, and judge its drawing."""
    table = connection.table("orders")
    chart = table.chart(**options)
    assert isinstance(chart, Chart)
    ours = connection.sql(chart.sql, settings=JOB_SETTINGS).to_arrow(progress=False)

    def by_pyodps() -> list[Any]:
        with entry.execute_sql(chart.sql, hints=JOB_SETTINGS).open_reader(tunnel=True) as reader:
            return [record.values for record in reader]

    if ours.num_rows != len(by_pyodps()):
        raise SystemExit("bench: pyodps returned other rows")
    compare(
        f"chart: {name}, {table.read().row_count:,} rows",
        Case("chart()", lambda: table.chart(**options)),
        Case(
            "the same SQL by hand",
            lambda: connection.sql(chart.sql, settings=JOB_SETTINGS).to_arrow(progress=False),
        ),
        Case("the same SQL by pyodps", by_pyodps),
        goals=[Goal("the same SQL by hand", AS_SQL)],
    )
    drawn = compare(
        f"drawing: {name}",
        Case("draw", lambda: Chart("orders", chart._choice, chart._figures, {}).message({})),
    )
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
