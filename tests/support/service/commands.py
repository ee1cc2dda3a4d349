"""Runs ``odps-nb serve`` several times in one process, to test how it rejects options."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: Status, output, lines on stderr.
Ended = tuple[int, str, list[str]]

_SERVE = """
import contextlib, io, json, sys
from odps_nb.cli import main
for options in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = main(["serve", "--json", "--no-samples", *options])
    print(json.dumps([status, out.getvalue(), errors.getvalue().splitlines()]))
"""


def serve_each(*options: Sequence[str | Path]) -> list[Ended]:
    """Run the command with each of these options, which it rejects; return how each run ended.

    All commands run in one process, because starting one takes longer than the rejections.
    """
    each = json.dumps([list(map(str, one)) for one in options])
    command = [sys.executable, "-c", _SERVE, each]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return [
        (status, out, lines) for status, out, lines in map(json.loads, done.stdout.split("\n")[:-1])
    ]


def check_refusal(ended: Ended, expected: str) -> None:
    """Check that the command ended with status 1 and printed only this text and a hint."""
    status, output, lines = ended
    assert (status, output) == (1, "")
    assert [line.partition(":")[0] for line in lines] == ["ConfigError", "to do"], lines
    assert expected in lines[0]
