"""Parses the past version that a query names after a table: VERSION AS OF, TIMESTAMP AS OF."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import place_of

_BETWEEN = re.compile(r"\b(timestamp|version)\s+between\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PastVersion:
    """A version of a table, or a time in epoch seconds."""

    version: int | None
    at: float = 0.0


def moment_of(table: Any, timezone: str) -> PastVersion | None:
    """Return the version or time after a table's name, or ``None``; raise 400 if not constant."""
    version = table.args.get("version")
    if version is None:
        return None
    kind, value = f"{version.this} {version.args.get('kind')}", version.expression
    if isinstance(value, exp.Cast):  # timestamp '2024-01-31 00:00:00'
        value = value.this
    if kind == "VERSION AS OF" and isinstance(value, exp.Literal) and value.is_int:
        return PastVersion(int(value.this))
    if kind != "TIMESTAMP AS OF" or not (isinstance(value, exp.Literal) and value.is_string):
        raise errors.lacks(f"{kind} an expression", is_sure=True, at=place_of(table.this))
    try:
        local = datetime.fromisoformat(value.this)
    except ValueError:
        raise errors.semantic(
            f"{value.this!r} is not a time", at=place_of(table.this), advice="write a constant time"
        ) from None
    return PastVersion(
        None, (local if local.tzinfo else local.replace(tzinfo=ZoneInfo(timezone))).timestamp()
    )


def check_no_range(text: str) -> None:
    """Raise 400 if the text reads the changes between two versions or times."""
    if match := _BETWEEN.search(text):
        before = text[: match.start()].split("\n")
        at = len(before), len(before[-1]) + 1
        raise errors.lacks(f"{match[1].upper()} BETWEEN after a table", is_sure=True, at=at)
