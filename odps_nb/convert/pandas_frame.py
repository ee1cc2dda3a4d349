"""Arrow batches to a pandas DataFrame and back (floor 2, pure; the only ``import pandas``).

What a read gives, by MaxCompute type. The rule is: never lose a value and never change its kind
silently, and use the dtype that people expect where that is possible.

====================================  =====================================================
type                                  pandas dtype
====================================  =====================================================
TINYINT … BIGINT, months, BOOLEAN     ``int8`` … ``int64``, ``bool``; where the result has
                                      nulls: ``Int8`` … ``Int64``, ``boolean`` (never float)
FLOAT, DOUBLE                         ``float32``, ``float64``; null and NaN are both NaN
STRING, CHAR, VARCHAR, JSON, BLOB     pandas' own text dtype (``str``; ``object`` in pandas 2)
BINARY                                ``object`` with ``bytes`` and ``None``
DECIMAL                               Arrow-backed ``decimal128``/``decimal256``: exact
DATE                                  ``datetime64[ms]``, which holds the years 1 to 9999
DATETIME, TIMESTAMP, TIMESTAMP_NTZ    ``datetime64`` in the unit that arrived (ms, ns)
INTERVAL_DAY_TIME                     ``timedelta64[ns]``
ARRAY, MAP, STRUCT                    Arrow-backed: nulls and integers inside stay what they are
====================================  =====================================================

A write takes the same dtypes and everything else that Arrow understands; what fits is decided in
`odps_nb.convert.fit`. The index is not written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.arrow_schema import fit_table
from odps_nb.convert.python_values import array_of
from odps_nb.errors import ConversionError
from odps_nb.schema import OdpsType, TableSchema
from odps_nb.wire.type_text import format_type

__all__ = ["from_pandas", "to_pandas"]

_GROUP_BYTES = 32 * 2**20
_NULLABLE: dict[pa.DataType, Any] = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


# -- to pandas --------------------------------------------------------------------------------


def to_pandas(
    data: pa.Table | Iterable[pa.RecordBatch], *, schema: pa.Schema | None = None
) -> pd.DataFrame:
    """Return a DataFrame with the dtypes of the table at the top of this module.

    Parameters
    ----------
    data
        A table, or batches, which may still be arriving. Batches are freed while they are
        converted, so that the peak stays far below twice the Arrow size, and the DataFrame
        holds no memory but its own; a table stays usable and is left as it is.
    schema
        Needed for batches: an empty result has columns too.
    """
    table = data if isinstance(data, pa.Table) else _gathered(data, schema)
    columns = deque(table.columns)
    names, rows = table.column_names, table.num_rows
    del data, table
    series: dict[int, pd.Series[Any]] = {}
    freed = 0
    while columns:
        freed += columns[0].nbytes
        series[len(series)] = _series(columns.popleft())  # what nobody else holds can go
        if freed >= _GROUP_BYTES:
            freed = 0
            pa.default_memory_pool().release_unused()  # Arrow's memory is of no use to pandas
    frame = pd.DataFrame(series, copy=False, index=pd.RangeIndex(rows))
    frame.columns = pd.Index(names)
    return frame


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema | None) -> pa.Table:
    """Return a table each column of which has memory of its own.

    The columns of a batch that came off the wire are slices of one buffer: any of them would
    keep all of them, and text and nested columns go into the DataFrame as they are.
    """
    groups = [group.combine_chunks() for group in _groups(batches)]
    pa.default_memory_pool().release_unused()  # what the batches came in
    return pa.concat_tables(groups) if groups else pa.Table.from_batches([], schema=schema)


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            group, held, size = pa.Table.from_batches(held), [], 0
            yield group
    if held:
        yield pa.Table.from_batches(held)


def _series(column: pa.ChunkedArray) -> pd.Series[Any]:
    if pt.is_binary(column.type) or pt.is_large_binary(column.type):
        return _bytes_series(column)
    mapper: Callable[[pa.DataType], Any] | None = None
    if column.null_count and column.type in _NULLABLE:
        mapper = _NULLABLE.get
    elif pt.is_decimal(column.type) or pt.is_nested(column.type):
        mapper = pd.ArrowDtype
    series: pd.Series[Any] = column.to_pandas(types_mapper=mapper, date_as_object=False)
    if column.num_chunks > 1 or not isinstance(series.dtype, np.dtype):
        return series  # its chunks were joined into memory of its own
    if not series.to_numpy().flags.writeable:
        return series.copy()  # a view of Arrow memory would refuse ``df.loc[…] = …``
    return series


def _bytes_series(column: pa.ChunkedArray) -> pd.Series[Any]:
    """Make the objects part by part: equal ones are found by a table that grows with the part."""
    values = np.empty(len(column), object)
    at = 0
    for part in column.chunks:
        values[at : at + len(part)] = part.to_numpy(zero_copy_only=False)
        at += len(part)
    return pd.Series(values, dtype=object, copy=False)


# -- from pandas ------------------------------------------------------------------------------


def from_pandas(frame: pd.DataFrame, schema: TableSchema | None = None) -> pa.Table:
    """Return the columns of a DataFrame as Arrow, NaN and NA as nulls; the index is left out.

    Parameters
    ----------
    frame
        Text as column names.
    schema
        The table to be written: the result then has exactly its columns and write types.

    Raises
    ------
    ConversionError
        Names, types or values that do not fit, with columns and rows (counted from 0).
    """
    _check_names(frame, schema)
    arrays = []
    for place, name in enumerate(frame.columns):
        column = schema.find(name) if schema is not None else None
        target = column.type if column is not None else None
        arrays.append(_array(frame.iloc[:, place], str(name), target))
    table = pa.table(arrays, names=[str(name) for name in frame.columns])
    return table if schema is None else fit_table(table, schema)


def _check_names(frame: pd.DataFrame, schema: TableSchema | None) -> None:
    for name in frame.columns:
        if not isinstance(name, str):
            raise ConversionError(
                f"the column name {name!r} is not text",
                column=str(name),
                hint="set df.columns to the names of the table's columns",
            )
    if schema is None:
        return
    present = {name.casefold() for name in frame.columns}
    for level in frame.index.names:
        if isinstance(level, str) and schema.find(level) and level.casefold() not in present:
            raise ConversionError(
                f"the column {level!r} is in the index, and the index is not written",
                column=level,
                hint="write df.reset_index()",
            )


def _array(series: pd.Series[Any], name: str, target: OdpsType | None) -> pa.Array:
    if isinstance(series.dtype, pd.SparseDtype):
        series = pd.Series(np.asarray(series))
    if series.dtype == object and target is not None:
        return array_of(list(series), name, target)
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ConversionError(
            f"the column {name!r} ({series.dtype}) has no Arrow form: {error}",
            column=name,
            source_type=str(series.dtype),
            target_type=format_type(target) if target is not None else None,
            hint="cast the column, e.g. with df.astype",
        ) from None
