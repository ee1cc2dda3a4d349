"""Run every tutorial as on Binder, and print the time and the peak memory of each.

The environment is created from ``binder/requirements.txt`` only, from a copy of the checkout, with
an empty home; ``binder/postBuild`` and ``binder/start`` run as in the image. A JupyterLab runs
next to each notebook, as for a visitor.

Memory is measured for all processes that ``start`` creates, except the one that runs the cells
instead of a browser. Shared pages are counted once (PSS); file pages are reported separately,
since the system can reclaim them. A notebook that exceeds the limit is stopped and reported.
Address space is not limited, because a JVM reserves far more of it than it uses.

    python tools/on_binder.py [--limit MIB] [NOTEBOOK …]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20
LIMIT = 2048  # MiB, the maximum on mybinder.org

VISIT = """
import secrets, subprocess, sys
import nbformat
from nbclient import NotebookClient
lab = subprocess.Popen(
    [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
     "--ServerApp.port=0", f"--IdentityProvider.token={secrets.token_hex(16)}"],
    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
try:
    notebook = nbformat.read(sys.argv[1], as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
finally:
    lab.terminate()
    lab.wait()
"""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The result of running one notebook, in bytes; ``own``: the peak without file pages."""

    name: str
    seconds: float
    peak: int
    own: int
    outcome: str

    @property
    def row(self) -> str:
        figures = f"{self.seconds:.0f} | {self.peak / MIB:.0f} | {self.own / MIB:.0f}"
        return f"| {self.name} | {figures} | {self.outcome} |"


class Watch(threading.Thread):
    """Measures the memory of all descendants of a process; ends them above a limit in bytes."""

    def __init__(self, pid: int, limit: int) -> None:
        super().__init__(name="watch", daemon=True)
        self.process, self.limit = psutil.Process(pid), limit
        self.peak = self.own = 0
        self.over = threading.Event()
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.2):
            whole, own = self._sum()
            self.peak, self.own = max(self.peak, whole), max(self.own, own)
            if self.peak > self.limit:
                self._kill()
                self.over.set()
                return

    def _kill(self) -> None:
        with suppress(psutil.Error):
            for one in (*self.process.children(recursive=True), self.process):
                with suppress(psutil.Error):
                    one.kill()

    def _sum(self) -> tuple[int, int]:
        whole = own = 0
        with suppress(psutil.Error):
            for one in self.process.children(recursive=True):
                found = _memory(one.pid)
                whole, own = whole + found["Pss"], own + found["Pss_Anon"] + found["Pss_Shmem"]
        return whole, own


def _memory(pid: int) -> Counter[str]:
    """Return the memory figures of a process in bytes, or nothing if it has ended."""
    found: Counter[str] = Counter()
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return found
    for name, *words in (line.split() for line in lines[1:]):
        found[name.rstrip(":")] = int(words[0]) << 10
    return found


def end(process: psutil.Process) -> None:
    """End a process and all its descendants."""
    with suppress(psutil.Error):
        below = [process, *process.children(recursive=True)]
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for one in below:
                with suppress(psutil.Error):
                    one.send_signal(sent)
            _, below = psutil.wait_procs(below, timeout=15)


def tracked(target: Path) -> Path:
    """Copy the tracked files of the checkout."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def environment(folder: Path) -> dict[str, str]:
    """Create the environment of the image in a folder; return its variables."""
    for name in ("home", "tmp"):
        (folder / name).mkdir()
    kept = {
        name: os.environ[name] for name in ("LANG", "LC_ALL", "JAVA_HOME") if name in os.environ
    }
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    variables = {
        **kept,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "PATH": f"{folder / 'env' / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    installing = {"PIP_CACHE_DIR": f"{cache}/pip", **variables, **pip}
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    install = ["pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    python = str(folder / "env" / "bin" / "python")
    requirements = [python, "-m", *install, "-r", "binder/requirements.txt"]
    subprocess.run(requirements, cwd=folder / "repo", env=installing, check=True)
    subprocess.run(["binder/postBuild"], cwd=folder / "repo", env=variables, check=True)
    return variables


def visit(notebook: Path, folder: Path, variables: dict[str, str], limit: int) -> Visit:
    """Run a notebook under ``binder/start``, and end everything that it has started."""
    began = time.monotonic()
    log = folder / f"{notebook.stem}.log"
    with log.open("wb") as said:
        started = subprocess.Popen(
            [str(folder / "repo/binder/start"), "python", "-c", VISIT, notebook.name],
            cwd=notebook.parent,
            env=variables,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        watch = Watch(started.pid, limit)
        watch.start()
        # the service is a child of the process of `start`; find it before that process ends
        below = _below_until_the_end(started, watch)
        watch.done.set()
        watch.join()
    for one in below:
        end(one)
    outcome = "ran" if started.returncode == 0 else "failed"
    if watch.over.is_set():
        outcome = f"more than {limit / MIB:.0f} MiB"
    elif started.returncode:
        print(log.read_text("utf-8", "replace")[-3000:], file=sys.stderr)
    seconds = time.monotonic() - began
    return Visit(
        name=notebook.name, seconds=seconds, peak=watch.peak, own=watch.own, outcome=outcome
    )


def _below_until_the_end(started: subprocess.Popen[bytes], watch: Watch) -> set[psutil.Process]:
    below: set[psutil.Process] = set()
    while started.poll() is None:
        with suppress(psutil.Error):
            below |= set(watch.process.children(recursive=True))
        with suppress(subprocess.TimeoutExpired):
            started.wait(0.5)
    return below


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NOTEBOOK", help="file names; all by default")
    parser.add_argument("--limit", type=int, default=LIMIT, metavar="MIB")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odps_nb_binder_") as place:
        folder = Path(place)
        notebooks = sorted((tracked(folder / "repo") / "notebooks").glob("*.ipynb"))
        chosen = [one for one in notebooks if not options.names or one.name in options.names]
        if len(chosen) < len(options.names):
            parser.error(f"the notebooks are {', '.join(one.name for one in notebooks)}")
        variables = environment(folder)
        print("| notebook | seconds | MiB | without files | |\n|---|--:|--:|--:|---|", flush=True)
        outcomes = []
        for notebook in chosen:
            found = visit(notebook, folder, variables, options.limit * MIB)
            print(found.row, flush=True)
            outcomes.append(found.outcome)
    return 0 if outcomes and set(outcomes) == {"ran"} else 1


if __name__ == "__main__":
    sys.exit(main())
