"""Writes `docs/results/durability.md` from what a run noted: `make durability`.

python -m tests.durability.page FILE
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["PAGE", "note", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "results" / "durability.md"
NOTES = os.environ.get("ODPS_NB_DURABILITY")  # tests do not see it, as no ODPS_ variable
FAULTS = ("SIGKILL", "power loss", "EIO", "ENOSPC")
_HEAD = """# What crashes and failing disks do to the embedded service

Written by `make durability` ({date}). All calls of a real service process on its folder were
recorded (what SQLite, Arrow and Python do), and the record was checked: done again, it gives
the folder byte for byte. The service was then started on each folder that a crash after each
call may leave, {crashes:,} different ones; and each call was made to fail, {errors:,} times.

- **SIGKILL**: all calls up to this one are there, and no later one.
- **power loss**: POSIX is read strictly. What was not synced may be there or not, in any order:
  nothing of it, all, only names, only data, any of the newest changes alone or missing, a write
  torn in its middle, and subsets at random. A name lasts when its folder was synced.
- **EIO**: this one call fails. **ENOSPC**: this call and all later ones fail.

After each crash the service starts, each commit that was answered is there, nothing is there by
half, the bytes of uploaded blobs are right, and no file is left behind. The number says how many
folders were tried. After each error, the number says how many calls failed, and how those jobs
ended that were not done: **e**, a typed error that names the disk, and nothing is changed; **u**,
the log could not be forced to disk: an error says that nobody knows whether the commit lasts, the
service answers nothing until it is started again, and then all of it is there or nothing. A run
that ends otherwise fails its test, and then this page is not written.

Not tried: two jobs at once (kills at random moments of four writers:
[test_kill.py](../../tests/local/store/test_kill.py)), errors in jobs with a dash, disks that return
wrong bytes, file systems that keep less than POSIX promises.

"""


def note(fault: str, tried: Mapping[str, int], ends: Mapping[str, int] | None = None) -> None:
    """Note what was tried, where `ODPS_NB_DURABILITY` names a file for it."""
    if NOTES:
        with Path(NOTES).open("a") as notes:
            notes.write(json.dumps({"fault": fault, "tried": tried, "ends": ends or {}}) + "\n")


def page(notes: Iterable[str]) -> str:
    """Return the page of these notes, one JSON document each."""
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    sums: Counter[str] = Counter()
    for line in notes:
        found = json.loads(line)
        ends = found["ends"]
        for job, count in found["tried"].items():
            marks = [f"{n} {k[0].replace('r', 'e')}" for k, n in ends.items() if k in _MARKED]
            cells[job][found["fault"]] = f"{count}" + (f" ({', '.join(marks)})" if marks else "")
            sums[found["fault"]] += count
    if missing := [fault for fault in FAULTS if not sums[fault]]:
        raise SystemExit(f"nothing was noted of {', '.join(missing)}")
    head = _HEAD.format(
        date=dt.datetime.now(dt.UTC).date(),
        crashes=sums["SIGKILL"] + sums["power loss"],
        errors=sums["EIO"] + sums["ENOSPC"],
    )
    rows = [
        f"| {job} | {' | '.join(found.get(f, '–') for f in FAULTS)} |"
        for job, found in cells.items()
    ]
    return (
        head + "\n".join([f"| job | {' | '.join(FAULTS)} |", "|---|---|---|---|---|", *rows]) + "\n"
    )


_MARKED = ("refused", "unsure")

if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1]).read_text().splitlines()))
