"""`Conversions`: write options for values that do not fit unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from odps_nb.terms import check_choice

DecimalConversion = Literal["exact", "round"]
TextConversion = Literal["exact", "parse"]
TimeConversion = Literal["exact", "round"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversions:
    """How a write converts values; by default, values are not changed.

    ``timezone``: time zone for converting naive times to instants; ``None`` means UTC.
    ``decimals``: if a value has more decimal places than its DECIMAL column, ``"exact"`` raises and
    ``"round"`` rounds half away from zero. ``text``: ``"exact"`` accepts text only for text and
    binary types; ``"parse"`` also parses text such as ``12.5``, ``1e3``, ``2024-01-31``,
    ``2024-01-31 10:00:00.123456789+08:00`` or ``true`` for columns of numbers, times or booleans.
    Other text, including empty text, raises an error. ``times``: if a time is more precise than its
    column (DATETIME: milliseconds), ``"exact"`` raises and ``"round"`` rounds half to even. A time
    of day never becomes a DATE.

    Raises `ArgumentError` for an unknown option value.
    """

    timezone: str | None = None
    decimals: DecimalConversion = "exact"
    text: TextConversion = "exact"
    times: TimeConversion = "exact"

    def __post_init__(self) -> None:
        check_choice("decimals", self.decimals, get_args(DecimalConversion))
        check_choice("text", self.text, get_args(TextConversion))
        check_choice("times", self.times, get_args(TimeConversion))


AS_THEY_ARE = Conversions()
