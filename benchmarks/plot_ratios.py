"""Draw the speed relative to the peers by release into ``docs/bench/ratios.png``.

``python -m benchmarks.plot_ratios [FILE …]`` reads results of ``python -m benchmarks --json FILE``;
default: all in ``docs/bench``. A point is the median of a run's rounds, and the line through it
extends from the lower to the upper quartile.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
PLACE = Path(__file__).parent.parent / "docs" / "bench"
PICTURE = PLACE / "ratios.png"
COLOURS = ("#0b6e4f", "#c8553d", "#8d99ae", "#e09f3e", "#5f4b8b")


@dataclass(frozen=True)
class Row:
    """One job compared with one peer; (position, low, median, high) for each run."""

    bench: str
    name: str
    points: tuple[tuple[int, float, float, float], ...]


def rows(documents: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of all runs, grouped by benchmark, in the order of the first run."""
    found: dict[tuple[str, str], list[tuple[int, float, float, float]]] = {}
    for place, document in enumerate(documents):
        for one in document["found"]:
            if one["kind"] != "times":
                continue
            (_, ours), *peers = one["seconds"].items()
            for peer, theirs in peers:
                ratios = [other / mine for mine, other in zip(ours, theirs, strict=False)]
                low, middle, high = statistics.quantiles(ratios if ratios[1:] else ratios * 2, n=4)
                name = f"{one['title']}  |  {peer}"
                found.setdefault((one["bench"], name), []).append((place, low, middle, high))
    made = [Row(bench, name, tuple(points)) for (bench, name), points in found.items()]
    return sorted(made, key=lambda row: row.bench)


def draw(runs: Sequence[Row], releases: Sequence[str], picture: Path) -> None:
    """Draw the rows from top to bottom, with one colour per release."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(12, 1.2 + 0.24 * len(runs)), constrained_layout=True)
    shown = set()
    for height, row in enumerate(runs):
        for place, low, middle, high in row.points:
            colour = COLOURS[place % len(COLOURS)]
            label = None if place in shown else releases[place]
            shown.add(place)
            axes.plot([low, high], [height, height], color=colour, lw=2, alpha=0.5)
            axes.plot([middle], [height], "o", ms=5, color=colour, label=label)
    start = 0
    for bench, group in groupby(runs, key=lambda row: row.bench):
        axes.axhline(start - 0.5, color="#00000022", lw=0.8)
        axes.text(1.01, start, bench, transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        start += len(list(group))
    axes.axvline(1, color="black", lw=0.8)
    axes.set(xscale="log", ylim=(len(runs) - 0.5, -0.5), xlabel="times as fast as the peer")
    axes.set_yticks(range(len(runs)), [row.name for row in runs], fontsize=7)
    axes.xaxis.set_major_formatter("{x:g} ×")
    axes.grid(axis="x", which="both", alpha=0.25)
    axes.legend(fontsize=8, loc="upper right")
    figure.savefig(picture, dpi=100, metadata={"Software": None})


def main(files: Sequence[str]) -> None:
    """Read the files and draw."""
    paths = [Path(file) for file in files] or sorted(PLACE.glob("*.json"))
    documents = [json.loads(path.read_text("utf-8")) for path in paths]
    draw(
        rows(documents),
        [f"{path.stem}, {d['made'][:10]}" for path, d in zip(paths, documents, strict=True)],
        PICTURE,
    )
    print(f"{PICTURE} drawn")


if __name__ == "__main__":
    main(sys.argv[1:])
