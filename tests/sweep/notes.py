"""What the sweep notes of its runs: a JSON document a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["note"]


def note(notes: str | Path, job: str, fault: str, ends: Mapping[str, int]) -> None:
    """Append how the runs of a job with a fault ended."""
    with Path(notes).open("a") as file:
        file.write(json.dumps({"job": job, "fault": fault, "ends": ends}) + "\n")
