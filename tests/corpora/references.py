"""The results of other libraries for the same bytes: Pillow, pandas, pyarrow, fastavro, numpy."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

import fastavro
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from odps_nb.convert.pictures import PICTURES, register
from odps_nb.formats.parsing import parse
from odps_nb.formats.shared import GRID

#: Both libraries read the same values. Otherwise, one line states the difference, or that the other
#: library rejects the file.
EQUAL = "equal"
REFUSES = "the other refuses"


def compare(
    data: bytes, about: Mapping[str, Any], made: Mapping[str, tuple[str, Any]]
) -> dict[str, str]:
    """Return how our result of each conversion compares with that of another library."""
    mime = about["mime"]
    found = {}
    if mime in PICTURES:
        found["to_pil"] = _beside(made["to_pil"], lambda: _picture(data), _same_picture)
    if mime == "application/x-npy":
        read = lambda: np.load(io.BytesIO(data), allow_pickle=False)  # noqa: E731
        found["to_numpy"] = _beside(made["to_numpy"], read, _same_array)
    if mime in _TABLES:
        read = lambda: _TABLES[mime](data)  # noqa: E731
        found["to_table"] = _beside(made["to_table"], read, _same_rows)
    if mime in _SEPARATORS:
        read = lambda: _csv(data, about["encoding"], _SEPARATORS[mime])  # noqa: E731
        found["to_table"] = _beside(made["to_table"], read, _same_texts)
    if mime == "application/vnd.apache.avro":
        found["tile"] = _avro(data, about)
    return found


def _beside(ours: tuple[str, Any], read: Callable[[], Any], same: Callable[[Any, Any], str]) -> str:
    try:
        theirs = read()
    except Exception as error:  # noqa: BLE001 - whatever it raises: it does not read it
        return f"{REFUSES}: {type(error).__name__}: {str(error)[:200]}"
    end, value = ours
    if end != "value":
        return f"refused here: {str(value)[:300]}"
    return same(value, theirs)


# -- pictures and arrays ----------------------------------------------------------------------


def _picture(data: bytes) -> Image.Image:
    register()
    picture = Image.open(io.BytesIO(data))
    picture.load()
    return picture


def _same_picture(ours: Image.Image, theirs: Image.Image) -> str:
    for name in ("mode", "size"):
        if getattr(ours, name) != getattr(theirs, name):
            return f"{name} {getattr(ours, name)}, of Pillow {getattr(theirs, name)}"
    return EQUAL if ours.tobytes() == theirs.tobytes() else "other pixels than Pillow"


def _same_array(ours: Any, theirs: Any) -> str:
    equal = ours.dtype == theirs.dtype and ours.shape == theirs.shape
    return EQUAL if equal and ours.tobytes() == theirs.tobytes() else "another array than numpy"


# -- tables -----------------------------------------------------------------------------------

_TABLES: dict[str, Callable[[bytes], pa.Table]] = {
    "application/vnd.apache.parquet": lambda data: pq.read_table(pa.BufferReader(data)),
    "application/vnd.apache.arrow.file": lambda data: pa.ipc.open_file(data).read_all(),
    "application/vnd.apache.arrow.stream": lambda data: pa.ipc.open_stream(data).read_all(),
}
_SEPARATORS = {"text/csv": ",", "text/tab-separated-values": "\t"}


def _same_rows(ours: pa.Table, theirs: pa.Table) -> str:
    if ours.schema != theirs.schema:
        return f"schema {ours.schema}, of pyarrow {theirs.schema}"
    # equals() does not suffice, because NaN is unequal to NaN; comparing buffers would not either
    equal = ours.equals(theirs) or str(ours.to_pylist()) == str(theirs.to_pylist())
    return EQUAL if equal else f"{ours.num_rows} rows, values differ from those of pyarrow"


def _csv(data: bytes, encoding: str, separator: str) -> pd.DataFrame:
    """Read each cell as its original text."""
    text = data.decode(encoding or "utf-8")
    line = text.splitlines()[0]
    if separator == "," and line.count(";") > line.count(","):
        separator = ";"
    plain = {"dtype": str, "keep_default_na": False, "na_filter": False}
    return pd.read_csv(io.StringIO(text), sep=separator, index_col=False, **plain)


def _same_texts(ours: pa.Table, theirs: pd.DataFrame) -> str:
    if ours.num_rows != len(theirs) or ours.num_columns != theirs.shape[1]:
        return f"{ours.shape} cells, of pandas {theirs.shape}"
    for at, name in enumerate(ours.column_names):
        texts = theirs.iloc[:, at]
        values = ours.column(at)
        if not _same_column(values, texts):
            return f"column {name!r} ({values.type}) has other values than for pandas"
    return EQUAL


def _same_column(values: pa.ChunkedArray, texts: pd.Series) -> bool:
    """Compare a column to which pyarrow assigned a type with its text."""
    kind = values.type
    if pa.types.is_string(kind):
        return [value or "" for value in values.to_pylist()] == texts.tolist()
    is_null = texts.isin(_NULLS)
    if values.is_null(nan_is_null=True).to_pylist() != is_null.tolist():
        return False
    held, written = pd.Series(values.drop_null().to_pylist(), dtype=object), texts[~is_null]
    if pa.types.is_null(kind) or written.empty:
        return True
    if pa.types.is_boolean(kind):
        return held.tolist() == written.str.lower().isin(("true", "1")).tolist()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        held = held.dropna()  # NaN is written as a null
        return bool((held.astype(float).to_numpy() == pd.to_numeric(written).to_numpy()).all())
    if pa.types.is_time(kind):
        return held.astype(str).str[:5].tolist() == written.str.zfill(8).str[:5].tolist()
    return bool((pd.to_datetime(held).to_numpy() == pd.to_datetime(written).to_numpy()).all())


#: Texts that pyarrow and pandas read as null.
_NULLS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN")
) | frozenset(("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"))


def _avro(data: bytes, about: Mapping[str, Any]) -> str:
    """Compare the rows of a tile with those of fastavro."""
    try:
        theirs = list(islice(fastavro.reader(io.BytesIO(data)), GRID.rows))
    except Exception as error:  # noqa: BLE001
        return f"{REFUSES}: {type(error).__name__}: {str(error)[:200]}"
    if about["refused"]:
        return f"refused here: {about['said']}"
    ours = parse("avro", data, GRID, whole=True).rows("rows")
    cells = [list(row.values()) if isinstance(row, dict) else [row] for row in theirs]
    texts = [[_cell(value) for value in row[: GRID.columns + 1]] for row in cells]
    return EQUAL if ours == [tuple(row) for row in texts] else f"{ours}: of fastavro {texts}"


def _cell(value: object) -> str:
    """Return the text of a cell; bytes are counted and long text is truncated."""
    if value is None:
        return "null"
    return f"<{len(value)} B>" if isinstance(value, bytes) else str(value)[:400]
