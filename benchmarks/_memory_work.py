"""The work whose memory `bench_memory` measures: one job in a separate process.

``python -m benchmarks._memory_work`` reads the job as JSON from stdin and writes the result as JSON
to stdout. A job first does a small part of the work, so that everything is imported and every pool
is created: this is the idle state. The result is the peak of resident memory above the idle state
during the whole work. Digests are computed piece by piece, or after the peak has been read.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.client.calls.progress import silent
from odps_nb.wire.crc32c import crc32c

MIB = 1 << 20
FEW = 1000  # rows of the warm-up read


class Memory:
    """Measures the peak of resident memory of a process (Linux)."""

    def __init__(self, pid: int | str = "self") -> None:
        self._folder = Path(f"/proc/{pid}")
        self._idle = self._start = 0.0
        self.found: dict[str, float] = {}

    def start(self) -> None:
        """Record the idle state."""
        gc.collect()
        pa.default_memory_pool().release_unused()
        (self._folder / "clear_refs").write_text("5")  # resets the peak
        self._idle, self._start = self._status("VmRSS"), time.perf_counter()

    def stop(self) -> None:
        """Compute the peak above idle in bytes and the elapsed time. Idempotent."""
        if not self.found:
            seconds = time.perf_counter() - self._start
            self.found = {"peak": self._status("VmHWM") - self._idle, "seconds": seconds}

    def _status(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        (value,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
        return int(value) * 1024


# -- the two sides ----------------------------------------------------------------------------


def ours(job: dict[str, Any]) -> Connection:
    """Connect with odps_nb."""
    return odps_nb.connect(**job["profile"])


def theirs(job: dict[str, Any]) -> Any:
    """Connect with pyodps."""
    from odps import ODPS
    from odps.maxstorage import MaxStorageClient

    facts = job["profile"]
    entry = ODPS(
        facts["access_id"],
        facts["access_key"],
        project=facts["project"],
        endpoint=facts["endpoint"],
        tunnel_endpoint=facts["tunnel_endpoint"],
    )
    return MaxStorageClient(odps=entry)


# -- blobs ------------------------------------------------------------------------------------


def save(job: dict[str, Any], memory: Memory) -> str:
    """Save a blob to a file."""
    odps = ours(job)
    target = Path(job["target"])
    odps.blob(job["small"]).save(target)
    memory.start()
    odps.blob(job["reference"]).save(target, overwrite=True)
    return str(target)


def save_theirs(job: dict[str, Any], memory: Memory) -> str:
    """Save a blob to a file as in pyodps' documentation, by reading a stream."""
    manager = theirs(job).open_blob_manager()

    def copy(reference: str) -> None:
        with Path(job["target"]).open("wb") as file:
            reader = manager.read_blobs([reference], stream=True)
            while piece := reader.read(MIB):
                file.write(piece)

    copy(job["small"])
    memory.start()
    copy(job["reference"])
    return str(job["target"])


def open_and_read(job: dict[str, Any], memory: Memory) -> str:
    """Read a blob as a file object, and process every byte."""
    odps = ours(job)
    buffer = bytearray(MIB)

    def look(reference: str) -> int:
        check = 0
        with odps.blob(reference).open() as file:
            while count := file.readinto(buffer):
                check = crc32c(memoryview(buffer)[:count], check)
        return check

    look(job["small"])
    memory.start()
    return f"{look(job['reference']):08x}"


def upload(job: dict[str, Any], memory: Memory) -> str:
    """Write a row whose blob is a file."""
    odps = ours(job)
    table = odps.table(job["table"])
    table.write(_row(Path(job["small_file"])), progress=silent)
    memory.start()
    table.write(_row(Path(job["file"])), progress=silent)
    return ""


def _row(content: Path) -> Any:
    import pandas as pd

    return pd.DataFrame({"id": [1], "content": [content]})


def upload_theirs(job: dict[str, Any], memory: Memory) -> str:
    """Write the same row with pyodps' stream for large blobs."""
    client = theirs(job)
    manager = client.open_blob_manager(job["table"])

    def send(path: str) -> None:
        session = client.create_table_write_session(job["table"])
        stream = manager.write_blob_stream(session.id, "0", column_name="content")
        with Path(path).open("rb") as file:
            while piece := file.read(MIB):
                stream.write(piece)
        reference = stream.finish().blob_reference
        row = {"id": pa.array([1]), "content": pa.array([reference], pa.binary())}
        with session.open_arrow_writer(stream_id="0") as writer:
            writer.write_batch(pa.record_batch(row))
        session.commit()

    send(job["small_file"])
    memory.start()
    send(job["file"])
    return ""


# -- rows -------------------------------------------------------------------------------------


class RowDigest:
    """A checksum of rows that depends on their order, but not on the boundaries of batches.

    For columns without nulls: fixed-width values and text.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._checks: dict[str, int] = {}

    def feed(self, batches: Iterable[pa.RecordBatch]) -> RowDigest:
        """Add batches."""
        for batch in batches:
            self.rows += batch.num_rows
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                self._checks[name] = crc32c(_values(column), self._checks.get(name, 0))
        return self

    def __str__(self) -> str:
        checks = " ".join(f"{name}:{check:08x}" for name, check in sorted(self._checks.items()))
        return f"{self.rows} rows {checks}"


def _values(column: pa.Array) -> memoryview:
    data = memoryview(column.buffers()[-1])
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        kind = "i" if pa.types.is_string(column.type) else "q"
        offsets = memoryview(column.buffers()[1]).cast(kind)
        return data[offsets[column.offset] : offsets[column.offset + len(column)]]
    width = column.type.bit_width // 8
    return data[column.offset * width : (column.offset + len(column)) * width]


def stream(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows in batches."""
    table = ours(job).table(job["table"])
    RowDigest().feed(table.read(limit=FEW).batches(progress=silent))
    how = {name: job[name] for name in ("workers", "read_ahead") if name in job}
    memory.start()
    digest, idle, most = RowDigest(), pa.total_allocated_bytes(), 0
    for batch in table.read().batches(progress=silent, **how):
        digest.feed([batch])
        most = max(most, pa.total_allocated_bytes() - idle)
    memory.stop()
    memory.found["batches"] = most  # allocators keep more memory resident
    return str(digest)


def stream_theirs(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows in batches, one split after another."""
    client = theirs(job)
    RowDigest().feed([next(_batches(client, job))])
    memory.start()
    return str(RowDigest().feed(_batches(client, job)))


def _batches(client: Any, job: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    from odps.maxstorage.models.enums import SplitMode
    from odps.maxstorage.options import SplitOptions

    options = SplitOptions(split_mode=SplitMode.ROW_OFFSET, split_number=1_000_000)
    session = client.create_table_read_session(job["table"], split_options=options)
    for split in session.splits:
        with session.open_arrow_reader(split) as reader:
            yield from reader


def arrow(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows into an Arrow table."""
    table = ours(job).table(job["table"])
    table.read(limit=FEW).to_arrow(progress=silent)
    memory.start()
    return _arrow_digest(table.read().to_arrow(progress=silent), memory)


def arrow_theirs(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows into an Arrow table."""
    client = theirs(job)
    next(_batches(client, job))
    memory.start()
    return _arrow_digest(pa.Table.from_batches(list(_batches(client, job))), memory)


def _arrow_digest(table: pa.Table, memory: Memory) -> str:
    memory.stop()
    memory.found["arrow_bytes"] = table.nbytes
    return str(RowDigest().feed(table.to_batches()))


def pandas(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows into a DataFrame."""
    table = ours(job).table(job["table"])
    table.read(limit=FEW).to_pandas(progress=silent)
    memory.start()
    return _frame_digest(table.read().to_pandas(progress=silent), memory)


def pandas_theirs(job: dict[str, Any], memory: Memory) -> str:
    """Read all rows into a DataFrame."""
    client = theirs(job)
    pa.Table.from_batches([next(_batches(client, job))]).to_pandas()
    memory.start()
    frame = pa.Table.from_batches(list(_batches(client, job))).to_pandas()
    return _frame_digest(frame, memory)


def _frame_digest(frame: Any, memory: Memory) -> str:
    memory.stop()
    digest = RowDigest()
    for start in range(0, len(frame), FEW * 100):
        part = pa.Table.from_pandas(frame.iloc[start : start + FEW * 100], preserve_index=False)
        digest.feed(part.replace_schema_metadata(None).to_batches())
    return str(digest)


WORK: dict[str, Callable[[dict[str, Any], Memory], str]] = {
    function.__name__: function
    for function in (
        save,
        save_theirs,
        open_and_read,
        upload,
        upload_theirs,
        stream,
        stream_theirs,
        arrow,
        arrow_theirs,
        pandas,
        pandas_theirs,
    )
}


def main() -> None:
    """Run the job from stdin."""
    job = json.load(sys.stdin)
    memory = Memory()
    digest = WORK[job["work"]](job, memory)
    memory.stop()
    print(json.dumps({**memory.found, "digest": digest}))


if __name__ == "__main__":
    main()
