"""How a read shows its text: as text that must be UTF-8, with replacement, or as bytes."""

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
    """

    mode: TextMode
    columns: tuple[Column, ...] | None
    place: Callable[[int], tuple[str, int]]
