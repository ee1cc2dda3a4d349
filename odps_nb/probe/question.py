"""A question to the real service as a value, and the verdict on what was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odps_nb.probe.asking import Asker

AS_ASSUMED = "as assumed"
STATEMENT_REQUESTS, STATEMENT_SECONDS = 80, 60.0
"""Requests and seconds allowed per SQL statement: it is sent, polled, and its rows are read."""
POLLS = 30
"""Additional requests allowed per question while the service prepares its sessions."""

Observation = dict[str, object]
"""What was observed, as plain JSON; it does not depend on the table used."""


_Ask = Callable[["Asker"], Observation]


class CannotTell(Exception):
    """The question cannot be answered here; the text says why, without names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question about the behaviour of the real service.

    Parameters
    ----------
    id
        Its stable name in reports, tests and ``docs/open-questions.md``.
    text
        The question; what odps_nb assumes is ``expected``.
    ask
        Sends the requests and returns what was seen; may raise `CannotTell`.
    expected
        What is seen where the assumption holds; a tuple lists several values that are as assumed.
        Other members of an observation are recorded only.
    needs
        Tables that it uses: ``table`` is the user's own; others are made (`scratch.KINDS`), which
        needs ``--write``.
    requests, statements, rows, seconds
        Bounds: Storage API requests, SQL statements, rows received, and seconds without SQL.
    embedded
        Whether the embedded service answers as MaxCompute does; its SQL is DuckDB's.
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
        """Whether tables are made for it, so that it is asked only with ``--write``."""
        return any(need != "table" for need in self.needs)

    @property
    def request_bound(self) -> int:
        """Maximum number of HTTP requests, including those of SQL and of waiting."""
        return self.requests + POLLS + STATEMENT_REQUESTS * self.statements

    @property
    def second_bound(self) -> float:
        """Maximum number of seconds, including those of SQL."""
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
        """Return the question with its bounds, as ``--list`` prints it."""
        tables = f"; makes the table {', '.join(self.needs)}" if self.writes else ""
        return (
            f"{self.id}: {self.text}\n"
            f"    at most {self.requests} requests, {self.statements} statements of SQL,"
            f" {self.rows} rows, {self.second_bound:g} seconds{tables}"
        )


class Questions(list[Question]):
    """The questions of one module, in the order in which they are asked."""

    def asks(
        self,
        text: str,
        expected: Mapping[str, object],
        *needs: str,
        id: str = "",
        **more: Any,
    ) -> Callable[[_Ask], _Ask]:
        """Append a question that the decorated function asks; its id is the function's name."""

        def add(ask: _Ask) -> _Ask:
            name = id or ask.__name__.strip("_").replace("_", "-")
            facts = {"text": text, "expected": expected, "needs": needs, **more}
            self.append(Question(id=name, ask=ask, **facts))
            return ask

        return add
