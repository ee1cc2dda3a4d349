"""What plain Spark answers to the fixed queries, noted as digests, so that it runs them at night.

A note only saves time: an answer that is not the noted one is compared with plain Spark itself
(docs/decisions/2026-11-22-answers-of-plain-spark-are-noted.md).
`ODPS_NB_NOTE=1 pytest -m nightly -k noted tests/spark/pushdown` writes the notes anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).with_name("noted.json")
_WRITE = bool(os.environ.get("ODPS_NB_NOTE"))  # looked at now: tests run without such variables


def digest(columns: list[str], rows: list[str]) -> str:
    """Say in 16 letters what a query gave; the order of its rows does not count."""
    return hashlib.sha256(repr((columns, sorted(rows))).encode()).hexdigest()[:16]


def noted(group: str) -> Mapping[str, str]:
    """The digests of a group of queries, by the text of each."""
    known: dict[str, dict[str, str]] = json.loads(_FILE.read_text("utf-8"))
    return known.get(group, {})


def check_notes(group: str, answers: Mapping[str, str]) -> None:
    """Hold what plain Spark answered now against the notes; write them instead where asked to."""
    if _WRITE:
        known = json.loads(_FILE.read_text("utf-8"))
        text = json.dumps({**known, group: answers}, indent=1, ensure_ascii=False)
        _FILE.write_text(text + "\n", "utf-8")
    assert noted(group) == answers
