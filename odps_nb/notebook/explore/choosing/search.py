"""Text search in an explorer: finds rows whose displayed values contain a string."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.access.paging.ordering import MAX_SORTED, Order
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, LimitExceededError
from odps_nb.notebook.explore.values.cells import SHOWN_BYTES, cell_texts, is_number, kind_of
from odps_nb.schema import Column, TypeCode
from odps_nb.terms import format_bytes

MAX_SORTED_BYTES = 256 * 2**20
"""Maximum bytes of matching rows to hold in memory while sorting them."""
MAX_EXPORTED_BYTES = 2_000_000_000
"""Maximum bytes of exported rows to sort, as Arrow data; sorting needs twice this memory."""

_DIGITS = "0123456789-+."
# characters that displayed values may contain, by kind; other kinds may contain any character
_SIGNS = {
    "INTEGER": _DIGITS,
    "FLOAT": _DIGITS + "einfa",
    "DOUBLE": _DIGITS + "einfa",
    "DECIMAL": _DIGITS + "e",
    "BOOLEAN": "truefals",
    "DATE": _DIGITS,
    "INSTANT": _DIGITS + ": z",
    "CLOCK": _DIGITS + ": ",
    "BYTES": "0123456789abcdefx… (),b",
}
# matches text with quotes, brackets, escapes or separators, which JSON adds to nested values
_BETWEEN = re.compile(r'["\[\]{}\\]|,(?: |$)|^ |^:(?: |$)')
_WORDS = ("null", "true", "false", "nan", "-infinity", "<blob>")
_LEAF = frozenset("0123456789-+.:, eabcdfx…()")  # characters of nested times, fractions and bytes
_ESCAPED = r'["\\\x00-\x1f]'
_NUMERIC, _HEX = "0123456789.", "0123456789abcdef"
_HEX_DIGITS = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], np.uint8)
# non-ASCII letters whose case-folded form contains ASCII letters
_FOLDED_TO_ASCII = "[\xdf\u0130\u0149\u017f\u01f0\u1e96-\u1e9a\u1e9e\u212a\ufb00-\ufb06]"
_FRACTION = re.compile(r"\.(\d+)")
_SEPARATED = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d*)?")  # a number with separators


class TextSearch:
    """A test for rows that contain a string in any column, ignoring case.

    The string is compared with the value as displayed, before truncation. A time is converted with
    only the fraction digits that it needs, but at least as many as the string has. Nulls and BLOBs
    never match.
    """

    def __init__(self, columns: Sequence[Column], text: str) -> None:
        needle = text.casefold()
        self._needle, signs = needle, set(needle)
        fraction = _FRACTION.search(needle)
        self._digits = 0 if fraction is None else len(fraction[1])
        number = needle.replace(",", "") if _SEPARATED.fullmatch(needle) else needle
        sought = [number if is_number(column) else needle for column in columns]
        self._columns = [
            (n, column, text)
            for n, (column, text) in enumerate(zip(columns, sought, strict=True))
            if column.type.code is not TypeCode.BLOB
            and set(text) <= set(_SIGNS.get(kind_of(column), text))
        ]
        self._may_span = bool(_BETWEEN.search(needle)) or any(needle in word for word in _WORDS)
        self._may_be_leaf = signs <= _LEAF

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that contain the text."""
        matches = np.zeros(batch.num_rows, bool)
        for n, column, needle in self._columns:
            array = batch.column(n)
            if pt.is_nested(array.type):
                rows = np.flatnonzero(self._may_match(array) & ~matches)
                texts = cell_texts(array.take(pa.array(rows)), column, sys.maxsize)
                matches[rows] = [
                    text is not None and self._needle in text.casefold() for text in texts
                ]
            else:
                matches |= _flat(array, column, needle, self._digits)
        return batch.filter(pa.array(matches))

    # -- nested values: only those that may match are converted to text ---------------------------

    def _may_match(self, array: pa.Array) -> np.ndarray:
        """Return a mask of the nested values that may contain the string."""
        if self._may_span:
            return np.ones(len(array), bool)
        kind = array.type
        if pt.is_struct(kind):
            names = [kind.field(n).name.casefold() for n in range(kind.num_fields)]
            if any(self._needle in name or not name.isprintable() for name in names):
                return np.ones(len(array), bool)
            masks = [self._may_match(part) for part in array.flatten()]
            return np.asarray(np.any(masks, axis=0))
        if pt.is_map(kind):
            first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
            parents = np.repeat(np.arange(len(array)), np.diff(array.offsets.to_numpy()))
            both = (array.keys, array.items)
            parts = [self._may_match(child.slice(first, last - first)) for child in both]
            return _in_parents(parents, np.logical_or(*parts), len(array))
        if pt.is_nested(kind):
            parents = pc.list_parent_indices(array).to_numpy()
            return _in_parents(parents, self._may_match(pc.list_flatten(array)), len(array))
        if pt.is_string(kind) or pt.is_large_string(kind):
            escaped = _bools(pc.fill_null(pc.match_substring_regex(array, _ESCAPED), False)).copy()
            escaped |= _containing(array, self._needle)
            return escaped
        if pt.is_integer(kind) or (pt.is_floating(kind) and self._may_be_leaf):
            return _may_contain(array, self._needle)
        if not self._may_be_leaf or pt.is_binary(kind) or pt.is_large_binary(kind):
            return np.full(len(array), self._may_be_leaf)
        try:
            values = array.to_pylist()
        except (ValueError, OverflowError):  # times outside the range of Python's datetime
            return np.ones(len(array), bool)
        return np.array(
            [value is not None and self._needle in str(value).casefold() for value in values], bool
        )


def _containing(texts: pa.Array, needle: str) -> np.ndarray:
    """Return a mask of the texts that contain the needle; it is false for nulls."""
    lower, has_letters = pc.ascii_lower(texts), needle.lower() != needle.upper()
    matches = _bools(pc.fill_null(pc.match_substring(lower, needle), False)).copy()
    non_ascii = pc.invert(pc.string_is_ascii(texts))  # `ascii_lower` does not fold their letters
    if needle.isascii() and (not has_letters or pc.any(non_ascii).as_py() is not True):
        return matches
    rows = np.flatnonzero(_bools(pc.fill_null(non_ascii, False)))
    if needle.isascii():
        folded = pc.match_substring_regex(texts.take(pa.array(rows)), _FOLDED_TO_ASCII)
        rows = rows[_bools(folded)]
    for row, text in zip(rows, texts.take(pa.array(rows)).to_pylist(), strict=True):
        matches[row] = needle in text.casefold()
    return matches


def _flat(array: pa.Array, column: Column, needle: str, digits: int) -> np.ndarray:
    """Return a mask of the values that contain the needle as displayed."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_timestamp(array.type) and (array.type.tz is None or set(needle) <= set(_NUMERIC)):
        # the displayed text begins like the text of Arrow, which can be searched faster
        maybe = _containing(array.cast(pa.string()), needle)
    elif pt.is_binary(array.type) and set(needle) <= set(_HEX):
        maybe = _hex_containing(array, needle)
    else:
        return _containing(_texts(array, column, digits), needle)
    if len(rows := np.flatnonzero(maybe)):
        maybe[rows] = _containing(_texts(array.take(pa.array(rows)), column, digits), needle)
    return maybe


def _hex_containing(array: pa.Array, needle: str) -> np.ndarray:
    """Return a mask of the binary values whose hexadecimal digits or size contain the needle."""
    sizes = pc.fill_null(pc.binary_length(array), -1).to_numpy()
    heads = pc.binary_slice(pc.fill_null(array, b""), 0, SHOWN_BYTES)
    ends, data = heads.buffers()[1:]
    digits = _HEX_DIGITS[np.frombuffer(data or b"", np.uint8)].tobytes()
    ends = pa.py_buffer(np.frombuffer(ends, np.int32).astype(np.int64) * 2)
    texts = pa.LargeStringArray.from_buffers(len(heads), ends, pa.py_buffer(digits))
    matches = _containing(texts, needle)
    for size in np.unique(sizes):
        if needle in f"0x ({size:,} b)":
            matches |= sizes == size
    return matches


def _may_contain(array: pa.Array, needle: str) -> np.ndarray:
    """Return a mask of the numbers that may contain the needle as Python writes them."""
    if pt.is_integer(array.type):
        return _containing(array.cast(pa.string()), needle)
    # Arrow and Python format some numbers differently, such as 2.0 (Arrow: 2) and 1e+20
    size = pc.abs(array)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater(size, 1e-4), pc.less(size, 1e9)))
    texts = pc.binary_join_element_wise(array.cast(pa.string()), ".0", "")
    matches = _containing(texts, needle)
    matches |= ~_bools(pc.fill_null(plain, True))
    return matches


def _in_parents(parents: np.ndarray, matches: np.ndarray, count: int) -> np.ndarray:
    rows = np.zeros(count, bool)
    rows[parents[matches]] = True
    return rows


def _bools(array: pa.Array) -> np.ndarray:
    booleans: np.ndarray = array.to_numpy(zero_copy_only=False)
    return booleans


def _texts(array: pa.Array, column: Column, digits: int) -> pa.Array:
    """Return the displayed values; times have at least ``digits`` fraction digits."""
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        return array
    if pt.is_binary(array.type) or pt.is_large_binary(array.type):
        return pa.array(cell_texts(array, column, sys.maxsize), pa.string())
    try:
        texts = array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array(cell_texts(array, column, sys.maxsize), pa.string())
    if pt.is_timestamp(array.type):
        for pattern, text in (
            (rf"(\.\d{{{digits}}}\d*?)0+([+-].*|Z)?$", r"\1\2"),
            (r"\.([+-].*|Z)?$", r"\1"),
            (r"([+-]\d\d)(\d\d)$", r"\1:\2"),
        ):
            texts = pc.replace_substring_regex(texts, pattern, text)
    return texts


# -- sorted matching rows --------------------------------------------------------------------------


class KnownRows:
    """Rows in memory, with the same paging methods as the rows of a SQL job."""

    is_cut = False

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.searched: int | None = None
        """Number of rows that the search has tested to find these rows."""

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return int(self._table.num_rows)

    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        """Yield at most ``rows`` rows, beginning with row ``start``."""
        yield from _batches_of(self._table.slice(start, rows))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        yield from _batches_of(self._table)

    def renewed(self) -> KnownRows:
        """Return this object, because rows in memory need no session."""
        return self

    def stop(self) -> None:
        """Do nothing, because all rows are in memory."""


def _batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    # If no row matches, the table has no columns and cannot be sliced.
    return table.to_batches() if table.num_columns else []


def first_in_order(batches: Iterable[pa.RecordBatch], order: Order) -> KnownRows:
    """Return the first `MAX_SORTED` rows in the order of ``Rows.ordered``."""
    parts: list[pa.Table] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        parts.append(pa.Table.from_batches([batch]))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > 2 * MAX_SORTED or size > MAX_SORTED_BYTES:
            parts = [_sorted(parts, order)[:MAX_SORTED]]
            rows, size = parts[0].num_rows, parts[0].nbytes
        if size > MAX_SORTED_BYTES:
            raise ArgumentError(
                "the rows that contain this text are too large to sort in memory",
                hint="add a filter, or sort without the search",
            )
    return KnownRows(_sorted(parts, order)[:MAX_SORTED] if parts else pa.table({}))


def all_in_order(batches: Iterable[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of ``Rows.ordered``, after reading all of them."""
    parts: list[pa.Table] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            parts.append(pa.Table.from_batches([batch]))
            size += batch.nbytes
        if size > MAX_EXPORTED_BYTES:
            raise LimitExceededError(
                f"more than {format_bytes(MAX_EXPORTED_BYTES)} of rows cannot be sorted in memory",
                hint="remove the order before the export and sort the data frame, add a filter, "
                "or use ORDER BY with LIMIT in SQL",
            )
    if parts:
        yield from _sorted(parts, order).to_batches()


def _sorted(parts: Sequence[pa.Table], order: Order) -> pa.Table:
    table = pa.concat_tables(parts, promote_options="permissive")
    keys: list[pa.ChunkedArray] = []
    ways: list[str] = []
    for name, descending in order:
        key = table[name]
        if pt.is_dictionary(key.type):
            key = key.cast(key.type.value_type)
        # sort as SQL does: nulls below all values, and NaN above them
        marks = [pc.is_nan(key)] if pt.is_floating(key.type) else []
        key_columns = [key.is_valid(), *marks, key]
        keys += key_columns
        ways += ["descending" if descending else "ascending"] * len(key_columns)
    names = [str(n) for n in range(len(keys))]
    indices = pc.sort_indices(pa.table(keys, names), sort_keys=list(zip(names, ways, strict=True)))
    return table.take(indices)
