"""Reads one split's rows, and resumes a broken stream at the next unread row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.arrow.char import CharColumns, char_columns, stripped
from odps_nb.arrow.plain import FarTimeError
from odps_nb.arrow.text import fit_text, text_types
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.parallel.fan_out import AdaptiveConcurrency
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.download_body import DownloadBody
from odps_nb.client.read.stream_schema import find_columns, mismatch
from odps_nb.errors import (
    ConversionError,
    FramingError,
    InvalidRequestError,
    LimitExceededError,
    OdpsNbError,
    ThrottledError,
    TruncatedError,
)
from odps_nb.http.transport import HttpResponse
from odps_nb.schema import Column
from odps_nb.terms import RowRangeSplit, Split, TextMode, TimeUnit, format_bytes
from odps_nb.wire.calls import StreamingCall
from odps_nb.wire.calls.errors import is_time_overflow


@dataclass(frozen=True, slots=True)
class TextForm:
    """How to return the text of a stream of rows."""

    mode: TextMode
    columns: tuple[Column, ...] | None
    """Columns of the result, with BINARY in place of text requested as bytes. ``None``: unknown."""
    place: Callable[[int], tuple[str, int]]
    """Returns a row's position for error messages, as text and as a number."""
    stripped: tuple[Column, ...] = ()
    """Columns whose CHAR values lose trailing blanks, with their types in the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A request for rows, and how to read its response.

    Parameters
    ----------
    schema
        Arrow schema of a tunnel's stream, which does not contain it. ``None``: an Arrow stream.
    constants
        Columns to append to the rows, each with its value.
    skip
        Number of rows at the start of the response that were already read.
    end
        The row after the last one of the response, if more requests follow. ``None``: no more
        requests follow.
    """

    request: StreamingCall
    schema: pa.Schema | None = None
    constants: tuple[tuple[pa.Field, pa.Scalar], ...] = ()
    skip: int = 0
    end: int | None = None


def rows_of(split: Split) -> int | None:
    """Return a split's number of rows; ``None`` for a split that is not a row range."""
    return split.count if isinstance(split, RowRangeSplit) else None


class ResumableRowStream:
    """Batches from row ``start`` to the end; the stream is reopened after a failure.

    Parameters
    ----------
    request_at
        Function that takes a row number and returns the `Opening` of the rows starting there.
    what
        Description of the rows, used in error notes and events.
    start, expected
        First row and, if known, the end row (exclusive), numbered like the argument of
        ``request_at``.
    columns
        Columns of the session; every stream is checked against them. ``None``: no check.
    select
        Columns to return, in this order; empty for the session's columns. If set, streams may
        contain additional columns, which are dropped.
    label, part
        Name of the split in the tracker, and whether this stream reads only part of the split.
    concurrency
        Limit shared with concurrent readers; lowered when the service responds with 429.
    unit
        Unit for TIMESTAMPs that arrive as ``struct<sec, nano>``.
    """

    def __init__(
        self,
        storage: StorageClient,
        request_at: Callable[[int], Opening],
        *,
        what: str,
        start: int = 0,
        expected: int | None = None,
        columns: Sequence[Column] | None = None,
        select: Sequence[str] = (),
        label: str | None = None,
        part: bool = False,
        concurrency: AdaptiveConcurrency | None = None,
        text: TextForm,
        unit: TimeUnit = TimeUnit.NANO,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._storage, self._request_at = storage, request_at
        self._columns, self._select = columns, tuple(select)
        self._start, self._expected = start, expected
        self.row: int = start
        """The next row to return; all rows before it were returned."""
        self._what, self._label, self._cancel = what, label, cancel
        self._tracker = tracker or ProgressTracker("read", what)
        self._attempts = storage.attempts(what, tracker=tracker, cancel=cancel)
        self._concurrency, self._items_seen, self._part = concurrency, 0, part
        self._text, self._unit, self._unprotected = text, unit, False
        self._types: tuple[pa.DataType, ...] = ()  # types of the selected columns
        self._chars: CharColumns = ()  # the selected CHAR columns
        self._stream: RowStream | None = None
        self._response: HttpResponse | None = None  # response of the open stream
        self._schema: pa.Schema | None = None
        # Indexes of the columns to return. None: all, in stream order.
        self._places: tuple[int, ...] | None = None
        self._rows_of_last = 0
        self._skip, self._end, self._by_tunnel = 0, expected, False  # state of the open stream
        self._decoded_bytes = 0

    def batches(self, *, fits: bool = True) -> Generator[pa.RecordBatch, None, None]:
        """Iterate over the batches; leaving early closes the connection.

        With ``fits=False``, text columns that are not UTF-8 stay binary; call `fit` to convert
        them.
        """
        with self._attempts, self._tracker.metered(self._arriving):
            try:
                self._attempts.progressed()
                while (batch := self._next()) is not None:
                    yield self.fit(batch) if fits else batch
                    self._attempts.progressed()  # restart the deadline after the caller's pause
            finally:
                self._drop()
        self._tell_end()

    def fit(
        self, batch: pa.RecordBatch, row: Callable[[int], int] = lambda number: number
    ) -> pa.RecordBatch:
        """Convert the text in ``batch`` to the requested types.

        ``batch`` contains all or some rows of the last batch, with all of its columns or only the
        first ones. ``row`` maps a row number in ``batch`` to the row number in the last batch.
        """
        first = self.row - self._rows_of_last
        fitted = fit_text(
            batch,
            self._types[: batch.num_columns],
            self._text.mode,
            lambda number: self._text.place(first + row(number)),
            unprotected=self._unprotected,
        )
        return stripped(fitted, self._chars)

    def uncount(self, rows: int) -> None:
        """Reduce the progress counts by the number of rows that the filter dropped."""
        self._tracker.add(split=self._label, rows=-rows)

    def rest(self) -> None:
        """Close the connection if the service is throttling other readers; `batches` reopens it."""
        if self._stream is None or self._concurrency is None or not self._concurrency.starving:
            return
        self._drop()
        self._tracker.noted(
            f"{self._what} closed its connection because the service is throttling other readers "
            "(HTTP 429)"
        )

    def _next(self) -> pa.RecordBatch | None:
        while True:
            try:
                if self._cancel is not None:
                    self._cancel.check()
                return self._advance()
            except OdpsNbError as error:
                self._drop()
                if self._unit is TimeUnit.MICRO and asks_for_micro(error) and not self._by_tunnel:
                    raise refused_in_micro(error, self._what) from error
                if self._concurrency is not None and isinstance(error, ThrottledError):
                    self._slow_down(self._concurrency)
                begun = self.row > self._start
                resume = f"row {self.row}" if begun else None
                has_others = self._concurrency is not None and self._concurrency.items > 0
                self._attempts.again(
                    error, idempotent=True, resume=resume, patient=begun or has_others
                )

    def _slow_down(self, concurrency: AdaptiveConcurrency) -> None:
        """Lower the shared limit; restart the retry deadline if other readers made progress."""
        concurrency.refused()
        before, self._items_seen = self._items_seen, concurrency.items
        if self._items_seen > before:
            self._attempts.others_progressed()

    def _advance(self) -> pa.RecordBatch | None:
        if self._stream is None:
            if self.row == self._expected:
                return None
            self._stream = self._open()
        batch = self._next_of(self._stream)
        if batch is None:
            return None
        row = self.row + batch.num_rows
        if self._end is not None and row > self._end:
            raise FramingError(
                f"{row - self._start} rows arrived, but {self._end - self._start} were requested",
                request_id=self._stream.request_id,
            )
        if self._places is not None:
            batch = batch.select(list(self._places))
        self.row, self._rows_of_last = row, batch.num_rows
        self._attempts.progressed()
        self._tell(batch)
        return batch

    def _next_of(self, stream: RowStream) -> pa.RecordBatch | None:
        """Return the next batch of unread rows, from the open stream or those that follow."""
        while True:
            batch = stream.next()
            if batch is None:
                self._require_end(stream)
                if self._end == self._expected:
                    self._tell_wire()
                    return None
                self._drop()
                stream = self._stream = self._open()
            elif self._skip >= batch.num_rows:
                self._skip -= batch.num_rows
            else:
                batch, self._skip = batch.slice(self._skip), 0
                return batch

    def _open(self) -> RowStream:
        opening = self._request_at(self.row)
        response = self._storage.open(opening.request, attempts=self._attempts)
        self._skip, self._by_tunnel = opening.skip, opening.schema is not None
        self._end = self._expected if opening.end is None else opening.end
        try:
            stream = RowStream(
                response if opening.schema is None else DownloadBody(response, opening.schema),
                text=None,
                columns=self._columns,
                unit=self._unit,
                constants=opening.constants,
            )
            with stream.named_in_errors():
                indexes = self._wanted(stream.schema)
            if self._schema is not None and not stream.schema.equals(self._schema):
                raise FramingError(
                    "the columns differ between two streams of the same snapshot",
                    request_id=stream.request_id,
                )
        except BaseException:
            response.close()
            raise
        self._response = response
        as_it_comes = indexes == tuple(range(len(stream.schema)))
        self._schema, self._places = stream.schema, None if as_it_comes else indexes
        self._unprotected = stream.unprotected
        selected = pa.schema(map(stream.schema.field, indexes))
        self._types = text_types(selected, self._text.columns, self._text.mode)
        self._chars = char_columns(selected.names, self._text.stripped)
        return stream

    def _wanted(self, stream: pa.Schema) -> tuple[int, ...]:
        """Check the stream against the session's columns; return the selected columns' indexes."""
        indexes = tuple(range(len(stream)))
        if self._columns is not None:
            indexes = find_columns(stream, self._columns, may_have_more=bool(self._select))
        if not self._select:
            return indexes
        names = {name.casefold(): index for index, name in enumerate(stream.names)}
        try:
            return tuple(names[name.casefold()] for name in self._select)
        except KeyError as error:
            raise mismatch(f"the stream has no column {error.args[0]!r}") from None

    def _require_end(self, stream: RowStream) -> None:
        if self._skip or (self._end is not None and self.row < self._end):
            rows = None if self._end is None else self._end - self._start
            raise TruncatedError(
                f"the stream ends after {self.row - self._start} of {rows or 'more'} rows",
                expected=rows,
                actual=self.row - self._start,
                request_id=stream.request_id,
            )

    def _drop(self) -> None:
        self._tell_wire()
        stream, self._stream, self._response = self._stream, None, None
        if stream is not None:
            stream.close()

    def _tell(self, batch: pa.RecordBatch) -> None:
        decoded = int(batch.nbytes)
        self._decoded_bytes += decoded
        self._tell_wire()
        self._tracker.add(split=self._label, rows=batch.num_rows, decoded_bytes=decoded)

    def _tell_wire(self) -> None:
        if self._response is not None:
            self._tracker.add(split=self._label, wire_bytes=self._response.new_wire_bytes())

    def _arriving(self) -> int:
        response = self._response
        return 0 if response is None else response.arriving

    def _tell_end(self) -> None:
        self._tracker.add(complete_bytes=self._decoded_bytes)
        if self._label is not None:
            self._tracker.split_done(self._label, part=self._part)


Batches = Generator[pa.RecordBatch, None, None]


def delivered(
    batches: Batches,
    tracker: ProgressTracker | None,
    *,
    what: str = "",
    rows: int | None = None,
    limit: int | None = None,
    max_bytes: int | None = None,
) -> Batches:
    """Yield batches one by one, and close the source generator at the end.

    The iteration stops after ``limit`` rows. Without a limit, an error is raised if the number of
    rows differs from ``rows`` (``None``: unknown). An error is also raised if the total size would
    exceed ``max_bytes``. During the read, the tracker counts the rows that arrive in all splits. At
    the end, the tracker's row count is set to the number of rows returned.
    """
    before, arrived, size = tracker.rows if tracker is not None else 0, 0, 0
    try:
        while limit is None or arrived < limit:
            batch = next(batches, None)
            if batch is None:
                break
            if limit is not None and batch.num_rows > limit - arrived:
                batch = batch.slice(0, limit - arrived)
            if max_bytes is not None:
                size += batch.nbytes
                if size > max_bytes:
                    raise LimitExceededError(
                        f"the rows need more than {format_bytes(max_bytes)}",
                        limit=max_bytes,
                        actual=size,
                        hint="select fewer columns, partitions or rows, or pass a larger max_bytes",
                    )
            arrived += batch.num_rows
            yield batch
    finally:
        batches.close()
        if tracker is not None:
            tracker.correct_rows(before + arrived)
    if limit is None and rows is not None and arrived != rows:
        raise TruncatedError(
            f"{arrived} rows of {what} arrived, but the snapshot has {rows}",
            expected=rows,
            actual=arrived,
        )


def asks_for_micro(error: OdpsNbError) -> bool:
    """Return whether the error means that a time does not fit into nanoseconds."""
    if isinstance(error, InvalidRequestError):
        return is_time_overflow(f"{error.code} {error.message}")
    return isinstance(error, FarTimeError)


def refused_in_micro(error: OdpsNbError, what: str) -> ConversionError:
    """Return the error for a read that failed even in microseconds."""
    return ConversionError(
        f"the service cannot return a TIMESTAMP of {what} in microseconds either ({error.message})",
        source_type="timestamp",
        target_type="timestamp[us]",
        hint="omit the column with columns=[…], or cast it to STRING in SQL",
    )
