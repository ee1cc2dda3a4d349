"""Exports the selected rows of an explorer: as data frames, and as CSV, Excel or Parquet files."""

from __future__ import annotations

import io
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.access.paging.ordering import Order
from odps_nb.access.row_forms import RowForms
from odps_nb.access.saving import Folder, safe_name
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.values.cells import nested_text, nested_values
from odps_nb.notebook.explore.workbook import MAX_ROWS, WorkbookWriter
from odps_nb.notebook.progress.operations import loaded_magics
from odps_nb.schema import Column
from odps_nb.terms import count_of, format_bytes

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from odps_nb.access.connection import Connection
    from odps_nb.notebook.explore.view import RowView

MAX_FILE = 100_000_000
"""Size in bytes of a downloaded file at which no more rows are added to it."""
CHUNK = 256 * 1024
BOM = b"\xef\xbb\xbf"  # spreadsheets need it to read UTF-8
_NAME = "odps"  # the variable of the connection in generated code
PIECE = 4 * 1024 * 1024  # bytes of Arrow data to write at a time
_PLAIN_SCALE = 6  # maximum decimal places that Arrow always writes without an exponent

FileKind = Literal["csv", "xlsx", "parquet"]
MEDIA_TYPES = {
    "csv": "text/csv;charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
}


class ExportsRows(ABC):
    """The methods of `RowView` and `Explorer` that read all selected rows, not only a page.

    The filter, search and order of the view apply, and so does the ``text=`` option of the explored
    source. Without that option, invalid UTF-8 raises an error.
    """

    @abstractmethod
    def selected(self) -> RowForms:
        """Return a new read of the selected rows."""

    def to_pandas(self, *, progress: Progress = None, **options: Any) -> pd.DataFrame:
        """Read all selected rows into a DataFrame; ``options`` are those of `Scan.to_pandas`."""
        return self.selected().to_pandas(progress=progress, **options)

    def to_arrow(self, *, progress: Progress = None) -> pa.Table:
        """Read all selected rows into an Arrow table, as `Scan.to_arrow` does."""
        return self.selected().to_arrow(progress=progress)

    def to_polars(self, *, progress: Progress = None) -> pl.DataFrame:
        """Read all selected rows into a polars DataFrame, as `Scan.to_polars` does."""
        return self.selected().to_polars(progress=progress)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """The size of a file in rows and bytes, and whether rows are missing at the end.

    ``shortened`` is the number of texts that were too long for a cell of a workbook.
    """

    rows: int
    size: int
    is_cut: bool
    shortened: int = 0


def file_kind(name: str) -> FileKind:
    """Return ``name`` as a `FileKind`; raise `ArgumentError` if there is no such kind."""
    if name not in MEDIA_TYPES:
        raise ArgumentError(f"{name!r:.40} is not one of {', '.join(MEDIA_TYPES)}")
    return cast("FileKind", name)


def words_of(made: WrittenFile) -> str:
    """Describe the size of a file in rows and bytes, and whether it is truncated."""
    first = "only the first " if made.is_cut else ""
    cut = f"; {count_of(made.shortened, 'text')} cut" if made.shortened else ""
    return f"{first}{count_of(made.rows, 'row')}, {format_bytes(made.size)}{cut}"


def file_name(title: str, kind: FileKind, choice: Choice) -> str:
    """Return a safe file name for the selected rows of a source with this title."""
    texts = [*(condition.text for condition in choice.conditions), choice.search]
    chosen = "-".join(part for text in texts if (part := _name_part(text, 40)))
    stem = "-".join(filter(None, (_name_part(title, 60), chosen[:80].strip("_.-"))))
    return f"{safe_name(stem) or 'rows'}.{kind}"


def _name_part(text: str, most: int) -> str:
    for sign, word in (("≥", "from"), ("≤", "to"), ("<", "below"), (">", "above")):
        text = text.replace(sign, word)
    return re.sub(r"[^\w.-]+", "_", text)[:most].strip("_.-")


def cell_code(view: RowView, used: set[str]) -> str:
    """Return code for a cell that reads the selected rows into a variable not in ``used``."""
    name = _free("df", {*_user_names(), *used})
    used.add(name)
    opening, code = opened(view.frame_code, view.connection)
    return f"{opening}{name} = {code}\n{name}"


def opened(code: str, connection: Connection) -> tuple[str, str]:
    """Return lines that assign the connection to a variable, and ``code`` with this variable.

    The lines are ``""`` if a variable already holds the connection, or if it is not known how the
    connection was created.
    """
    magics = loaded_magics()
    if magics is None or _holder(connection) is not None:
        return "", code
    name = _free(_NAME, _user_names())
    opening = magics.context.opening(connection, name)
    return opening, f"{name}{code.removeprefix(_NAME)}" if opening else code


def named(code: str, connection: Connection) -> str:
    """Return code that begins with ``odps``, with the user's variable for the connection."""
    return f"{_holder(connection) or _NAME}{code.removeprefix(_NAME)}"


def _holder(connection: Connection) -> str | None:
    """Return the name of a variable of the user that holds the connection."""
    holders = [name for name, value in _user_names().items() if value is connection]
    return next((name for name in sorted(holders, key=_NAME.__ne__) if name[0] != "_"), None)


def _user_names() -> dict[str, Any]:
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return {} if shell is None else dict(shell.user_ns)


def _free(base: str, taken: Collection[str]) -> str:
    numbered = (f"{base}{n}" for n in range(2, len(taken) + 3))
    return next(name for name in (base, *numbered) if name not in taken)


def sort_code(order: Order) -> str:
    """Return pandas method calls that sort a data frame as `Rows.ordered` does, or ``""``.

    A null sorts below every value. pandas puts the nulls of all keys first or last, so if keys have
    different directions, the code sorts by one key at a time, the most significant key last.
    """
    ways = {descending for _, descending in order}
    if len(ways) > 1:
        return "".join(_sort_call([key], ", kind='stable'") for key in reversed(order))
    return _sort_call(order, "") if order else ""


def _sort_call(order: Sequence[tuple[str, bool]], options: str) -> str:
    names = [name for name, _ in order]
    way = "ascending=False" if order[0][1] else "na_position='first'"
    keys = names[0] if len(names) == 1 else names
    return f".sort_values({keys!r}, {way}, ignore_index=True{options})"


def write_file(
    rows: RowForms,
    kind: FileKind,
    send: Callable[[bytes], object],
    *,
    progress: Progress = False,
    cancel: CancelToken | None = None,
    limit: int = MAX_FILE,
) -> WrittenFile:
    """Write rows as a file and pass its bytes to ``send``, in chunks of at most `CHUNK` bytes.

    Once the file has ``limit`` bytes (a workbook: rows of this size as Arrow data), no more rows
    are added. A CSV file is UTF-8 with a byte order mark and a header.
    Text is quoted and otherwise unchanged, even if a spreadsheet would interpret it as a formula.
    Nulls are written as empty fields, binary data as hexadecimal, nested values as JSON, and BLOBs
    as their references. `WorkbookWriter` describes Excel's numbers and times.

    Raises
    ------
    MissingDependencyError
        XlsxWriter, which writes workbooks, is not installed.
    """
    chunks, count, is_cut, token = _Chunks(send), 0, False, cancel or CancelToken()
    with closing(rows.batches(progress=progress, read_ahead=4 * PIECE)) as batches:
        first = next(batches, None)
        if first is None:
            first = pa.RecordBatch.from_pylist([], schema=rows.arrow_schema)
        columns = [column for name in first.schema.names if (column := rows.schema.find(name))]
        shown = first if kind == "parquet" else _plain(first, columns, kind)
        if kind == "csv":
            chunks.write(BOM)
        most, size = MAX_ROWS if kind == "xlsx" else sys.maxsize, 0
        with _writer(kind, chunks, shown.schema, columns) as writer:
            for piece in _pieces(first, batches):
                token.check()
                if max(chunks.size, size) >= limit or count == most:
                    is_cut = True
                    break
                part = piece.slice(0, most - count)
                writer.write_batch(part if kind == "parquet" else _plain(part, columns, kind))
                is_cut = part.num_rows < piece.num_rows
                count += part.num_rows
                size += part.nbytes if kind == "xlsx" else 0
    chunks.end()
    shortened = getattr(writer, "shortened", 0)
    return WrittenFile(rows=count, size=chunks.size, is_cut=is_cut, shortened=shortened)


def save_file(
    rows: RowForms,
    kind: FileKind,
    name: str,
    *,
    progress: Progress = False,
    cancel: CancelToken | None = None,
) -> tuple[WrittenFile, Path]:
    """Write rows as a file of any size in the current folder; number the name if it is in use."""
    files: list[WrittenFile] = []

    def fill(file: BinaryIO) -> None:
        options: dict[str, Any] = {"progress": progress, "cancel": cancel, "limit": sys.maxsize}
        files.append(write_file(rows, kind, file.write, **options))

    path = Folder(Path.cwd()).fill(fill, name)
    return files[0], path


def _writer(kind: FileKind, sink: _Chunks, schema: pa.Schema, columns: list[Column]) -> Any:
    if kind == "csv":
        import pyarrow.csv as csv

        return csv.CSVWriter(sink, schema)
    if kind == "xlsx":
        return WorkbookWriter(cast("BinaryIO", sink), columns)
    import pyarrow.parquet as parquet

    return parquet.ParquetWriter(sink, schema)


def _pieces(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Divide batches into pieces of about `PIECE` bytes; an empty batch yields no piece."""
    batch: pa.RecordBatch | None = first
    while batch is not None:
        step = max(1, batch.num_rows * PIECE // max(PIECE, batch.nbytes))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)
        batch = next(batches, None)


class _Chunks(io.RawIOBase):
    """A writable file that passes its bytes to ``send`` in chunks."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        super().__init__()
        self._send, self._rest = send, bytearray()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._rest += data
        count = len(memoryview(data).cast("B"))
        self.size += count
        while len(self._rest) >= CHUNK:
            self._send(bytes(self._rest[:CHUNK]))
            del self._rest[:CHUNK]
        return count

    def end(self) -> None:
        """Send the remaining bytes."""
        if self._rest:
            self._send(bytes(self._rest))
            self._rest.clear()


def _plain(batch: pa.RecordBatch, columns: list[Column], kind: FileKind) -> pa.RecordBatch:
    """Return the batch, with values that the file cannot represent converted to text."""
    arrays = [
        _plain_array(array, column, kind)
        for array, column in zip(batch.columns, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _plain_array(array: pa.Array, column: Column, kind: FileKind) -> pa.Array:
    found = array.type
    if pt.is_dictionary(found):
        return _plain_array(array.dictionary_decode(), column, kind)
    if pt.is_nested(found):
        values = nested_values(array)
        return _texts(values, lambda value: nested_text(value, column, as_text=bytes.hex))
    if pt.is_binary(found) or pt.is_large_binary(found):
        return _texts(array.to_pylist(), bytes.hex)
    if pt.is_interval(found) or pt.is_duration(found):
        return _texts(array.to_pylist(), str)
    if kind == "csv" and pt.is_decimal(found) and found.scale > _PLAIN_SCALE:
        return _texts(array.to_pylist(), "{:f}".format)
    return array


def _texts(values: Iterable[Any], text: Callable[[Any], str]) -> pa.Array:
    texts = [None if value is None else text(value) for value in values]
    return pa.array(texts, pa.string())
