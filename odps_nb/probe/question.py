"""A question to the real service as a value, and the verdict on an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.probe.asking import Asker

AS_ASSUMED = "as assumed"
STATEMENT_REQUESTS, STATEMENT_SECONDS = 80, 60.0
"""Requests allowed per SQL statement: it is sent, polled, and its rows are read."""
POLLS = 30
"""Additional requests allowed per question while the service prepares its sessions."""

Observation = dict[str, object]
"""What was observed, as plain JSON; it does not depend on the table used."""


class CannotTell(Exception):
    """The question cannot be answered here; the text says why, without names."""


class OneOf(tuple[object, ...]):
    """Several values, any of which is as assumed."""

    __slots__ = ()

    def __str__(self) -> str:
        return " or ".join(repr(one) for one in self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question about the behaviour of the real service.

    Parameters
    ----------
    id
        Its stable name in reports, tests and ``docs/open-questions.md``.
    text, assumes
        The question, and in one sentence what odps_nb takes for granted.
    ask
        Sends the requests and returns what was seen; may raise `CannotTell`.
    sends
        The actions of these requests, for a person who wants to know before.
    expected
        What is seen where the assumption holds. Other members of an observation are recorded, and
        say nothing for or against it.
    needs
        Tables to have: ``table`` is the person's own, others are made (`scratch.KINDS`). One that
        is made is only made where writing is allowed.
    requests, statements, rows
        Bounds: requests of the Storage API, statements of SQL, and rows that may come.
    seconds
        How long all of it may take, without the statements.
    embedded
        Whether the embedded service has an opinion: its SQL is DuckDB's, and not everywhere
        MaxCompute's.
    """

    id: str
    text: str
    assumes: str
    ask: Callable[[Asker], Observation]
    sends: str
    expected: Mapping[str, object]
    needs: tuple[str, ...] = ()
    requests: int = 8
    statements: int = 0
    rows: int = 1000
    seconds: float = 60.0
    embedded: bool = True

    @property
    def writes(self) -> bool:
        """Whether tables are made for it, so that it is asked only with ``--write``."""
        return any(need != "table" for need in self.needs)

    @property
    def request_bound(self) -> int:
        """HTTP requests at most, those of SQL and of waiting included."""
        return self.requests + POLLS + STATEMENT_REQUESTS * self.statements

    @property
    def second_bound(self) -> float:
        """Seconds at most, those of SQL included."""
        return self.seconds + STATEMENT_SECONDS * self.statements

    def verdict(self, seen: Observation) -> str:
        """Return ``as assumed``, or ``differs: …`` with the observation."""
        wrong = []
        for key, assumed in self.expected.items():
            found = seen.get(key)
            if found not in assumed if isinstance(assumed, OneOf) else found != assumed:
                said = assumed if isinstance(assumed, OneOf) else repr(assumed)
                wrong.append(f"{key} is {found!r}, assumed {said}")
        return f"differs: {'; '.join(wrong)}" if wrong else AS_ASSUMED

    def as_line(self) -> str:
        """Return the question with its bounds, as ``--list`` prints it."""
        bounds = f"{self.requests} requests, {self.statements} statements of SQL"
        bounds += f", {self.rows} rows, {self.second_bound:g} seconds"
        made = ", ".join(need for need in self.needs if need != "table")
        tables = f"; makes the table {made}" if made else ""
        return (
            f"{self.id}: {self.text}\n    assumed: {self.assumes}\n"
            f"    sends: {self.sends}; at most {bounds}{tables}"
        )
