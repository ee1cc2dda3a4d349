"""What a started JVM says on stderr: its noise is dropped, everything else arrives."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.spark.launch._stderr import NoiseFilter
from tests.support.spark.watched import WITHIN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

CHILD = r"""
import os, sys
os.write(2, b"WARNING: Using incu")
os.write(2, b"bator modules: jdk.incubator.vector\nError: no room\nWARNING: some")
os.write(2, b"thing else\nlast line without end")
"""
PARENT = f"""
import subprocess, sys, threading
from odps_nb.spark.launch._stderr import without_noise

with without_noise():
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
child.wait()
for thread in threading.enumerate():
    if thread.name == "spark-stderr":
        thread.join(30)
        assert not thread.is_alive()
print("then ours", file=sys.stderr)
"""


def test_only_the_notice_of_incubator_modules_is_dropped() -> None:
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    said = "Error: no room\nWARNING: something else\nlast line without endthen ours\n"
    assert (done.returncode, done.stderr) == (0, said)


def test_a_process_without_stderr_starts_one_all_the_same() -> None:
    parent = "import os\nos.close(2)\n" + PARENT.replace("file=sys.stderr", "file=sys.stdout")
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "then ours\n")


NOTICE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
GONE = (
    b"Traceback (most recent call last):\n"
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
    b"    code = worker(sock, authenticated)\n"
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker\n'
    b"BrokenPipeError: [Errno 32] Broken pipe\n"
)
REAL = (
    b"Traceback (most recent call last):\n"
    b'  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager\n'
    b'  File "/home/me/udf.py", line 2, in send\n'
    b"BrokenPipeError: [Errno 32] Broken pipe\n"
)
OTHER = GONE.replace(b"BrokenPipeError: [Errno 32] Broken pipe", b"MemoryError")
PIECES = [
    NOTICE,
    GONE,
    REAL,
    OTHER,
    b"Trace",
    b"WARNING: x\n",
    b"\n",
    b"[Stage 1:>  (0 + 2) / 4]\r",
]


def _sifted(data: bytes, size: int) -> bytes:
    noise = NoiseFilter()
    shown = [noise.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join([*shown, noise.feed_eof()])


@given(st.lists(st.sampled_from(PIECES)), st.integers(1, 400))
def test_noise_is_dropped_and_all_else_stays_however_it_is_cut(
    pieces: list[bytes], size: int
) -> None:
    # A piece without end would make the next line another one: it gets an end of its own.
    whole = [piece if piece.endswith(b"\n") else piece + b"\n" for piece in pieces]
    kept = b"".join(piece for piece in whole if piece not in (NOTICE, GONE))
    assert _sifted(b"".join(whole), size) == kept


def test_what_cannot_be_noise_is_shown_at_once() -> None:
    noise = NoiseFilter()
    assert noise.feed(b"[Stage 1:>  ") == b"[Stage 1:>  "
    assert noise.feed(b"Trace") == b""
    assert noise.feed(b"s\n") == b"Traces\n"


@pytest.mark.spark
def test_rows_that_nobody_wants_any_more_leave_no_traceback(
    spark: SparkSession, spark_said: Path
) -> None:
    def many(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in range(2000):
            yield pa.RecordBatch.from_pydict({"a": pa.array([os.getpid()] * 10_000, pa.int64())})

    def say(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        os.write(2, b"a word at the end\n")  # behind all that workers of this daemon have said
        yield from batches

    before = spark_said.stat().st_size
    rows = spark.range(1).mapInArrow(many, "a bigint").limit(3).collect()
    assert len(rows) == 3
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(rows[0].a).wait(WITHIN)  # it was cut short
    spark.range(1).coalesce(1).mapInArrow(say, "id bigint").collect()
    deadline = time.monotonic() + WITHIN
    while b"a word at the end" not in (said := spark_said.read_bytes()[before:]):
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    assert b"BrokenPipeError" not in said
