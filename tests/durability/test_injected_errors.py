"""A disk that fails or is full at each call of a job: said in words, nothing lost, nothing half."""

from __future__ import annotations

import errno
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import NotFoundError, QueryError, ServerFaultError
from odps_nb.terms import BlobReference
from tests.durability.jobs import PHOTO, seen
from tests.durability.page import note
from tests.durability.recorded import Recorder
from tests.support.service.peer import Peer

FULL = "the disk of the service is full"
FAILED = "the disk of the service (cannot be read or written|failed)"
UNSURE = "nobody knows whether that commit lasts"
PLAIN = ("CREATE TABLE {n} (n bigint);", "INSERT INTO {n} SELECT 1;")
PARTED = (
    "CREATE TABLE {n} (n bigint) PARTITIONED BY (ds string);",
    "INSERT INTO {n} PARTITION (ds='a') SELECT 1;",
    "INSERT INTO {n} PARTITION (ds='b') SELECT 2;",
)
KEYED = (
    "CREATE TABLE {n} (id bigint NOT NULL, v bigint, PRIMARY KEY (id));",
    "INSERT INTO {n} SELECT 1, 1 UNION ALL SELECT 2, 1;",
)

Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class Case:
    """A job on the table ``{n}``, and the rows of all tables before and after it.

    ``before`` is ``None`` where there is no table before it.
    """

    setup: tuple[str | Callable[[Peer, str], object], ...]
    do: Callable[[Peer, str], object]
    before: Rows | None
    after: dict[str, Rows]


def _sql(text: str) -> Callable[[Peer, str], object]:
    return lambda peer, n: peer.sql(text.format(n=n))


def _write(rows: dict[str, object], **how: object) -> Callable[[Peer, str], object]:
    return lambda peer, n: peer.write(n, pa.table(rows), **how)  # type: ignore[arg-type]


def _photos(peer: Peer, n: str) -> None:
    session = peer.open_write(n)
    peer.open_stream(n, session, "0")
    answer = peer.put_blob(n, session, "0", PHOTO, column_id=2)
    raw = pa.array([answer.references[0].raw], pa.binary())
    peer.put(n, session, "0", pa.table({"id": [7], "b": raw}))
    peer.close_stream(n, session, "0")
    peer.commit(n, session)


def _photo(peer: Peer, n: str) -> None:
    peer.put_blob(n, peer.open_write(n), "0", PHOTO, column_id=2)


CASES = {
    "create a table": Case((), _sql(PLAIN[0]), None, {"{n}": []}),
    "create a partitioned table": Case((), _sql(PARTED[0]), None, {"{n}": []}),
    "create a table with a key": Case((), _sql(KEYED[0]), None, {"{n}": []}),
    "create a table of blobs": Case(
        (), lambda peer, n: peer.make_blob_table(n, "(id bigint, b blob)"), None, {"{n}": []}
    ),
    "SQL: CREATE TABLE AS": Case(
        (), _sql("CREATE TABLE {n} AS SELECT 1 AS n;"), None, {"{n}": [(1,)]}
    ),
    "append": Case(PLAIN, _write({"n": [2]}), [(1,)], {"{n}": [(1,), (2,)]}),
    "overwrite": Case(PLAIN, _write({"n": [2]}, overwrite=True), [(1,)], {"{n}": [(2,)]}),
    "SQL: INSERT INTO": Case(
        PLAIN, _sql("INSERT INTO {n} SELECT 2;"), [(1,)], {"{n}": [(1,), (2,)]}
    ),
    "SQL: INSERT OVERWRITE": Case(
        PLAIN, _sql("INSERT OVERWRITE TABLE {n} SELECT 2;"), [(1,)], {"{n}": [(2,)]}
    ),
    "dynamic partitions": Case(
        PARTED,
        _write({"n": [3, 4, 5], "ds": ["a", "c", "d"]}),
        [(1, "a"), (2, "b")],
        {"{n}": [(1, "a"), (2, "b"), (3, "a"), (4, "c"), (5, "d")]},
    ),
    "overwrite a partition": Case(
        PARTED,
        _write({"n": [9]}, partition="ds=b", overwrite=True),
        [(1, "a"), (2, "b")],
        {"{n}": [(1, "a"), (9, "b")]},
    ),
    "drop a partition": Case(
        PARTED,
        _sql("ALTER TABLE {n} DROP PARTITION (ds='a');"),
        [(1, "a"), (2, "b")],
        {"{n}": [(2, "b")]},
    ),
    "upsert into nothing": Case(
        KEYED[:1], _write({"id": [2, 3], "v": [2, 2]}), [], {"{n}": [(2, 2), (3, 2)]}
    ),
    "upload a blob": Case(
        (lambda peer, n: peer.make_blob_table(n, "(id bigint, b blob)"),), _photo, [], {"{n}": []}
    ),
    "upsert": Case(
        KEYED,
        _write({"id": [2, 3], "v": [2, 2]}),
        [(1, 1), (2, 1)],
        {"{n}": [(1, 1), (2, 2), (3, 2)]},
    ),
    "rows with blobs": Case(
        (lambda peer, n: peer.make_blob_table(n, "(id bigint, b blob)"),),
        _photos,
        [],
        {"{n}": [(7, PHOTO)]},
    ),
    "drop a table of blobs": Case(
        (lambda peer, n: peer.make_blob_table(n, "(id bigint, b blob)"), _photos),
        _sql("DROP TABLE {n};"),
        [(7, PHOTO)],
        {},
    ),
    "rename a table": Case(
        PLAIN, _sql("ALTER TABLE {n} RENAME TO {n}_new;"), [(1,)], {"{n}_new": [(1,)]}
    ),
    "drop a table": Case(PLAIN, _sql("DROP TABLE {n};"), [(1,)], {}),
}


@contextmanager
def served(recorder: Recorder) -> Iterator[Peer]:
    with recorder.serve() as service:
        yield Peer(service)


def attempt(peer: Peer, recorder: Recorder, case: Case, name: str, call: int, number: int) -> str:
    """Do a job with the fault; return how it ended, "" if the fault did not come."""
    for step in case.setup:
        _sql(step)(peer, name) if isinstance(step, str) else step(peer, name)
    recorder.order(call, number, lasting=number == errno.ENOSPC)
    try:
        case.do(peer, name)
        said = ""
    except (ServerFaultError, QueryError) as error:
        said = str(error)
    if not recorder.calm():
        return ""
    if not said or UNSURE in said:
        return "unsure" if said else "done"
    assert re.search(FULL if number == errno.ENOSPC else FAILED, said), said
    return "refused"


def rows_of(peer: Peer, name: str) -> dict[str, Rows]:
    found = {}
    for table in (name, f"{name}_new"):
        with suppress(NotFoundError):
            read = peer.read(table).to_pylist()
            found[table] = sorted(tuple(_value(peer, v) for v in row.values()) for row in read)
    return found


def _value(peer: Peer, value: object) -> object:
    """Return the bytes of a blob in place of its reference."""
    if not isinstance(value, bytes):
        return value
    ((data, _, _),) = peer.blobs([BlobReference(value.decode())])
    return data


@pytest.mark.nightly  # minutes
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("job", CASES)
def test_a_failing_disk_is_said_and_leaves_nothing_half(
    tmp_path: Path, job: str, number: int
) -> None:
    recorder, case = Recorder(tmp_path), CASES[job]
    kept: dict[str, Rows] = {}
    ends: Counter[str] = Counter()
    call, end = 0, "done"
    while end:
        with served(recorder) as peer:
            while end and (call := call + 1):
                name = f"t{call}"
                before = {} if case.before is None else {name: case.before}
                after = {table.format(n=name): rows for table, rows in case.after.items()}
                end = attempt(peer, recorder, case, name, call, number)
                ends[end] += bool(end)
                if end == "unsure":
                    with pytest.raises(ServerFaultError, match=UNSURE):
                        peer.read(name)
                    break
                found = rows_of(peer, name)
                assert found == (before if end == "refused" else after), end
                kept |= found
        if end == "unsure":
            with served(recorder) as peer:
                found = rows_of(peer, name)
                assert found in (before, after)
                kept |= found
    world = seen(recorder.root, [])
    assert {name: sorted(rows) for name, rows in world.items()} == kept
    assert call > 10
    note(errno.errorcode[number], {job: call - 1}, dict(ends))
