"""Plot time against size over three decades into ``docs/results/growth.png``.

``python -m benchmarks.plot_growth``. A line of slope 1 in these logarithmic panels is linear
growth. A point is the minimum processor time of several runs, to exclude noise.
"""

from __future__ import annotations

import gc
import io
import math
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import matplotlib as mpl
from odps.maxstorage.io.blob_reader import BlobDataIterator as MaxBlobDataIterator

from benchmarks import _older_peer
from odps_nb.client.read.session import plan_ranges
from odps_nb.stream_io import BlobDataIterator
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.frames import FrameHeader, encode_frame

mpl.use("Agg")
PICTURE = Path(__file__).parent.parent / "docs" / "results" / "growth.png"
KIB = 1 << 10
OURS, MAX, OLDER = "odps_nb", "pyodps maxstorage", "pyodps 0.13.1, unverified"
COLOURS = {OURS: "#0b6e4f", MAX: "#c8553d", OLDER: "#8d99ae"}


@dataclass(frozen=True)
class Line:
    """Seconds by size."""

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


def best(work: Callable[[], object], rounds: int = 5) -> float:
    """Return the minimum processor time of the work."""
    times, repeats = [], 1
    for turn in range(rounds + 1):
        gc.collect()
        start = process_time()
        for _ in range(repeats):
            work()
        spent = (process_time() - start) / repeats
        if turn:
            times.append(spent)
        else:  # the first run, which is also the warm-up
            repeats = max(1, round(0.02 / spent))
    return min(times)


def line(name: str, sizes: list[int], make: Callable[[int], Callable[[], object]]) -> Line:
    """Measure a line."""
    found = Line(name, tuple((size, best(make(size))) for size in sizes))
    print(f"  {name:28} slope {found.slope:.2f}", flush=True)
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


def measure() -> list[tuple[str, str, list[Line]]]:
    """Measure all panels: title, unit of the size, lines."""
    sizes = [64 * KIB * 2**power for power in range(11)]
    counts = [100, 300, 1000, 3000, 10_000, 30_000, 100_000]
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
        line(OURS, counts, many_blobs(lambda raw, n: BlobDataIterator(raw, expected_count=n))),
        line(MAX, counts, many_blobs(lambda raw, n: MaxBlobDataIterator(raw, expected_count=n))),
    ]
    print("splits planned, 100 … 100,000")
    splits = [line(OURS, counts, lambda n: lambda: plan_ranges(n * 1000 + 7, n))]
    return [
        ("one blob: verified, decoded", "bytes", blob),
        ("blobs of 512 B in one stream", "blobs", blobs),
        ("splits planned", "splits", splits),
    ]


def draw(panels: list[tuple[str, str, list[Line]]]) -> None:
    """Draw the panels into the picture."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(13, 4.2), constrained_layout=True)
    for place, (title, unit, lines) in zip(axes, panels, strict=True):
        for one in lines:
            label = f"{one.name} (slope {one.slope:.2f})"
            place.plot(
                *zip(*one.points, strict=True), "o-", ms=3, label=label, color=COLOURS[one.name]
            )
        place.set(xscale="log", yscale="log", title=title, xlabel=unit, ylabel="seconds")
        place.grid(which="major", alpha=0.3)
        place.legend(fontsize=8, loc="lower right")
    figure.savefig(PICTURE, dpi=110, metadata={"Software": None})


def main() -> int:
    """Measure and draw; fail if one of our lines is not linear."""
    panels = measure()
    draw(panels)
    print(f"{PICTURE} drawn")
    ours = [one for _, _, lines in panels for one in lines if one.name == OURS]
    return sum(one.slope > 1.25 for one in ours)


if __name__ == "__main__":
    sys.exit(main())
