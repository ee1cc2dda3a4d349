"""Runs cells in a shell with our magics."""

from __future__ import annotations

from IPython.utils.capture import capture_output


def run(shell, text: str):
    """Run a cell and return its value; raise its error."""
    with capture_output() as shown:
        result = shell.run_cell(text)
    shell.user_ns["shown"] = [output.data for output in shown.outputs]
    result.raise_error()
    return result.result


def usage_error(shell, text: str) -> str:
    with capture_output() as shown:
        shell.run_cell(text)
    assert shown.stderr.startswith("UsageError: ")
    assert shown.stderr.count("\n") == 1
    return shown.stderr.removeprefix("UsageError: ").strip()
