"""Decides how the bound of a range is compared with the values of a partition column of text."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from odps_nb.errors import ArgumentError

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The partition of null values, which no range selects."""
_DAYS = {"%Y-%m-%d": re.compile(r"\d{4}-\d\d-\d\d"), "%Y%m%d": re.compile(r"\d{8}")}


@dataclass(frozen=True, slots=True)
class Bound:
    """One comparison; ``is_number`` if the value is a number, or text without quotes of one."""

    key: str
    sign: str
    value: str
    is_number: bool = False

    def __str__(self) -> str:
        is_text = is_number(self.value) and not self.is_number
        return f"{self.key}{self.sign}" + (f"'{self.value}'" if is_text else self.value)


def text_comparison(
    bound: Bound, found: Collection[str], column: str
) -> tuple[Callable[[str], Any], Any]:
    """Return how to compare values of a text column, and what to compare them with.

    A day is written as the existing values are written; a number is compared with numbers, as in
    SQL; all else is compared as text. Raises `ArgumentError` if the values have another form.
    """
    day = _day(bound.value)
    for form, shape in _DAYS.items():
        if day is not None and all(map(shape.fullmatch, found)):
            return str, day.strftime(form)
    mixed = day is not None and any(map(_DAYS["%Y-%m-%d"].fullmatch, found))
    compared: tuple[Callable[[str], Any], Any] = str, bound.value
    to_do = "write it in the form of the values, or select rows with where="
    if bound.is_number:
        same_kind = all(map(is_number, found))
        compared = Decimal, Decimal(bound.value)
        if not mixed:
            to_do = f"write it in quotes to compare text: {column}{bound.sign}'{bound.value}'"
    elif re.match(r"\d{4}-\d", bound.value):
        begins = re.compile(re.sub(r"\d", r"\\d", re.escape(bound.value[:10])))
        same_kind = all(map(begins.match, found))
    else:
        same_kind = not mixed
    if not same_kind:
        raise ArgumentError(
            f"{bound.value!r} cannot be compared with the values of {column!r}, such as "
            f"{min(found)!r} and {max(found)!r}",
            code="InvalidPartitionSpec",
            hint=to_do,
        )
    return compared


def _day(text: str) -> datetime.date | None:
    for form, shape in _DAYS.items():
        if shape.fullmatch(text):
            with contextlib.suppress(ValueError):
                return datetime.datetime.strptime(text, form).date()
    return None


def is_number(text: str) -> bool:
    """Whether the text is a finite number."""
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False
