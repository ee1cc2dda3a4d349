"""Runs stock pyodps with the same faults, as far as its API allows, and records the results.

    python -m tests.sweep.peer FILE

Appends to the records from which `tests.sweep.page` generates its page. pyodps waits in real time,
so faults that last until a client has waited are omitted, and the delay between its attempts is 0.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odps import ODPS, options
from odps.maxstorage import MaxStorageClient

from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.local.server.launch import start
from tests.support.service.connecting import account_of
from tests.sweep.jobs import ALL, BEFORE, BLOBS, NUMBERS, World, ids, sorted_rows, with_rows
from tests.sweep.notes import note
from tests.sweep.outcomes import CHANGED, FAULTS, REFUSED, RIGHT, WRONG, Fault
from tests.sweep.profiles import with_faults
from tests.sweep.proxy import BreaksOne
from tests.sweep.surroundings import Surroundings

__all__ = ["PEER_JOBS", "PeerJob"]


@dataclass(frozen=True)
class PeerJob:
    """An operation of pyodps, its expected result, and how the table is checked afterwards."""

    name: str
    run: Callable[[Any, World, str], Any]
    result: Any = None
    changed: Any = None
    unchanged: Any = None


def read(client: Any, world: World, name: str) -> list[int]:
    session = client.create_table_read_session(world.rows)
    batches = []
    for split in session.splits:
        with session.open_arrow_reader(split, max_batch_rows=90) as reader:
            batches.extend(reader)
    return ids(batches)


def append(client: Any, world: World, name: str) -> None:
    session = client.create_table_write_session(name)
    with session.open_arrow_writer(stream_id="0") as writer:
        for batch in NUMBERS.to_batches(max_chunksize=200):
            writer.write_batch(batch)
    session.commit()


def blobs_down(client: Any, world: World, name: str) -> list[bytes]:
    manager = client.open_blob_manager(world.rows)
    return [manager.read_blob(reference.token).read() for reference in world.references]


PEER_JOBS = (
    PeerJob("pyodps: read", read, result=ALL),
    PeerJob("pyodps: blobs down", blobs_down, result=BLOBS),
    PeerJob(
        "pyodps: append",
        append,
        changed=sorted_rows(BEFORE, NUMBERS),
        unchanged=sorted_rows(BEFORE),
    ),
)


def run(job: PeerJob, fault: Fault, number: int, place: int, world: World) -> tuple[str, BreaksOne]:
    """Run a job once with one broken exchange; return its outcome, and the proxy."""
    table = with_rows(world) if job.changed else ""
    target, failed, result = world.steady.profile.tunnel_endpoint, False, None
    with BreaksOne(target, fault.name, number, place, Surroundings()) as proxy:
        try:
            result = job.run(client_of(with_faults(world.steady.profile, proxy.url)), world, table)
        except Exception:  # noqa: BLE001  pyodps raises many kinds
            failed = True
    if not job.changed:
        return (REFUSED if failed else RIGHT if result == job.result else WRONG), proxy
    there = world.found(table)
    if not failed:
        return (RIGHT if there == job.changed else WRONG), proxy
    return (REFUSED if there == job.unchanged else CHANGED), proxy


def client_of(profile: Profile) -> MaxStorageClient:
    entry = ODPS(
        profile.access_id,
        profile.access_key,
        project=profile.project,
        endpoint=profile.endpoint,
        tunnel_endpoint=profile.tunnel_endpoint,
    )
    return MaxStorageClient(odps=entry)


def sweep(job: PeerJob, fault: Fault, world: World) -> Counter[str]:
    """Break each exchange in turn; count the outcomes."""
    ends: Counter[str] = Counter()
    for number in itertools.count():
        for place in itertools.count():
            end, proxy = run(job, fault, number, place, world)
            ends[end] += proxy.injected
            if place + 1 >= proxy.places:
                break
        if not proxy.injected:
            if end != RIGHT:
                raise SystemExit(f"{job.name} ended {end} where nothing was broken")
            return +ends
    raise AssertionError("the client ended without an outcome")


def main(notes: str) -> None:
    options.retry_delay, options.read_timeout = 0, 1
    with start() as service, tempfile.TemporaryDirectory() as folder:
        profile = Profile(**account_of(service))
        with Connection(profile) as steady:
            world = World(steady, Path(folder))
            world.furnish()
            for job, fault in itertools.product(PEER_JOBS, FAULTS):
                if fault.on_the_wire:
                    note(notes, job.name, fault.name, sweep(job, fault, world))


if __name__ == "__main__":
    main(sys.argv[1])
