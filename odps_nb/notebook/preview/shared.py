"""Values that previews and their parsers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

#: First bytes of an ASF file (WMA, WMV).
ASF: Final = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
#: What it has in its header where one of its streams is a film (ASF 1.2, 10.4).
ASF_FILM: Final = bytes.fromhex("c0ef19bc4d5bcf11a8fd00805f5c442b")

#: What the refusal of a film or a sound begins with that a browser may still play.
OTHER_CODEC: Final = "not decoded here: its codec is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much space a preview has.

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
        """CSS height of a box that scrolls; tiles of one gallery have the same height."""
        return f"{'max-height' if self.layout == 'single' else 'height'}:{self.height}px"


GRID = Size(layout="tile", width=256, height=176, rows=7, columns=6, lines=14)
LIST = Size(layout="row", width=240, height=120, rows=4, columns=6, lines=8)
SINGLE = Size(layout="single", width=720, height=480, rows=20, columns=20, lines=60)


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def length_of(seconds: float) -> str:
    """Return a length of time: ``1:02:03``, ``2:03``, or ``0.25 s``."""
    if seconds < 1:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
