"""A question about the real service, and the verdict on its observed behaviour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odps_nb.probe.asking import Asker

AS_ASSUMED = "as assumed"
STATEMENT_REQUESTS, STATEMENT_SECONDS = 80, 60.0
"""Limits for one SQL statement: requests (submit, poll, read rows), and seconds."""
ANY = "any"
"""Kind of table for a question that needs no rows: the user's, or a new empty one."""
POLLS = 30
"""Additional requests allowed per question while the service prepares sessions."""

Observation = dict[str, object]
"""Observed behaviour as JSON values, independent of the table used."""


_Ask = Callable[["Asker"], Observation]


class CannotTell(Exception):
    """The question cannot be answered; the message says why, without user data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question about the real service's behaviour.

    Parameters
    ----------
    id
        The question's stable name in reports, tests and ``docs/open-questions.md``.
    text
        The question in words.
    ask
        Function that sends the requests and returns the observation; may raise `CannotTell`.
    expected
        The members of the observation that odps_nb assumes; a tuple lists several allowed values.
        Other members are recorded but not compared.
    needs
        Kinds of table to use. ``table`` and `ANY` are the user's table, if there is one; the probe
        creates the others (`scratch.KINDS`), which requires ``--write``.
    requests, statements, rows, seconds
        Limits: Storage API requests, SQL statements, rows received, and seconds excluding SQL.
    embedded
        Whether the embedded service, whose SQL engine is DuckDB, behaves like MaxCompute in this
        respect.
    """

    id: str
    text: str
    ask: _Ask
    expected: Mapping[str, object]
    needs: tuple[str, ...] = ()
    requests: int = 16
    statements: int = 0
    rows: int = 1000
    seconds: float = 60.0
    embedded: bool = True

    @property
    def writes(self) -> bool:
        """Whether the question needs tables that the probe creates, which requires ``--write``."""
        return any(need not in ("table", ANY) for need in self.needs)

    @property
    def request_bound(self) -> int:
        """Maximum number of HTTP requests, including those for SQL and polling."""
        return self.requests + POLLS + STATEMENT_REQUESTS * self.statements

    @property
    def second_bound(self) -> float:
        """Maximum number of seconds, including those for SQL."""
        return self.seconds + STATEMENT_SECONDS * self.statements

    def verdict(self, seen: Observation) -> str:
        """Return ``as assumed``, or ``differs: …`` with the observation."""
        wrong = []
        for key, assumed in self.expected.items():
            choices = assumed if isinstance(assumed, tuple) else (assumed,)
            if seen.get(key) not in choices:
                wrong.append(
                    f"{key} is {seen.get(key)!r}, assumed {' or '.join(map(repr, choices))}"
                )
        return f"differs: {'; '.join(wrong)}" if wrong else AS_ASSUMED

    def as_line(self) -> str:
        """Format the question with its limits, for ``--list``."""
        tables = f"; creates the table {', '.join(self.needs)}" if self.writes else ""
        return (
            f"{self.id}: {self.text}\n"
            f"    at most {self.requests} requests, {self.statements} SQL statements,"
            f" {self.rows} rows, {self.second_bound:g} seconds{tables}"
        )


class Questions(list[Question]):
    """One module's questions, in the order in which they are asked."""

    def asks(
        self,
        text: str,
        expected: Mapping[str, object],
        *needs: str,
        id: str = "",
        **more: Any,
    ) -> Callable[[_Ask], _Ask]:
        """Return a decorator that appends a question, named after the decorated function."""

        def add(ask: _Ask) -> _Ask:
            name = id or ask.__name__.strip("_").replace("_", "-")
            facts = {"text": text, "expected": expected, "needs": needs, **more}
            self.append(Question(id=name, ask=ask, **facts))
            return ask

        return add
