"""Objects that users pass by mistake, and public functions with correct arguments."""

from __future__ import annotations

import datetime
import decimal
import enum
import pathlib
import types
import uuid
from collections import ChainMap, UserDict
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa


class Mistake(Exception):
    """Raised by the user's own generator; passes through the package unchanged."""


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class LikeATensor:
    """A tensor with several values: bool(), len() and indexing raise errors."""

    shape, dtype = (2, 2), "float32"

    def __bool__(self) -> bool:
        raise RuntimeError("the truth of a tensor with several values is ambiguous")

    def __index__(self) -> int:
        raise TypeError("only integer tensors of one element are an index")

    def __eq__(self, other: object) -> Any:
        return LikeATensor()

    __hash__ = None  # type: ignore[assignment]  # as arrays


class Colour(enum.Enum):
    RED = "red"


class Pairs(UserDict[Any, Any]):
    """A mapping that is not a dict."""


class Text(str):
    """A string whose repr and str differ from its text."""

    __slots__ = ()

    def __str__(self) -> str:
        return "other"


def broken_generator() -> Iterator[Any]:
    yield {"id": 1}
    raise Mistake("of the user")


_DAY = datetime.datetime(2024, 1, 31, 10)
#: A function for each object, because generators are used up.
ODD: dict[str, Callable[[], Any]] = {
    "generator that raises": broken_generator,
    "nothing": lambda: None,
    "structured array": lambda: np.array([(1, "a")], dtype=[("id", "i8"), ("note", "U1")]),
    "structured value": lambda: np.array([(1, "a")], dtype=[("id", "i8"), ("note", "U1")])[0],
    "0-d array": lambda: np.array(5),
    "0-d text": lambda: np.array("ds=x"),
    "array": lambda: np.array([1, 2]),
    "3-d array": lambda: np.zeros((2, 2, 2)),
    "object array": lambda: np.array([None, NoRepr()], dtype=object),
    "complex": lambda: 1 + 2j,
    "numpy bool": lambda: np.bool_(True),
    "numpy void": lambda: np.void(b"abc"),
    "NaT of numpy": lambda: np.datetime64("NaT", "s"),
    "month of numpy": lambda: np.datetime64("2024-01", "M"),
    "set": lambda: {1, "a"},
    "frozenset": lambda: frozenset(),
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(b"ab"),
    "memoryview": lambda: memoryview(b"ab"),
    "LazyFrame": lambda: pl.LazyFrame({"id": [1]}),
    "polars expression": lambda: pl.col("id") > 1,
    "polars struct": lambda: pl.Series("s", [{"a": 1}]),
    "polars object": lambda: pl.Series("o", [object()], dtype=pl.Object),
    "tensor": LikeATensor,
    "wrong zone": lambda: pd.Timestamp("2024-01-31", tz="Asia/Kathmandu"),
    "Arrow zone": lambda: pa.table({"id": pa.array([0], pa.timestamp("s", "Nowhere/None"))}),
    "huge int": lambda: 10**400,
    "negative": lambda: -(2**63) - 1,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "numpy NaN": lambda: np.float32("nan"),
    "nested None": lambda: [[None], [None, [None]]],
    "dict of None": lambda: {None: None},
    "dict of odd": lambda: {"id": [NoRepr()], 5: LikeATensor()},
    "no repr": NoRepr,
    "list of no repr": lambda: [NoRepr()],
    "mapping": lambda: Pairs({"id": [1], 2: 3}),
    "chain of mappings": lambda: ChainMap({"ds": NoRepr()}),
    "proxy of a mapping": lambda: types.MappingProxyType({"ds": b"x"}),
    "path": lambda: pathlib.Path("no/such\x00path"),
    "enum member": lambda: Colour.RED,
    "enum class": lambda: Colour,
    "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "Decimal sNaN": lambda: decimal.Decimal("sNaN"),
    "timedelta": lambda: datetime.timedelta(days=10**6),
    "time with a zone": lambda: datetime.time(1, tzinfo=ZoneInfo("Asia/Tokyo")),
    "datetime with a zone": lambda: _DAY.replace(tzinfo=datetime.UTC),
    "first datetime": lambda: datetime.datetime.min,
    "pandas NA": lambda: pd.NA,
    "list of NA": lambda: [pd.NA, pd.NaT, None],
    "Series": lambda: pd.Series([1, None], dtype="Int64", name="id"),
    "frame": lambda: pd.DataFrame({1: [1], (2, 3): [NoRepr()]}),
    "interval": lambda: pd.Interval(0, 1),
    "period": lambda: pd.Period("2024-01"),
    "Arrow scalar": lambda: pa.scalar(5),
    "Arrow array": lambda: pa.array([[1], None]),
    "uuid": lambda: uuid.UUID(int=1),
    "range": lambda: range(2),
    "text of a subclass": lambda: Text("id"),
    "lone surrogate": lambda: "\ud800",
    "control characters": lambda: "\x00\x1b[2J",
    "long text": lambda: "x" * 20_000,
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda *_: [],
    "module": lambda: types,
    "exception": lambda: ValueError("x"),
    "ellipsis": lambda: ...,
}
