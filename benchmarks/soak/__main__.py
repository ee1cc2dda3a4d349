"""Run it: ``python -m benchmarks.soak --minutes 60`` or ``--rounds 9``; `make soak`.

Prints the resource figures of each third of the run; fails if one of them grew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.soak.figures import take
from benchmarks.soak.front import Front
from benchmarks.soak.judge import Figures, grown, table
from benchmarks.soak.work import DONE_BY, END, SETUP, Job, play
from odps_nb.local.server.launch import LocalService, start

__all__ = ["main", "soak"]

_ROUNDS = 4  # rounds between samples, in a run limited by minutes


def main() -> int:
    """Run the soak test and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, help="number of rounds, instead of minutes")
    parser.add_argument(
        "--json", type=Path, help="file to which to write the figures, one per line"
    )
    options = parser.parse_args()
    taken, done = [], Counter[str]()
    began = time.monotonic()
    for figures in soak(minutes=options.minutes, rounds=options.rounds, done=done):
        taken.append(figures)
        print(f"  {time.monotonic() - began:6.0f} s, {figures['round']:.0f} rounds", flush=True)
        if options.json:
            with options.json.open("a") as file:
                print(json.dumps(figures), file=file)
    found = report(taken, done, time.monotonic() - began)
    return 1 if found else 0


def report(taken: list[Figures], done: Counter[str], seconds: float) -> list[str]:
    """Print the table and return the figures that grew."""
    print(f"\n{taken[-1]['round']:.0f} rounds in {seconds / 60:.0f} minutes:", end=" ")
    print(", ".join(f"{name} {count}" for name, count in done.items()))
    print(f"\n{table(taken)}\n")
    found = grown(taken)
    print("\n".join(f"GROWN: {one}" for one in found) or "nothing grew")
    return found


def soak(
    *,
    minutes: float,
    rounds: int | None,
    done: Counter[str],
    jobs: dict[Job, int] | None = None,
) -> Iterator[Figures]:
    """Run rounds in a separate kernel and yield the figures after every few of them.

    With ``rounds``, run this many and yield figures after each; otherwise run for ``minutes``.
    """
    with tempfile.TemporaryDirectory(prefix="odps-nb-soak-") as folder:
        root = Path(folder)
        folders = {name: root / name for name in ("kernel", "service", "cache", "work")}
        for one in folders.values():
            one.mkdir()
        with start(folders["service"], options=("--misbehave",)) as service:
            environment = _environment(service, folders, root)
            with closing(Front(environment, str(folders["work"]))) as front:
                front.run("%load_ext odps_nb")
                front.run(SETUP)
                end, turn = time.monotonic() + minutes * 60, 0
                while turn < rounds if rounds else time.monotonic() < end:
                    done.update(play(front, turn, DONE_BY if jobs is None else jobs))
                    turn += 1
                    if rounds or turn % _ROUNDS == 0:
                        yield {"round": turn, **take(front, service.pid, folders)}
                front.run(END)


def _environment(service: LocalService, folders: dict[str, Path], root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TMPDIR": str(folders["kernel"]),
        "ODPS_NB_CACHE_DIR": str(folders["cache"]),
        "XDG_CONFIG_HOME": str(root / "config"),
        "IPYTHONDIR": str(root / "ipython"),
        **service.environment,
    }


if __name__ == "__main__":
    sys.exit(main())
