"""Runs the survey of a corpus in child processes, and runs libmagic on the same files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.corpora import ROOT, folder, require

__all__ = ["note", "surveyed"]

NOTES = os.environ.get("ODPS_NB_CORPORA_NOTES")  # tests cannot see ODPS_ variables


@cache
def surveyed(corpus: str) -> list[dict[str, Any]]:
    """Return the results for each file. If a file crashed the process, ``ended`` says where.

    Raises
    ------
    NoNetworkError
        The corpus is missing and cannot be fetched.
    """
    place = folder(corpus)
    found: list[dict[str, Any]] = []
    first, is_done = 0, False
    while not is_done:
        child = subprocess.run(
            [sys.executable, "-m", "tests.corpora.survey", corpus, str(first)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ODPS_NB_CORPORA": str(place.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        found += [line for line in lines if "mime" in line]
        is_done = lines[-1:] == [{"done": True}]
        if not is_done:
            if not lines:
                raise RuntimeError(f"the survey does not start: {child.stderr[-2000:]}")
            last = [line for line in lines if "begin" in line][-1]
            why = f"{last['stage']}, status {child.returncode}: {child.stderr[-1000:]}"
            found.append({"name": last["name"], "ended": why})
            first = last["begin"] + 1
    whole = [line for line in found if "mime" in line]
    for line, theirs in zip(whole, _libmagic(place, [line["name"] for line in whole]), strict=True):
        line["libmagic"] = theirs
    note({"corpus": corpus, "files": found})
    return found


def _libmagic(place: Path, names: list[str]) -> list[str]:
    """Return the media types that ``file`` detects."""
    require("file", "file")
    told = subprocess.run(
        ["file", "--mime-type", "--brief", "--files-from", "-"],
        input="".join(f"{place / name}\n" for name in names),
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout.splitlines()


def note(facts: dict[str, Any]) -> None:
    """Record facts for the page if `ODPS_NB_CORPORA_NOTES` names a file."""
    if NOTES:
        with Path(NOTES).open("a") as notes:
            notes.write(json.dumps(facts) + "\n")
