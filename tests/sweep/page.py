"""Writes `docs/single-faults.md` from what a run of the sweep noted: `make sweep`.

python -m tests.sweep.page FILE
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from tests.sweep.jobs import JOBS
from tests.sweep.outcomes import CHANGED, ENDED, FAULTS, REFUSED, RIGHT, UNKNOWN, WRONG
from tests.sweep.peer import PEER_JOBS

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "single-faults.md"
_LETTERS = {RIGHT: "", REFUSED: "e", UNKNOWN: "d", ENDED: "i", WRONG: "**w**", CHANGED: "**c**"}
_HEAD = """# Every single fault

Written by `make sweep` ({date}, {runs:,} runs). Each job ran with each fault at its first exchange
with the service, at its second, and so on until none was left to break; where an answer can break
in several places (in its head, at each message of an Arrow stream and inside each), in each of
them. The service was the embedded one, over sockets.

A cell says how many runs there were, and how those ended that did not give the right result:

- **e**: a typed error, and nothing is changed
- **d**: a typed error that says that the commit or statement may have been done
  (`error.in_doubt`), or that the new table is left; all of it is there, or nothing
- **i**: interrupted by Ctrl-C, and all of it is there, or nothing
- **–**: there is no such thing: a job that writes no file sees no full disk, and HTTP lets nobody
  deliver the POST of a SQL statement twice

A run that ends in any other way (a row lost, a row twice, half a commit, an error without a type,
a success that is none) fails its test, and then this page is not written.

The last rows are of the stock pyodps {peer}, with its own retries and no delay between them. It was
not sent faults that last until a client has waited. There, **e** is any exception, and there is
also **w**: success, and rows or bytes are missing, wrong or doubled; **c**: an exception, though
the rows are there.

Rows of a table have no checksum on the wire: nobody can see that a value inside a row is damaged.
What is flipped here are envelopes of messages, documents, and blobs.

"""


def page(notes: Iterable[str]) -> str:
    """Return the page of these notes, one JSON document each."""
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for line in notes:
        found = json.loads(line)
        cells[found["job"], found["fault"]].update(found["ends"])
    runs = sum(sum(ends.values()) for ends in cells.values())
    text = _HEAD.format(date=dt.date.today(), runs=runs, peer=version("pyodps"))
    text += "| job | " + " | ".join(fault.name for fault in FAULTS) + " |\n"
    text += "|---" * (len(FAULTS) + 1) + "|\n"
    for job in (*JOBS, *PEER_JOBS):
        row = [_cell(cells.get((job.name, fault.name))) for fault in FAULTS]
        text += f"| {job.name} | " + " | ".join(row) + " |\n"
    text += "\n## The faults\n\n"
    return text + "".join(f"- **{fault.name}**: {fault.meaning}\n" for fault in FAULTS)


def _cell(ends: Counter[str] | None) -> str:
    if not ends:
        return "–"
    others = [f"{ends[end]} {letter}" for end, letter in _LETTERS.items() if letter and ends[end]]
    return f"{sum(ends.values())}" + (f" ({', '.join(others)})" if others else "")


if __name__ == "__main__":
    PAGE.write_text(page(Path(sys.argv[1]).read_text().splitlines()))
    print(f"written: {PAGE}")
