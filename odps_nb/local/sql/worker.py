"""A process that runs queries for the service and may be killed at any time.

DuckDB functions that build long strings cannot be interrupted, and DuckDB does not count their
memory. A query that exceeds its memory or time limit therefore ends only this process.

The parent process writes requests to stdin ({"do": …} and pickled arguments) and reads responses
(with Arrow streams) from stdout. The process exits when stdin is closed.
"""

from __future__ import annotations

import os
import pickle
import queue
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from odps_nb.child_process import die_first, hide_pandas, pack, unpack
from odps_nb.local.duck import Duck, duck_quoted
from odps_nb.local.reading.row_stream import rebatch
from odps_nb.local.sql.duck_types import StoredRows, fine_intervals
from odps_nb.local.sql.macros import MACROS

OUT_OF_MEMORY = 77
BATCH_ROWS = 2048
BATCH_BYTES = 16 << 20
MAX_ROW = 64 << 20
LOOK_EVERY = 0.02
_MIB = 1 << 20


def main() -> None:
    """Handle requests until stdin is closed. Arguments: memory in MiB, spill folder."""
    hide_pandas()
    limit, spill = int(sys.argv[1]) * _MIB, Path(sys.argv[2])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests), daemon=True).start()
    die_first()
    threading.Thread(target=_watch, args=(limit,), daemon=True).start()
    # a third of the limit is reserved for memory that DuckDB does not count
    duck = Duck(macros=MACROS, memory=f"{limit // _MIB * 2 // 3}MiB", spill=spill)
    while True:
        _query(duck, requests, answers, str(spill))


def _listen(source: BinaryIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    try:
        while True:
            request, what = unpack(source)
            # unpickling is safe, because only the parent process can write to this pipe
            requests.put({**request, **pickle.loads(what)})  # noqa: S301
    finally:
        os._exit(0)  # exits even while a request is running


def _query(
    duck: Duck, requests: queue.SimpleQueue[dict[str, Any]], answers: BinaryIO, spill: str
) -> None:
    """Handle the requests of one query (``open``, ``describe``, ``run``), until ``end``."""
    has_failed = False
    with duck.connection() as connection:
        while (request := requests.get())["do"] != "end":
            try:
                if request["do"] == "open":
                    for name, rows in request["tables"].items():
                        _register(connection, name, rows)
                elif request["do"] == "describe":
                    _describe(connection, request["sql"], answers)
                else:
                    for rows in _rows(connection, request["sql"]):
                        _send(answers, {}, rows)
                answer: dict[str, Any] = {"done": True}
            except Exception as error:  # noqa: BLE001 - the parent raises it
                message = (str(error).strip() or type(error).__name__).splitlines()[0]
                answer, has_failed = {"failed": message.replace(spill, "the spill folder")}, True
            _send(answers, answer)
    if has_failed:
        duck.replace_if_invalid()
    _send(answers, {"done": True, "memory": _memory()})


def _register(connection: Any, name: str, rows: StoredRows) -> None:
    """Register a table; queries that use a column in ``unread`` raise an error."""
    source, stored = rows.open(), rows.stored
    unread = rows.unread | fine_intervals(rows, source)
    if not unread and not stored:
        connection.register(name, source)
        return
    connection.register(f"{name}_narrow", source)
    columns = [
        f"CAST(error('{unread[column]}') AS VARCHAR) AS {duck_quoted(column)}"
        if column in unread
        else f"{duck_quoted(stored.get(column, column))} AS {duck_quoted(column)}"
        for column in rows.schema.names
    ]
    connection.execute(
        f"CREATE TEMP VIEW {duck_quoted(name)} AS "
        f"SELECT {', '.join(columns)} FROM {duck_quoted(f'{name}_narrow')}"
    )


def _describe(connection: Any, sql: str, answers: BinaryIO) -> None:
    relation = connection.sql(sql)
    description = {
        "columns": relation.columns,
        "types": [str(spelled) for spelled in relation.types],
    }
    _send(answers, description, _stream(relation.limit(0).to_arrow_table().schema, []))


def _rows(connection: Any, sql: str) -> Iterator[bytes | memoryview]:
    reader = connection.sql(sql).to_arrow_reader(BATCH_ROWS)
    for batch in rebatch(iter(reader), max_rows=BATCH_ROWS, max_bytes=BATCH_BYTES):
        if batch.nbytes > MAX_ROW:
            raise ValueError(
                f"Out of Range Error: a row of the result has {batch.nbytes} bytes; "
                f"the maximum is {MAX_ROW}"
            )
        yield _stream(reader.schema, [batch])


def _stream(schema: pa.Schema, batches: list[pa.RecordBatch]) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return memoryview(sink.getvalue())


def _send(answers: BinaryIO, response: Mapping[str, Any], rows: bytes | memoryview = b"") -> None:
    answers.write(pack(response, rows))
    answers.flush()


def _watch(limit: int) -> None:
    """Exit the process if it exceeds its memory limit. (DuckDB's limit ignores long strings.)"""
    pause = threading.Event()
    while not pause.wait(LOOK_EVERY):
        if _memory() > limit:
            os._exit(OUT_OF_MEMORY)


def _memory() -> int:
    """Return this process's memory use in bytes, or the peak if nothing else is available."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:  # noqa: PTH123 - every 20 ms
            _, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    main()
