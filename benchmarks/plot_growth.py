"""Plot time and memory against size over three decades: ``docs/results/growth.png`` and ``.md``.

``python -m benchmarks.plot_growth``. A line of slope 1 in these logarithmic panels is linear
growth. A point is the minimum processor time of several runs, to exclude noise. Takes about five
minutes on two cores.
"""

from __future__ import annotations

import datetime as dt
import gc
import io
import math
import os
import platform
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import psutil
import pyarrow as pa
from odps.maxstorage.io.blob_reader import BlobDataIterator as MaxBlobDataIterator

import odps_nb
import odps_nb.spark
from benchmarks import _made_rows, _older_peer
from benchmarks.bench_scale import HEAP, ROWS, SLOTS, heap, task_bytes, to_made_rows, weighed
from odps_nb.client.read.session import plan_ranges
from odps_nb.stream_io import BlobDataIterator
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.frames import FrameHeader, encode_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

mpl.use("Agg")
PICTURE = Path(__file__).parent.parent / "docs" / "results" / "growth.png"
PAGE = PICTURE.with_suffix(".md")
KIB = 1 << 10
OURS, MAX, OLDER = "odps_nb", "pyodps maxstorage", "pyodps 0.13.1, unverified"
READ, WRITE = "odps_nb, read", "odps_nb, write"
SESSION, TASK, JAVA = "read session in Python", "data of one task", "heap of Spark's driver"
COLOURS = {
    **{OURS: "#0b6e4f", MAX: "#c8553d", OLDER: "#8d99ae", READ: "#0b6e4f", WRITE: "#3a6ea5"},
    **{SESSION: "#0b6e4f", TASK: "#3a6ea5", JAVA: "#c8553d"},
}
COUNTS = [100, 300, 1000, 3000, 10_000, 30_000, 100_000]


@dataclass(frozen=True)
class Line:
    """Seconds or bytes by size."""

    name: str
    points: tuple[tuple[int, float], ...]

    @property
    def slope(self) -> float:
        """Return the slope by least squares without the smallest sizes: 1 linear, 2 quadratic.

        Allocations from 32 MiB get new pages from the kernel, so the line of any client that
        materialises a blob has a step there.
        """
        points = [(math.log(size), math.log(time)) for size, time in self.points[2:]]
        mean_x = sum(x for x, _ in points) / len(points)
        mean_y = sum(y for _, y in points) / len(points)
        above = sum((x - mean_x) * (y - mean_y) for x, y in points)
        return above / sum((x - mean_x) ** 2 for x, _ in points)


@dataclass(frozen=True)
class Panel:
    """Lines over the same sizes; ``size`` and ``value`` are units."""

    title: str
    size: str
    lines: list[Line]
    value: str = "seconds"


def best(
    work: Callable[[], object], rounds: int = 5, clock: Callable[[], float] = process_time
) -> float:
    """Return the minimum processor time of the work, after a first run if there are several."""
    times, repeats = [], 1
    for turn in range(rounds + 1):
        gc.collect()
        start = clock()
        for _ in range(repeats):
            work()
        spent = (clock() - start) / repeats
        if turn:
            times.append(spent)
        else:  # the first run, which is also the warm-up
            repeats = max(1, round(0.02 / spent))
    return min(times, default=spent)


def line(
    name: str, sizes: list[int], make: Callable[[int], Callable[[], object]], **how: Any
) -> Line:
    """Measure a line; ``how`` are further arguments of `best`."""
    return report(Line(name, tuple((size, best(make(size), **how)) for size in sizes)))


def report(found: Line) -> Line:
    """Print a line."""
    print(f"  {found.name:28} slope {found.slope:.2f}", flush=True)
    return found


def one_blob(kind: Callable[..., object]) -> Callable[[int], Callable[[], object]]:
    """Return a function that materialises the first of two framed blobs of a size."""

    def make(size: int) -> Callable[[], object]:
        blob = random.Random(1).randbytes(size)
        body = encode_blocks(encode_frame(blob) + encode_frame(b""))
        return lambda: [len(record.data) for record in kind(io.BytesIO(body))]  # type: ignore[attr-defined]

    return make


def many_blobs(kind: Callable[..., object]) -> Callable[[int], Callable[[], object]]:
    """Return a function that reads a number of framed blobs of 512 bytes."""

    def make(count: int) -> Callable[[], object]:
        frame = encode_frame(bytes(512), FrameHeader(content_type="image/png"))
        body = encode_blocks(frame * count)
        return lambda: sum(1 for _ in kind(io.BytesIO(body), count))  # type: ignore[call-overload]

    return make


def in_memory() -> list[Panel]:
    """Measure decoders and the planner, without a service."""
    sizes = [64 * KIB * 2**power for power in range(11)]
    print("one blob, 64 KiB … 64 MiB")
    blob = [
        line(OURS, sizes, one_blob(lambda raw: BlobDataIterator(raw, expected_count=2))),
        line(MAX, sizes, one_blob(lambda raw: MaxBlobDataIterator(raw, expected_count=2))),
    ]
    older = _older_peer.load()
    if older is not None:
        blob.append(line(OLDER, sizes[:8], one_blob(older.BlobDataIterator)))
    print("blobs of 512 B in one stream, 100 … 100,000")
    blobs = [
        line(OURS, COUNTS, many_blobs(lambda raw, n: BlobDataIterator(raw, expected_count=n))),
        line(MAX, COUNTS, many_blobs(lambda raw, n: MaxBlobDataIterator(raw, expected_count=n))),
    ]
    print("splits planned, 100 … 100,000")
    splits = [line(OURS, COUNTS, lambda n: lambda: plan_ranges(n * 1000 + 7, n))]
    return [
        Panel("one blob: verified, decoded", "bytes", blob),
        Panel("blobs of 512 B in one stream", "blobs", blobs),
        Panel("splits planned", "splits", splits),
    ]


def by_rows(odps: Connection) -> Panel:
    """Measure writes and reads of a table by its number of rows."""
    print("rows of a table, 1,000 … 1,000,000")
    table = odps.create_table("growth_rows", "id bigint, name string")

    def rows(size: int) -> pa.Table:
        return pa.table({"id": range(size), "name": [f"item-{n % 1000}" for n in range(size)]})

    def writing(size: int) -> Callable[[], object]:
        return partial(table.write, rows(size), overwrite=True)

    def reading(size: int) -> Callable[[], object]:
        table.write(rows(size), overwrite=True)
        return lambda: table.read().to_arrow()

    sizes = [count * 10 for count in COUNTS]
    lines = [line(READ, sizes, reading), line(WRITE, sizes, writing)]
    return Panel("rows of two columns", "rows", lines)


def by_tasks(spark: SparkSession, odps: Connection) -> Panel:
    """Measure one table in Spark by the number of tasks, in the driver, Java and the workers."""
    print("Spark tasks, 1 … 1,000")
    context: Any = spark.sparkContext
    java = psutil.Process(context._gateway.proc.pid)
    odps.create_table("growth_tasks", "id bigint")
    odps_nb.spark.write(spark.range(10_000), odps, "growth_tasks")

    def clock() -> float:
        family = [java, *java.children(recursive=True)]
        return process_time() + sum(sum(one.cpu_times()[:4]) for one in family)

    def reading(size: int) -> Callable[[], object]:
        frame = odps_nb.spark.read(spark, odps, "growth_tasks", splits=size)
        assert frame.rdd.getNumPartitions() == size
        return frame.selectExpr("sum(id)").collect  # a count would need no task

    def writing(size: int) -> Callable[[], object]:
        numbers = spark.range(0, 10_000, 1, size)
        return partial(odps_nb.spark.write, numbers, odps, "growth_tasks", overwrite=True)

    sizes = [count // 100 for count in COUNTS]
    reading(2)()  # warm
    how: dict[str, Any] = {"rounds": 0, "clock": clock}
    lines = [line(READ, sizes, reading, **how), line(WRITE, sizes, writing, **how)]
    return Panel("10,000 rows in Spark", "tasks", lines)


def held(spark: SparkSession, made: Connection) -> Panel:
    """Measure the memory for the splits of a read in the driver, and the data of one task."""
    print("memory of splits, 100 … 300,000")
    kept, sent, java = [], [], []
    made.table("rows").read(splits=1)._opened()  # the first call imports modules
    for size in COUNTS:
        with weighed() as took:
            session = made.table("rows").read(splits=size)._opened()
        kept.append((size, float(took.kept)))
        sent.append((size, float(task_bytes(made, session))))
    for size in (1000, 10_000, 30_000, 100_000, 300_000):
        before = heap(spark)
        frame: Any = odps_nb.spark.read(spark, made, "rows", splits=size).rdd
        assert frame.getNumPartitions() == size
        java.append((size, float(heap(spark) - before)))
        del frame
        gc.collect()  # Java keeps the objects that Python refers to
    del java[0]  # the first read loads classes, which need more memory than its few splits
    named = ((SESSION, kept), (TASK, sent), (JAVA, java))
    lines = [report(Line(name, tuple(points))) for name, points in named]
    return Panel("memory for splits", "splits", lines, "bytes")


def draw(panels: list[Panel]) -> None:
    """Draw the panels into the picture."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 8), constrained_layout=True)
    for place, panel in zip(axes.flat, panels, strict=True):
        for one in panel.lines:
            label = f"{one.name} (slope {one.slope:.2f})"
            place.plot(
                *zip(*one.points, strict=True), "o-", ms=3, label=label, color=COLOURS[one.name]
            )
        place.set(xscale="log", yscale="log", title=panel.title)
        place.set(xlabel=panel.size, ylabel=panel.value)
        place.grid(which="major", alpha=0.3)
        place.legend(fontsize=8, loc="best")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


def page(panels: list[Panel]) -> str:
    """Return the page: each line at its smallest and largest size."""
    today = dt.datetime.now(tz=dt.UTC).date()
    where = f"{today}, Python {platform.python_version()}, {os.cpu_count()} cores"
    lines = ["# Growth", "", "Written by `python -m benchmarks.plot_growth`.", "", f"{where}.", ""]
    lines += ["Times are processor seconds: of the client, and for Spark also of Java and its"]
    lines += ["Python workers. A slope of 1 is linear growth; the smallest two sizes are left out."]
    lines += [
        "",
        "| what | line | sizes | smallest | largest | per item, at the largest size | slope |",
    ]
    lines += ["|---|---|---|--:|--:|--:|--:|"]
    for panel in panels:
        unit = "B" if panel.value == "bytes" else "s"
        for one in panel.lines:
            (small, low), (large, high) = one.points[0], one.points[-1]
            texts = (f"{low:.3g} {unit}", f"{high:.3g} {unit}", f"{high / large:.3g} {unit}")
            sizes = f"{small:,} … {large:,} {panel.size}"
            figures = " | ".join(texts)
            lines.append(f"| {panel.title} | {one.name} | {sizes} | {figures} | {one.slope:.2f} |")
    return "\n".join([*lines, "", "![growth](growth.png)", ""])


def main() -> int:
    """Measure and draw; fail if one of our lines is not linear."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    panels = in_memory()
    with _made_rows.running(ROWS) as endpoint, odps_nb.connect("local") as odps:
        panels.append(by_rows(odps))
        spark = odps_nb.spark.session(f"local[{SLOTS}]", spark_driver_memory=HEAP)
        try:
            panels.append(by_tasks(spark, odps))
            panels.append(held(spark, to_made_rows(endpoint)))
        finally:
            spark.stop()
    draw(panels)
    PAGE.write_text(page(panels), "utf-8")
    print(f"{PICTURE} and {PAGE} written")
    others = (MAX, OLDER)
    ours = [one for panel in panels for one in panel.lines if one.name not in others]
    return sum(one.slope > 1.25 for one in ours)


if __name__ == "__main__":
    sys.exit(main())
