"""Pages of an explorer over a line of 40 ms and 50 MB/s: how long a person waits, and bytes told.

``python -m benchmarks.bench_explore``. One table of 2,048,000 rows and 22 columns; pages of 100
rows at random places, also beyond a condition. pyodps reads the same rows by number through its
table tunnel (`open_reader` of a table, then a slice), which is how its users look at rows.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import odps_nb
from benchmarks._measure import header, judged, summary
from benchmarks._slow_line import slow_line
from odps_nb.access.connection import Connection
from odps_nb.access.looking.browsing import rows_of
from odps_nb.notebook.explore.messages import page_message, profile_message, table_message
from odps_nb.notebook.explore.pages import CACHE_BYTES
from odps_nb.notebook.explore.view import Choice, RowView

TABLE, ROWS = "orders", 2_048_000
ROUND_TRIP, SPEED = 0.040, 50e6  # seconds, bytes a second of one connection
PAGES, PEER_PAGES, SIZE = 60, 12, 100
FIRST_PAGE, ANY_PAGE = 0.300, 0.100
MESSAGE = 100_000


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def told(name: str, seconds: list[float]) -> tuple[float, float]:
    """Print and return median and 95th percentile."""
    ordered = sorted(seconds)
    median, p95 = statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]
    print(f"  {name:<44}{median * 1e3:10.1f} ms median{p95 * 1e3:10.1f} ms p95")
    return median, p95


def opened(connection: Connection) -> RowView:
    """Return a view as `Table.explore` opens it."""
    view: RowView = connection.table(TABLE).explore(seed=1).view  # type: ignore[attr-defined]
    return view


def first_pages(profile: odps_nb.Profile) -> None:
    """From a new connection to the first page: schema, session, rows."""

    def first() -> None:
        with odps_nb.connect(profile) as connection:
            page = opened(connection).page(0)
        if page.count != SIZE:
            raise SystemExit("bench: the first page is not whole")

    median, _ = told("first page of a new connection", [timed(first) for _ in range(7)])
    print(" ", judged(f"first page: {median * 1e3:.0f} ms", median <= FIRST_PAGE))


def pages(connection: Connection) -> list[int]:
    """Pages at random places; return where they were."""
    view, draw = opened(connection), random.Random(1)
    view.page(0)
    starts = [draw.randrange(ROWS // SIZE) * SIZE for _ in range(PAGES)]
    _, p95 = told("a page anywhere", [timed(lambda s=start: view.page(s)) for start in starts])
    print(" ", judged(f"any page: {p95 * 1e3:.0f} ms at the 95th percentile", p95 <= ANY_PAGE))
    kept = view.nbytes
    print(" ", judged(f"kept: {kept:,} bytes", kept <= CACHE_BYTES))
    told("a page that is kept", [timed(lambda: view.page(starts[-1])) for _ in range(PAGES)])
    view.choose(Choice(conditions=("status = 'paid'",)))
    told("the first page of a condition", [timed(lambda: view.page(0))])
    view.choose(Choice(conditions=("status = 'new'",)))
    told("the first page of another condition", [timed(lambda: view.page(0))])
    told("its next pages", [timed(lambda n=n: view.page(n * SIZE)) for n in range(1, 20)])
    view.close()
    return starts


def messages(connection: Connection) -> None:
    """Bytes of the messages to the browser."""
    view = rows_of(connection.table(TABLE).read())
    shown = RowView(view, seed=1)
    page = shown.page(1_000_000)
    told("a profile of a sample of 64,000 rows", [timed(shown.describe)])
    sizes = {
        "a page": len(str(page_message(shown, page))) + len(page.data),
        "the columns": len(str(table_message(shown))),
        "the profile": len(str(profile_message(shown))),
    }
    for name, size in sizes.items():
        print(f"  message of {name:<33}{size:>12,} bytes")
        judged(f"message of {name}: {size:,} bytes", size <= MESSAGE)


def peer(profile: odps_nb.Profile, starts: list[int], expected: Callable[[int], int]) -> None:
    """The same pages by pyodps: one reader of the table, and a slice of it for each page."""
    from odps import ODPS

    entry = ODPS(
        profile.access_id,
        profile.access_key,
        project=profile.project,
        endpoint=profile.endpoint,
        tunnel_endpoint=profile.tunnel_endpoint,
    )
    table, day = entry.get_table(TABLE), "ds='2024-01-03'"
    with table.open_reader(partition=day) as reader:
        places = [start % (reader.count - SIZE) for start in starts[:PEER_PAGES]]

        def page(start: int) -> None:
            rows = list(reader[start : start + SIZE])
            if len(rows) != SIZE or rows[0]["id"] != expected(start):
                raise SystemExit("bench: pyodps returned other rows")

        told("pyodps: a page of one partition", [timed(lambda s=s: page(s)) for s in places])


def main() -> int:
    """Measure; 0 if all goals are met."""
    with odps_nb.connect("local") as near:
        profile = near.profile
        day = near.table(TABLE).read(["id"], partitions="ds=2024-01-03").to_arrow()["id"]
        header(f"explore: {ROUND_TRIP * 1e3:.0f} ms and {SPEED / 1e6:.0f} MB/s per connection")
        with (
            slow_line(profile.endpoint, round_trip=ROUND_TRIP, speed=SPEED) as endpoint,
            slow_line(profile.tunnel_endpoint, round_trip=ROUND_TRIP, speed=SPEED) as tunnel,
        ):
            far = odps_nb.Profile(
                endpoint=endpoint,
                tunnel_endpoint=tunnel,
                project=profile.project,
                access_id=profile.access_id,
                access_key=profile.access_key,
            )
            first_pages(far)
            with odps_nb.connect(far) as connection:
                starts = pages(connection)
                messages(connection)
            peer(far, starts, lambda start: day[start].as_py())
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
