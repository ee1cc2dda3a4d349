"""Runs queries in worker processes with limits on time and memory.

The first query starts a process, which later queries reuse. The process is killed when a query is
cancelled or abandoned, or exceeds its time or memory limit. It also ends after a few idle seconds,
because it uses several hundred megabytes.
"""

from __future__ import annotations

import pickle
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from odps_nb.child_process import OF_PYTHON, Child, IdleTimer, passed_on
from odps_nb.errors import CancelledError, OdpsNbError
from odps_nb.local import errors
from odps_nb.local.sql.duck_types import StoredRows
from odps_nb.local.sql.worker import BATCH_BYTES, MAX_ROW, OUT_OF_MEMORY
from odps_nb.local.store.folder import new_id

IDLE = 4
IDLE_SECONDS = 10.0
"""The idle time in seconds after which a process ends. The next query starts a new one."""
KEPT_BYTES = 512 << 20
MAX_PAYLOAD = BATCH_BYTES + MAX_ROW + (1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """Limits of one statement: memory in MiB, and run time in seconds."""

    memory: int = 3072
    seconds: float = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """The columns of a query: names, DuckDB types and the Arrow schema."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    schema: pa.Schema


class QueryRunner:
    """A pool of worker processes for queries. The owner must close it.

    ``work`` is the folder for data that exceeds the memory of a query. Idle processes end after
    ``idle_seconds`` without a query.
    """

    def __init__(
        self, work: Path, limits: QueryLimits, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._work, self._limits = work, limits
        self._idle: list[_Process] = []
        self._resting = IdleTimer(idle_seconds, self._rest)
        self._all: set[_Process] = set()
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def run(
        self, tables: Mapping[str, StoredRows], explain: Callable[[str], Exception]
    ) -> Iterator[QueryRun]:
        """Open a `QueryRun` over ``tables``; ``explain`` converts DuckDB's messages to errors."""
        process = self._take()
        query_run, is_reusable = QueryRun(process, self._limits, explain), False
        try:
            try:
                query_run.open(tables)
                yield query_run
            finally:
                is_reusable = query_run.end() < KEPT_BYTES
        finally:
            self._give_back(process, kept=is_reusable)

    def close(self) -> None:
        """Kill all processes. Idempotent."""
        with self._lock:
            self._closed = True
            self._resting.stop()
            running = list(self._all)
        for process in running:
            process.end()

    def _rest(self) -> None:
        """End the idle processes."""
        with self._lock:
            ended, self._idle = self._idle, []
            self._all.difference_update(ended)
        for process in ended:
            process.end()

    def _take(self) -> _Process:
        with self._lock:
            self._resting.stop()
            while self._idle:
                process = self._idle.pop()
                if process.poll() is None:
                    return process
                self._all.discard(process)
                process.end()
            if self._closed:
                raise CancelledError("the service is stopping")
            process = _Process(self._limits.memory, self._work)
            self._all.add(process)
            return process

    def _give_back(self, process: _Process, *, kept: bool) -> None:
        with self._lock:
            if kept and not self._closed and len(self._idle) < IDLE:
                self._idle.append(process)
                self._resting.start()
                return
            self._all.discard(process)
        process.end()


class QueryRun:
    """One query in a worker process. Any thread may call `interrupt`."""

    def __init__(
        self, process: _Process, limits: QueryLimits, explain: Callable[[str], Exception]
    ) -> None:
        self._process, self._limits, self._explain = process, limits, explain
        self._is_idle = True  # the process has responded to the last request
        self._ended_for = ""
        self.timer = threading.Timer(limits.seconds, self._stop, ["too late"])
        self.timer.daemon = True

    def open(self, tables: Mapping[str, StoredRows]) -> None:
        """Send the tables to the process; the time limit starts when the process is ready."""
        self._ask("open", tables=dict(tables))
        self._receive()
        self.timer.start()

    def describe(self, sql: str) -> Described:
        """Return the columns of a query without running it."""
        self._ask("describe", sql=sql)
        response, rows = self._receive()
        self._receive()
        return Described(
            columns=tuple(response["columns"]),
            types=tuple(response["types"]),
            schema=pa.ipc.open_stream(rows).schema,
        )

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows."""
        self._ask("run", sql=sql)
        while rows := self._receive()[1]:
            yield from pa.ipc.open_stream(rows)

    def interrupt(self) -> None:
        """Stop the query immediately by killing its process."""
        self._stop("cancelled")

    def end(self) -> int:
        """End the query gracefully; return the process's memory use in bytes.

        Returns ``sys.maxsize`` if the process cannot be reused.
        """
        memory: int = sys.maxsize
        try:
            if self._is_idle:
                self._ask("end")
                memory = self._receive()[0]["memory"]
        except (OdpsNbError, OSError, ValueError):
            memory = sys.maxsize  # the process has ended, or its pipes are closed
        finally:
            self.timer.cancel()
        return memory

    def _stop(self, reason: str) -> None:
        self._ended_for = self._ended_for or reason
        self._process.kill()

    def _ask(self, do: str, **what: Any) -> None:
        self._is_idle = False
        try:
            self._process.send({"do": do}, pickle.dumps(what))
        except BrokenPipeError:
            raise self._failure() from None

    def _receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            response, rows = self._process.receive(MAX_PAYLOAD)
        except EOFError:
            raise self._failure() from None
        except ValueError as error:
            raise errors.internal(f"invalid response from a query process: {error}") from None
        if (failed := response.get("failed")) is not None:
            # after an out-of-memory error, the process has less memory for the next query
            self._is_idle = not failed.startswith("Out of Memory")
            raise self._explain(failed)
        self._is_idle = "done" in response
        return response, rows

    def _failure(self) -> Exception:
        """Return the error for a process that has ended."""
        status = self._process.wait()
        if self._ended_for == "cancelled":
            return CancelledError("the query was cancelled")
        if self._ended_for:
            seconds = self._limits.seconds
            return errors.invalid(f"{_FAILED} the query exceeded its limit of {seconds:g} seconds")
        if status == OUT_OF_MEMORY:
            memory = self._limits.memory
            return errors.invalid(f"{_FAILED} the query exceeded its memory limit of {memory} MiB")
        return errors.invalid(f"{_FAILED} the process of the query ended with status {status}")


_FAILED = "ODPS-0121095:"


class _Process(Child):
    """A worker process and its spill folder."""

    def __init__(self, memory: int, work: Path) -> None:
        self._spill = work / f"spill-{new_id()}"
        command = [sys.executable, "-P", "-m", "odps_nb.local.sql.worker", str(memory)]
        environment = passed_on(*OF_PYTHON)  # queries must not see the keys of the service
        super().__init__([*command, str(self._spill)], environment)

    def end(self) -> int:
        """Kill the process and delete its folder. Idempotent."""
        code = super().end()
        shutil.rmtree(self._spill, ignore_errors=True)
        return code
