"""The speed table of docs/performance.md, from the document of a run (`_results.gathered`)."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator
from typing import Any

__all__ = ["table"]

HEAD = "| work | peer | odps_nb is |\n|---|---|---|"
PYODPS = "pyodps maxstorage"
PARQUET = "`read.parquet` / `write.parquet` on local disk"
MEMORY = "a table as a pandas DataFrame, peak memory"

# the work, the peer, the benchmark, and for each figure its titles and the peer's case
TIMES: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "verified CRC32C blocks of a 64 MiB blob, read in several sizes",
        "pyodps, also verified",
        "wire",
        ((r"read\(.*\)", PYODPS),),
    ),
    (
        "20,000 blobs of 512 B / 5,000 of 16 KiB in one stream",
        "pyodps",
        "wire",
        ((r"20,000 × 512 B, .*", PYODPS), (r"5,000 × 16,384 B, .*", PYODPS)),
    ),
    (
        "table → Arrow / table → pandas, over loopback",
        "pyodps",
        "tables",
        ((r"table → Arrow", PYODPS), (r"table → pandas", PYODPS)),
    ),
    (
        "table → pandas, with 40 ms latency and 50 MB/s per connection",
        "pyodps, one split at a time",
        "tables",
        ((r"table → pandas, \d+ splits", PYODPS),),
    ),
    (
        "by the tunnel: table → pandas / pandas → table, over loopback",
        "pyodps by the tunnel",
        "tunnel",
        ((r"tunnel → pandas", "pyodps"), (r"pandas → tunnel", "pyodps")),
    ),
    (
        "the same with 40 ms latency and 50 MB/s per connection",
        "pyodps by the tunnel",
        "tunnel",
        (
            (r"tunnel → pandas, slow network", "pyodps"),
            (r"pandas → tunnel, slow network", "pyodps"),
        ),
    ),
    (
        "5 million rows read into Spark / written from Spark",
        PARQUET,
        "spark",
        (
            (r"read 5,000,000 rows .*", "spark.read.parquet"),
            (r"write 5,000,000 rows .*", "df.write.parquet"),
        ),
    ),
    (
        "one pass over 400 blobs of 1 MB in Spark",
        "the blob bytes as a column",
        "spark",
        ((r"one pass over 400 blobs of 1 MB.*", "bytes as a column of Spark"),),
    ),
)


def table(document: dict[str, Any]) -> str:
    """Return the table in Markdown; work that the run did not measure has no row.

    A figure is the median speed relative to the peer; for several comparisons, the smallest and the
    largest one.
    """
    rows = [*_times(document["found"]), *_memory(document["found"])]
    return "\n".join([HEAD, *(f"| {' | '.join(row)} |" for row in rows)])


def _times(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for work, peer, bench, figures in TIMES:
        cell = [_span(_ratios(found, bench, titles, case)) for titles, case in figures]
        if any(cell):
            yield work, peer, " / ".join(f"{one} ×" if one else "not measured" for one in cell)


def _ratios(found: list[dict[str, Any]], bench: str, titles: str, case: str) -> Iterator[float]:
    for one in found:
        of_it = one["bench"] == bench and one["kind"] == "times"
        if of_it and case in one["seconds"] and re.fullmatch(titles, one["title"]):
            ours = next(iter(one["seconds"].values()))
            pairs = zip(one["seconds"][case], ours, strict=False)
            yield statistics.median(theirs / mine for theirs, mine in pairs)


def _span(ratios: Iterator[float]) -> str:
    found = sorted(ratios)
    return " to ".join(dict.fromkeys(_short(end) for end in found[:1] + found[-1:]))


def _short(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def _memory(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    figures = {
        one["title"]: f"{one['value']:.2f} × its Arrow size"
        for one in found
        if one["bench"] == "memory" and one["kind"] == "figure"
    }
    ours, theirs = (figures.get(f"{side}: table → pandas: peak") for side in ("odps_nb", "pyodps"))
    if ours and theirs:
        yield MEMORY, f"pyodps: {theirs}", ours
