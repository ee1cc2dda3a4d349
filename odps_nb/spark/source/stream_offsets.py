"""`Offset`: the position of a streaming query, as stored in its checkpoint.

::

    {"table": "42", "version": 7}                        all rows up to version 7
    {…, "initial": true}                                 where a query began; in no checkpoint
    {…, "began": 5}                                      the end of its first batch: (5, 7]
    {…, "snapshot": "<session id>"}                      or: the rows of that read session

Spark writes down where a batch ends, and asks anew where the first one begins. By then "the
newest version" is another one; so the end of a first batch says itself what belongs to it.
A checkpoint is a file that others may read: nothing in it is a key, and the id of a session is
worth nothing without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odps_nb.errors import StateError

__all__ = ["Offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A position between two versions of one table."""

    table: str
    version: int
    initial: bool = False
    began: int | None = None
    snapshot: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, object]) -> Offset:
        """Read an offset from a checkpoint.

        Raises
        ------
        StateError
            It is none of ours.
        """
        table, version = found.get("table"), found.get("version")
        began, snapshot = found.get("began"), found.get("snapshot")
        if (
            not isinstance(table, str)
            or not isinstance(version, int)
            or not isinstance(began, int | None)
            or not isinstance(snapshot, str | None)
        ):
            raise StateError(
                f"{str(dict(found))[:200]} is not an offset of an odps stream",
                hint="this checkpoint belongs to another source: use an empty one",
            )
        return cls(
            table=table,
            version=version,
            initial=found.get("initial") is True,
            began=began,
            snapshot=snapshot,
        )

    def as_json(self) -> dict[str, str | int | bool]:
        """Return the JSON that Spark stores; equal offsets give equal texts."""
        members: dict[str, str | int | bool] = {"table": self.table, "version": self.version}
        if self.initial:
            members["initial"] = True
        if self.began is not None:
            members["began"] = self.began
        if self.snapshot is not None:
            members["snapshot"] = self.snapshot
        return members
