"""`BlobDtype` and `BlobArray`: a column of blob references in a pandas DataFrame.

Values are the references as text, or ``None`` for nulls. Unlike plain text, they are displayed with
type, size and name if these are known without a request. Writing such a column copies
its blobs. ``series.odps`` provides more methods (`odps_nb.convert.blob_columns.blob_series`).

Other libraries see a text column. ``str(dtype)`` is ``str``, because pandas writes this name into
Parquet files, and DuckDB rejects unknown names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype

from odps_nb.convert.blob_columns.arrow_blob import TEXT, ArrowBlob
from odps_nb.terms import BlobReference

_TEXT = pd.StringDtype("pyarrow")


@register_extension_dtype
class BlobDtype(ExtensionDtype):
    """The dtype of a blob reference column; all instances are equal.

    ``source`` fetches the blobs (`odps_nb.access.blobs.frames.FrameBlobs`). Columns read from a
    file or received from another process have no source.
    """

    name = "blob"
    type = str
    kind = "O"
    na_value = None
    _metadata = ()

    def __init__(self, source: Any = None) -> None:
        self.source = source

    def __str__(self) -> str:
        return "str"

    def __repr__(self) -> str:
        return "blob"

    @classmethod
    def construct_array_type(cls) -> Any:
        """Return the array class."""
        return BlobArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> BlobArray:
        """Convert an Arrow column of references, as text or `ArrowBlob`, to a `BlobArray`."""
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        plain = [
            chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk for chunk in chunks
        ]
        text: Any = _TEXT  # Any, because the pandas stubs lack ``__from_arrow__``
        references = pa.chunked_array([chunk.cast(TEXT) for chunk in plain], TEXT)
        return BlobArray(text.__from_arrow__(references), self)


class BlobArray(ExtensionArray):
    """An array of blob references as text; see `BlobDtype`."""

    def __init__(self, texts: Any, dtype: BlobDtype) -> None:
        self._texts, self._dtype = texts, dtype

    @classmethod
    def _from_sequence(cls, scalars: Any, *, dtype: Any = None, copy: bool = False) -> BlobArray:
        if isinstance(scalars, BlobArray):
            blob_dtype = scalars.dtype if dtype is None else _as_dtype(dtype, scalars.dtype)
            return cls(scalars._texts.copy() if copy else scalars._texts, blob_dtype)
        texts = pd.array([_text(value) for value in scalars], dtype=_TEXT)
        return cls(texts, _as_dtype(dtype, BlobDtype()))

    @classmethod
    def _from_factorized(cls, values: Any, original: BlobArray) -> BlobArray:
        return cls._from_sequence(values, dtype=original.dtype)

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[BlobArray]) -> BlobArray:
        sources = (array.dtype for array in to_concat if array.dtype.source is not None)
        texts = type(to_concat[0]._texts)._concat_same_type([array._texts for array in to_concat])
        return cls(texts, next(sources, BlobDtype()))

    @property
    def dtype(self) -> BlobDtype:
        """The dtype, which holds the blobs' source."""
        return self._dtype

    @property
    def nbytes(self) -> int:
        """Bytes of memory used by the references."""
        return int(self._texts.nbytes)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, item: Any) -> Any:
        value = self._texts[item]
        if isinstance(value, ExtensionArray):
            return type(self)(value, self._dtype)
        return None if pd.isna(value) else value

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, (pd.Series, BlobArray)):
            value = list(value)
        if pd.api.types.is_list_like(value):
            self._texts[key] = [_text(item) for item in value]
        else:
            self._texts[key] = _text(value)

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, (pd.Series, pd.Index, pd.DataFrame)):
            return NotImplemented
        if pd.api.types.is_list_like(other):
            return self._texts == pd.array([_text(item) for item in other], dtype=_TEXT)
        return self._texts == _text(other)

    def isna(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Mask of the null values."""
        return np.asarray(self._texts.isna())

    def take(self, indices: Any, *, allow_fill: bool = False, fill_value: Any = None) -> BlobArray:
        """Return the values at these positions, like `pandas.api.extensions.take`."""
        fill = pd.NA if _text(fill_value) is None else fill_value
        texts = self._texts.take(indices, allow_fill=allow_fill, fill_value=fill)
        return type(self)(texts, self._dtype)

    def copy(self) -> BlobArray:
        """Return a copy with the same source."""
        return type(self)(self._texts.copy(), self._dtype)

    def astype(self, dtype: Any, copy: bool = True) -> Any:  # noqa: FBT001, FBT002  pandas' own
        """Convert the text of the references to another dtype."""
        target = pd.api.types.pandas_dtype(dtype)
        if isinstance(target, BlobDtype):
            return type(self)(self._texts.copy() if copy else self._texts, self._dtype)
        if target == np.dtype(object):
            return np.asarray(self)
        return self._texts.astype(target, copy=copy)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        """Return the references as an object array, with ``None`` for nulls."""
        texts = self._texts.to_numpy(dtype=object, na_value=None)
        array: np.ndarray[Any, Any] = texts if dtype is None else texts.astype(dtype)
        return array

    def __arrow_array__(self, type: Any = None) -> pa.Array:
        """Return an Arrow array of `ArrowBlob`, or of ``type`` if set."""
        storage = pa.array(np.asarray(self), TEXT)
        if type is None or isinstance(type, pa.BaseExtensionType):
            return pa.ExtensionArray.from_storage(ArrowBlob(), storage)
        return storage.cast(type)

    def _values_for_factorize(self) -> tuple[np.ndarray[Any, Any], Any]:
        return np.asarray(self), None

    def _values_for_argsort(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.astype(str))

    def _cast_pointwise_result(self, values: Any) -> Any:
        """Keep the dtype if this array contains all values; ``map`` may return other values."""
        own = {*np.asarray(self), None}
        if all(isinstance(value, str) and value in own for value in values if value is not None):
            return self._from_sequence(values, dtype=self._dtype)
        return pd.Series(list(values)).array

    def _formatter(self, boxed: bool = False) -> Callable[[Any], str]:  # noqa: FBT001, FBT002
        def shown(value: Any) -> str:
            if value is None or value is pd.NA:
                return "None"
            source = self._dtype.source
            return short_name(value) if source is None else str(source.describe(value))

        return shown


def short_name(reference: str) -> str:
    """Return a short name for a blob whose properties are unknown: the end of its reference."""
    return f"blob …{reference.rstrip('=')[-8:]}"


def _text(value: Any) -> str | None:
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return None
    value = getattr(value, "reference", value)  # a blob handle
    if isinstance(value, BlobReference):
        return value.token
    if isinstance(value, str):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} is not a blob reference")


def _as_dtype(dtype: Any, known: BlobDtype) -> BlobDtype:
    if isinstance(dtype, BlobDtype) and dtype.source is not None:
        return dtype
    return known
