"""Memory for large blobs and tables: peaks of resident memory above the idle process.

``python -m benchmarks.bench_memory``. Each piece of work runs in a separate process
(`_memory_work`), odps_nb and pyodps one after another, and both must return the same data. Blobs
are written to and read from the embedded service, whose memory is also measured; rows come from a
service that generates them while it sends (`_made_rows`), so that no table is stored. Linux only.
It needs about five times the size of the blob on the disk of the temporary folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import odps_nb
from benchmarks import _made_rows
from benchmarks._measure import figure, header, judged, summary
from benchmarks._memory_work import MIB, Memory
from odps_nb.access.connection import Connection
from odps_nb.local.server.launch import LocalService, start

GIB = 1 << 30
BLOB_GOAL = 64 * MIB
SERVICE_GOAL = 128 * MIB
ARROW_GOAL, PANDAS_GOAL = 1.3, 2.3
_WIDTH = 44


@dataclass(frozen=True)
class Sizes:
    """Bytes of the blob, of the streamed table, and of the table that is held in memory."""

    blob: int
    table: int
    kept: int


FULL = Sizes(blob=2 * GIB, table=4 * GIB, kept=GIB)
QUICK = Sizes(blob=256 * MIB, table=GIB, kept=256 * MIB)


def run(work: str, profile: dict[str, Any], **job: Any) -> dict[str, Any]:
    """Run one job in a new process; return its result."""
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks._memory_work"],
        input=json.dumps({"work": work, "profile": profile, **job}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(child.stdout)
    return found


def show(title: str, found: dict[str, Any], *, size: int, goal: int | None = None) -> None:
    """Print a peak in bytes."""
    if not title.startswith(" "):
        figure(f"{title}: peak", found["peak"] / MIB, "MiB")
        figure(f"{title}: speed", size / found["seconds"] / 1e9, "GB/s", wanted="more")
    line = _line(title, found) + f"  {size / found['seconds'] / 1e9:5.2f} GB/s"
    if goal is not None:
        met = judged(f"{title}: {found['peak'] / MIB:.0f} MiB", found["peak"] <= goal)
        line += f"  {met} (≤ {goal / MIB:.0f} MiB)"
    print(line, flush=True)


def show_held(title: str, held: int, *, goal: int) -> None:
    """Print the bytes of batches in memory at a time; allocators keep more memory resident."""
    met = judged(f"{title}: {held / MIB:.0f} MiB of batches", held <= goal)
    line = f"  {'    batches held at a time':<{_WIDTH}}{held / MIB:9.1f} MiB"
    print(f"{line}             {met} (≤ {goal / MIB:.0f} MiB)", flush=True)


def show_ratio(
    title: str, found: dict[str, Any], *, size: float, goal: float | None = None
) -> None:
    """Print a peak as a multiple of the Arrow size."""
    ratio = found["peak"] / size
    figure(f"{title}: peak", ratio, "× its Arrow size")
    line = _line(title, found) + f"  {ratio:5.2f} × Arrow"
    if goal is not None:
        met = judged(f"{title}: {ratio:.2f} × the Arrow size", ratio <= goal)
        line += f"  {met} (≤ {goal:g} ×)"
    print(line, flush=True)


def _line(title: str, found: dict[str, Any]) -> str:
    return f"  {title:<{_WIDTH}}{found['peak'] / MIB:9.1f} MiB"


def require_same(what: str, *digests: str) -> None:
    """Stop unless all sides returned the same data."""
    if len(set(digests)) != 1:
        raise SystemExit(f"bench: {what} differ: {digests}")


# -- blobs ------------------------------------------------------------------------------------


def bench_blobs(size: int) -> None:
    """Measure the upload and download of one large blob with odps_nb and pyodps."""
    header(f"a blob of {size / GIB:g} GiB: peak memory above the idle process")
    with (
        tempfile.TemporaryDirectory(prefix="odps-nb-bench-") as name,
        start(Path(name) / "root", samples=False) as service,
        odps_nb.connect(**_profile(service)) as odps,
    ):
        folder = Path(name)
        digest = make_file(folder / "large", size)
        make_file(folder / "small", MIB)
        references = _up(service, odps, folder, size)
        _down(service, references, folder, size, digest)


def _profile(service: LocalService) -> dict[str, Any]:
    names = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
    return {name: getattr(service, name) for name in names}


def make_file(path: Path, size: int) -> str:
    """Fill a file with random bytes; return its digest."""
    chance = np.random.default_rng(size)
    with path.open("wb") as file:
        for at in range(0, size, 16 * MIB):
            file.write(chance.bytes(min(16 * MIB, size - at)))
    return _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest()


def _up(service: LocalService, odps: Connection, folder: Path, size: int) -> dict[str, str]:
    references = {}
    for side, work in (("odps_nb", "upload"), ("pyodps", "upload_theirs")):
        table = f"blobs_{side}"
        odps.create_table(table, "id bigint, content blob")
        with watched(service) as memory:
            found = run(
                work,
                _profile(service),
                table=f"{table}",
                small_file=str(folder / "small"),
                file=str(folder / "large"),
            )
        goal = BLOB_GOAL if side == "odps_nb" else None
        show(f"{side}: upload from a file", found, size=size, goal=goal)
        show("    the embedded service meanwhile", memory.found, size=size, goal=SERVICE_GOAL)
        small, large = (blob.reference.token for blob in odps.table(table).blobs("content"))
        references.update({"small": small, side: large})
    return references


def _down(
    service: LocalService, references: dict[str, str], folder: Path, size: int, digest: str
) -> None:
    job = {"small": references["small"], "target": str(folder / "saved")}
    for side, work in (("odps_nb", "save"), ("pyodps", "save_theirs")):
        # each side reads the data of the other side
        other = references["pyodps" if side == "odps_nb" else "odps_nb"]
        with watched(service) as memory:
            found = run(work, _profile(service), reference=other, **job)
        require_same("files", _digest(folder / "saved"), digest)
        goal = BLOB_GOAL if side == "odps_nb" else None
        show(f"{side}: stream to a file", found, size=size, goal=goal)
        show("    the embedded service meanwhile", memory.found, size=size, goal=SERVICE_GOAL)
    checks = []
    for side in ("odps_nb", "pyodps"):
        job["reference"] = references[side]
        found = run("open_and_read", _profile(service), **job)
        checks.append(found["digest"])
    require_same("blobs", *checks)
    show("odps_nb: open() and readinto", found, size=size, goal=BLOB_GOAL)


@contextmanager
def watched(service: LocalService) -> Iterator[Memory]:
    """Measure the memory of the embedded service."""
    memory = Memory(service.pid)
    memory.start()
    yield memory
    memory.stop()


# -- rows -------------------------------------------------------------------------------------


def bench_rows(sizes: Sizes) -> None:
    """Measure a table in batches, as Arrow and as pandas."""
    header(f"a table of {sizes.table / GIB:g} GiB streamed in batches: peak above idle")
    with serve_table(sizes.table) as (profile, rows):
        job = {"table": _made_rows.TABLE}
        theirs = run("stream_theirs", profile, **job)
        for title, how, ahead in (
            ("odps_nb: as it is", {}, 256 * MIB),
            ("odps_nb: 16 splits side by side", {"workers": 16}, 256 * MIB),
            ("odps_nb: read_ahead of 32 MiB", {"read_ahead": 32 * MIB}, 32 * MIB),
            ("odps_nb: one split after another", {"workers": 1}, 16 * MIB),
        ):
            found = run("stream", profile, **job, **how)
            require_same("rows", found["digest"], theirs["digest"])
            show(title, found, size=sizes.table)
            show_held(title, found["batches"], goal=ahead + 16 * MIB)
        show("pyodps: one split after another", theirs, size=sizes.table)
        print(f"    {rows:,} rows, the same on both sides")
    header(f"a table of {sizes.kept / GIB:g} GiB as a whole: peak above idle")
    with serve_table(sizes.kept) as (profile, rows):
        job = {"table": _made_rows.TABLE}
        ours, theirs = run("arrow", profile, **job), run("arrow_theirs", profile, **job)
        size = ours["arrow_bytes"]
        show_ratio("odps_nb: table → Arrow", ours, size=size, goal=ARROW_GOAL)
        show_ratio("pyodps: table → Arrow", theirs, size=size)
        frame, their_frame = run("pandas", profile, **job), run("pandas_theirs", profile, **job)
        show_ratio("odps_nb: table → pandas", frame, size=size, goal=PANDAS_GOAL)
        show_ratio("pyodps: table → pandas", their_frame, size=size)
        require_same("rows", *(one["digest"] for one in (ours, theirs, frame, their_frame)))
        print(f"    {rows:,} rows, the same on all sides")


@contextmanager
def serve_table(size: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Serve a table with a number of Arrow bytes; yield its connection settings and row count."""
    rows = int(size / _made_rows.ROW_BYTES)
    with _made_rows.running(rows) as url:
        profile = {
            "endpoint": f"{url}/api",
            "tunnel_endpoint": url,
            "project": _made_rows.PROJECT,
            "access_id": "anybody",
            "access_key": "is-let-in",
        }
        yield profile, rows


def main() -> int:
    """Run all benchmarks; the exit status is 0 even if a goal is missed, which the table shows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the sizes, about")
    sizes = QUICK if parser.parse_args().quick else FULL
    bench_blobs(sizes.blob)
    bench_rows(sizes)
    summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
