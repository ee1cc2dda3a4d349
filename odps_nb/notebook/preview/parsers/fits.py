"""FITS (astronomy): the header cards, and the first image in grey.

In FITS 4.0, each unit is a header and big-endian data, padded to blocks of 2880 bytes. A header is
a sequence of 80-character cards up to ``END``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.preview.parsers import picture
from odps_nb.notebook.preview.parsers.depth import grey
from odps_nb.notebook.preview.shared import Size, answer
from odps_nb.parsing.reasons import DAMAGED
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_BLOCK: Final = 2880
_CARD: Final = 80
_CARDS: Final = 4000
_UNITS: Final = 32
_TYPES: Final = {8: ">u1", 16: ">i2", 32: ">i4", 64: ">i8", -32: ">f4", -64: ">f8"}
_Card = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A header, and the offset of its data."""

    cards: list[_Card]
    values: dict[str, str]
    begins: int

    def number(self, name: str, default: int = 0) -> int:
        return int(self.values.get(name) or default)

    @property
    def shape(self) -> tuple[int, ...]:
        """Axis lengths in NumPy's order: the last axis varies fastest."""
        axes = range(min(self.number("NAXIS"), 999), 0, -1)
        extents = tuple(self.number(f"NAXIS{axis}") for axis in axes)
        if min(extents, default=0) < 0:
            raise UnshowableError("an extent is negative")
        return extents

    @property
    def kind(self) -> str:
        return self.values.get("XTENSION", "IMAGE").strip()

    @property
    def length(self) -> int:
        """Size of the data in bytes, without the padding of the last block."""
        if not self.shape:
            return 0
        width = abs(self.number("BITPIX")) // 8
        return width * self.number("GCOUNT", 1) * (self.number("PCOUNT") + math.prod(self.shape))


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return facts and the first image; without an image, facts and the header cards."""
    whole, size = options["whole"], Size(**options["size"])
    units = _units(data, all_of_it=whole)
    with_data = next((unit for unit in units if unit.length), units[0])
    shown = next((unit for unit in units if _is_picture(unit)), with_data)
    shape = " × ".join(str(extent) for extent in reversed(shown.shape)) or "no data"
    if shown.kind in ("BINTABLE", "TABLE"):
        shape = f"table of {count_of(shown.number('NAXIS2'), 'row')}"
    facts = [shape, *([f"{len(units)} units"] if len(units) > 1 else [])]
    note = ""
    if _is_picture(shown) and whole:
        try:
            return answer(facts, picture.thumbnail(_drawn(data, shown), size))
        except (MissingDependencyError, UnshowableError) as error:
            note = str(error)
    head, rows = ("card", "value", "comment"), shown.cards[: size.rows * 10]
    return answer(facts, note=note, head=head, rows=rows)


def _units(data: bytes, *, all_of_it: bool) -> list[_Unit]:
    found: list[_Unit] = []
    at = 0
    while at < len(data) and len(found) < _UNITS:
        try:
            unit = _header(data, at)
            following = unit.begins + -(-unit.length // _BLOCK) * _BLOCK
        except ValueError:
            if found:
                break  # ignore anything after the last unit
            if all_of_it:
                raise
            raise UnshowableError("its header ends after the part that was read") from None
        found.append(unit)
        if not all_of_it or following <= at:
            break
        at = following
    return found


def _header(data: bytes, start: int) -> _Unit:
    cards: list[_Card] = []
    for at in range(start, min(start + _CARDS * _CARD, len(data) - _CARD + 1), _CARD):
        text = data[at : at + _CARD].decode("latin-1")
        if text.rstrip() == "END":
            values = {name: value for name, value, _ in reversed(cards)}  # the first card wins
            return _Unit(cards=cards, values=values, begins=-(-(at + _CARD) // _BLOCK) * _BLOCK)
        if text.strip():
            cards.append(_card(text))
    raise UnshowableError(f"{DAMAGED}: its header has no end")


def _card(text: str) -> _Card:
    name, rest = text[:8].strip(), text[8:]
    if not rest.startswith("= "):
        return name, "", rest.strip()
    rest = rest[2:].strip()
    if not rest.startswith("'"):
        value, _, note = rest.partition("/")
        return name, value.strip(), note.strip()
    # quotes in a string are doubled
    end = 1
    while (end := rest.find("'", end)) >= 0 and rest[end + 1 : end + 2] == "'":
        end += 2
    value = rest[1 : end if end >= 0 else None].replace("''", "'").rstrip()
    return name, value, rest[end + 1 :].partition("/")[2].strip() if end >= 0 else ""


def _is_picture(unit: _Unit) -> bool:
    sides = unit.shape[-2:]
    return unit.kind == "IMAGE" and len(sides) == 2 and min(unit.shape) > 0


def _drawn(data: bytes, unit: _Unit) -> Any:
    """Return the first plane flipped vertically, because the top row (north) is stored last."""
    dtype = _TYPES.get(unit.number("BITPIX"))
    if dtype is None:
        raise UnshowableError("BITPIX must be 8, 16, 32, 64, -32 or -64")
    height, width = unit.shape[-2:]
    picture.check_pixels(width, height)
    if unit.begins + height * width * np.dtype(dtype).itemsize > len(data):
        raise UnshowableError("its data are truncated")
    plane = np.frombuffer(data, dtype, height * width, unit.begins).reshape(height, width)
    # percentiles, because a few bright points would make everything else black
    values = np.asarray(plane[::-1], dtype=np.float32)
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise UnshowableError("it contains no finite number")
    low, high = np.percentile(finite[:: max(1, finite.size // 500_000)], (1, 99.7))
    return grey(values, float(low), float(high))
