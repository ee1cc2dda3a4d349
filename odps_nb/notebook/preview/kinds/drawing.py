"""What each kind of preview takes and gives, as values. Knows no kind and no blob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odps_nb.notebook.display.html import Html

__all__ = [
    "GRID",
    "LIST",
    "SINGLE",
    "Drawing",
    "Excerpt",
    "Size",
    "UnshowableError",
    "clip",
    "count_of",
    "words",
]


class UnshowableError(ValueError):
    """The bytes cannot be drawn as what they are; the message is one line for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """The first bytes of a blob; ``whole`` when they are all, ``size`` of all if known.

    ``verified``: they are all, and their checksums were compared.
    """

    data: bytes
    whole: bool
    size: int | None = None
    verified: bool = False

    def __repr__(self) -> str:
        return f"Excerpt(<{len(self.data)} of {self.size} bytes>, whole={self.whole})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much room a preview has.

    Attributes
    ----------
    layout
        ``tile`` among others, ``row`` with its caption beside it, or ``single``.
    width, height
        Bounds of a picture, in CSS pixels.
    rows, columns
        Bounds of a table.
    lines
        Bound of a text.
    """

    layout: Literal["tile", "row", "single"]
    width: int
    height: int
    rows: int
    columns: int
    lines: int

    @property
    def box(self) -> str:
        """Style of a box that scrolls: among other tiles all are of one height."""
        return f"{'max-height' if self.layout == 'single' else 'height'}:{self.height}px"


GRID = Size(layout="tile", width=256, height=176, rows=7, columns=6, lines=14)
LIST = Size(layout="row", width=240, height=120, rows=4, columns=6, lines=8)
SINGLE = Size(layout="single", width=720, height=480, rows=20, columns=20, lines=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn preview: markup, facts for the caption (``480 × 360``), a one-line note."""

    html: Html
    facts: tuple[str, ...] = ()
    note: str = ""


def clip(text: str, limit: int) -> str:
    """Return at most ``limit`` characters, with an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def count_of(count: int, thing: str) -> str:
    """Return ``1 line``, ``2 lines``, ``1,000 lines``."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())
