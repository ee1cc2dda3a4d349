"""Converts Python rows and columns to DataFrames of object columns.

The objects are later converted to the target types like any object column
(``odps_nb.convert.fitting.objects``). This module infers no types and changes no values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from odps_nb.convert.arrow_schema import require_unicode, way_to_add
from odps_nb.convert.fitting.misfit import shorten
from odps_nb.convert.foreign import is_from, is_table, polars_column
from odps_nb.convert.frame_schema import object_type
from odps_nb.convert.row_names import Names
from odps_nb.convert.warning import warn
from odps_nb.errors import ConversionError
from odps_nb.terms import did_you_mean, listed_columns

_NAMED, _PLACED, _VALUE = "a row with names", "a row without names", "a plain value"


def _kind(row: Any, names: Names) -> str | None:
    if isinstance(row, Mapping) or _fields(row) is not None or _has_keys(row):
        return _NAMED
    if isinstance(row, (list, tuple)) or (isinstance(row, np.ndarray) and row.ndim == 1):
        return _PLACED
    return _VALUE if names.single else None


def _fields(row: Any) -> Sequence[str] | None:
    """Return the field names of a dataclass, a named tuple or a Spark row."""
    if isinstance(row, type):
        return None
    if dataclasses.is_dataclass(row):
        return [field.name for field in dataclasses.fields(row)]
    if isinstance(row, tuple):
        return getattr(row, "_fields", None) or getattr(row, "__fields__", None)
    return None


def _has_keys(row: Any) -> bool:
    """Whether the row has keys but is not a mapping: a database row or a Series."""
    has_keys = callable(getattr(row, "keys", None)) and hasattr(row, "__getitem__")
    return has_keys and not isinstance(row, (pd.DataFrame, type))


def _mapping(row: Any) -> Mapping[Any, Any]:
    if isinstance(row, Mapping):
        return row
    fields = _fields(row)
    if fields is None:
        return {key: row[key] for key in row.keys()}  # noqa: SIM118  not a mapping
    if isinstance(row, tuple):
        return dict(zip(fields, row, strict=True))
    return {name: _nested(getattr(row, name)) for name in fields}


def _nested(value: Any) -> Any:
    """Convert dataclasses inside a dataclass to dicts, except those of odps_nb (`NewBlob`)."""
    if type(value) in (list, tuple):
        return [_nested(item) for item in value]
    if type(value) is dict:
        return {key: _nested(item) for key, item in value.items()}
    own = type(value).__module__.split(".")[0] == "odps_nb"
    if isinstance(value, type) or own or not dataclasses.is_dataclass(value):
        return value
    return {field.name: _nested(getattr(value, field.name)) for field in dataclasses.fields(value)}


# -- rows ---------------------------------------------------------------------------------------


def rows_frame(
    rows: Sequence[Any], names: Names, *, first_row: int = 0, like: Any = None
) -> pd.DataFrame:
    """Return rows of one kind as a DataFrame of object columns.

    ``first_row``: number of the first row within all data, for errors. ``like``: the first row of
    all data; ``None`` if that row is in ``rows``.
    """
    if not rows:
        return _frame({name: [] for name in names.order}, 0)
    kind = _one_kind(rows, names, first_row, rows[0] if like is None else like)
    if kind == _VALUE:
        return _frame({names.order[0]: list(rows)}, len(rows))
    if kind == _PLACED:
        return _frame(_placed_columns(rows, names, first_row), len(rows))
    return _frame(_named_columns([_mapping(row) for row in rows], names, first_row), len(rows))


def _one_kind(rows: Sequence[Any], names: Names, first_row: int, like: Any) -> str:
    kinds: dict[type, str | None] = {}
    first = _kind(like, names)
    for number, row in enumerate(rows):
        if type(row) not in kinds:
            kinds[type(row)] = _kind(row, names)
        kind = kinds[type(row)]
        if kind is None or kind != first:
            after = "" if kind is None else f", but the first row is {first}"
            raise ConversionError(
                f"row {first_row + number} is of type {type(row).__name__}{after}: {shorten(row)}",
                source_type=type(row).__name__,
                row=first_row + number,
                hint="pass rows of one kind: dicts, tuples in the order of the columns, named "
                "tuples or dataclasses; wrap a single row in a list",
            )
    return first or ""


def _placed_columns(
    rows: Sequence[Sequence[Any]], names: Names, first_row: int
) -> dict[str, list[Any]]:
    if not names.order:
        raise ConversionError(
            "rows without names cannot define the columns of a new table",
            row=first_row,
            hint="pass dicts, or create the table first: odps.create_table(name, 'id bigint, …')",
        )
    width = len(names.order)
    for number, row in enumerate(rows):
        if len(row) != width:
            inner = all(isinstance(value, (Mapping, list, tuple)) for value in row)
            raise ConversionError(
                f"row {first_row + number} has {len(row)} values, but there are {width} columns: "
                f"{', '.join(names.order[:20])}{', …' if width > 20 else ''}",
                row=first_row + number,
                hint="flatten nested lists of rows with itertools.chain.from_iterable"
                if inner and len(row)
                else "pass one value for each column (None for a null), or pass dicts",
            )
    return {name: [row[index] for row in rows] for index, name in enumerate(names.order)}


def _named_columns(
    rows: Sequence[Mapping[Any, Any]], names: Names, first_row: int
) -> dict[str, list[Any]]:
    spelled = {name.casefold(): name for name in names.known or ()}
    keys: dict[str, dict[str, None]] = {}  # for each column, how its key is spelled in the rows
    seen: set[tuple[Any, ...]] = set()
    for number, row in enumerate(rows):
        shape = tuple(row)
        if shape not in seen:
            _learn(row, spelled, keys, names, first_row + number)
            seen.add(shape)
            if names.same:
                _require_same(rows[0], row, first_row + number)
    if not keys:
        raise ConversionError(
            f"row {first_row} has no values",
            row=first_row,
            hint="pass at least one column; missing columns become null",
        )
    columns = {}
    for column, ways in keys.items():
        if len(ways) == 1:
            (key,) = ways
            columns[column] = [row.get(key) for row in rows]
        else:
            columns[column] = [next((row[k] for k in ways if k in row), None) for row in rows]
    return columns


def _require_same(first: Mapping[Any, Any], row: Mapping[Any, Any], number: int) -> None:
    a, b = ({str(key).casefold(): key for key in mapping} for mapping in (first, row))
    if differing := sorted(a.keys() ^ b.keys()):
        name = (a | b)[differing[0]]
        raise ConversionError(
            f"row {number} {'has' if differing[0] in b else 'lacks'} the column {name!r}, unlike "
            "the rows before it",
            column=name,
            row=number,
            hint="pass rows with the same columns, in one call for each set of columns",
        )


def _learn(
    values: Mapping[Any, Any],
    spelled: dict[str, str],
    keys: dict[str, dict[str, None]],
    names: Names,
    row: int,
) -> None:
    """Record a row's keys; raise for unknown and repeated keys."""
    here: set[str] = set()
    for key in values:
        if not isinstance(key, str):
            raise ConversionError(
                f"row {row} has the key {key!r} of type {type(key).__name__}",
                column=str(key),
                row=row,
                hint="use column names as keys",
            )
        require_unicode(key)
        folded = key.casefold()
        if folded not in spelled:
            if names.known is not None:
                raise _unknown_key(key, names.known, row, values[key])
            spelled[folded] = key
        if folded in here:
            raise ConversionError(
                f"row {row} has two values for the column {spelled[folded]!r}",
                column=spelled[folded],
                row=row,
                hint="drop one of the keys; names are not case-sensitive",
            )
        here.add(folded)
        keys.setdefault(spelled[folded], {})[key] = None


def _unknown_key(key: str, known: Sequence[str], row: int, value: object) -> ConversionError:
    meant = did_you_mean(key, known).rstrip()
    return ConversionError(
        f"row {row} has the key {key!r}, which is not a column of the table"
        + (meant and f" ({meant})"),
        column=key,
        row=row,
        hint="exclude the index: df.itertuples(index=False)"
        if key == "Index"
        else f"use its columns: {listed_columns(known)}"
        + way_to_add([key], lambda name: object_type([value], name)),
    )


def _frame(columns: Mapping[str, Sequence[Any]], rows: int) -> pd.DataFrame:
    objects = {name: _objects(values) for name, values in columns.items()}
    return pd.DataFrame(objects, index=pd.RangeIndex(rows))


def _objects(values: Sequence[Any]) -> pd.Series[Any]:
    """Return values as an object column; each nested array or list stays a single value."""
    return pd.Series(np.fromiter(values, dtype=object, count=len(values)), dtype=object)


# -- columns ------------------------------------------------------------------------------------


def columns_frame(data: Mapping[Any, Any]) -> pd.DataFrame:
    """Return a mapping of names to columns as a DataFrame, by the rules of ``pandas.DataFrame``.

    Lists become object columns, so that integers stay integers despite nulls. A scalar is repeated
    to the length of the columns; Series are aligned by their index.
    """
    for name in data:
        require_unicode(str(name))
    columns = {name: _column(values, str(name)) for name, values in data.items()}
    series = {name: column for name, column in columns.items() if isinstance(column, pd.Series)}
    if columns and not series:
        name, value = next(iter(columns.items()))
        raise ConversionError(
            f"the column {str(name)!r} is of type {type(value).__name__}, not a list of values",
            column=str(name),
            source_type=type(value).__name__,
            hint="pass a list for each column; write a single row with write([row])",
        )
    aligned = {
        k: column for k, column in series.items() if isinstance(data[k], (pd.Series, Mapping))
    }
    if aligned:
        try:
            index = pd.DataFrame(aligned).index
        except (TypeError, ValueError) as error:  # repeated labels, or labels of different types
            raise ConversionError(
                f"the indexes of the columns cannot be aligned: {error}",
                source_type="Series",
                hint="omit the indexes: series.reset_index(drop=True), or pass series.to_list()",
            ) from error
        for name, column in aligned.items():
            if not column.index.equals(index):  # added nulls would turn integers into floats
                columns[name] = series[name] = _with_nulls(column)
    else:
        index = pd.RangeIndex(max((len(column) for column in series.values()), default=0))
    for name, column in series.items():
        if name in aligned:
            continue
        if len(column) != len(index):
            raise ConversionError(
                f"the column {str(name)!r} has {len(column):,} values, "
                f"but another has {len(index):,}",
                column=str(name),
                row=min(len(column), len(index)),
                hint="pass columns of equal length, with None for nulls",
            )
        column.index = index
    return pd.DataFrame(columns, index=index)


def _with_nulls(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return NumPy integers as a nullable dtype; other dtypes keep their values beside nulls."""
    dtype = series.dtype.subtype if isinstance(series.dtype, pd.SparseDtype) else series.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return series
    return pd.Series(pd.array(series.to_numpy()), series.index)


def _column(values: Any, name: str) -> Any:
    """Return a column as a Series; leave a scalar unchanged."""
    if isinstance(values, pd.Series) or not pd.api.types.is_list_like(values):
        return values
    _require_ordered_values(values, name)
    if isinstance(values, Mapping):  # the keys are index labels, as in ``df.to_dict()``
        return pd.Series(_objects(list(values.values())).array, index=list(values), dtype=object)
    if is_from(values, "narwhals") and hasattr(values, "to_native"):
        return _column(values.to_native(), name)
    if is_from(values, "polars") and hasattr(values, "to_arrow"):
        values = polars_column(values, name)
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    if isinstance(values, pa.ChunkedArray):
        return pd.Series(pd.arrays.ArrowExtensionArray(values))
    if isinstance(values, (pd.Index, pd.api.extensions.ExtensionArray)) or _is_plain(values):
        return pd.Series(values, dtype=object if values.dtype == object else None)
    return _objects(list(values))


def _require_ordered_values(values: Any, name: str) -> None:
    reason = hint = None
    if is_table(values):
        reason, hint = "is a table", "pass one column of it, or for a STRUCT a list of dicts"
    elif isinstance(values, (set, frozenset)):
        reason, hint = "is a set, which has no order", "pass a list"
    elif isinstance(values, pd.MultiIndex):
        reason, hint = "is a MultiIndex", "pass one level: index.get_level_values(0)"
    elif isinstance(values, np.ndarray) and values.dtype.names is not None:
        reason = "is an array with fields"
        hint = "pass a list of dicts for a STRUCT, or one array per column"
    if reason is not None:
        kind = type(values).__name__
        raise ConversionError(
            f"the column {name!r} {reason}", column=name, source_type=kind, hint=hint
        )


def _is_plain(values: Any) -> bool:
    """Whether pandas stores an array unchanged: no mask, and times in units of pandas.

    Text may contain unpaired surrogates, which pandas rejects with an error of its own.
    """
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind == "U":
        return False
    if isinstance(values, np.ma.MaskedArray):
        return False
    return values.dtype.kind not in "mM" or np.datetime_data(values.dtype) in _PANDAS_UNITS


_PANDAS_UNITS = [(unit, 1) for unit in ("D", "h", "m", "s", "ms", "us", "ns")]


def array_frame(data: np.ndarray[Any, Any], names: Names) -> pd.DataFrame:
    """Convert an array to a DataFrame: a structured array by fields, any other array by rows."""
    if data.dtype.names is not None and data.ndim == 1:
        return columns_frame({name: data[name] for name in data.dtype.names})
    if data.ndim == 2 and data.dtype != object and data.dtype.names is None and len(data):
        if data.shape[1] != len(names.order):
            _placed_columns(list(data[:1]), names, 0)  # always raises
        return columns_frame(dict(zip(names.order, data.T, strict=True)))
    return rows_frame(list(data), names)


# -- the index ----------------------------------------------------------------------------------


def with_index(frame: pd.DataFrame, names: Names, *, index: bool | None) -> pd.DataFrame:
    """Return a DataFrame with exactly the columns to write, with or without the index levels.

    ``index``: with ``True``, index levels become columns. With ``False``, they are dropped. With
    ``None``, they are dropped, with a warning if they have names or labels. ``names``: the columns
    of the table. With ``index=None``, raise if one of these columns exists only in the index, or if
    a new table is created and an index level has a name.
    """
    if index is None:
        # a new table has no columns yet, so every named index level could be one
        _refuse_index_columns(frame, names.known or names.order or None)
        ignored = names.known is None and names.order  # a delete, which uses only key columns
        if not ignored and _has_labels(frame.index):
            _warn_of_index(frame.index)
    numbered = frame.copy(deep=False)
    numbered.index = pd.RangeIndex(len(frame))
    if not index:
        return numbered
    for level in frame.index.names:
        if level is None or level in frame.columns:
            raise ConversionError(
                "the index has no name, so it cannot become a column"
                if level is None
                else f"{str(level)!r} is both an index level and a column",
                column=None if level is None else str(level),
                hint="rename the index, e.g. with df.rename_axis('id'), or omit index=True",
            )
    for number, level in reversed([*enumerate(frame.index.names)]):
        numbered.insert(0, level, _level(frame.index, number), allow_duplicates=True)
    return numbered


def index_frame(index: pd.Index[Any]) -> pd.DataFrame:
    """Return the levels of an index as columns, named after the levels or their numbers."""
    frame = pd.DataFrame({number: _level(index, number) for number in range(index.nlevels)})
    frame.columns = pd.Index(
        [number if name is None else name for number, name in enumerate(index.names)], dtype=object
    )
    return frame


def _level(index: pd.Index[Any], number: int) -> pd.Series[Any]:
    """Return a level's values unchanged; pandas would turn integers beside nulls into floats."""
    if isinstance(index, pd.MultiIndex):
        codes, values = index.codes[number], index.levels[number]
        if (codes < 0).any() and isinstance(values.dtype, np.dtype) and values.dtype.kind in "iu":
            return pd.Series(pd.array(values.to_numpy()).take(codes, allow_fill=True))
    values = index.get_level_values(number)
    return pd.Series(values, dtype=values.dtype)


def _refuse_index_columns(frame: pd.DataFrame, known: Sequence[str] | None) -> None:
    present = {str(name).casefold() for name in frame.columns}
    expected = None if known is None else {name.casefold() for name in known}
    for level in frame.index.names:
        folded = str(level).casefold()
        if level is None or folded in present or (expected is not None and folded not in expected):
            continue
        raise ConversionError(
            f"the column {str(level)!r} is in the index, and the index is not written",
            column=str(level),
            hint="pass index=True to write it, or index=False to drop it",
        )


def _has_labels(index: pd.Index[Any]) -> bool:
    """Whether the index has names or labels, not only row numbers."""
    numbered = index.nlevels == 1 and bool(pd.api.types.is_integer_dtype(index.dtype))
    return bool(len(index)) and not (numbered and index.name is None)


def _warn_of_index(index: pd.Index[Any]) -> None:
    names = ", ".join(repr(str(name)) for name in index.names if name is not None)
    what = f"index {names}" if names else f"index of {shorten(index[0])}, …"
    warn(
        f"the {what} is not written; pass index=True to write it as columns, or index=False "
        "to omit it without a warning"
    )
