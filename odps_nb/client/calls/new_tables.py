"""Remembers tables that a connection has just created, which the service may not find at once.

A service may report a new table as missing for some time after it was created; dbt's adapter then
repeats requests for 100 to 150 s. This client repeats only requests for tables that the connection
itself has created, and only until the same service has found the table.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from odps_nb.errors import OdpsNbError, ServiceError
from odps_nb.lifetime import renew_after_fork
from odps_nb.terms import TableName
from odps_nb.wire.calls import WireRequest

WAIT_SECONDS = 60.0
"""Seconds after its creation during which a table that is not found is requested again."""
_SHORTEST, _LONGEST = 0.5, 10.0
SQL = "SQL"
_IN_WIRE = re.compile(r"\bprojects[./](\w+)(?:[./]schemas[./](\w+))?[./]tables[./](\w+)")
_REMOVES = re.compile(r"\b(?:drop|rename)\b", re.IGNORECASE)
# Other error codes of statements that name a table that does not exist yet.
_NUMBERS = re.compile(r"ODPS-(?:0130131|0110061|0130201|0130211|0420111)\b")
_IS_MISSING = re.compile(
    r"(?:not|n't) (?:be )?(?:found|exist|resolved)|NoSuchObject", re.IGNORECASE
)


@dataclass(slots=True, eq=False)
class CreatedTable:
    """A table that this connection created at ``created`` (a time of ``monotonic``)."""

    table: TableName
    created: float
    monotonic: Callable[[], float]
    found_by: set[str] = field(default_factory=set)
    """The services that have found the table."""

    def pause(self, error: OdpsNbError, service: str) -> float | None:
        """Return the seconds to wait before the next request; ``None``: the error is final.

        The pauses grow with the age of the table.
        """
        if service in self.found_by or not self.is_missing(error):
            return None
        age = self.monotonic() - self.created
        left = WAIT_SECONDS - age
        return None if left <= 0 else min(left, _LONGEST, max(_SHORTEST, age / 2))

    def is_missing(self, error: OdpsNbError) -> bool:
        """Return whether the error states that the table does not exist."""
        if not isinstance(error, ServiceError):
            return False
        text = f"{error.code} {error.message}"
        if error.code == "NoSuchTable":
            return True
        is_of_kind = error.code == "NoSuchObject" or _NUMBERS.search(text) is not None
        return is_of_kind and _IS_MISSING.search(text) is not None and self.is_named(error.message)

    def is_named(self, text: str) -> bool:
        """Return whether a text contains the name of the table."""
        return re.search(rf"\b{self.table.table}\b", text, re.IGNORECASE) is not None

    def explain(self, error: OdpsNbError, service: str) -> None:
        """Add a note to an error that states that the new table does not exist."""
        if service not in self.found_by and self.is_missing(error):
            age = self.monotonic() - self.created
            error.add_note(f"this connection created {self.table} {age:.0f} s ago")


class NewTables:
    """The tables that one connection has created recently; thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._tables: dict[tuple[str, ...], CreatedTable] = {}
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Create a new lock, because another thread may have held the old one at the fork."""
        self._lock = threading.Lock()

    def add(self, table: TableName) -> None:
        """Remember a table that was just created."""
        now = self._monotonic()
        with self._lock:
            recent = (
                entry for entry in self._tables.values() if now < entry.created + 2 * WAIT_SECONDS
            )
            self._tables = {_key(entry.table): entry for entry in recent}
            self._tables[_key(table)] = CreatedTable(table, now, self._monotonic)

    def forget(self, table: TableName) -> None:
        """Forget a table that was dropped."""
        with self._lock:
            self._tables.pop(_key(table), None)

    def forget_dropped(self, sql: str) -> None:
        """Forget the tables that a statement may drop or rename."""
        if self._tables and _REMOVES.search(sql):
            for entry in self.named_in(sql):
                self.forget(entry.table)

    def named_in(self, text: str) -> Iterator[CreatedTable]:
        """Iterate over the tables whose names a text contains."""
        with self._lock:
            tables = list(self._tables.values())
        return (entry for entry in tables if entry.is_named(text))

    def found(self, sql: str) -> None:
        """Remember that a statement has found the tables that it names."""
        for entry in self.named_in(sql):
            entry.found_by.add(SQL)

    def of_request(self, wire: WireRequest) -> CreatedTable | None:
        """Return the table of a request, if this connection has just created it."""
        if not self._tables:
            return None
        match = _IN_WIRE.search(wire.target or wire.path)
        if match is None:
            return None
        project, schema, name = match.groups()
        schema = schema or dict(wire.params).get("curr_schema")
        with self._lock:
            return self._tables.get(_folded(project, schema, name))


def _key(table: TableName) -> tuple[str, ...]:
    return _folded(table.project, table.schema, table.table)


def _folded(project: str, schema: str | None, table: str) -> tuple[str, ...]:
    return project.casefold(), (schema or "default").casefold(), table.casefold()
