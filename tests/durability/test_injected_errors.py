"""A disk that fails or is full at each call of a job: said in words, nothing lost, nothing half."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import NotFoundError, QueryError, ServerFaultError
from tests.durability.jobs import seen
from tests.durability.page import note
from tests.durability.recorded import Recorder
from tests.support.service.peer import Peer

FULL = "the disk of the service is full"
FAILED = "the disk of the service (cannot be read or written|failed)"
UNSURE = "nobody knows whether that commit lasts"
SETUP = ("CREATE TABLE {n} (n bigint);", "INSERT INTO {n} SELECT 1;")
JOBS = {
    "append": lambda peer, n: peer.write(n, pa.table({"n": [2]})),
    "overwrite": lambda peer, n: peer.write(n, pa.table({"n": [2]}), overwrite=True),
    "SQL: INSERT INTO": lambda peer, n: peer.sql(f"INSERT INTO {n} SELECT 2;"),
    "SQL: INSERT OVERWRITE": lambda peer, n: peer.sql(f"INSERT OVERWRITE TABLE {n} SELECT 2;"),
    "rename a table": lambda peer, n: peer.sql(f"ALTER TABLE {n} RENAME TO {n}_new;"),
    "drop a table": lambda peer, n: peer.sql(f"DROP TABLE {n};"),
}
AFTER = {
    "append": {"{n}": [1, 2]},
    "overwrite": {"{n}": [2]},
    "SQL: INSERT INTO": {"{n}": [1, 2]},
    "SQL: INSERT OVERWRITE": {"{n}": [2]},
    "rename a table": {"{n}_new": [1]},
    "drop a table": {},
}


@contextmanager
def served(recorder: Recorder) -> Iterator[Peer]:
    with recorder.serve() as service:
        yield Peer(service)


def attempt(peer: Peer, recorder: Recorder, job: str, name: str, call: int, number: int) -> str:
    """Do a job with the fault; return how it ended, "" if the fault did not come."""
    for statement in SETUP:
        peer.sql(statement.format(n=name))
    recorder.order(call, number, lasting=number == errno.ENOSPC)
    try:
        JOBS[job](peer, name)
        said = ""
    except (ServerFaultError, QueryError) as error:
        said = str(error)
    if not recorder.calm():
        return ""
    if not said or UNSURE in said:
        return "unsure" if said else "done"
    assert re.search(FULL if number == errno.ENOSPC else FAILED, said), said
    return "refused"


def rows_of(peer: Peer, name: str) -> dict[str, list[int]]:
    found = {}
    for table in (name, f"{name}_new"):
        with suppress(NotFoundError):
            found[table] = sorted(peer.read(table).column("n").to_pylist())
    return found


@pytest.mark.nightly  # minutes
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("job", JOBS)
def test_a_failing_disk_is_said_and_leaves_nothing_half(
    tmp_path: Path, job: str, number: int
) -> None:
    recorder = Recorder(tmp_path)
    kept: dict[str, list[int]] = {}
    ends: Counter[str] = Counter()
    call, end = 0, "done"
    while end:
        with served(recorder) as peer:
            while end and (call := call + 1):
                name = f"t{call}"
                end = attempt(peer, recorder, job, name, call, number)
                ends[end] += bool(end)
                if end == "unsure":
                    with pytest.raises(ServerFaultError, match=UNSURE):
                        peer.read(name)
                    break
                found = rows_of(peer, name)
                after = {k.format(n=name): rows for k, rows in AFTER[job].items()}
                assert found in ([after] if end != "refused" else [after, {name: [1]}])
                if end == "refused":
                    assert found == {name: [1]}, "an error, and it was done"
                kept |= found
        if end == "unsure":
            with served(recorder) as peer:
                found = rows_of(peer, name)
                assert found in ({name: [1]}, {k.format(n=name): v for k, v in AFTER[job].items()})
                kept |= found
    world = seen(recorder.root, [])
    assert {name: sorted(row[0] for row in rows) for name, rows in world.items()} == kept
    assert call > 10
    note(errno.errorcode[number], {job: call - 1}, dict(ends))
