"""Files that become blobs of a table: one large file and many small ones, compared with pyodps.

``python -m benchmarks.bench_upload``. Measures elapsed time, processor time of the client and the
service, and memory of the client, from the files on disk to the confirmed commit in the embedded
service over loopback. pyodps uploads each file as a separate stream in pieces of 1 MiB (which keeps
neither name nor type), and in batches with name, type and CRC-32, as odps_nb does. Each sample uses
a new service, and the rows written in each way are read back once. ``--quick`` uses 256 MiB and
1,000 files. Linux only. Needs about three times the size of the file in the temporary folder.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
from odps.maxstorage import MaxStorageClient
from odps.maxstorage.options import BlobWriteItem

import odps_nb
from benchmarks._measure import header, judged, summary
from benchmarks._memory_work import MIB, Memory
from benchmarks._peer import pyodps_entry
from odps_nb.access.connection import Connection
from odps_nb.local.server.launch import LocalService, start
from odps_nb.wire.crc32c import crc32c

GIB = 1 << 30
PIECE = MIB
BATCH = 512
MEMORY_GOAL = 64 * MIB
TABLE = "up"
Files = list[Path]


# -- the ways ---------------------------------------------------------------------------------


def column_of_paths(connection: Connection, files: Files) -> None:
    """Write a DataFrame with a column of paths."""
    frame = pd.DataFrame({"content": pd.Series(files, dtype=object)})
    connection.table(TABLE).write(frame, progress=False)


def folder(connection: Connection, files: Files) -> None:
    """Write the folder, with the type of each file detected from its bytes."""
    connection.table(TABLE).write_files(files[0].parent, progress=False)


def streamed(connection: Connection, files: Files) -> None:
    """Upload each file as a stream with pyodps."""
    with _pyodps(connection) as (manager, session, references):
        for file in files:
            writer = manager.write_blob_stream(session.id, "0", column_name="content")
            with file.open("rb") as source:
                while piece := source.read(PIECE):
                    writer.write(piece)
            references.append(writer.finish().blob_reference)


def batched(connection: Connection, files: Files) -> None:
    """Upload many files in a request with pyodps, with names and types."""
    with _pyodps(connection) as (manager, session, references):
        for at in range(0, len(files), BATCH):
            with ExitStack() as opened:
                items = [
                    manager.build_blob_write_item(
                        opened.enter_context(file.open("rb")),
                        session.id,
                        column_name="content",
                        mime_type="application/octet-stream",
                        custom_file_name=file.name,
                        checksum_type=BlobWriteItem.ChecksumType.CRC32,
                    )
                    for file in files[at : at + BATCH]
                ]
                references += manager.write_blob_batch(items, session.id, "0").blob_references


@contextmanager
def _pyodps(connection: Connection) -> Iterator[tuple[Any, Any, list[bytes]]]:
    """Open a write session of pyodps; then write rows of the references and commit."""
    entry = pyodps_entry(connection.profile)
    client = MaxStorageClient(odps=entry)
    manager, session = client.open_blob_manager(TABLE), client.create_table_write_session(TABLE)
    references: list[bytes] = []
    yield manager, session, references
    raw = pa.array(references, pa.binary())
    writer = session.open_arrow_writer(stream_id="0")
    writer.write_batch(pa.record_batch({"content": raw}))
    writer.close()
    session.commit()


STREAM, BATCHES = "pyodps, a stream", "pyodps, batches"
OURS = {"odps_nb, a column of paths": column_of_paths, "odps_nb, write_files": folder}
WAYS: dict[str, Callable[[Connection, Files], None]] = {
    **OURS,
    STREAM: streamed,
    BATCHES: batched,
}


# -- measuring --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """The cost of one write: seconds, processor seconds of client and service, bytes above idle."""

    seconds: float
    here: float
    service: float
    memory: float


@dataclass(frozen=True)
class UploadGoal:
    """The minimum ratio of the ``seconds``, or of the client's processor seconds ``here``.

    One large file takes as long as the service needs to write it to its disk, whose speed differs
    by a third between rounds, so only the client's processor time can be compared.
    """

    at_least: float
    of: str = "seconds"


def bench(title: str, files: Files, *, rounds: int, goals: dict[str, UploadGoal]) -> None:
    """Write the same files in each way, and print medians; ``goals`` names the peers."""
    names = [*OURS, *goals]
    found: dict[str, list[Sample]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            service = start(samples=False)
            try:
                found[name].append(_sample(name, service, files, check=not turn))
            finally:
                service.stop()
    size = sum(file.stat().st_size for file in files)
    _show(title, found, size=size, count=len(files), goals=goals)


def _sample(name: str, service: LocalService, files: Files, *, check: bool) -> Sample:
    with odps_nb.connect(
        endpoint=service.endpoint,
        project=service.project,
        access_id=service.access_id,
        access_key=service.access_key,
        blob_cache="off",
    ) as connection:
        connection.create_table(TABLE, "content blob")
        served, memory = psutil.Process(service.pid), Memory()
        memory.start()
        here, there, began = time.process_time(), _processor(served), time.perf_counter()
        WAYS[name](connection, files)
        taken = time.perf_counter() - began
        memory.stop()
        here, there = time.process_time() - here, _processor(served) - there
        if check:
            _check(name, connection, files)
    return Sample(taken, here, there, memory.found["peak"])


def _processor(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _check(name: str, connection: Connection, files: Files) -> None:
    """Stop unless the table contains exactly the files."""
    wanted = sorted(_checksum(file.open("rb")) for file in files)
    blobs = connection.table(TABLE).blobs("content", progress=False)
    if wanted != sorted(_checksum(blob.open()) for blob in blobs):
        raise SystemExit(f"bench: {name} did not write the contents of the files")


def _checksum(opened: Any) -> tuple[int, int]:
    size = value = 0
    with opened as file:
        while piece := file.read(PIECE):
            size, value = size + len(piece), crc32c(piece, value)
    return size, value


def _show(
    title: str,
    found: dict[str, list[Sample]],
    *,
    size: int,
    count: int,
    goals: dict[str, UploadGoal],
) -> None:
    print(f"\n{title}")
    middle = {
        name: Sample(*(statistics.median(getattr(one, f) for one in samples) for f in _FIELDS))
        for name, samples in found.items()
    }
    for name, one in middle.items():
        figures = f"{size / one.seconds / 1e9:6.2f} GB/s" if count == 1 else ""
        figures = figures or f"{count / one.seconds:8,.0f} /s"
        print(
            f"  {name:<30}{one.seconds:7.2f} s  {figures}   processor {one.here:5.2f} s here, "
            f"{one.service:5.2f} s in the service   {one.memory / MIB:6.1f} MiB"
        )
    for name in OURS:
        for peer, goal in goals.items():
            ratio = getattr(middle[peer], goal.of) / getattr(middle[name], goal.of)
            words = f"{name}: {ratio:.2f} × {peer}, {goal.of}"
            line = f"{title}: {words} (goal {goal.at_least:g} ×)"
            print(f"  {judged(line, ratio >= goal.at_least)}  {words}")
        line = f"{title}: {name} takes {middle[name].memory / MIB:.0f} MiB"
        print(f"  {judged(line, middle[name].memory <= MEMORY_GOAL)}  {line} (≤ 64 MiB)")


_FIELDS = ("seconds", "here", "service", "memory")


def _make(folder: Path, count: int, size: int) -> Files:
    folder.mkdir()
    files = [folder / f"{number:05}.bin" for number in range(count)]
    for file in files:
        with file.open("wb") as target:
            for at in range(0, size, PIECE):
                target.write(os.urandom(min(PIECE, size - at)))
    return files


def main() -> int:
    """Run the benchmark; the exit status is 0 unless the data differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    large, small = (256 * MIB, 1000) if options.quick else (2 * GIB, 10_000)
    one = {STREAM: UploadGoal(1.2), BATCHES: UploadGoal(0.9, "here")}
    header("files that become blobs, over loopback")
    with tempfile.TemporaryDirectory() as made:
        for title, count, size, goals in (
            (f"one file of {large / MIB:,.0f} MiB", 1, large, one),
            (f"{small:,} files of 20 kB", small, 20_000, {BATCHES: UploadGoal(1.0)}),
        ):
            files = _make(Path(made, str(count)), count, size)
            bench(title, files, rounds=options.rounds, goals=goals)
    summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
