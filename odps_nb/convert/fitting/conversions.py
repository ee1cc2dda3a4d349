"""`Conversions`: what a write may do to values that do not fit as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from odps_nb.errors import ArgumentError

DecimalConversion = Literal["exact", "round"]
TextConversion = Literal["exact", "parse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversions:
    """How the values of a write are converted; by default none changes.

    ``timezone``: zone of times without one that become instants; ``None``: UTC. ``decimals``:
    ``"exact"``: a value with more digits after the point than its DECIMAL column has is refused.
    ``"round"``: it is rounded half away from zero. ``text``: ``"exact"``: text fits text and binary
    types only. ``"parse"``: text in a column of numbers, times or booleans is read as such a value:
    ``12.5``, ``1e3``, ``2024-01-31``, ``2024-01-31 10:00:00.123456789+08:00``, ``true``. Other
    text, the empty text as well, is refused.

    Raises `ArgumentError`: another value.
    """

    timezone: str | None = None
    decimals: DecimalConversion = "exact"
    text: TextConversion = "exact"

    def __post_init__(self) -> None:
        for name, known in (("decimals", ("exact", "round")), ("text", ("exact", "parse"))):
            if (given := getattr(self, name)) not in known:
                raise ArgumentError(
                    f"{name} is {given!r}",
                    argument=name,
                    hint=f"pass {known[0]!r} or {known[1]!r}",
                )


AS_THEY_ARE = Conversions()
