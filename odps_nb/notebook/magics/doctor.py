"""``%odps doctor``: the checks of `odps_nb.access.doctor` as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odps_nb.access import doctor
from odps_nb.notebook.display.listing import Listing

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["examine"]

_STATES = {"ok": "ok", "optional": "–", "bad": "fix"}


def examine(connect: Callable[[], Connection]) -> Listing:
    """Return one row per check: what, state, found, to do.

    Parameters
    ----------
    connect
        Gives the connection in use; its failure is a row, too.
    """
    rows = tuple(
        (check.name, _STATES[check.verdict], check.found, check.to_do)
        for check in doctor.examine(lambda: connect().profile)
    )
    return Listing(headers=("check", "", "found", "to do"), rows=rows)
