"""Random conditions, each written for odps_nb and for DuckDB."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = (
    "tiny tinyint, num int, id bigint, f double, m decimal(12,3), s string, v varchar(20), "
    "b boolean, d date, t datetime, ts timestamp, n timestamp_ntz, ds string"
)
TYPES = pa.schema(
    [
        ("tiny", pa.int8()),
        ("num", pa.int32()),
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("m", pa.decimal128(12, 3)),
        ("s", pa.string()),
        ("v", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("ms")),
        ("ts", pa.timestamp("us")),
        ("n", pa.timestamp("us")),
        ("ds", pa.string()),
    ]
)
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "a%b",
    "a_b",
    "50%",
    "\u00fc",
    "\u4e00\u4e8c",
    "x\ny",
    " a ",
    "10",
    "\\",
]
DAYS = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)]
VALUES: dict[str, list[Any]] = {
    "tiny": [-128, -1, 0, 1, 2, 127],
    "num": [-(2**31), -7, 0, 3, 10, 2**31 - 1],
    "id": [-(2**63) + 1, -5, 0, 1, 2, 3, 100, 2**53 + 1, 2**63 - 1],
    "f": [-1e300, -0.5, 0.0, 0.1, 0.30000000000000004, 2.0, 1e18, 5e-324],
    "m": [Decimal(text) for text in ("-999999999.999", "-0.5", "0", "0.1", "1.1", "2", "10.001")],
    "s": TEXTS,
    "v": TEXTS,
    "b": [True, False],
    "d": [*DAYS, datetime.date(2024, 1, 1), datetime.date(2024, 2, 29)],
    "ds": ["20240101", "20240102", "a", ""],
}
CLOCKS = [
    datetime.datetime(2, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(2024, 1, 1, 10),
    datetime.datetime(2024, 3, 31, 2, 30, 0, 1000),
    datetime.datetime(9998, 12, 31, 23, 59, 59),
]
VALUES |= dict.fromkeys(("t", "ts", "n"), CLOCKS)
NEAR = {2: 1700, 9998: 2200}  # years that nanoseconds can express, instead of others
NUMBERS, TEXT, TIMES = ("tiny", "num", "id", "f", "m"), ("s", "v", "ds"), ("t", "ts", "n")
WHOLE = ("tiny", "num", "id")


def table(rows: int, seed: int, *, near: bool = False) -> pa.Table:
    """Return rows with extremes, nulls and increasing ids; ``near``: times fit in nanoseconds."""
    chance = random.Random(seed)
    columns = {}
    for name, values in VALUES.items():
        if near and values is CLOCKS:
            values = [when.replace(year=NEAR.get(when.year, when.year)) for when in CLOCKS]
        columns[name] = [
            None if chance.random() < 0.12 else chance.choice(values) for _ in range(rows)
        ]
    columns["id"] = [n if chance.random() < 0.8 else value for n, value in enumerate(columns["id"])]
    return pa.table(columns, schema=TYPES.remove(0).insert(0, TYPES.field(0)))


@dataclass(frozen=True)
class Made:
    """One condition or value in both forms."""

    ours: str
    duck: str


class Conditions:
    """Creates random conditions, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def condition(self, depth: int = 3) -> Made:
        """A condition of any form."""
        if depth and self.chance.random() < 0.6:
            return self.chance.choice((self._and, self._or, self._not))(depth - 1)
        return self.chance.choice(
            (
                self._compare,
                self._compare,
                self._in,
                self._between,
                self._null,
                self._like,
                self._columns,
                self._sum,
                self._function,
                self._bare,
            )
        )()

    # -- logic ------------------------------------------------------------------------------------

    def _and(self, depth: int) -> Made:
        one, two = self.condition(depth), self.condition(depth)
        return Made(f"({one.ours} and {two.ours})", f"({one.duck} and {two.duck})")

    def _or(self, depth: int) -> Made:
        one, two = self.condition(depth), self.condition(depth)
        return Made(f"({one.ours} OR {two.ours})", f"({one.duck} or {two.duck})")

    def _not(self, depth: int) -> Made:
        one = self.condition(depth)
        return Made(f"not ({one.ours})", f"not ({one.duck})")

    # -- leaves -----------------------------------------------------------------------------------

    def _compare(self) -> Made:
        name = self.chance.choice(list(VALUES))
        sign = self.chance.choice(("=", "<>") if name == "b" else SIGNS)
        value = self._constant(name)
        if self.chance.random() < 0.2:
            ours = f"{value.ours} {MIRRORED[sign]} {name}"
        else:
            spelled = "!=" if sign == "<>" and self.chance.random() < 0.5 else sign
            ours = f"{name} {spelled} {value.ours}"
        return Made(ours, f"{name} {sign} {value.duck}")

    def _in(self) -> Made:
        name = self.chance.choice([name for name in VALUES if name not in ("b", "f")])
        values = [self._constant(name) for _ in range(self.chance.randrange(1, 5))]
        if self.chance.random() < 0.2:
            values.append(Made("null", "null"))
        words = "not in" if self.chance.random() < 0.4 else "in"
        ours = ", ".join(value.ours for value in values)
        duck = ", ".join(value.duck for value in values)
        return Made(f"{name} {words} ({ours})", f"{name} {words} ({duck})")

    def _between(self) -> Made:
        name = self.chance.choice([name for name in VALUES if name != "b"])
        low, high = self._constant(name), self._constant(name)
        return Made(
            f"{name} between {low.ours} and {high.ours}",
            f"{name} between {low.duck} and {high.duck}",
        )

    def _null(self) -> Made:
        name = self.chance.choice(list(VALUES))
        text = f"{name} is {'not ' if self.chance.random() < 0.5 else ''}null"
        return Made(text, text)

    def _like(self) -> Made:
        name = self.chance.choice(TEXT)
        pattern = "".join(
            self.chance.choice(["%", "_", "a", "b", ".", "\\%", "\\_", "\\\\", "5", "\u00fc", "\n"])
            for _ in range(self.chance.randrange(4))
        )
        words = "not like" if self.chance.random() < 0.3 else "like"
        duck = pattern.replace("'", "''")
        return Made(f"{name} {words} {ours_text(pattern)}", f"{name} {words} '{duck}' escape '\\'")

    def _columns(self) -> Made:
        group = self.chance.choice((WHOLE, (*WHOLE, "m"), (*WHOLE, "f"), TEXT))
        one, two = self.chance.choice(group), self.chance.choice(group)
        sign = self.chance.choice(SIGNS)
        text = f"{one} {sign} {two}"
        return Made(text, text)

    def _sum(self) -> Made:
        operator, number = self.chance.choice((("+", 3), ("-", 2), ("*", 2), ("%", 3), ("%", -2)))
        sign, bound = self.chance.choice(SIGNS), self.chance.choice((-2, 0, 1, 4))
        text = f"(cast(tiny as bigint) {operator} {number}) {sign} {bound}"
        return Made(text, text)

    def _function(self) -> Made:
        part = self.chance.choice(("a", "50", ""))
        texts = (
            "length(s) > 1",
            f"substr(s, 1, 2) = '{part}'",
            "coalesce(num, 0) >= 0",
            "concat(s, v) = 'aa'",
            "year(d) = 2024",
            "trim(s) = 'a'",
        )
        text = self.chance.choice(texts)
        return Made(text, text.replace("concat(s, v)", "(s || v)"))

    def _bare(self) -> Made:
        return Made("b", "b")

    # -- constants -----------------------------------------------------------------------------

    def _constant(self, name: str) -> Made:
        if self.chance.random() < 0.04:
            return Made("null", "null")
        value = self.chance.choice(VALUES[name])
        if name in WHOLE and self.chance.random() < 0.2:
            value = self.chance.choice((1, 2**40, 1 - 2**63, 5))
        if name == "m" and self.chance.random() < 0.4:
            value = Decimal(self.chance.choice(("0.0001", "1.1005", "-3", "1e15", "-2.0000000001")))
        return Made(*_written(name, value))


SIGNS = ("=", "<>", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _written(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        return str(value).lower(), str(value).lower()
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        return f"{digits}BD", f"cast('{digits}' as decimal(38,12))"
    if isinstance(value, float):
        return repr(value), f"cast('{value!r}' as double)"
    if isinstance(value, int):
        return str(value), f"cast({value} as bigint)"
    if isinstance(value, datetime.datetime):
        text = value.isoformat(sep=" ")
        return f"'{text}'", f"timestamp '{text}'"
    if isinstance(value, datetime.date):
        return f"'{value}'", f"date '{value}'"
    return ours_text(value), _duck_text(value)


def ours_text(value: str) -> str:
    """Quote text for ``where=``."""
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n")):
        value = value.replace(plain, escaped)
    return f"'{value}'"


def _duck_text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
