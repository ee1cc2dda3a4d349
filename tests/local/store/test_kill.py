"""``kill -9`` at any moment: each commit is visible completely or not at all.

A few rounds by default; ``ODPS_NB_KILLS=300`` for a long run.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from threading import Semaphore

import pyarrow as pa
import pytest
import requests

from odps_nb.errors import OdpsNbError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.local.service import Service
from odps_nb.local.store.ledger import Ledger
from tests.support.service.peer import Peer

ROUNDS = int(os.environ.get("ODPS_NB_KILLS", "5"))
ROWS = 500
PARTS = 3


def write_until_killed(
    peer: Peer, numbers: list[int], sent: set[int], done: set[int], acknowledged: Semaphore
) -> None:
    """Commit the numbers one by one, each as many equal rows in several streams."""
    for number in numbers:
        session = peer.open_write("t")
        for part in range(PARTS):
            peer.open_stream("t", session, str(part))
            table = pa.table({"n": [number] * ROWS, "ds": [f"d{number % 4}"] * ROWS})
            peer.put("t", session, str(part), table)
            peer.close_stream("t", session, str(part))
        sent.add(number)
        peer.commit("t", session)
        done.add(number)
        acknowledged.release()


def change_until_killed(peer: Peer) -> None:
    """Repeat operations that drop files, merge rows by key and store blobs."""
    for number in range(1000):
        peer.sql(f"INSERT OVERWRITE TABLE over SELECT {number};")
        session = peer.open_write("keyed")
        peer.open_stream("keyed", session, "0")
        photos = peer.open_write("photos")
        peer.put_blob("photos", photos, "0", b"%d" % number, column_id=2)
        peer.put("keyed", session, "0", pa.table({"k": [1, 2], "v": [number, number]}))
        peer.close_stream("keyed", session, "0")
        peer.commit("keyed", session)


@pytest.mark.nightly
@pytest.mark.parametrize("rounds", [1, pytest.param(ROUNDS, marks=pytest.mark.nightly)])
def test_a_kill_at_any_moment_leaves_each_commit_complete_or_absent(
    root: Path, rounds: int
) -> None:
    chance = random.Random(4)
    sent: set[int] = set()
    done: set[int] = set()
    for turn in range(rounds):
        with start(root, samples=False) as service:
            if not turn:
                make_tables(Peer(service))
            check(Peer(service), sent, done)
            kill_while_writing(service, chance, turn * 10_000, sent, done)
    with start(root, samples=False) as service:
        check(Peer(service), sent, done)
    assert done
    with Service(root) as closed:  # only files left by the kills were moved away
        ledger = Ledger(closed.database, closed.folder)
        assert closed.folder.data_files() == ledger.known()


def make_tables(peer: Peer) -> None:
    peer.sql("CREATE TABLE t (n bigint) PARTITIONED BY (ds string);")
    peer.sql("CREATE TABLE over (n bigint);")
    peer.sql("CREATE TABLE keyed (k bigint NOT NULL, v bigint, PRIMARY KEY (k));")
    peer.make_blob_table("photos", "(id bigint, b blob)")
    peer.sql("INSERT INTO over SELECT -1;")


def kill_while_writing(
    service: LocalService, chance: random.Random, first: int, sent: set[int], done: set[int]
) -> None:
    acknowledged = Semaphore(0)

    def work(worker: int) -> None:
        numbers = list(range(first + worker * 1000, first + worker * 1000 + 1000))
        with suppress(requests.exceptions.RequestException, OdpsNbError):
            write_until_killed(Peer(service), numbers, sent, done, acknowledged)

    def change() -> None:
        with suppress(requests.exceptions.RequestException):
            change_until_killed(Peer(service))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    workers.append(threading.Thread(target=change))
    for thread in workers:
        thread.start()
    for _ in range(chance.randrange(6)):
        assert acknowledged.acquire(timeout=60)
    time.sleep(chance.uniform(0, 0.05))  # at a random moment of the running operations
    os.kill(service.pid, signal.SIGKILL)
    for thread in workers:
        thread.join()


def check(peer: Peer, sent: set[int], done: set[int]) -> None:
    counts: dict[int, int] = {}
    for number in peer.read("t").column("n").to_pylist():
        counts[number] = counts.get(number, 0) + 1
    assert set(counts.values()) <= {ROWS * PARTS}
    assert done <= counts.keys() <= sent
    assert peer.read("over").num_rows == 1
    keyed = peer.read("keyed")
    assert keyed.num_rows in (0, 2)
    assert len(set(keyed.column("v").to_pylist())) <= 1
