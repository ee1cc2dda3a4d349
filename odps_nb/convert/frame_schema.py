"""Chooses the MaxCompute type of each column of a DataFrame, for a table that is to be made.

====================================  =====================================================
pandas                                MaxCompute
====================================  =====================================================
``int8`` … ``int64``, ``Int8`` …      TINYINT … BIGINT
``uint8``, ``uint16``, ``uint32``     the next wider type; ``uint64`` is DECIMAL(20, 0)
``float32``, ``float64``, ``bool``    FLOAT, DOUBLE, BOOLEAN
``str``, ``string``                   STRING
``category``                          the type of its categories
``datetime64[s]``, ``[ms]``           DATETIME
``datetime64[us]``, ``[ns]``          TIMESTAMP; with a zone, too: both are instants
``timedelta64``                       INTERVAL_DAY_TIME
Arrow-backed                          what Arrow's type says, nested ones too
the dtype of a BLOB column            BLOB
``object``                            what its values are: text STRING, bytes BINARY, paths,
                                      files, `NewBlob`, handles of blobs, pictures and arrays of
                                      two dimensions or more BLOB, `Decimal`
                                      DECIMAL(38, 18), dates DATE, lists and dicts ARRAY and
                                      STRUCT; nothing but nulls STRING
====================================  =====================================================

Files that a column names are not opened. Arrow data follows ``odps_nb.convert.arrow_types``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from odps_nb.convert.arrow_schema import column_type, refuse_twins
from odps_nb.convert.fitting.inference import object_type
from odps_nb.convert.pandas_frame import check_names, column_array
from odps_nb.schema import Column, OdpsType, PrimitiveType, TableSchema, TypeCode

__all__ = ["frame_schema"]


def frame_schema(frame: pd.DataFrame, is_blob: Callable[[Any], bool]) -> TableSchema:
    """Return the columns of a table that holds every value of a DataFrame.

    Parameters
    ----------
    is_blob
        Whether a Python object stands for the content of a blob, a file for instance.

    Raises
    ------
    ConversionError
        A name that is no text or occurs twice, or values for which there is no type.
    """
    check_names(frame)
    columns: list[Column] = []
    for place, name in enumerate(frame.columns):
        series = frame.iloc[:, place]
        if _holds_blobs(series, is_blob):
            columns.append(Column(name=name, type=PrimitiveType(TypeCode.BLOB)))
        else:
            columns.append(Column(name=name, type=_type_of(series, name)))
    refuse_twins([column.name for column in columns])
    return TableSchema(columns=tuple(columns))


def _holds_blobs(series: pd.Series[Any], is_blob: Callable[[Any], bool]) -> bool:
    if series.dtype != object:
        return False
    first = series.first_valid_index()
    return first is not None and any(is_blob(value) for value in series.dropna())


def _type_of(series: pd.Series[Any], name: str) -> OdpsType:
    if series.dtype == object:
        return object_type(list(series), name)
    return column_type(column_array(series.iloc[:0], name).type, name)
