"""``kill -9`` at any moment: each commit is there as a whole or not at all.

A handful of rounds by default; ``ODPS_NB_KILLS=300`` for a long run.
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
import requests

from odps_nb.errors import OdpsNbError
from odps_nb.local.launch import LocalService, start

from .conftest import Peer

ROUNDS = int(os.environ.get("ODPS_NB_KILLS", "5"))
ROWS = 500
PARTS = 3


def write_until_killed(
    peer: Peer, numbers: list[int], sent: set[int], done: set[int], acknowledged: Semaphore
) -> None:
    """Commit one number after the other, each as many rows in several streams."""
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


def test_a_kill_at_any_moment_loses_no_commit_and_shows_no_half(root: Path) -> None:
    chance = random.Random(4)
    sent: set[int] = set()
    done: set[int] = set()
    with start(root, samples=False) as service:
        Peer(service).sql("CREATE TABLE t (n bigint) PARTITIONED BY (ds string);")
    for turn in range(ROUNDS):
        with start(root, samples=False) as service:
            check(Peer(service), sent, done)
            kill_while_writing(service, chance, turn * 10_000, sent, done)
    with start(root, samples=False) as service:
        check(Peer(service), sent, done)
    assert done


def kill_while_writing(
    service: LocalService, chance: random.Random, first: int, sent: set[int], done: set[int]
) -> None:
    acknowledged = Semaphore(0)

    def work(worker: int) -> None:
        numbers = list(range(first + worker * 1000, first + worker * 1000 + 1000))
        with suppress(requests.exceptions.RequestException, OdpsNbError):
            write_until_killed(Peer(service), numbers, sent, done, acknowledged)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in workers:
        thread.start()
    for _ in range(chance.randrange(6)):
        assert acknowledged.acquire(timeout=60)
    time.sleep(chance.uniform(0, 0.05))  # any moment of what goes on by now
    os.kill(service.pid, signal.SIGKILL)
    for thread in workers:
        thread.join()


def check(peer: Peer, sent: set[int], done: set[int]) -> None:
    counts: dict[int, int] = {}
    for number in peer.read("t").column("n").to_pylist():
        counts[number] = counts.get(number, 0) + 1
    assert set(counts.values()) <= {ROWS * PARTS}
    assert done <= counts.keys() <= sent
