"""Galleries of 500 and of 10,000 blobs: waiting times for tiles.

``python -m benchmarks.bench_gallery``. The blobs are repeated sample files of ``media``, over
loopback and over a network with 40 ms and 50 MB/s per connection. No other client has a gallery.
The number of requests per tile is counted separately.
"""

from __future__ import annotations

import logging
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import odps_nb
from benchmarks._measure import header, judged, summary
from benchmarks._slow_line import slow_line
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.notebook.gallery.page import drawn_pages
from odps_nb.notebook.gallery.tiles import KEPT
from odps_nb.notebook.gallery.view import Gallery

ROUND_TRIP, SPEED = 0.040, 50e6  # seconds, bytes per second of one connection
NEAR_FIRST, FAR_FIRST = 1.0, 1.5  # seconds until the first tiles
SIZES = (500, 10_000)
IN_VIEW, PLACES = 20, 8


class Browser:
    """Receives messages, and records when tiles arrive."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.ended = threading.Event()

    def send(self, content: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
        """Receive a message."""
        if content["kind"] == "tiles":
            self.times += [time.perf_counter()] * len(content["tiles"])
        elif content["kind"] == "idle":
            self.ended.set()

    def close(self) -> None:
        """Do nothing: the gallery closes its widget."""


def column_of(connection: odps_nb.Connection, count: int) -> BlobColumn:
    """Return a number of blobs, repeating the sample files."""
    texts = connection.table("media").blobs().references().tolist()
    blobs = [connection.blob(texts[n % len(texts)]) for n in range(count)]  # without metadata
    return BlobColumn(blobs, title="media")


def opened(column: BlobColumn) -> tuple[float, float]:
    """Return the seconds until the static page has its first tiles, and until it is complete."""
    start = time.perf_counter()
    pages = drawn_pages(column, range(64), together=6)
    next(pages)
    first = time.perf_counter() - start
    for _ in pages:
        pass
    return first, time.perf_counter() - start


class Answers(logging.Handler):
    """Counts the responses of the service from the log of the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Count one."""
        self.count += "request id" in str(record.msg)


def requests_of(column: BlobColumn) -> float:
    """Return the number of requests per tile of the static page."""
    log, answers = logging.getLogger("odps_nb"), Answers()
    before = log.level
    log.addHandler(answers)
    log.setLevel(logging.DEBUG)
    try:
        *_, page = drawn_pages(column, range(64), together=6)
    finally:
        log.removeHandler(answers)
        log.setLevel(before)
    return answers.count / len(page.tiles)


def scrolled(gallery: Gallery, browser: Browser, place: int) -> tuple[float, float]:
    """Return the seconds until the first and the last tile of a view at any position arrive."""
    browser.times, browser.ended = [], threading.Event()
    start = time.perf_counter()
    gallery.receive({"do": "tiles", "indices": list(range(place, place + IN_VIEW))})
    if not browser.ended.wait(60) or len(browser.times) != IN_VIEW:
        raise SystemExit("bench: tiles are missing")
    return browser.times[0] - start, browser.times[-1] - start


def report(name: str, seconds: Sequence[float]) -> float:
    """Print and return the median."""
    median = statistics.median(seconds)
    print(f"  {name:<48}{median * 1e3:10.0f} ms")
    return median


def measure(connect: Callable[[], odps_nb.Connection], goal: float) -> None:
    """Measure both sizes over one kind of network."""
    for size in SIZES:
        with connect() as connection:
            columns = [column_of(connection, size) for _ in range(7)]
            requests = requests_of(columns.pop())
            first, whole = zip(*map(opened, columns[1:]), strict=True)
            print(f"{size:,} blobs")
            line = f"{requests:.2f} requests for a tile"
            print(f"  {judged(line, requests <= 1)}  {line}")
            median = report("static page: the first 6 tiles", first)
            print(" ", judged(f"first tiles: {median * 1e3:.0f} ms", median <= goal))
            report("static page: all 64 tiles", whole)
            gallery, browser = Gallery(columns[0]), Browser()
            gallery._widget = browser
            draw = random.Random(1)
            places = [draw.randrange(size - IN_VIEW) for _ in range(PLACES)]
            ones, alls = zip(*(scrolled(gallery, browser, at) for at in places), strict=True)
            report("scrolled anywhere: the first tile", ones)
            report(f"scrolled anywhere: all {IN_VIEW}", alls)
            report("scrolled back", [scrolled(gallery, browser, at)[1] for at in places])
            kept = gallery._tiles._bytes
            print(" ", judged(f"kept: {kept:,} bytes", kept <= KEPT))
            gallery.close()


def main() -> int:
    """Run the benchmark; return 0 if all goals are met."""
    with odps_nb.connect("local") as near:
        profile = near.profile
        header("gallery: loopback")
        measure(lambda: odps_nb.connect(profile), NEAR_FIRST)
        header(f"gallery: {ROUND_TRIP * 1e3:.0f} ms and {SPEED / 1e6:.0f} MB/s per connection")
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
            measure(lambda: odps_nb.connect(far), FAR_FIRST)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
