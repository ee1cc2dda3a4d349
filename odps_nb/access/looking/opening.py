"""Opens a read of a whole table for a person who wants to look at it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from odps_nb.errors import OdpsNbError

if TYPE_CHECKING:
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table

__all__ = ["opened_read"]


def opened_read(table: Table) -> Scan:
    """Return a read of the whole table with its session open, and its columns with comments.

    Both are asked for at the same time.

    Raises
    ------
    NotFoundError
        No such table.
    """

    def ask() -> None:
        with suppress(OdpsNbError):  # the session will tell
            table.schema  # noqa: B018

    asking = threading.Thread(target=ask, name="odps-nb-columns", daemon=True)
    asking.start()
    scan = table.read()
    scan.row_count  # noqa: B018
    asking.join()
    return scan._learn(table.schema)
