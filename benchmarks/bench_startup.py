"""Times before the first row in a notebook: imports, the magics, the embedded service.

``python -m benchmarks.bench_startup``. Each round is a new process; the time of the interpreter or
of IPython alone is subtracted. Files are in the system's cache, and the samples are built.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from benchmarks._measure import Case, Comparison, compare, header, judged, summary

IMPORT, LOAD_EXT, FIRST_ROW = 0.1, 0.3, 3.0  # goals, in seconds
ROUNDS = 7
_SHELL = "from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell()"
_ROW = """
import odps_nb
with odps_nb.connect("local") as odps:
    assert len(odps.table("orders").head(1)) == 1
"""


def child(code: str) -> Callable[[], object]:
    """Return a function that runs code in a new interpreter."""
    return lambda: subprocess.run([sys.executable, "-c", code], check=True)


def judge(what: str, result: Comparison, goal: float) -> None:
    """Print the time of the first case minus that of the last one, which is the baseline."""
    ours, *_, alone = result.seconds.values()
    met = judged(f"{what}: {(ours - alone) * 1e3:.0f} ms", ours - alone <= goal)
    print(f"  {met}  {what} {(ours - alone) * 1e3:.0f} ms (≤ {goal * 1e3:.0f} ms)")


def main() -> int:
    """Run the benchmark; return the number of missed goals."""
    header("start: each round in a new process")
    nothing = Case("the interpreter alone", child("pass"))
    peer = Case("pyodps: import odps", child("import odps"))
    ours = Case("odps_nb: import odps_nb", child("import odps_nb"))
    judge("import odps_nb", compare("import", ours, peer, nothing, rounds=ROUNDS), IMPORT)
    load = Case(
        "%load_ext odps_nb", child(f"{_SHELL}; shell.run_line_magic('load_ext', 'odps_nb')")
    )
    shell = Case("IPython alone", child(_SHELL))
    judge("%load_ext odps_nb", compare("magics", load, shell, rounds=ROUNDS), LOAD_EXT)
    row = Case('connect("local"), table, first row', child(_ROW))
    judge("first row", compare("first row of the embedded service", row, nothing), FIRST_ROW)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
