"""Keeps names and secrets out of reports.

Only selected members of a response are recorded. In requests, each name is replaced by a
placeholder, which stays the same throughout a report.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SHOWN_MEMBERS = {
    *("SessionStatus", "SplitMode", "SplitsCount", "SplitBucketId", "RecordCount", "LatestVersion"),
    *("EnableLargeString", "SupportedDataFormat", "IncrementalReadOptions", "Status", "status"),
    *("RowOffset", "ExactlyOnceRowOffset", "Streams", "SchemaVersion"),
}
"""Response members to record with their values. Only the names of other members are recorded."""
SHOWN_HEADERS = ("content-type", "content-encoding", "transfer-encoding", "retry-after")
_WORD = re.compile(r"[A-Za-z0-9_./:;, =-]{0,60}")
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,60}")


class Redactor:
    """Replaces names and secrets with placeholders such as ``<table>`` or ``<session-1>``."""

    def __init__(self) -> None:
        self._placeholders: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._row_counts: set[int] = set()

    def hide(self, text: str | None, placeholder: str) -> None:
        """Replace ``text`` with ``placeholder`` from now on; ignore empty text."""
        if text:
            self._placeholders.setdefault(text.lower(), f"<{placeholder}>")

    def number(self, text: object, kind: str) -> None:
        """Replace each new string with ``<kind-1>``, ``<kind-2>``, … from now on."""
        if isinstance(text, str) and text and text.lower() not in self._placeholders:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._placeholders[text.lower()] = f"<{kind}-{self._counts[kind]}>"

    def text(self, text: str) -> str:
        """Return the text with placeholders; longer names are replaced first."""
        names = sorted(self._placeholders, key=len, reverse=True)
        if not names:
            return text
        pattern = "|".join(_as_word(name) for name in names)
        return re.sub(
            pattern, lambda match: self._placeholders[match[0].lower()], text, flags=re.IGNORECASE
        )

    def value(self, value: Any) -> Any:
        """Return JSON values with placeholders in strings; keep keys, which are protocol names."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        if not isinstance(value, bool) and value in self._row_counts:
            return "<rows>"
        return value

    def learn_schema(self, members: Mapping[str, Any]) -> None:
        """Hide the columns and row count in a response about the user's table."""
        schema = members.get("DataSchema")
        for key in ("DataColumns", "PartitionColumns"):
            for column in schema.get(key) or [] if isinstance(schema, Mapping) else []:
                self.number(column.get("Name"), "column")
        rows = members.get("RecordCount")
        if isinstance(rows, int) and rows > 1:
            self._row_counts |= {rows - 1, rows, rows + 1}


def shown_members(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return a response's member names, with the values that may be shown."""
    shown = {key: _plain(value) for key, value in members.items() if key in SHOWN_MEMBERS}
    return {**shown, "others": sorted(set(members) - set(shown))}


def shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be shown."""
    lowered = {key.lower(): value for key, value in headers.items()}
    return {
        key: lowered[key]
        for key in SHOWN_HEADERS
        if key in lowered and _WORD.fullmatch(lowered[key])
    }


def shown_code(code: str | None) -> str | None:
    """Return an error code, or ``"<no code>"`` if it is malformed; ``None`` stays ``None``."""
    return code if code is None or _CODE.fullmatch(code) else "<no code>"


def _as_word(name: str) -> str:
    """Return a pattern that matches only whole names: ``a`` does not match part of ``Table``."""
    start = r"(?<!\w)" if name[0].isalnum() or name[0] == "_" else ""
    end = r"(?!\w)" if name[-1].isalnum() or name[-1] == "_" else ""
    return start + re.escape(name) + end


def _plain(value: Any) -> Any:
    """Return numbers, booleans and short words unchanged; hide anything else."""
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) else "<text>"
    if isinstance(value, Mapping):
        return {str(key)[:60]: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value[:50]]
    return value if isinstance(value, (int, float, bool)) or value is None else "<other>"
