"""`Misfit` describes a value that does not fit its type, and `ValueMisfit` is its exception."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.errors import shown as start_of
from odps_nb.schema import OdpsType
from odps_nb.wire.type_text import format_type

MAX_MISFITS = 3
"""Maximum number of values per column to list in an error."""
_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """One value that does not fit its type, or a whole column in which no value fits.

    ``position`` counts from 0 in the array, and is -1 for a whole column. ``path`` is the path to a
    nested value in Python syntax, e.g. ``[1].price``. ``hint`` says what the user can do.
    """

    position: int = -1
    value: str | None = None
    source: str
    target: str
    reason: str = ""
    hint: str
    path: str = ""
    column: str = ""

    @property
    def row(self) -> int | None:
        """The position; ``None`` for a whole column."""
        return None if self.position < 0 else self.position

    def __str__(self) -> str:
        where = self.column if self.row is None else f"{self.column}[{self.row}]"
        value = "" if self.value is None else f" = {self.value}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{where}{self.path}{value} ({self.source} → {self.target}){reason}"


class ValueMisfit(Exception):
    """Error for values that do not fit; holds the first `MAX_MISFITS` of them, by position."""

    def __init__(self, found: Sequence[Misfit]) -> None:
        super().__init__(found[0].reason)
        self.found = tuple(sorted(found, key=lambda misfit: misfit.position)[:MAX_MISFITS])

    def shown_as(self, given: pa.Array) -> ValueMisfit:
        """Return the error with the original values instead of the parsed ones."""
        return ValueMisfit(
            [
                replace(misfit, value=shown(given, misfit.position), source=str(given.type))
                for misfit in self.found
            ]
        )


def refuse(
    array: pa.Array, bad: pa.Array | np.ndarray[Any, Any], target: OdpsType, reason: str, hint: str
) -> None:
    """Raise `ValueMisfit` if ``bad`` marks a non-null value of the array."""
    if not isinstance(bad, np.ndarray):
        bad = bad.fill_null(False).to_numpy(zero_copy_only=False)
    if not bad.any():
        return
    positions = [int(position) for position in np.flatnonzero(bad)[:MAX_MISFITS]]
    raise ValueMisfit(
        [
            Misfit(
                position=position,
                value=shown(array, position),
                source=str(array.type),
                target=format_type(target),
                reason=reason,
                hint=hint,
            )
            for position in positions
        ]
    )


def shown(array: pa.Array, position: int) -> str:
    """Format an array's value for an error message."""
    try:
        return shorten(array[position].as_py())
    except (KeyError, OverflowError, ValueError, pa.ArrowException):
        pass  # Python's dates cover a smaller range than Arrow's, and Python may lack the time zone
    single = array.slice(position, 1)
    if pa.types.is_date32(array.type):
        return f"{single.view(pa.int32())[0].as_py()} days after 1970-01-01"
    try:
        return shorten(single.cast(pa.string())[0].as_py())
    except pa.ArrowException:
        return f"<a {array.type}>"


def shorten(value: object) -> str:
    """Format a value for an error message, truncated if long."""
    if isinstance(value, (bytes, bytearray)):
        return f"<{len(value)} bytes>"
    return start_of(value, _SHOWN)
