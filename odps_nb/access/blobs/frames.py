"""Fetches the blobs of DataFrame columns and caches their heads (size, type, name)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.blob import Blob, reference_of
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.access.blobs.many import (
    Fetch,
    References,
    plain_values,
    save_blobs,
    stream_blobs,
)
from odps_nb.access.blobs.paths import BlobPath, find_blob_path, walk_blobs
from odps_nb.access.checks import check_count, is_missing, iterator_of
from odps_nb.access.progress import listener_of
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.errors import ArgumentError, NotFoundError, OdpsNbError, a_type, visible
from odps_nb.schema import Column, TypeCode
from odps_nb.terms import BlobReference, Compression, count_of, did_you_mean, format_bytes, shorten
from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.connection import Connection
    from odps_nb.access.scan import Scan
    from odps_nb.access.table import Table
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.cancel import CancelToken

_SHOWN_NAME = 32
_CAPTION_COLUMNS, _SHOWN_VALUE = (
    3,
    100,
)  # maximum number of values in a caption, and of characters per value
_AT_A_TIME = 8
_LEARNED = 20
_PATIENCE = 3.0  # seconds that `Table.head` waits for blob heads


def blob_dtypes(connection: Connection, columns: Iterable[Column]) -> dict[str, Any]:
    """Return the pandas dtype of each BLOB column, by name."""
    names = [column.name for column in columns if column.type.code is TypeCode.BLOB]
    if not names:
        return {}
    import odps_nb.convert.blob_columns.blob_series  # noqa: F401  # registers ``series.odps``
    from odps_nb.convert.blob_columns.blob_array import BlobDtype

    return dict.fromkeys(names, BlobDtype(FrameBlobs(connection)))


def tell_polars(columns: Iterable[Column]) -> None:
    """Add ``series.odps`` to polars if polars is loaded and there are BLOB columns."""
    if "polars" in sys.modules and any(column.type.code is TypeCode.BLOB for column in columns):
        from odps_nb.convert.blob_columns.blob_series import register_polars

        register_polars()


def learn_heads(frame: pd.DataFrame) -> None:
    """Fetch the heads of the first blobs, if possible, so the frame shows their names and sizes."""
    for position, dtype in enumerate(frame.dtypes):
        source = getattr(dtype, "source", None)
        if isinstance(source, FrameBlobs):
            with suppress(OdpsNbError):
                first = frame.iloc[:_LEARNED, position].tolist()
                source.heads(first, progress=False, seconds=_PATIENCE)


class FrameBlobs:
    """Fetches the blobs of columns; a pickle contains the cached heads, but no credentials."""

    def __init__(
        self, connection: Connection | None, heads: Mapping[str, BlobHead] | None = None
    ) -> None:
        self.connection = connection
        self._heads: dict[str, BlobHead] = dict(heads or {})
        self._handles: dict[str, Blob] = {}

    def __reduce__(self) -> Any:
        return type(self), (self.connection, self._known())

    def __repr__(self) -> str:
        return f"<blobs over {self.connection!r}, {len(self._known())} known>"

    def describe(self, reference: str) -> str:
        """Return the cached name, type and size of a blob as text; sends no request."""
        from odps_nb.convert.blob_columns.blob_array import short_name

        handle = self._handles.get(reference)
        head = self._heads.get(reference) or (handle and handle.head)
        if not head:
            return short_name(reference)
        name = shorten(" ".join(visible(head.file_name).split()), _SHOWN_NAME)
        kind = visible(head.mime_type.split(";")[0].strip()) or "blob"
        return " · ".join(part for part in (name, kind, format_bytes(head.size)) if part)

    def heads(
        self, references: Sequence[Any], progress: Progress = None, *, seconds: float | None = None
    ) -> list[BlobHead | None]:
        """Return each blob's head, or ``None`` for a null; cancel the fetch after ``seconds``."""
        texts, known = _texts(references), self._known()
        missing = [text for text in dict.fromkeys(texts) if text and text not in known]
        if missing:
            token = self._open()._storage.operation()
            with ExitStack() as stack:
                if seconds is not None:
                    alarm = Timer(seconds, token.cancel)
                    alarm.daemon = True
                    alarm.start()
                    stack.callback(alarm.cancel)
                self._fetch(missing, progress, token)
            known |= self._heads
        return [None if text is None else known[text] for text in texts]

    def gallery(
        self, references: Sequence[Any], labels: Sequence[Any], limit: int, title: str
    ) -> BlobColumn:
        """Return the first non-null blobs, captioned with the labels of their rows."""
        count = check_count("limit", limit, at_least=0)
        rows = [(row, text) for row, text in enumerate(_texts(references)) if text][:count]
        return BlobColumn(
            [self._handle(text) for _, text in rows],
            title=title,
            captions=[f"row {labels[row]}" for row, _ in rows],
            labels=[labels[row] for row, _ in rows],
            source=self,
        )

    def save(
        self, references: Sequence[Any], folder: Any, options: Mapping[str, Any]
    ) -> list[Path | None]:
        """Save the blobs and return the paths, with ``None`` for a null. See `BlobColumn.save`."""
        remaining = dict(options)
        fetch = self._options(remaining.pop("compression", None), remaining.pop("progress", None))
        return save_blobs(fetch, References(references), folder, **remaining)

    def stream(
        self,
        references: Iterable[Any],
        *,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> Generator[StreamedBlob, None, None]:
        """Check all references, and return an iterator over the blobs as files."""
        return self._streamed(self._options(compression, progress), References(references))

    def _streamed(
        self, fetch: Fetch, references: References
    ) -> Generator[StreamedBlob, None, None]:
        with closing(stream_blobs(fetch, references)) as blobs:
            for blob in blobs:
                self._heads[blob.reference.token] = blob.head
                yield blob

    def _options(self, compression: str | Compression | None, progress: Progress) -> Fetch:
        return Fetch(self._open()._storage, Compression.of(compression), progress)

    # -- inside -------------------------------------------------------------------------------

    def _open(self) -> Connection:
        assert self.connection is not None  # checked by ``series.odps``
        return self.connection

    def _handle(self, text: str) -> Blob:
        if text not in self._handles:
            self._handles[text] = self._open().blob(text)
        return self._handles[text]

    def _known(self) -> dict[str, BlobHead]:
        seen = {
            text: handle.head for text, handle in self._handles.items() if handle.head is not None
        }
        return {**seen, **self._heads}

    def _fetch(self, texts: Sequence[str], progress: Progress, cancel: CancelToken) -> None:
        from odps_nb.client.blob.response import fetch_blob_head
        from odps_nb.client.parallel.fan_out import fan_out

        connection = self._open()
        storage = connection._storage
        listener = listener_of(progress)
        with ProgressTracker("blobs", f"{len(texts)} heads", listener=listener) as tracker:
            tracker.plan(items_total=len(texts))
            tracker.phase(Phase.FETCHING)

            def fetch_head(text: str, token: CancelToken) -> Iterator[tuple[str, BlobHead]]:
                reference = BlobReference(text)
                yield text, fetch_blob_head(storage, reference, tracker=tracker, cancel=token)

            jobs = (partial(fetch_head, text) for text in texts)
            heads = fan_out(jobs, size=lambda _: 0, workers=_AT_A_TIME, cancel=cancel)
            with closing(heads):
                for text, head in heads:
                    self._heads[text] = head
                    tracker.add(items=1)


def _texts(references: Sequence[Any]) -> list[str | None]:
    return [
        None if is_missing(reference) else reference_of(reference).token for reference in references
    ]


def _keeps(keep: Callable[[Blob], object], blob: Blob) -> bool:
    verdict = keep(blob)
    try:
        return bool(verdict)
    except Exception as error:  # truth values of arrays and data frames raise
        raise ArgumentError(
            f"keep returned {a_type(type(verdict))}, which is neither true nor false",
            argument="keep",
            hint="return True or False",
        ) from error


def column_of_values(
    connection: Connection, values: Iterable[Any], limit: int | None
) -> BlobColumn:
    """Return the blobs for a list or a column of references; see `Connection.blobs`."""
    if iterator_of(values) is None:
        raise ArgumentError(
            f"references is of type {type(values).__name__}; it must be a list of blob references",
            argument="references",
            hint="pass a list or a BLOB column of a DataFrame; for one reference, odps.blob(…)",
        )
    source = _source_of(values, connection)
    references = list(plain_values(values))
    index = getattr(values, "index", None)
    labels = range(len(references)) if index is None or callable(index) else index
    title = str(getattr(values, "name", None) or getattr(values, "title", None) or "blobs")
    return source.gallery(references, labels, len(references) if limit is None else limit, title)


def _source_of(column: Any, connection: Connection) -> FrameBlobs:
    source = getattr(getattr(column, "dtype", None), "source", None)
    if isinstance(source, FrameBlobs) and source.connection is connection:
        return source
    return FrameBlobs(connection)


def column_of_frame(
    connection: Connection,
    frame: Any,
    column: str,
    caption: str | Sequence[str] | None,
    limit: int | None,
) -> BlobColumn:
    """Return the blobs of a frame's column, captioned by row; see `Connection.blobs`."""
    names = _column_names(frame)
    caption_columns = [caption] if isinstance(caption, str) else list(caption or ())
    for name in (column, *caption_columns):
        if name not in names:
            shown = ", ".join(map(str, names[:20]))
            raise NotFoundError(
                f"the frame has no column {name!r}",
                code="NoSuchColumn",
                hint=f"{did_you_mean(str(name), map(str, names))}its columns are: {shown}",
            )
    source = _source_of(frame[column], connection)
    blobs: list[Blob] = []
    captions: list[str] = []
    labels: list[Any] = []
    rows = range(len(frame)) if not hasattr(frame, "index") else frame.index
    values = zip(*(plain_values(frame[name]) for name in (column, *caption_columns)), strict=True)
    for label, (reference, *caption_values) in zip(rows, values, strict=True):
        if len(blobs) == limit:
            break
        if not is_missing(reference):
            blobs.append(source._handle(reference_of(reference).token))
            captions.append(_caption(label, caption_columns, caption_values))
            labels.append(label)
    return BlobColumn(blobs, title=column, captions=captions, labels=labels, source=source)


def _column_names(frame: Any) -> list[Any]:
    names = getattr(frame, "column_names", None)  # only Arrow has ``column_names``
    columns = names if names is not None else getattr(frame, "columns", None)
    if columns is None or not hasattr(frame, "__getitem__"):
        raise ArgumentError(
            f"{a_type(type(frame))} is not a table with columns",
            argument="frame",
            hint="pass a pandas or polars DataFrame or an Arrow table; for one column, "
            "df['content'].odps.thumbnails()",
        )
    return list(columns)


def _caption(label: Any, names: Sequence[str], values: Sequence[Any]) -> str:
    row = ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    shown = ["null" if is_missing(value) else str(value) for value in values]
    parts = shown if len(shown) == 1 else [f"{n}: {v}" for n, v in zip(names, shown, strict=True)]
    return " · ".join([f"row {row}", *parts])


MAX_COUNTED = 10_000
"""Maximum number of rows for which the summary counts all references."""


def gather_blobs(
    table: Table,
    column: str | None,
    limit: int | None,
    read: Callable[[list[str]], Scan],
    keep: Callable[[Blob], object] | None = None,
) -> BlobColumn:
    """Read references split by split until ``limit`` blobs are kept; see `Table.blobs`.

    The same read fetches a few short columns for the captions.
    """
    limit = check_count("limit", limit, at_least=0)
    path = find_blob_path(column, table.schema, table.name)
    caption_columns = [
        candidate.name for candidate in table.schema.columns if _is_short(candidate)
    ][:_CAPTION_COLUMNS]
    pairs: list[tuple[Blob, str]] = []
    summary = ""
    if limit != 0:
        # With a limit, read one split at a time, as the first rows usually contain enough blobs.
        workers = None if limit is None else 1
        scan = read([path[0], *caption_columns])._replacing()
        with closing(_references(scan, path, caption_columns, workers)) as references:
            candidates = (
                (Blob(table.connection, BlobReference.from_text(text)), caption)
                for text, caption in references
            )
            pairs = list(
                islice(
                    (pair for pair in candidates if keep is None or _keeps(keep, pair[0])), limit
                )
            )
            if len(pairs) == limit:
                summary = _summary(limit, references, scan.row_count, searched=keep is not None)
    name = ".".join(path)
    return BlobColumn(
        [blob for blob, _ in pairs],
        title=f"{table.name}.{name}",
        summary=summary,
        captions=[caption for _, caption in pairs] if caption_columns else None,
        source=FrameBlobs(table.connection),
        name=name,
    )


def _summary(limit: int, rest: Iterator[object], rows: int | None, *, searched: bool) -> str:
    """Return text such as ``first 24 of 47 blobs``; empty if there are no more blobs."""
    first = f"first {count_of(limit, 'blob')}"
    if searched:  # counting the remaining matches could take a long time
        return first
    if next(rest, None) is None:
        return ""
    if rows is None:
        return first
    if rows > MAX_COUNTED:
        return f"{first} of {rows:,} rows"
    return f"first {limit:,} of {limit + 1 + sum(1 for _ in rest):,} blobs"


def _is_short(column: Column) -> bool:
    kinds = ("INTEGER", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "DATE", "TEXT")
    return TYPE_FACTS[column.type.code].kind in kinds


def _references(
    scan: Scan, path: BlobPath, caption_columns: Sequence[str], workers: int | None
) -> Generator[tuple[str, str], None, None]:
    """Iterate over the references with their captions, such as ``id 12 · name cat.png``."""
    with closing(scan.batches(workers=workers)) as batches:
        for batch in batches:
            texts = [
                pc.utf8_slice_codeunits(array.cast(pa.string()), 0, _SHOWN_VALUE).to_pylist()
                for array in batch.columns[1:]
            ]
            for row, cell in enumerate(batch.column(0).to_pylist()):
                for reference in walk_blobs(cell, path[1:]):
                    values = ("null" if text[row] is None else text[row] for text in texts)
                    pairs = zip(caption_columns, values, strict=True)
                    yield reference, " · ".join(f"{name} {value}" for name, value in pairs)
