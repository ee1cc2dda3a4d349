"""Runs scripts in separate processes, without the import time of each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

#: Modules that scripts for a service import in any case.
IMPORTS = """
import json, os, signal, sys, threading, warnings
import pyarrow as pa
import odps_nb
from odps_nb.access import blob, connection, scan, sql
from odps_nb.access.blobs import many
from odps_nb.access.writing import open_write
from odps_nb.client.read import splits
from odps_nb.client.write import session
from odps_nb.http import transport
"""
_FORKING = """
for line in sys.stdin:
    script, arguments, *outputs = json.loads(line)
    if not os.fork():
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.exit()
for number, path in enumerate([os.devnull, *outputs]):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
sys.argv[1:] = arguments
signal.alarm(100)
exec(script)
"""


class Forking:
    """An interpreter whose forked children run scripts; use it in a ``with`` block.

    A script is the last code that its process runs; then the interpreter exits.
    """

    def __init__(self) -> None:
        command = [sys.executable, "-c", IMPORTS + _FORKING]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a script as ``python -c`` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            outputs = [Path(folder, name) for name in ("output", "errors")]
            job = json.dumps([script, arguments, *map(str, outputs)])
            self._process.stdin.write(f"{job}\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            texts = [path.read_text() for path in outputs]
        return subprocess.CompletedProcess(script, status, *texts)

    def __enter__(self) -> Forking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=100)
        assert self._process.returncode == 0
