"""`Looked`: what is the same when a person looks at a `Scan` and at a `Result`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from odps_nb.access.faces import Explorer
from odps_nb.errors import OdpsNbError, StateError

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table

__all__ = ["Looked", "opened_read"]


class Looked:
    """`explore` and the display in a notebook: base class of `Scan` and `Result`."""

    _connection: Connection

    def explore(
        self, *, rows: int = 100, sample: int = 64_000, seed: int | None = None
    ) -> Explorer:
        """Return a view to page through, filter, sort and search; displays itself in a notebook.

        Pages are fetched when they are looked at; no more than 1 MiB of them is kept.

        Parameters
        ----------
        rows
            Rows of a page.
        sample
            Rows from which columns are described: nulls, distinct values, least and greatest,
            distribution.
        seed
            Makes the choice of the sample repeatable.

        Raises
        ------
        MissingDependencyError
            Without the extra ``notebook``.
        """
        return self._connection.faces.explore(self, rows, sample, seed)

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, Any]:
        return self._connection.faces.rows(self)


def opened_read(table: Table) -> Scan:
    """Return a read of the whole table with its session open, and its columns with comments.

    Both are asked for at the same time.

    Raises
    ------
    NotFoundError
        No such table.
    """

    def ask() -> None:
        with suppress(OdpsNbError, StateError):  # the session will tell
            table.schema  # noqa: B018

    asking = threading.Thread(target=ask, name="odps-nb-columns", daemon=True)
    asking.start()
    scan = table.read()
    scan.row_count  # noqa: B018
    asking.join()
    return scan.learn(table.schema)
