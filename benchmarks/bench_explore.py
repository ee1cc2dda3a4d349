"""Pages of an explorer over a network with 40 ms and 50 MB/s: waiting times and message sizes.

``python -m benchmarks.bench_explore [ROWS]``. The table has 2,048,000 rows and 22 columns; with
ROWS (such as 100000000), a table with this number of rows and three columns is created first, which
takes about 30 bytes of disk per row during the run. Pages of 100 rows are read at random positions,
also with a condition. Profile, filter, chart and download are measured from the browser's request
to the last message, also over loopback. pyodps reads the same rows by number through its table
tunnel (`open_reader` of a table, then a slice), as its users do.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import odps_nb
from benchmarks._measure import header, judged, summary
from benchmarks._peer import pyodps_entry
from benchmarks._slow_line import slow_line
from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.explorer import Explorer
from odps_nb.notebook.explore.messages import page_message, profile_message, table_message
from odps_nb.notebook.explore.pages import CACHE_BYTES
from odps_nb.notebook.explore.view import RowView

STEP_ROWS = 1_000_000
ROW_BYTES = 60  # on disk, with a margin
ROUND_TRIP, SPEED = 0.040, 50e6  # seconds, bytes per second of one connection
PAGES, PEER_PAGES, SIZE = 60, 12, 100
FIRST_PAGE, ANY_PAGE = 0.300, 0.100
MESSAGE, FILE = 100_000, 5_000_000


@dataclass(frozen=True)
class Subject:
    """The table to explore; ``partition`` is the one that pyodps opens."""

    table: str
    rows: int
    columns: int
    partition: str | None = None


ORDERS = Subject("orders", 2_048_000, 22, "ds=2024-01-03")
MADE = pa.schema([("id", pa.int64()), ("quantity", pa.int32()), ("status", pa.string())])


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that the work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def report(name: str, seconds: list[float]) -> tuple[float, float]:
    """Print and return median and 95th percentile."""
    ordered = sorted(seconds)
    median, p95 = statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))]
    print(f"  {name:<44}{median * 1e3:10.1f} ms median{p95 * 1e3:10.1f} ms p95")
    return median, p95


def made_rows(rows: int) -> Iterator[pa.RecordBatch]:
    """Generate rows: a counter, a number derived from it, one of four words."""
    words = pa.array(["new", "paid", "sent", "returned"])
    for start in range(0, rows, STEP_ROWS):
        ids = np.arange(start, min(rows, start + STEP_ROWS))
        status = words.take(pa.array(ids * 2_654_435_761 % 2**32 >> 30))
        columns = [pa.array(ids), pa.array((ids % 97).astype("i4")), status]
        yield pa.record_batch(columns, schema=MADE)


def create_table(connection: Connection, rows: int) -> Subject:
    """Write a table of ``rows`` rows in pieces; it is deleted together with the service."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < rows * ROW_BYTES:
        raise SystemExit(f"bench: {rows:,} rows need {rows * ROW_BYTES / 1e9:.1f} GB of free disk")
    connection.sql("create table tall (id bigint, quantity int, status string)")
    data = pa.RecordBatchReader.from_batches(MADE, made_rows(rows))
    seconds = timed(lambda: connection.table("tall").write(data))
    print(f"  {rows:,} rows written in {seconds:.0f} s")
    return Subject("tall", rows, len(MADE))


def opened(connection: Connection, subject: Subject) -> RowView:
    """Return a view like the one that `Table.explore` opens."""
    explorer = connection.table(subject.table).explore(seed=1)
    view: RowView = explorer.view  # type: ignore[attr-defined]
    return view


def first_pages(profile: odps_nb.Profile, subject: Subject) -> None:
    """Measure the first page of a new connection: schema, session, rows."""

    def first() -> None:
        with odps_nb.connect(profile) as connection:
            page = opened(connection, subject).page(0)
        if page.count != SIZE:
            raise SystemExit("bench: the first page is not whole")

    median, _ = report("first page of a new connection", [timed(first) for _ in range(7)])
    print(" ", judged(f"first page: {median * 1e3:.0f} ms", median <= FIRST_PAGE))


def pages(connection: Connection, subject: Subject) -> list[int]:
    """Measure pages at random positions; return the positions."""
    view, draw = opened(connection, subject), random.Random(1)
    view.page(0)
    starts = [draw.randrange(subject.rows // SIZE) * SIZE for _ in range(PAGES)]
    _, p95 = report("a page anywhere", [timed(lambda s=start: view.page(s)) for start in starts])
    print(" ", judged(f"any page: {p95 * 1e3:.0f} ms at the 95th percentile", p95 <= ANY_PAGE))
    kept = view.nbytes
    print(" ", judged(f"kept: {kept:,} bytes", kept <= CACHE_BYTES))
    report("a page that is kept", [timed(lambda: view.page(starts[-1])) for _ in range(PAGES)])
    view.choose(Choice(conditions=("status = 'paid'",)))
    report("the first page of a condition", [timed(lambda: view.page(0))])
    view.choose(Choice(conditions=("status = 'new'",)))
    report("the first page of another condition", [timed(lambda: view.page(0))])
    report("its next pages", [timed(lambda n=n: view.page(n * SIZE)) for n in range(1, 20)])
    view.close()
    return starts


def messages(connection: Connection, subject: Subject) -> None:
    """Measure the bytes of the messages to the browser."""
    view = rows_of(connection.table(subject.table).read())
    shown = RowView(view, seed=1)
    page = shown.page(1_000_000)
    report("a profile of a sample of 64,000 rows", [timed(shown.describe)])
    sizes = {
        "a page": len(str(page_message(shown, page))) + len(page.data),
        "the columns": len(str(table_message(shown))),
        "the profile": len(str(profile_message(shown))),
    }
    for name, size in sizes.items():
        print(f"  message of {name:<33}{size:>12,} bytes")
        judged(f"message of {name}: {size:,} bytes", size <= MESSAGE)


class Browser:
    """Replaces the browser of a widget: records the times and sizes of messages."""

    def __init__(self) -> None:
        self._came = threading.Condition()
        self.forget()

    def forget(self) -> None:
        """Discard the messages so far."""
        self.times: dict[str, float] = {}
        self.sizes: Counter[str] = Counter()

    def send(self, content: dict[str, Any], buffers: Sequence[bytes]) -> None:
        """Receive a message from the kernel."""
        with self._came:
            kind = content["kind"]
            self.times[kind] = time.perf_counter()
            self.sizes[kind] += len(json.dumps(content)) + sum(map(len, buffers))
            self._came.notify_all()

    def close(self) -> None:
        """Do nothing."""

    def wait(self, kinds: set[str]) -> None:
        """Wait for messages of these kinds."""
        with self._came:
            if not self._came.wait_for(lambda: kinds <= self.times.keys(), 600):
                raise SystemExit(f"bench: no {kinds}, but {set(self.times)}")


def panels(connection: Connection, subject: Subject, line: str) -> None:
    """Measure the panels of a view: profile, filter, chart and download of 20,000 rows."""
    explorer = connection.table(subject.table).explore(seed=1)
    assert isinstance(explorer, Explorer)
    explorer._widget = browser = Browser()
    explorer._show_static = lambda bundle: None  # type: ignore[method-assign]  # no notebook
    low = 1_000_001
    between = {"do": "filter", "column": 0, "op": "range", "values": [str(low), str(low + 19_999)]}
    between |= {"exclude": False, "below": False, "index": None}
    file = {"do": "download", "file": "parquet", "number": 1}
    for message, names in (
        ({"do": "ready"}, {"page": "first page", "profile": "profile of a sample"}),
        (between, {"page": "filter", "profile": "profile of the filter"}),
        ({"do": "chart", "x": "status"}, {"chart": "chart"}),
        (file, {"file": "download as Parquet"}),
    ):
        browser.forget()
        start = time.perf_counter()
        explorer.receive(message)
        browser.wait(set(names))
        for kind, name in names.items():
            seconds = browser.times[kind] - start
            size = browser.sizes[kind] + (browser.sizes["chunk"] if kind == "file" else 0)
            print(f"  {line}: {name:<34}{seconds * 1e3:10.1f} ms {size:>14,} bytes")
            judged(f"{line}, {name}: {size:,} bytes", size <= (FILE if kind == "file" else MESSAGE))
    explorer.close()


def peer(profile: odps_nb.Profile, near: Connection, subject: Subject, starts: list[int]) -> None:
    """Measure the same pages with pyodps: one reader of the table, and a slice of it per page."""
    entry = pyodps_entry(profile)
    scan = near.table(subject.table).read(["id"], partitions=subject.partition)
    with entry.get_table(subject.table).open_reader(partition=subject.partition) as reader:
        places = [start % (reader.count - SIZE) for start in starts[:PEER_PAGES]]

        def page(start: int) -> None:
            rows = list(reader[start : start + SIZE])
            ours = next(iter(rows_of(scan).page(start, 1, CancelToken())))
            if len(rows) != SIZE or rows[0]["id"] != ours.column("id")[0].as_py():
                raise SystemExit("bench: pyodps returned other rows")

        of = "one partition" if subject.partition else "the table"
        report(f"pyodps: a page of {of}", [timed(lambda s=s: page(s)) for s in places])


def main() -> int:
    """Run the benchmark; return 0 if all goals are met."""
    parser = argparse.ArgumentParser(description="pages of an explorer over a shaped line")
    parser.add_argument("rows", nargs="?", type=int, help="create a table with this many rows")
    rows = parser.parse_args().rows
    line = f"{ROUND_TRIP * 1e3:.0f} ms and {SPEED / 1e6:.0f} MB/s per connection"
    with odps_nb.connect("local") as near:
        profile = near.profile
        header(f"explore: {line}; load {os.getloadavg()[0]:.1f}")
        subject = ORDERS if rows is None else create_table(near, rows)
        print(f"  {subject.rows:,} rows, {subject.columns} columns")
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
            first_pages(far, subject)
            with odps_nb.connect(far) as connection:
                starts = pages(connection, subject)
                messages(connection, subject)
                panels(connection, subject, "line")
            panels(near, subject, "loopback")
            peer(far, near, subject, starts)
    return summary()


if __name__ == "__main__":
    raise SystemExit(main())
