"""`RowForms`: conversions of the rows of a `Scan` or `Result` to data frames and Arrow."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from odps_nb.access.blobs.frames import blob_dtypes
from odps_nb.access.checks import check_count, require
from odps_nb.access.displayed import Displayed
from odps_nb.access.viewed import Viewed
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.client.read.resume import asks_for_micro
from odps_nb.convert.frame_options import Decimals, DtypeBackend, FrameOptions
from odps_nb.convert.warning import warn
from odps_nb.errors import OdpsNbError
from odps_nb.explained import Instructive, explained
from odps_nb.schema import TableSchema, is_readable

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from odps_nb.access.connection import Connection

    Batches = Generator[pa.RecordBatch, None, None]

B = TypeVar("B")
T = TypeVar("T")


@explained
class RowForms(Displayed, Viewed, Instructive, ABC):
    """Base class of `Scan` and `Result`: data frames, Arrow, and notebook display."""

    _instead = {  # noqa: RUF012
        "head": "call .first(5).to_pandas() of a result, or read(…, limit=5).to_pandas()",
        "to_dask to_ray dataset scan_polars": "a result has no splits; call .to_pandas(), or write "
        "it to a table (create table … as select …) and call odps.table(…).{name}()",
        "blobs gallery": "call odps.table('name').blobs(…, where='…'), or pass the result of "
        "to_pandas() to odps.blobs(frame, 'column')",
        "columns dtypes": "see .schema",
        "count len shape size": "see .row_count",
        "[]": "call .to_pandas()[{key}]",
        "[:]": "call .to_pandas().iloc[…], or loop over .batches()",
        "frame": "call .to_pandas().{name}",
    }

    _connection: Connection
    _begun = False

    @property
    @abstractmethod
    def schema(self) -> TableSchema:
        """The columns of the rows."""

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """The columns of the rows as Arrow types."""

    @property
    @abstractmethod
    def row_count(self) -> int | None:
        """Number of rows; ``None`` if unknown before reading."""

    @abstractmethod
    def _reading(
        self, progress: Progress
    ) -> AbstractContextManager[tuple[ProgressTracker, CancelToken]]:
        """Return the progress tracker of one read, and the token with which `cancel` stops it."""

    @abstractmethod
    def _arriving(
        self,
        tracker: ProgressTracker,
        token: CancelToken,
        *,
        workers: int | None = None,
        read_ahead: int | None = None,
    ) -> Batches:
        """Read the rows once, with TIMESTAMPs in the current unit (see `_fall_back`)."""

    @abstractmethod
    def _fall_back(
        self, tracker: ProgressTracker | None, token: CancelToken | None
    ) -> Callable[[OdpsNbError], str | None]:
        """Return a function that handles an error of the next read by switching to microseconds.

        The function returns a warning (``None`` if it was issued before) or raises the error.
        """

    @abstractmethod
    def _replacing(self) -> RowForms:
        """Return the same rows for display, with U+FFFD in place of invalid UTF-8."""

    @abstractmethod
    def _unit_is_open(self) -> bool:
        """Whether the TIMESTAMP unit may still change if a time does not fit into nanoseconds."""

    def batches(
        self,
        *,
        workers: int | None = None,
        read_ahead: int | None = None,
        progress: Progress = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Iterate over batches of rows, in order and in bounded memory.

        Closing the iterator early stops the read and closes its connections.

        Parameters
        ----------
        workers
            Number of splits (or parts of a large result) to read concurrently; for a service on
            this machine, at most one per processor. Default: automatic.
        read_ahead
            Maximum bytes to buffer ahead of the consumer. Default: 256 MiB.

        Raises
        ------
        LimitExceededError
            The next batch would exceed the ``max_bytes`` of the read.
        """
        workers = check_count("workers", workers)
        with self._reading(progress) as (tracker, token):
            yield from self._in_reach(
                lambda: self._arriving(tracker, token, workers=workers, read_ahead=read_ahead),
                tracker,
                token,
            )

    def _in_reach(
        self,
        begin: Callable[[], Generator[B, None, None]],
        tracker: ProgressTracker | None,
        token: CancelToken | None,
    ) -> Generator[B, None, None]:
        """Iterate over ``begin()``; call it again if a time requires microseconds.

        ``begin`` is called again only before the first item is returned. The warning is issued only
        when the second call has returned its first item, because the call may still fail before
        that.
        """
        has_yielded, fall_back = False, self._fall_back(tracker, token)
        try:
            with closing(begin()) as items:
                for item in items:
                    has_yielded = True
                    yield item
            return
        except OdpsNbError as error:
            if has_yielded or not asks_for_micro(error):
                raise
            warning = fall_back(error)
        with closing(begin()) as items:
            for item in items:
                if warning is not None:
                    warn(warning)
                    warning = None
                yield item

    def _promised(self, schema: pa.Schema, *, read_ahead: int | None = None) -> Batches:
        """Iterate over the rows, cast to exactly the types of ``schema``."""
        with self._reading(None) as (tracker, token):
            yield from self._in_reach(
                lambda: _cast(self._arriving(tracker, token, read_ahead=read_ahead), schema),
                tracker,
                token,
            )

    def _collected(
        self,
        progress: Progress,
        collect: Callable[[ProgressTracker, Batches], T],
        *,
        read_ahead: int | None = None,
    ) -> T:
        """Return ``collect(tracker, batches)``, reading again in microseconds if necessary."""
        with self._reading(progress) as (tracker, token):

            def collected() -> Generator[T, None, None]:
                # close explicitly: after an interrupt, the traceback would keep the read alive
                with closing(self._arriving(tracker, token, read_ahead=read_ahead)) as batches:
                    yield collect(tracker, batches)

            (result,) = self._in_reach(collected, tracker, token)
            return result

    def to_arrow(self, *, progress: Progress = None) -> pa.Table:
        """Read all rows into an Arrow table.

        ``docs/protocol.md`` section 5.1 lists the types; a BLOB is read as its reference (text).

        Raises
        ------
        SessionExpiredError
            The snapshot has expired; call ``table.read`` again.
        TruncatedError, ChecksumError
            Bytes were still missing or damaged after retries.
        LimitExceededError
            The rows exceed the ``max_bytes`` of the read.
        ConversionError
            A string is not UTF-8, and ``text`` of the read is ``"strict"``.
        CancelledError
            `cancel` was called.
        """
        return self._collected(
            progress, lambda _, batches: as_table(batches, lambda: self.arrow_schema)
        )

    def to_pandas(
        self,
        *,
        decimals: Decimals = "auto",
        dtype_backend: DtypeBackend | None = None,
        dtypes: Mapping[str, Any] | None = None,
        progress: Progress = None,
    ) -> pd.DataFrame:
        """Read all rows into a DataFrame; ``docs/types-and-times.md`` lists the dtypes.

        Parameters
        ----------
        decimals
            Dtype of DECIMAL columns. ``"auto"``: float64 if it represents every value of the
            column, otherwise exact. ``"exact"``: `decimal.Decimal` objects. ``"float"``: float64,
            rounded. Default: ``"auto"``.
        dtype_backend
            ``"numpy_nullable"`` or ``"pyarrow"``, as in pandas' own readers.
        dtypes
            Dtypes of individual columns, such as ``{"amount": "float64", "id": "string"}``. A
            conversion that would change a value raises an error.

        Raises
        ------
        ArgumentError
            ``dtypes`` names an unknown column or dtype.
        ConversionError
            A value does not fit the requested dtype.
        SessionExpiredError, TruncatedError, ChecksumError, LimitExceededError, CancelledError
            As for `to_arrow`.
        """
        options = FrameOptions(decimals=decimals, dtype_backend=dtype_backend, dtypes=dtypes)
        return self._collected(
            progress, lambda tracker, batches: read_frame(self, batches, tracker, options)
        )

    def to_polars(self, *, progress: Progress = None) -> pl.DataFrame:
        """Read all rows into a polars DataFrame; `Table.scan_polars` reads only what a query needs.

        polars supports at most 38 digits: a wider DECIMAL becomes ``Decimal(38, scale)``.

        Raises
        ------
        MissingDependencyError
            polars is not installed: ``pip install 'odps-nb[polars]'``.
        ConversionError
            A DECIMAL value has more than 38 digits.
        SessionExpiredError, TruncatedError, ChecksumError, LimitExceededError, CancelledError
            As for `to_arrow`.

        Examples
        --------
        >>> odps.sql("select count(*) as rows from orders where id = 1000001").to_polars().item()
        1
        """
        from odps_nb.access.engines.polars_frame import to_polars

        require("polars")  # raise before rows are read
        return to_polars(self.to_arrow(progress=progress))

    def reader(self, *, progress: Progress = None) -> pa.RecordBatchReader:
        """Return an Arrow reader that fetches rows on demand; the caller closes it.

        Examples
        --------
        >>> with odps.sql("select id from orders where ds = '2024-01-02'").reader() as reader:
        ...     sum(batch.num_rows for batch in reader) > 0
        True
        """
        import pyarrow as pa

        batches = self.batches(progress=progress)
        first = deque(islice(batches, 1))
        schema = first[0].schema if first else self.arrow_schema
        return pa.RecordBatchReader.from_batches(schema, _with_first(first, batches))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the rows through the Arrow C stream interface, reading on demand.

        The first batch is read immediately if the type of a column depends on it (VARIANT, unknown
        types, TIMESTAMPs without a unit). A DECIMAL of more than 38 digits becomes decimal256.
        DuckDB can read such a column only from `Scan.dataset`.
        """
        return self._stream().__arrow_c_stream__(requested_schema)

    def _stream(self) -> pa.RecordBatchReader:
        """Return the reader of `__arrow_c_stream__`, which raises the errors of the read itself."""
        import pyarrow as pa

        schema = self.arrow_schema
        unsure = self._unit_is_open() and any("timestamp[ns" in str(kind) for kind in schema.types)
        if (unsure and not self._begun) or not all(
            is_readable(column.type) for column in self.schema
        ):
            self._begun = True
            return self.reader()
        # some libraries open several streams, the first only to inspect the columns
        return pa.RecordBatchReader.from_batches(schema, self._promised(schema))

    def _viewed(self, *, opens: bool) -> RowForms:
        return self

    def _static_page(self) -> Mapping[str, str]:
        from odps_nb.notebook.explore.static import static_page

        return static_page(self)


def as_table(batches: Iterable[pa.RecordBatch], schema: Callable[[], pa.Schema]) -> pa.Table:
    """Return the rows of all batches as one table, which is empty if there are no batches."""
    import pyarrow as pa

    collected = list(batches)
    return pa.Table.from_batches(collected, schema=collected[0].schema if collected else schema())


def read_frame(
    source: RowForms, batches: Batches, tracker: ProgressTracker, options: FrameOptions
) -> pd.DataFrame:
    """Read all batches into a DataFrame, releasing each batch as soon as it is converted."""
    from odps_nb.convert.decimal_floats import decimal_note
    from odps_nb.convert.pandas_frame import to_pandas

    try:
        first = deque(islice(batches, 1))
        schema = first[0].schema if first else source.arrow_schema
        count = source.row_count if first else 0
        blobs = blob_dtypes(source._connection, source.schema)

        def rows() -> Iterator[pa.RecordBatch]:
            yield from _with_first(first, batches)
            tracker.phase(Phase.CONVERTING)

        frame = to_pandas(rows(), schema=schema, rows=count, options=options, blobs=blobs)
        if options.decimals == "auto":
            tracker.remark(decimal_note(schema, frame))
        return frame
    except BaseException as error:  # IPython keeps the traceback, whose frames hold rows
        traceback.clear_frames(error.__traceback__)
        raise


def _with_first(first: deque[pa.RecordBatch], batches: Batches) -> Batches:
    with closing(batches):
        while first:
            yield first.popleft()
        yield from batches


def _cast(batches: Batches, schema: pa.Schema) -> Batches:
    from odps_nb.convert.narrow_decimals import cast_columns

    with closing(batches):
        for batch in batches:
            yield cast_columns(batch, schema)
