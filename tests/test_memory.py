"""Streaming does not hold all data: peaks of resident memory in a separate process.

The sizes are about 100 MiB and the limits a fraction of them, so code that buffers everything
fails. ``benchmarks/bench_memory.py`` does the same with gigabytes, compared with pyodps. If run as
a script, this file is the child process: a job on stdin, the memory that it needed on stdout.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

MIB = 1 << 20
SIZE = 96 * MIB
ROWS_SIZE = 192 * MIB
FRAME_ROWS = 1_900_000
COLUMNS = ["id", "customer", "amount", "created", "shipped", "local_time", "weight"]


# -- the child --------------------------------------------------------------------------------


def resident_peak() -> int:
    """The largest resident size so far, in bytes."""
    try:
        status = Path("/proc/self/status").read_text()
    except FileNotFoundError:  # ru_maxrss of Linux would include the memory of the parent
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def connected(job: dict[str, Any]) -> Any:
    import odps_nb

    return odps_nb.connect(**job["profile"])


def upload(job: dict[str, Any]) -> Iterator[Any]:
    """Write a row whose blob is a file; a small write first warms up the process."""
    import pandas as pd

    table = connected(job).table(job["table"])
    for path in (job["small_file"], job["file"]):
        yield
        table.write(pd.DataFrame({"id": [1], "content": [Path(path)]}))


def save(job: dict[str, Any]) -> Iterator[Any]:
    """Save a blob to a file."""
    odps = connected(job)
    for reference in job["references"]:
        yield
        odps.blob(reference).save(job["target"], overwrite=True)


def read_file(job: dict[str, Any]) -> Iterator[Any]:
    """Read a blob as a file object."""
    odps, buffer = connected(job), bytearray(MIB)
    for reference in job["references"]:
        yield
        with odps.blob(reference).open() as file:
            while file.readinto(buffer):
                pass
            job["found"] = file.tell()


def stream_blob(job: dict[str, Any]) -> Iterator[Any]:
    """Read a body of blocks with the class of stream_io."""
    from odps_nb.stream_io import BlobDataIterator, BlobStreamReader
    from odps_nb.wire.blocks import encode_blocks

    block_run = encode_blocks(bytes(range(256)) * 4096)

    class Body:
        def __init__(self, runs: int) -> None:
            self.left, self.rest = runs, b""

        def read(self, n: int) -> bytes:
            if not self.rest and self.left:
                self.left, self.rest = self.left - 1, block_run
            data, self.rest = self.rest[:n], self.rest[n:]
            return data

    for size in (MIB, SIZE):
        yield
        reader = BlobStreamReader(BlobDataIterator(Body(size // MIB), expected_count=1))
        job["found"] = sum(len(part) for part in iter(lambda: reader.read(MIB), b""))  # noqa: B023


def batches(job: dict[str, Any]) -> Iterator[Any]:
    """Read rows in batches; count the memory of batches, without the reserves of pools."""
    table = connected(job).table("orders")
    for limit in (1000, None):
        yield
        idle = pa.total_allocated_bytes()
        held = rows = size = 0
        for batch in table.read(COLUMNS, limit=limit, splits=8).batches(read_ahead=16 * MIB):
            held = max(held, pa.total_allocated_bytes() - idle)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        job["found"] = {"held": held, "rows": rows, "size": size}


def frame(job: dict[str, Any]) -> Iterator[Any]:
    """Read columns into a DataFrame."""
    table = connected(job).table("orders")
    for limit in (1000, job["rows"]):
        yield
        job["found"] = len(table.read(job["columns"], limit=limit).to_pandas())


def write_rows(job: dict[str, Any]) -> Iterator[Any]:
    """Write a stream of rows that is generated while it is sent."""
    table = connected(job).table(job["table"])
    schema = pa.schema({"id": pa.int64()})
    for count in (1, ROWS_SIZE // (8 * MIB)):
        yield
        made = (new_rows(number) for number in range(count))
        table.write(pa.RecordBatchReader.from_batches(schema, made), overwrite=True)


def new_rows(number: int) -> pa.RecordBatch:
    """Create 8 MiB of rows that share no memory with others."""
    data = pa.py_buffer(bytes([number + 1]) * (8 * MIB))
    return pa.record_batch({"id": pa.Array.from_buffers(pa.int64(), MIB, [None, data])})


def main() -> None:
    """Run the first, small part of a job; measure the idle memory; run the rest."""
    job = json.load(sys.stdin)
    steps = JOBS[sys.argv[1]](job)
    next(steps)
    next(steps)  # the small part has ended
    gc.collect()
    pa.default_memory_pool().release_unused()
    idle = resident_peak()
    assert next(steps, None) is None
    print(json.dumps({"above_idle": resident_peak() - idle, "found": job.get("found")}))


JOBS: dict[str, Callable[[dict[str, Any]], Iterator[Any]]] = {
    job.__name__: job for job in (upload, save, read_file, stream_blob, batches, frame, write_rows)
}


# -- the tests --------------------------------------------------------------------------------


@pytest.fixture
def needed(profile):
    facts = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")

    def run(name: str, **job: Any) -> dict[str, Any]:
        known = {"profile": {fact: getattr(profile, fact) for fact in facts}, **job}
        done = subprocess.run(
            [sys.executable, __file__, name],
            input=json.dumps(known),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


@pytest.mark.nightly  # large
def test_a_large_blob_is_uploaded_and_downloaded_in_bounded_memory(
    needed, odps, new_name, tmp_path
):
    table = odps.create_table(new_name("large"), "id bigint, content blob")
    large, small = tmp_path / "large", tmp_path / "small"
    for path, size in ((large, SIZE), (small, MIB)):
        path.write_bytes(bytes(range(256)) * (size // 256))
    up = needed("upload", table=table.name.table, file=str(large), small_file=str(small))
    assert up["above_idle"] < SIZE / 4
    references = [blob.reference.token for blob in table.blobs("content")]
    down = needed("save", references=references, target=str(tmp_path / "saved"))
    assert down["above_idle"] < SIZE / 4
    assert (tmp_path / "saved").read_bytes() == large.read_bytes()
    opened = needed("read_file", references=references)
    assert (opened["found"], opened["above_idle"] < SIZE / 4) == (SIZE, True)
    odps.drop_table(table.name)


def test_stream_io_reads_a_body_of_blocks_in_bounded_memory(needed):
    found = needed("stream_blob")
    assert found["found"] == SIZE
    assert found["above_idle"] < SIZE / 4


def test_buffered_batches_stay_within_the_read_ahead_limit(needed, odps):
    found = needed("batches")["found"]
    assert found["rows"] == odps.table("orders").read().row_count
    assert found["size"] > 90 * MIB
    assert found["held"] < 32 * MIB


@pytest.mark.nightly  # large
def test_a_large_data_frame_needs_less_than_2_3_times_the_size_of_its_rows(needed, odps):
    """All types except nested ones, whose lists and dicts are Python objects."""
    scan = odps.table("orders").read(limit=FRAME_ROWS)
    flat = [field.name for field in scan.arrow_schema if not pa.types.is_nested(field.type)]
    table = odps.table("orders").read(flat, limit=FRAME_ROWS).to_arrow()
    assert table.nbytes > 256 * MIB  # the rows that are read ahead need more than a small frame
    found = needed("frame", rows=FRAME_ROWS, columns=flat)
    assert found["found"] == table.num_rows
    assert found["above_idle"] < 2.3 * table.nbytes


@pytest.mark.nightly  # large
def test_rows_generated_during_a_write_are_not_buffered_completely(needed, odps, new_name):
    table = odps.create_table(new_name("made"), "id bigint")
    found = needed("write_rows", table=table.name.table)
    assert found["above_idle"] < ROWS_SIZE / 2  # the write assembles parts of 64 MiB
    assert table.read().row_count == ROWS_SIZE // 8
    odps.drop_table(table.name)


if __name__ == "__main__":
    main()
