"""Columns for each source of data that a write accepts."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.values.arrow_forms import arrow_array
from tests.support.values.families import one_family
from tests.support.values.python_forms import (
    integers_of,
    objects,
    python_cell,
    typed_array,
    units_of,
)
from tests.support.values.rules import NESTED, SECOND, Kind

#: A column of a source, and its values.
Column = tuple[Any, list[Any]]
_UNITS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}


def object_series(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A column of Python and NumPy objects, of several classes."""
    cells = [python_cell(draw, kind, one) for one in values]
    return pd.Series(objects(cells), dtype=object), values


def numpy_series(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A column with a pandas dtype; nested values and dates have none."""
    present = [one for one in values if one is not None]
    if kind.name in NESTED or not present or any(isinstance(o, (list, dict)) for o in present):
        return object_series(draw, kind, values)
    family, kept = one_family(lambda found: draw(st.sampled_from(found)), kind, values)
    made = _typed(draw, kind, family.rstrip("-0123456789"), kept)
    if made is None:
        return object_series(draw, kind, values)
    if family in ("int", "text", "bool", "clock") and draw(st.integers(0, 4)) == 0:
        made = made.astype("category")
    return made, kept


def _typed(draw: DrawFn, kind: Kind, family: str, values: list[Any]) -> Any:
    whole = None not in values
    present = [one for one in values if one is not None]
    if family == "int" and (names := integers_of(present)):
        name = draw(st.sampled_from(names))
        masked = not whole or draw(st.booleans())
        return pd.Series(values, dtype=name.replace("i", "I").replace("u", "U") if masked else name)
    if family in ("float", "single"):
        numbers = [None if v is None else v if family == "float" else v.value for v in values]
        bits = "64" if family == "float" else "32"
        name = draw(st.sampled_from([f"float{bits}", f"Float{bits}"]))
        return pd.Series(numbers, dtype=name)
    if family == "bool":
        masked = not whole or draw(st.booleans())
        return pd.Series(values, dtype="boolean" if masked else "bool")
    if family == "text":
        try:
            return pd.Series(values, dtype=draw(st.sampled_from(["str", "string"])))
        except UnicodeEncodeError:
            return None
    return _times(draw, family, values) if family in ("clock", "instant", "span") else None


def _times(draw: DrawFn, family: str, values: list[Any]) -> Any:
    ahead = 0
    if family == "span":
        nanos = [None if one is None else one.nanos for one in values]
    else:
        ahead = next((one.ahead or 0 for one in values if one is not None), 0)
        nanos = [None if one is None else one.shown - ahead * SECOND for one in values]
    units = units_of([n for n in nanos if n is not None], _UNITS)
    if not units:
        return None
    unit = draw(st.sampled_from(units))
    counts = np.array([-(2**63) if n is None else n // _UNITS[unit] for n in nanos], "int64")
    if family == "span":
        return pd.Series(counts.view(f"m8[{unit}]"))
    if family == "clock":
        return pd.Series(counts.view(f"M8[{unit}]"))
    zone = datetime.timezone(datetime.timedelta(seconds=ahead))
    return pd.Series(pd.array(counts, dtype=pd.DatetimeTZDtype(unit, zone)))  # type: ignore[call-overload]


def mapping_column(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A column of a mapping: a masked or typed NumPy array, a polars Series, or a list."""
    form = draw(st.sampled_from(["array", "polars", "list"]))
    if form == "polars" and takes("polars", kind):
        made, kept = plain_column(draw, kind, values)
        return pl.from_arrow(made), kept
    if form == "array" and (array := typed_array(draw, values)) is not None:
        return array, values
    series, kept = object_series(draw, kind, values)
    return list(series), kept


def arrow_backed(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A pandas column backed by Arrow."""
    made, kept = arrow_array(draw, kind, values)
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([made]))), kept  # type: ignore[attr-defined]


def arrow_column(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """An Arrow column, in one or two chunks."""
    made, kept = arrow_array(draw, kind, values)
    cut = draw(st.integers(0, len(values)))
    return pa.chunked_array([made.slice(0, cut), made.slice(cut)], made.type), kept


def scalars_column(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A list of Arrow scalars, of any Arrow type."""
    made, kept = arrow_array(draw, kind, values)
    return list(made), kept


def plain_column(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """An Arrow column that other engines accept."""
    made, kept = arrow_array(draw, kind, values, plain=True)
    return pa.chunked_array([made]), kept


def duckdb_column(draw: DrawFn, kind: Kind, values: list[Any]) -> Column:
    """A column that DuckDB accepts; it returns instants in UTC: a date must be midnight there."""
    made, kept = plain_column(draw, kind, values)
    if any(leaf.name == "date" for leaf in kind.leaves()):
        assume(set(re.findall(r"tz=([^\]]+)", str(made.type))) <= {"UTC", "Etc/UTC"})
    return made, kept


def _as_reader(columns: dict[str, Any]) -> pa.RecordBatchReader:
    table = pa.table(columns)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))


def _as_structs(columns: dict[str, Any]) -> pa.Array:
    arrays = [pa.chunked_array([one]) if isinstance(one, list) else one for one in columns.values()]
    return pa.StructArray.from_arrays([one.combine_chunks() for one in arrays], list(columns))


def _as_duckdb(columns: dict[str, Any]) -> Any:
    return duckdb.connect().from_arrow(pa.table(columns))


#: Sources by name: the strategy that draws a column, and the conversion of the columns.
SOURCES: dict[str, tuple[Callable[[DrawFn, Kind, list[Any]], Column], Callable[[Any], Any]]] = {
    "objects": (object_series, pd.DataFrame),
    "pandas": (numpy_series, pd.DataFrame),
    "mapping": (mapping_column, dict),
    "arrow-backed": (arrow_backed, pd.DataFrame),
    "arrow": (arrow_column, pa.table),
    "reader": (arrow_column, _as_reader),
    "scalars": (scalars_column, dict),
    "structs": (arrow_column, _as_structs),
    "polars": (plain_column, lambda columns: pl.from_arrow(pa.table(columns))),
    "duckdb": (duckdb_column, _as_duckdb),
}


def takes(source: str, kind: Kind) -> bool:
    """Whether a source supports values of a type."""
    leaves = list(kind.leaves())
    if source not in ("polars", "duckdb"):
        return True
    if any(leaf.name == "decimal" and (leaf.numbers or (38,))[0] > 38 for leaf in leaves):
        return False
    return source == "polars" or all(leaf.name != "interval_day_time" for leaf in leaves)


def described(data: Any, values: list[Any]) -> str:
    """Return the values of a column; pandas itself crashes when it displays Arrow views."""
    kind = str(getattr(data, "dtype", getattr(data, "type", "")))
    return f"{kind}: {list(data) if kind == 'object' else values!r}"
