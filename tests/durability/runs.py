"""Runs jobs under the recorder, and tries what crashes leave of their folders."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from odps_nb.errors import OdpsNbError
from odps_nb.terms import BlobReference
from tests.durability.crash_states import Call, Disk, Tree, build, calls_of, read_tree
from tests.durability.jobs import Job, Promises, World, seen
from tests.durability.recorded import Recorder
from tests.support.service.peer import Peer

__all__ = ["Crash", "Recording", "record", "try_crashes"]

START, STOP = "start", "stop"


@dataclass
class Crash:
    """A folder that a crash may leave, and what may be in it."""

    job: str
    tree: Tree
    worlds: list[World]
    promised: list[tuple[BlobReference, bytes]]


@dataclass
class Recording:
    """The calls of a run, and up to which call each job had been begun and answered."""

    calls: list[Call]
    jobs: list[tuple[Job, int, int]] = field(default_factory=list)
    promises: list[tuple[BlobReference, bytes, int]] = field(default_factory=list)
    ended: Tree = field(default_factory=dict)

    def crashes(self, *, power: bool, thorough: bool, only: str = "") -> Iterator[Crash]:
        """Yield what a kill or loss of power after each call (of one job) may leave."""
        disk = Disk()
        for number, call in enumerate(self.calls):
            disk.do(call)
            job, worlds = self._worlds(call.end)
            if only and job != only:
                continue
            promised = [(ref, data) for ref, data, at in self.promises if at <= call.end]
            trees = (
                disk.after_power_loss(thorough=thorough, seed=number)
                if power
                else iter([disk.whole()])
            )
            for tree in trees:
                yield Crash(job, tree, worlds, promised)
        assert disk.whole() == self.ended, "the recorder has not seen all calls"

    def _worlds(self, end: int) -> tuple[str, list[World]]:
        world: World = {}
        for job, begun, answered in self.jobs:
            if end <= begun:
                return START if not world else job.name, [world]
            stages = [world]
            for change in job.worlds:
                stages.append(change(world))
            if end < answered:
                return job.name, stages
            world = stages[-1]
        return STOP, [world]


def record(recorder: Recorder, jobs: Sequence[Job]) -> Recording:
    """Do the jobs, one after the other, and stop the service."""
    promises, marks, promised = Promises(), [], []
    with recorder.serve() as service:
        peer = Peer(service)
        for job in jobs:
            begun, before = recorder.position, list(promises.blobs)
            job.do(peer, promises)
            marks.append((job, begun, recorder.position))
            promised += [(*b, recorder.position) for b in promises.blobs if b not in before]
    calls = calls_of(recorder.log.read_bytes())
    return Recording(calls, marks, promised, read_tree(recorder.disk))


def try_crashes(crashes: Iterator[Crash], place: Path) -> tuple[Counter[str], list[str]]:
    """Start the service on each folder; return how many were tried per job, and what was wrong."""
    tried: Counter[str] = Counter()
    wrong: list[str] = []
    known: set[bytes] = set()
    for crash in crashes:
        digest = _digest(crash)
        if digest in known:
            continue
        known.add(digest)
        tried[crash.job] += 1
        build(crash.tree, place)
        try:
            found = seen(place / "root", crash.promised)
        except (OdpsNbError, AssertionError) as error:
            wrong.append(f"{crash.job}: {type(error).__name__}: {error}")
            continue
        if not any(_same(found, world) for world in crash.worlds):
            wrong.append(f"{crash.job}: found {found}, not one of {crash.worlds}"[:600])
    return tried, wrong


def _digest(crash: Crash) -> bytes:
    whole = hashlib.sha256(repr((crash.job, len(crash.worlds), len(crash.promised))).encode())
    for path, content in crash.tree.items():
        whole.update(b"%d\0" % (-1 if content is None else len(content)) + path.encode())
        whole.update(content or b"")
    return whole.digest()


def _same(one: World, other: World) -> bool:
    return {k: Counter(v) for k, v in one.items()} == {k: Counter(v) for k, v in other.items()}
