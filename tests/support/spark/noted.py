"""Results of plain Spark for the fixed queries, stored as digests, so that it runs only at night.

A note only saves time: an answer that is not the noted one is compared with plain Spark itself
(docs/decisions/tests.md). Notes are of one release of Spark;
with another one there are none, so every answer is compared.
`ODPS_NB_NOTE=1 pytest -m nightly -k noted tests/spark/pushdown` writes the notes anew.
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
_WRITE = bool(os.environ.get("ODPS_NB_NOTE"))  # looked at now: tests run without such variables
_RELEASE = ".".join(pyspark.__version__.split(".")[:2])


def digest(columns: list[str], rows: list[str]) -> str:
    """Say in 16 letters what a query gave; the order of its rows does not count."""
    return hashlib.sha256(repr((columns, sorted(rows))).encode()).hexdigest()[:16]


def noted(group: str) -> Mapping[str, str]:
    """The digests of a group of queries, by the text of each; none where Spark is another one."""
    known = _known()
    return known["answers"].get(group, {}) if known["spark"] == _RELEASE else {}


def check_notes(group: str, answers: Mapping[str, str]) -> None:
    """Hold what plain Spark answered now against the notes; write them instead where asked to."""
    known = _known()
    if _WRITE:
        kept = known["answers"] if known["spark"] == _RELEASE else {}
        known = {"spark": _RELEASE, "answers": {**kept, group: answers}}
        _FILE.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert known["spark"] == _RELEASE, "the notes are of another Spark: write them anew"
    assert known["answers"][group] == answers


def _known() -> dict[str, Any]:
    known: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return known
