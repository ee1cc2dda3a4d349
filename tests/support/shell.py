"""Runs cells in a shell with our magics."""

from __future__ import annotations

import re

from IPython.utils.capture import capture_output


def run(shell, text: str):
    """Run a cell and return its value; raise its error."""
    with capture_output() as shown:
        result = shell.run_cell(text)
    shell.user_ns["shown"] = [output.data for output in shown.outputs]
    result.raise_error()
    return result.result


def usage_error(shell, text: str) -> str:
    """Run a cell that is refused, and return the only line that it shows, an error output."""
    with capture_output() as shown:
        shell.run_cell(text)
    assert not shown.stderr
    line = re.sub(r"\x1b\[\d*m", "", shown.stdout)
    assert line.startswith("UsageError: ")
    assert line.count("\n") == 1
    return line.removeprefix("UsageError: ").strip()
