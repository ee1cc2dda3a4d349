"""Writes `docs/results/single-faults.md` from the records of a sweep: `make sweep`.

PYTHONPATH=tools python -m tests.sweep.page FILE
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from nightly import state

from tests.sweep.jobs import JOBS, PAIR_JOBS
from tests.sweep.outcomes import (
    CHANGED,
    ENDED,
    FAULTS,
    PAIRED,
    REFUSED,
    RIGHT,
    UNKNOWN,
    WRONG,
    pair_name,
)
from tests.sweep.peer import PEER_JOBS

__all__ = ["PAGE", "page", "pairs"]

Cells = dict[tuple[str, str], Counter[str]]

PAGE = Path(__file__).parents[2] / "docs" / "results" / "single-faults.md"
_LETTERS = {RIGHT: "", REFUSED: "e", UNKNOWN: "d", ENDED: "i", WRONG: "**w**", CHANGED: "**c**"}
_HEAD = """# Every single fault

Written by `make sweep` ({date}, commit {commit}, {runs:,} runs).
Each job ran with each fault at its first exchange with the service, at its second exchange, and
so on up to the last one. If a response can break in
several places (in its headers, at each message of an Arrow stream and inside each), the fault is
tried at each of them. The jobs used the embedded service over sockets.

Most jobs ran once for each service that transfers rows: the Storage API, the tunnel
(`transfer="tunnel"`), and version 1 of the Storage API on an account without version 2. The jobs
"without the Storage API" ran on an account that has only the tunnel, with the default options, so
the choice of the service was broken as well.

A cell shows the number of runs, and the outcomes of those that did not return the right result:

- **e**: a typed error, and nothing is changed
- **d**: a typed error that says that the commit or statement may have been executed
  (`error.in_doubt`), or that the new table remains; either everything or nothing is visible
- **i**: interrupted by Ctrl-C; either everything or nothing is visible
- **–**: not applicable; for example, a job that writes no file cannot fill the disk

A run with any other outcome (a lost or duplicated row, a partial commit, an untyped error, a wrong
success, a staging table that is left without a warning) fails its test, and then this page is not
written.

The last rows show stock pyodps {peer}, with its own retries and no delay between them. Faults that
end only after a delay are omitted. In these rows, **e** is any exception, **w** a
success with missing, wrong or duplicated rows or bytes, and **c** an exception although the rows
are stored.

The Storage API sends rows without checksums, so damage to a value inside a row cannot be detected.
There, bits are flipped only in message headers, documents, and blobs. The tunnel sends rows with
checksums, so any of their bits is flipped.

"""

_PAIRS = """
## Two faults in one run

Written by `make sweep` ({date}, commit {commit}, {runs:,} runs).
For {jobs} jobs, one fault was injected at exchange N, and the same or another fault at a later
exchange M. The runs cover every N, and every later M that
the client reached, including its retries and clean-up. Faults that cut or stall a response do so
in its middle. If a job must survive each of the two faults alone, it must also survive both
together.

Cells are as above; a dash means that the first fault ended the job, so no exchange was left.
"""


def page(notes: Iterable[str]) -> str:
    """Return the page for these records, one JSON document each."""
    cells = _cells(notes)
    names = {fault.name for fault in FAULTS}
    runs = sum(sum(ends.values()) for (_, name), ends in cells.items() if name in names)
    text = _HEAD.format(date=dt.date.today(), commit=state(), runs=runs, peer=version("pyodps"))
    text += "| job | " + " | ".join(fault.name for fault in FAULTS) + " |\n"
    text += "|---" * (len(FAULTS) + 1) + "|\n"
    for job in (*JOBS, *PEER_JOBS):
        row = [_cell(cells.get((job.name, fault.name))) for fault in FAULTS]
        text += f"| {job.name} | " + " | ".join(row) + " |\n"
    text += "\n## The faults\n\n"
    text += "".join(f"- **{fault.name}**: {fault.meaning}\n" for fault in FAULTS)
    return text + pairs(cells)


def pairs(cells: Cells) -> str:
    """Return the section about two faults in one run."""
    known = {
        (job.name, one.name, two.name): cells[job.name, pair_name(one, two)]
        for job, one, two in itertools.product(PAIR_JOBS, PAIRED, PAIRED)
        if (job.name, pair_name(one, two)) in cells
    }
    runs = sum(sum(ends.values()) for ends in known.values())
    text = _PAIRS.format(date=dt.date.today(), commit=state(), runs=runs, jobs=len(PAIR_JOBS))
    for job in PAIR_JOBS:
        ends = sum((found for (name, *_), found in known.items() if name == job.name), Counter())
        text += f"\n### Two faults: {job.name}\n\n{_summary(ends)}\n\n"
        text += "| first | " + " | ".join(f"then {fault.name}" for fault in PAIRED) + " |\n"
        text += "|---" * (len(PAIRED) + 1) + "|\n"
        for one in PAIRED:
            row = [_cell(known.get((job.name, one.name, two.name))) for two in PAIRED]
            text += f"| {one.name} | " + " | ".join(row) + " |\n"
    return text


def _cells(notes: Iterable[str]) -> Cells:
    cells: Cells = defaultdict(Counter)
    for line in notes:
        found = json.loads(line)
        cells[found["job"], found["fault"]].update(found["ends"])
    return cells


def _summary(ends: Counter[str]) -> str:
    told = {RIGHT: "gave the right result", REFUSED: "ended in an error and changed nothing"}
    told[UNKNOWN] = "ended in an error that says that the rows may be stored"
    said = [f"{ends[end]:,} {words}" for end, words in told.items() if ends[end]]
    return f"{sum(ends.values()):,} runs: " + ", ".join(said) + "."


def _cell(ends: Counter[str] | None) -> str:
    if not ends:
        return "–"
    others = [f"{ends[end]} {letter}" for end, letter in _LETTERS.items() if letter and ends[end]]
    return f"{sum(ends.values())}" + (f" ({', '.join(others)})" if others else "")


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1]).read_text().splitlines()))
    print(f"written: {PAGE}")
