"""How a read gives its text: strict, replaced or as bytes; CHAR padded or stripped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odps_nb.schema import Column
from odps_nb.terms import TextMode

__all__ = ["TextForm"]


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of text in one stream of rows.

    Parameters
    ----------
    mode
        What becomes of text that is not UTF-8.
    columns
        The columns that are shown, text as BINARY where it is wanted as bytes. ``None``: unknown.
    place
        Names a row of the stream for an error, in words and as a number.
    stripped
        Columns with their types on the wire, whose CHAR values lose the blanks at their end.
    """

    mode: TextMode
    columns: tuple[Column, ...] | None
    place: Callable[[int], tuple[str, int]]
    stripped: tuple[Column, ...] = ()
