"""Runs queries in worker processes with limits on time and memory.

A process is started for the first query, reused for the next one, and killed when a query is
cancelled, exceeds its time or memory, or is abandoned, and when nobody has asked for a while: it
holds some hundred megabytes.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from odps_nb.errors import CancelledError
from odps_nb.local import faults
from odps_nb.local.sql.stored_rows import StoredRows
from odps_nb.local.sql.worker import (
    BATCH_BYTES,
    BATCHES,
    HEAD,
    MAX_ROW,
    OUT_OF_MEMORY,
    REQUEST_HEAD,
)
from odps_nb.local.store.folder import new_id

__all__ = ["Described", "Queries", "QueryLimits", "QueryRun"]

IDLE = 4
IDLE_SECONDS = 10.0
"""Seconds after which a process that nobody needs ends; the next query waits for a new one."""
KEPT_BYTES = 512 << 20
MAX_PAYLOAD = BATCH_BYTES + MAX_ROW + (1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """Limits of one statement: memory in MiB, and seconds."""

    memory: int = 3072
    seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The columns of a query: names, DuckDB types and the Arrow schema."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    schema: pa.Schema


class Queries:
    """A pool of worker processes for queries; close it.

    Parameters
    ----------
    work
        Folder for data that exceeds the memory of a query.
    idle_seconds
        After so many without a query, idle processes end.
    """

    def __init__(
        self, work: Path, limits: QueryLimits, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._work, self._limits, self._idle_seconds = work, limits, idle_seconds
        self._idle: list[_Process] = []
        self._resting: threading.Timer | None = None
        self._all: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def run(
        self, tables: Mapping[str, StoredRows], explain: Callable[[str], Exception]
    ) -> Iterator[QueryRun]:
        """Open a run of queries over these tables and nothing else.

        ``explain`` makes the error of what the engine says when it refuses a query.
        """
        process = self._take()
        found = QueryRun(process, self._limits, explain)
        kept = False
        try:
            found.open(tables)
            yield found
            kept = found.end() < KEPT_BYTES
        finally:
            found.over()
            self._give_back(process, kept=kept)

    def close(self) -> None:
        """Kill all processes. Idempotent."""
        with self._lock:
            self._closed = True
            self._stop_resting()
            running = list(self._all)
        for process in running:
            process.end()

    def _rest(self) -> None:
        """End the processes that nobody has needed for a while."""
        with self._lock:
            ended, self._idle = self._idle, []
            self._all.difference_update(ended)
        for process in ended:
            process.end()

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    def _take(self) -> _Process:
        with self._lock:
            self._stop_resting()
            while self._idle:
                process = self._idle.pop()
                if process.is_running:
                    return process
                self._all.discard(process)
                process.end()
            if self._closed:
                raise CancelledError("the service ends")
            process = _Process(self._limits.memory, self._work)
            self._all.add(process)
            return process

    def _give_back(self, process: _Process, *, kept: bool) -> None:
        with self._lock:
            if kept and not self._closed and len(self._idle) < IDLE:
                self._idle.append(process)
                self._stop_resting()
                self._resting = threading.Timer(self._idle_seconds, self._rest)
                self._resting.daemon = True
                self._resting.start()
                return
            self._all.discard(process)
        process.end()


class QueryRun:
    """One query in a worker process; `interrupt` may be called from any thread."""

    def __init__(
        self, process: _Process, limits: QueryLimits, explain: Callable[[str], Exception]
    ) -> None:
        self._process, self._limits, self._explain = process, limits, explain
        self._whole = True
        self._ended_for = ""
        self._timer = threading.Timer(limits.seconds, self._too_late)
        self._timer.daemon = True

    def open(self, tables: Mapping[str, StoredRows]) -> None:
        """Send the tables to the process; the time limit starts when it is ready."""
        self._ask("open", tables=dict(tables))
        self._answered()
        self._timer.start()

    def describe(self, sql: str) -> Described:
        """Return the columns of a query without running it."""
        self._ask("describe", sql=sql)
        found = self._receive()
        if not isinstance(found, dict):
            raise faults.internal("a query was described without its columns")
        self._check(found)
        schema = self._receive()
        if not isinstance(schema, pa.Table):
            self._check(schema)
            raise faults.internal("a query was described without its schema")
        self._answered()
        return Described(
            columns=tuple(found["columns"]), types=tuple(found["types"]), schema=schema.schema
        )

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows."""
        self._ask("run", sql=sql)
        self._whole = False
        while isinstance(rows := self._receive(), pa.Table):
            yield from rows.to_batches()
        self._whole = True
        self._check(rows)

    def interrupt(self) -> None:
        """Stop the query at once by killing its process."""
        self._stop("cancelled")

    def end(self) -> int:
        """End the query in order; returns the memory that the process still holds, in bytes."""
        if not self._whole:
            return sys.maxsize
        self._ask("end")
        memory: int = self._answered()["memory"]
        return memory

    def over(self) -> None:
        """Cancel the time limit."""
        self._timer.cancel()

    def _too_late(self) -> None:
        self._stop("too late")

    def _stop(self, reason: str) -> None:
        self._ended_for = self._ended_for or reason
        self._process.kill()

    def _ask(self, do: str, **what: Any) -> None:
        try:
            self._process.send({"do": do, **what})
        except BrokenPipeError:
            raise self._failure() from None

    def _answered(self) -> dict[str, Any]:
        found = self._receive()
        if not isinstance(found, dict):
            raise faults.internal("a query sent rows that were not requested")
        self._check(found)
        return found

    def _receive(self) -> dict[str, Any] | pa.Table:
        found = self._process.receive()
        if found is None:
            raise self._failure()
        return found

    def _check(self, found: dict[str, Any]) -> None:
        if "failed" in found:
            raise self._explain(found["failed"])

    def _failure(self) -> Exception:
        """Return the error for a process that has ended."""
        status = self._process.wait()
        if self._ended_for == "cancelled":
            return CancelledError("the query was cancelled")
        if self._ended_for:
            seconds = self._limits.seconds
            return faults.invalid(f"{_FAILED} the query ran longer than {seconds:g} seconds")
        if status == OUT_OF_MEMORY:
            memory = self._limits.memory
            return faults.invalid(f"{_FAILED} the query needs more than {memory} MiB of memory")
        return faults.invalid(f"{_FAILED} the process of the query ended with status {status}")


_FAILED = "ODPS-0121095:"


class _Process:
    """A worker process and the pipes to it."""

    def __init__(self, memory: int, work: Path) -> None:
        self._spill = work / f"spill-{new_id()}"
        command = [sys.executable, "-P", "-m", "odps_nb.local.sql.worker", str(memory)]
        self._process = subprocess.Popen(
            [*command, str(self._spill)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # keys of the service are no business of a query
            env={k: v for k, v in os.environ.items() if not k.startswith("ODPS_")},
        )

    def send(self, request: dict[str, Any]) -> None:
        """Send one request; `BrokenPipeError` if the process has ended."""
        assert self._process.stdin is not None
        data = pickle.dumps(request)
        self._process.stdin.write(REQUEST_HEAD.pack(len(data)) + data)
        self._process.stdin.flush()

    def receive(self) -> dict[str, Any] | pa.Table | None:
        """Return the next answer or rows; ``None`` if the process has ended."""
        source = self._process.stdout
        assert source is not None
        head = source.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        kind, size = HEAD.unpack(head)
        if size > MAX_PAYLOAD:
            raise faults.internal(f"a query answered with {size} bytes at once")
        payload = source.read(size)
        if len(payload) < size:
            return None
        if kind == BATCHES:
            return pa.ipc.open_stream(payload).read_all()
        found: dict[str, Any] = json.loads(payload)
        return found

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process; a waiting `receive` returns ``None``."""
        self._process.kill()

    def wait(self) -> int:
        """Wait for the end of a process that is ending."""
        return self._process.wait()

    def end(self) -> None:
        """Kill the process and free its pipes. Idempotent."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # what was not sent has no reader any more
        shutil.rmtree(self._spill, ignore_errors=True)
