"""A program that forks during operations; `test_fork` starts it and reads its output (JSON).

Children of the fork exit with 0 if all results are correct, or with a traceback and 1. An alarm
ends a child that hangs.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable

import pyarrow as pa

import odps_nb
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import StateError

DAY = "ds=2024-01-01"
HUNG = 20  # seconds; a child needs about 1 s

# Python 3.12 and later warn about every fork; the tests check the consequences
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)


def exit_code_of_child(work: Callable[[], None]) -> int:
    """Run a function in a forked child; return its exit status as ``os.waitpid`` does."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    signal.alarm(HUNG)
    try:
        work()
        sys.stderr.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        os._exit(1)


def expect_state_error(call: Callable[[], object]) -> None:
    try:
        found = call()
    except StateError:
        return
    raise AssertionError(f"the child received {found!r:.200} from an operation of the parent")


def send_pid(odps) -> None:
    odps._storage.user_agent = f"pid-{os.getpid()}"


def rows_of(odps, ds: str) -> pa.Table:
    return odps.table("orders").read(["id", "ds"], partitions=f"ds={ds}").to_arrow()


class Unfinished:
    """One unfinished operation of each kind."""

    def __init__(self, odps, table: str) -> None:
        self.day = odps.table("orders").read(["id", "note"], partitions=DAY, splits=4)
        self.parallel = self.day.batches(workers=4, read_ahead=1 << 17)
        self.first = next(self.parallel)
        self.single = odps.table(table).read(splits=1).batches()
        next(self.single)
        self.leaving = self.leave_at_once(odps)
        media = odps.table("media").head(8)
        self.reference = next(media["content"][at] for at in range(8) if media["name"][at])
        self.blob = odps.blob(self.reference).open()
        self.start = self.blob.read(10)
        self.write = open_write_session(odps._storage, odps.table(table).name).__enter__()
        self.stream = self.write.open_stream()
        self.stream.write([pa.record_batch({"id": [7], "text": ["kept"]})])

    def leave_at_once(self, odps):
        """Start a read over one connection."""
        odps._storage.quickest = 0.0
        rows = odps.table("orders").read(["id", "note"]).batches()
        self.begun = next(rows)
        return rows

    def check_in_child(self) -> None:
        batch = pa.record_batch({"id": [8], "text": ["lost"]})
        expect_state_error(lambda: next(self.parallel))
        expect_state_error(lambda: list(self.single))
        expect_state_error(lambda: self.blob.read())
        expect_state_error(lambda: self.stream.write([batch]))
        expect_state_error(lambda: self.stream.close())
        expect_state_error(lambda: self.write.commit())
        expect_state_error(lambda: next(self.leaving))
        self.parallel.close()
        self.leaving.close()
        self.single.close()
        self.blob.close()
        self.write.__exit__(None, None, None)
        self.write.abort()

    def check_in_parent(self, odps, table: str) -> None:
        rest = pa.Table.from_batches([self.first, *self.parallel])
        assert 0 < self.first.num_rows < rest.num_rows
        assert rest.equals(self.day.to_arrow())
        assert self.start + self.blob.read() == odps.blob(self.reference).bytes()
        rows = self.begun.num_rows + sum(batch.num_rows for batch in self.leaving)
        assert rows == odps.table("orders").read().row_count
        before = odps.table(table).read().row_count
        sum(batch.num_rows for batch in self.single)
        self.stream.close()
        self.write.commit()
        self.write.__exit__(None, None, None)
        assert odps.table(table).read().row_count == before + 1


def read_partitions(odps, *, times: int, way: str) -> list[int]:
    """Read one partition in each of many children while a thread of the parent also reads."""
    days = [str(spec).partition("=")[2].strip("'\"") for spec in odps.table("orders").partitions()]
    known = {ds: rows_of(odps, ds) for ds in days}
    over, wrong = threading.Event(), []

    def read_until_over(ds: str) -> None:
        while not over.is_set():
            if rows_of(odps, ds) != known[ds]:
                wrong.append(ds)

    def read_twice(ds: str) -> None:
        send_pid(odps)
        for _ in range(2):
            found = rows_of(odps, ds)
            assert found == known[ds], f"asked for {ds}, got {found['ds'].unique()}"
        odps.close()

    threads = [threading.Thread(target=read_until_over, args=(ds,)) for ds in days[:1]]
    for thread in threads:
        thread.start()
    try:
        jobs = [days[number % len(days)] for number in range(times)]
        if way == "multiprocessing":
            context = multiprocessing.get_context("fork")
            with context.Pool(4, signal.alarm, (HUNG,)) as pool:
                results = [pool.apply_async(read_in_pool, (ds,)) for ds in jobs]
                codes = [
                    int(result.get(HUNG) != known[ds])
                    for result, ds in zip(results, jobs, strict=True)
                ]
        else:
            codes = [exit_code_of_child(lambda ds=ds: read_twice(ds)) for ds in jobs]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not wrong, f"the parent got wrong rows of {wrong}"
    return codes


SHARED: list[odps_nb.Connection] = []


def read_in_pool(ds: str) -> pa.Table:
    (odps,) = SHARED
    send_pid(odps)
    return rows_of(odps, ds)


def fork_readers(settings: dict[str, str], way: str) -> list[int]:
    with odps_nb.connect(**settings) as odps:
        SHARED.append(odps)
        send_pid(odps)
        codes = read_partitions(odps, times=8, way=way)
        assert len(odps.tables()) > 1  # the parent's own connections still work
    return codes


def fork_unfinished(settings: dict[str, str], table: str) -> list[int]:
    with odps_nb.connect(**settings) as odps:
        send_pid(odps)
        odps.create_table(table, "id bigint, text string")
        odps.table(table).write(pa.table({"id": range(50_000), "text": ["x" * 50] * 50_000}))
        begun = Unfinished(odps, table)

        def work() -> None:
            send_pid(odps)
            begun.check_in_child()
            assert odps.table(table).read().row_count == 50_000
            odps.close()

        codes = [exit_code_of_child(work) for _ in range(3)]
        begun.check_in_parent(odps, table)
        odps.drop_table(table)
    return codes


def fork_with_held_locks(settings: dict[str, str]) -> list[int]:
    """Fork while other threads hold the locks of keys, of a table and of a scan."""
    asked, go, parent = threading.Event(), threading.Event(), os.getpid()
    keys = {name: settings.pop(name) for name in ("access_id", "access_key")}

    def credentials() -> dict[str, str]:
        if os.getpid() == parent:
            asked.set()
            assert go.wait(60)
        return keys

    with odps_nb.connect(credentials=credentials, **settings) as odps:
        table = odps.table("orders")
        scan = table.read(limit=5)
        threads = [threading.Thread(target=work) for work in (scan.to_arrow, lambda: table.schema)]
        for thread in threads:
            thread.start()
        assert asked.wait(60)
        while not (scan._lock._is_owned() or table._lock.locked()):
            pass

        def work() -> None:
            assert scan.to_arrow().num_rows == 5
            assert table.schema.names
            odps.close()

        codes = [exit_code_of_child(work) for _ in range(3)]
        go.set()
        for thread in threads:
            thread.join()
        assert scan.to_arrow().num_rows == 5
    return codes


def fork_embedded_service() -> list[int]:
    """Close a connection to an embedded service in children; the service belongs to the parent."""
    with odps_nb.connect("local") as odps:
        wanted = odps.tables()

        def work() -> None:
            assert odps.tables() == wanted
            odps.close()

        codes = [exit_code_of_child(work) for _ in range(2)]
        assert odps.tables() == wanted
        assert odps.table("orders").head(3).shape[0] == 3
    return codes


if __name__ == "__main__":
    what, *arguments = json.loads(sys.argv[1])
    jobs = (fork_readers, fork_unfinished, fork_with_held_locks, fork_embedded_service)
    print(json.dumps({job.__name__: job for job in jobs}[what](*arguments)))
