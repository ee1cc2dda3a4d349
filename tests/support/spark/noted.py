"""Digests of plain Spark's results for the fixed queries, so that plain Spark runs only nightly.

A stored result only saves time: a different result is compared with plain Spark itself
(docs/decisions/tests.md). Results are stored for one release of Spark; with another one there are
none, so every result is compared. `ODPS_NB_NOTE=1 pytest -m nightly -k stored_results
tests/spark/pushdown` stores the results again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

_FILE = Path(__file__).with_name("noted.json")
_WRITE = bool(os.environ.get("ODPS_NB_NOTE"))  # read at import: tests run without such variables
_RELEASE = ".".join(pyspark.__version__.split(".")[:2])


def digest(columns: list[str], rows: list[str]) -> str:
    """Return a digest of 16 letters of a query's result; the order of its rows does not count."""
    return hashlib.sha256(repr((columns, sorted(rows))).encode()).hexdigest()[:16]


def noted(group: str) -> Mapping[str, str]:
    """The digests of a group of queries, by query text; empty for another Spark release."""
    known = _known()
    return known["answers"].get(group, {}) if known["spark"] == _RELEASE else {}


def check_notes(group: str, answers: Mapping[str, str]) -> None:
    """Compare the results of plain Spark with the stored ones, or store them if requested."""
    known = _known()
    if _WRITE:
        kept = known["answers"] if known["spark"] == _RELEASE else {}
        known = {"spark": _RELEASE, "answers": {**kept, group: answers}}
        _FILE.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert known["spark"] == _RELEASE, (
        "the results are from another Spark release: store them again"
    )
    assert known["answers"][group] == answers


def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return known
