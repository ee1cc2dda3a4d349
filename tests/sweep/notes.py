"""Records of the sweep's runs: one JSON document per line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["note"]


def note(notes: str | Path, job: str, fault: str, ends: Mapping[str, int]) -> None:
    """Append the outcomes of a job's runs with a fault."""
    with Path(notes).open("a") as file:
        file.write(json.dumps({"job": job, "fault": fault, "ends": ends}) + "\n")
