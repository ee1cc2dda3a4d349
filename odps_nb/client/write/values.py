"""Picklable values that identify a write session and its closed streams in another process."""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.terms import PartitionSpec, TableName

__all__ = ["StreamReceipt", "WriteSessionRef"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionRef:
    """Identifies a write session in another process; may be pickled."""

    table: TableName
    session_id: str
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    route_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceipt:
    """A closed stream, as a commit needs it; may be pickled. ``size`` is in bytes of Arrow."""

    stream_id: str
    version: int
    rows: int
    size: int
