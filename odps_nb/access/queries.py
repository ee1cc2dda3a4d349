"""`Queries`: the SQL statements that a connection ran in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from odps_nb.access.displayed import Displayed
from odps_nb.errors import CancelledError, RequestTimeoutError, ServiceError, visible
from odps_nb.terms import format_bytes, shorten

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.sql import Result
    from odps_nb.notebook.display.listing import Listing

_SHOWN = 120  # maximum characters of a statement in the list


@dataclass(slots=True, kw_only=True, eq=False)
class Query:
    """One SQL statement that this process sent.

    ``state`` is ``sent`` until this process knows the outcome, then ``success``, ``failed`` or
    ``cancelled``. ``rows`` is set when the result is opened; ``received`` is the number of bytes
    received by reads of the whole result. ``mine`` is false for a job of an explorer or a chart.
    """

    sql: str
    settings: Mapping[str, str] | None = field(repr=False)
    connection: Connection = field(repr=False)
    started: datetime = field(default_factory=lambda: datetime.now().astimezone())
    state: str = "sent"
    seconds: float | None = None
    rows: int | None = None
    received: int = 0
    mine: bool = True
    _began: float = field(default_factory=time.monotonic, repr=False)

    def run(self) -> Result:
        """Run the statement again, with the same settings, and return its result."""
        return self.connection.sql(self.sql, settings=self.settings)

    @contextmanager
    def _watched(self, *, ends: bool = True, cancels: bool = False) -> Iterator[None]:
        """Record the outcome of the block; with ``ends=False``, do not record a success.

        With ``cancels``, an interrupt or time-out is recorded as ``cancelled``.
        """
        try:
            yield
        except (KeyboardInterrupt, RequestTimeoutError):
            if cancels:
                self._end("cancelled")
            raise
        except CancelledError:
            self._end("cancelled")
            raise
        except ServiceError:
            self._end("failed")
            raise
        if ends:
            self._end("success")

    def _end(self, state: str) -> None:
        """Record the outcome, unless one is already recorded."""
        if self.state == "sent":
            self.state, self.seconds = state, time.monotonic() - self._began


class Queries(Displayed, tuple[Query, ...]):
    """Statements, newest first, displayed as a table; ``queries[0].run()`` repeats the newest."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self._listing().text()

    def _static_page(self) -> Mapping[str, str]:
        return self._listing()._static_page()

    def _listing(self) -> Listing:
        from odps_nb.notebook.display.listing import Listing

        return Listing(
            headers=("", "time", "sql", "state", "seconds", "rows", "received"),
            rows=tuple((n, *_facts(query)) for n, query in enumerate(self)),
            # the numbers of a list that is created later are higher
            caption="assign this list to q, and q[N].run() runs statement N again" if self else "",
            empty="no queries yet",
        )


def _facts(query: Query) -> tuple[str, ...]:
    return (
        f"{query.started:%H:%M:%S}",
        shorten(visible(" ".join(query.sql.split())), _SHOWN),
        query.state,
        "" if query.seconds is None else f"{query.seconds:.1f}",
        "" if query.rows is None else f"{query.rows:,}",
        format_bytes(query.received) if query.received else "",
    )
