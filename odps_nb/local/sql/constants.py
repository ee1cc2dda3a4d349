"""Rewrites constants of bytes, CHAR and durations, which DuckDB spells or compares otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from odps_nb.local import faults
from odps_nb.local.sql.times import compared_with
from odps_nb.schema import TypeCode

__all__ = ["compare_bytes", "compare_chars", "spell_intervals"]

_TEXTS = {TypeCode.STRING, TypeCode.VARCHAR}
_YEAR_MONTH = re.compile(r"(-?)(\d+)-(\d\d?)")
_DAY_TIME = re.compile(r"(-?)(\d+) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)(0*)")


def compare_bytes(query: Any, types: Mapping[str, set[TypeCode]]) -> None:
    """Compare ``unhex('…')`` with the bytes of a text column, in place.

    DuckDB would read escapes in the text. ``types`` are the types of columns by their names in
    lower case.
    """
    from sqlglot import exp

    for constant in list(query.find_all(exp.Unhex)):
        column = compared_with(constant)
        met = set() if column is None else types.get(column.name.casefold(), set())
        if column is not None and met and met <= _TEXTS:
            column.replace(exp.Anonymous(this="encode", expressions=[column.copy()]))


def compare_chars(query: Any, types: Mapping[str, set[TypeCode]]) -> None:
    """Strip the blanks at the end of a text that is compared with a CHAR column, in place.

    CHAR is compared without them ("Data types" of the vendor's manual) and is stored without them.
    ``types`` are as for `compare_bytes`.
    """
    from sqlglot import exp

    for constant in query.find_all(exp.Literal):
        if not (constant.is_string and constant.this.endswith(" ")):
            continue
        is_bound = isinstance(constant.parent, exp.Between)
        column = constant.parent.this if is_bound else compared_with(constant)
        if isinstance(column, exp.Column) and types.get(column.name.casefold()) == {TypeCode.CHAR}:
            constant.set("this", constant.this.rstrip(" "))


def spell_intervals(query: Any) -> None:
    """Spell ``interval '1 02:03:04' day to second`` and ``year to month`` for DuckDB, in place."""
    from sqlglot import exp

    for interval in query.find_all(exp.Interval):
        if not isinstance(interval.args.get("unit"), exp.IntervalSpan):
            continue
        text = interval.this.name
        if found := _DAY_TIME.fullmatch(text):
            sign, days, clock, _ = found.groups()
            spelled = f"{sign}{days} days {sign}{clock}"
        elif found := _YEAR_MONTH.fullmatch(text):
            sign, years, months = found.groups()
            spelled = f"{sign}{years} years {sign}{months} months"
        else:
            raise faults.lacks(f"interval of nanoseconds such as {text[:40]!r}", is_sure=True)
        interval.replace(exp.Interval(this=exp.Literal.string(spelled)))
