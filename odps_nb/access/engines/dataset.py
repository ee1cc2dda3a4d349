"""`TableDataset`: a table as a pyarrow Dataset; engines push columns and filters down to it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from odps_nb.access.engines.pushdown import Projection, columns_of, plan_query
from odps_nb.client.catalog import iter_partitions
from odps_nb.convert.arrow_schema import arrow_schema, require_arrow_types
from odps_nb.convert.narrow_decimals import cast_columns, narrow_schema
from odps_nb.convert.warning import columns_with_types
from odps_nb.errors import ArgumentError, StateError
from odps_nb.schema import is_readable, text_as_binary
from odps_nb.terms import TextMode, TimeUnit

if TYPE_CHECKING:
    from odps_nb.access.scan import Scan

    class UnionDataset:
        """A stub of pyarrow's class, which has no type annotations."""

        def __init__(self, schema: pa.Schema, children: list[Any]) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

else:
    from pyarrow.dataset import UnionDataset

_Refused = Callable[..., NoReturn]
T = TypeVar("T")

BATCH_ROWS = 131_072
GROUP_BYTES = 2 * 2**20
READ_AHEAD = 64 * 2**20  # bytes; small, because an engine may stop after a few rows
_NO_FILES = "a MaxCompute table has no files; read the rows with dataset.scanner()"
_HINT = "call dataset.to_table(columns=…, filter=…) first, or query it with DuckDB or polars"


def open_dataset(scan: Scan) -> TableDataset:
    """Return the rows of a scan as a dataset that opens a new scan for each query.

    If no columns were selected, columns whose Arrow type is unknown until rows arrive are omitted
    with a warning.
    """
    plan = scan._plan
    if scan._reopens is not None:
        raise ArgumentError(
            "session_id cannot be used: a dataset opens a new session for each query",
            hint="omit session_id, or use scan.reader()",
        )
    if plan.increment is not None:
        raise ArgumentError(
            "a dataset reads the rows of a table, not its changes",
            hint="use scan.reader() or scan.to_arrow()",
        )
    schema = scan._all_columns()
    if not plan.columns:
        readable = columns_with_types(schema, is_readable, "a dataset")
        if len(readable) < len(schema):
            plan = replace(plan, columns=tuple(column.name for column in readable))
    return TableDataset(scan._copy(plan, None))


def _refused(what: str, hint: str) -> _Refused:
    """Return a method that raises, in place of a pyarrow method that a table cannot support."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise StateError(f"a dataset of a table does not support {what}", hint=hint)

    return refuse


class TableDataset(UnionDataset):
    """The rows of a `Scan` as a pyarrow dataset; created by ``table.dataset()``.

    Each query opens one read session with only the columns and partitions it needs. The service
    uses the parts of the filter that it supports to skip rows; the client applies the whole filter
    to the rows it receives. Rows are streamed, using about 64 MiB of memory. Thread-safe; may be
    used in a forked child.

    The schema declares TIMESTAMPs in nanoseconds. If a time does not fit, `to_table`, `head` and
    `take` return microseconds with an `OdpsNbWarning`. The streams that DuckDB and polars read
    raise an error instead; for these, use ``read(timestamp_unit="us").dataset()``.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> orders = odps.table("orders").dataset()
    >>> orders.count_rows(filter=pc.field("ds") == "2024-01-02") > 0
    True
    >>> orders.head(1, columns=["id", "ds"]).to_pylist()
    [{'id': 1000001, 'ds': '2024-01-01'}]
    """

    def __init__(self, scan: Scan, filter: pc.Expression | None = None) -> None:
        self._scan, self._plan, self._filter = scan, scan._plan, filter
        arrow = self._arrow_schema()
        # The file name is an error message, which Arrow shows if it tries to open the file.
        form, nowhere = ds.IpcFileFormat(), LocalFileSystem()
        piece = form.make_fragment(f"/{_NO_FILES}", filesystem=nowhere)
        super().__init__(arrow, [ds.FileSystemDataset([piece], arrow, form, nowhere)])

    @classmethod
    def like(cls, other: TableDataset, filter: pc.Expression | None = None) -> Self:
        """Return ``other`` as an instance of this class; ``filter`` replaces its filter."""
        return cls(other._scan, other._filter if filter is None else filter)

    # -- queries ------------------------------------------------------------------------------

    def scanner(
        self,
        columns: Projection = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_ROWS,
        **_: Any,
    ) -> TableScanner:
        """Plan a query; its session is opened when the first rows are read.

        Parameters
        ----------
        columns
            List of names, or dict of names and expressions. Default: all columns.
        filter
            Condition on the dataset's columns.
        batch_size
            Maximum rows per batch. Other pyarrow options are ignored.
        """
        return TableScanner(self, columns, self._both(filter), batch_size)

    def filter(self, expression: pc.Expression) -> TableDataset:
        """Return the dataset with a filter that applies to all its queries."""
        return type(self).like(self, self._both(expression))

    get_fragments: _Refused = _refused(
        "fragments", "use table.to_dask(), or the splits of table.read(), to read in parallel"
    )
    replace_schema: _Refused = _refused(
        "replace_schema", "cast the rows: dataset.to_table().cast(schema)"
    )
    sort_by: _Refused = _refused("sort_by", _HINT)
    join: _Refused = _refused("join", _HINT)
    join_asof: _Refused = _refused("join_asof", _HINT)
    __reduce__: _Refused = _refused("pickling", "connect and call dataset() in the other process")

    # -- inside -------------------------------------------------------------------------------

    def _arrow_schema(self, unit: TimeUnit | None = None) -> pa.Schema:
        """Return the dataset's Arrow schema, with TIMESTAMPs in ``unit`` (default: the plan's)."""
        text = "us" if (unit or self._plan.timestamp_unit) is TimeUnit.MICRO else "ns"
        binary, zone = (
            self._plan.text.mode is TextMode.BINARY,
            self._scan.connection.profile.timezone,
        )
        schema = self._scan._all_columns()
        schema = text_as_binary(schema) if binary else schema
        matches = map(schema.find, self._plan.columns or schema.names)
        columns = [column for column in matches if column is not None]
        require_arrow_types(columns, "a dataset")
        return narrow_schema(arrow_schema(columns, timestamp_unit=text, timezone=zone))

    def _both(self, filter: pc.Expression | None) -> pc.Expression | None:
        if filter is None or self._filter is None:
            return self._filter if filter is None else filter
        return self._filter & filter

    def _check(
        self, columns: Projection, filter: pc.Expression | None, schema: pa.Schema | None = None
    ) -> pa.Schema:
        """Return the schema of a result; raise before any request if Arrow rejects the query."""
        schema = self.schema if schema is None else schema
        checked = ds.Scanner.from_batches([], schema=schema, columns=columns, filter=filter)
        return checked.projected_schema

    def _row_filter(
        self, filter: pc.Expression | None
    ) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
        """Return a function that filters batches, or ``None`` to let Arrow filter them."""
        return None

    def _query(
        self, columns: Projection, filter: pc.Expression | None, *, limit: int | None = None
    ) -> Scan | None:
        """Return the scan for a query; ``None`` if no partition can match."""
        scan, storage, table = self._scan, self._scan.connection._storage, self._plan.table
        plan = plan_query(
            self._plan,
            scan._all_columns(),
            self.schema,
            columns=columns_of(columns, filter, self.schema),
            filter=filter,
            list_partitions=lambda under: (
                info.spec for info in iter_partitions(storage, table, *under)
            ),
        )
        if plan is not None and limit is not None and filter is None:
            plan = replace(plan, limit=limit if plan.limit is None else min(limit, plan.limit))
        return None if plan is None else scan._copy(plan, None)

    def __repr__(self) -> str:
        filtered = "" if self._filter is None else ", filtered"
        return f"TableDataset({self._plan.table}, {len(self.schema)} columns{filtered})"


class TableScanner:
    """One query over a `TableDataset`, with the methods of pyarrow's Scanner.

    No request is sent until rows are needed; each result opens a new session.
    """

    def __init__(
        self,
        dataset: TableDataset,
        columns: Projection,
        filter: pc.Expression | None,
        batch_size: int,
    ) -> None:
        self._dataset, self._columns, self._filter = dataset, columns, filter
        self._batch_size = batch_size
        self.projected_schema: pa.Schema = dataset._check(columns, filter)

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Iterate over the rows of the result; closing the iterator early stops the read."""
        dataset = self._dataset
        scan = dataset._query(self._columns, self._filter)
        if scan is None:
            return
        batches = scan._promised(dataset.schema, read_ahead=READ_AHEAD)
        with closing(self._parts(batches, self._columns)) as parts:
            for part in parts:
                yield from part.to_batches(max_chunksize=self._batch_size)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the result as a stream; releasing the stream stops the read."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Read all rows, with TIMESTAMPs in microseconds if necessary; see `Scan.to_arrow`."""

        def collect(parts: Iterator[pa.Table], schema: pa.Schema) -> pa.Table:
            return pa.Table.from_batches(
                [batch for part in parts for batch in part.to_batches(self._batch_size)], schema
            )

        return self._collected(self._columns, collect)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows of the result; only a few more rows are read."""
        if num_rows <= 0:
            return self.projected_schema.empty_table()

        def collect(parts: Iterator[pa.Table], schema: pa.Schema) -> pa.Table:
            batches: list[pa.RecordBatch] = []
            left = num_rows
            while left > 0 and (part := next(parts, None)) is not None:
                batches += part.slice(0, left).to_batches()
                left -= part.num_rows
            return pa.Table.from_batches(batches, schema)

        return self._collected(self._columns, collect, limit=num_rows)

    def take(self, indices: Any) -> pa.Table:
        """Return rows by number, reading all rows up to the highest number."""
        row_numbers = pa.array(indices, pa.int64())
        return self.head((pc.max(row_numbers).as_py() or 0) + 1).take(row_numbers)

    def count_rows(self) -> int:
        """Count the rows of the result; without a filter, no rows are read."""
        if self._filter is None:
            scan = self._dataset._query([], None)
            if scan is not None and (count := scan.row_count) is not None:
                return count

        def collect(parts: Iterator[pa.Table], _: pa.Schema) -> int:
            return sum(part.num_rows for part in parts)

        return self._collected([], collect)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the result through the Arrow C stream interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _collected(
        self,
        columns: Projection,
        collect: Callable[[Iterator[pa.Table], pa.Schema], T],
        *,
        limit: int | None = None,
    ) -> T:
        """Return ``collect(parts, schema)``, reading again in microseconds if necessary."""
        dataset, filter = self._dataset, self._filter
        scan = dataset._query(columns, filter, limit=limit)
        if scan is None:
            return collect(iter(()), dataset._check(columns, filter))

        def of_unit(batches: Generator[pa.RecordBatch, None, None]) -> T:
            with closing(self._parts(self._in_unit(scan, batches), columns)) as parts:
                first = list(islice(parts, 1))  # the first rows determine the session's unit
                schema = dataset._arrow_schema(scan._opened().timestamp_unit)
                return collect(chain(first, parts), dataset._check(columns, filter, schema))

        return scan._collected(None, lambda _, batches: of_unit(batches), read_ahead=READ_AHEAD)

    def _in_unit(
        self, scan: Scan, batches: Generator[pa.RecordBatch, None, None]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the batches with the dataset's types and the session's time unit."""
        schema = None
        with closing(batches):
            for batch in batches:
                schema = schema or self._dataset._arrow_schema(scan._opened().timestamp_unit)
                yield cast_columns(batch, schema)

    def _parts(
        self, batches: Generator[pa.RecordBatch, None, None], columns: Projection
    ) -> Generator[pa.Table, None, None]:
        filter = self._filter
        keep = self._dataset._row_filter(filter)
        with closing(_grouped(batches)) as groups:
            for group in groups:
                if keep is None:
                    yield _selected(group, columns, filter)
                else:
                    yield _selected([keep(batch) for batch in group], columns, None)


def _grouped(
    batches: Generator[pa.RecordBatch, None, None],
) -> Generator[list[pa.RecordBatch], None, None]:
    """Yield the first batch alone, then groups of 2, 4, … batches, or of about `GROUP_BYTES`.

    Grouping saves calls to Arrow's scanner, which are costly for a selective filter.
    """
    with closing(batches):
        group: list[pa.RecordBatch] = []
        most, size = 1, 0
        for batch in batches:
            group.append(batch)
            size += int(batch.nbytes)
            if len(group) == most or size >= GROUP_BYTES:
                yield group
                group, size, most = [], 0, most * 2
        if group:
            yield group


def _selected(
    group: list[pa.RecordBatch], columns: Projection, filter: pc.Expression | None
) -> pa.Table:
    """Filter and project some batches with Arrow's scanner."""
    scanner = ds.Scanner.from_batches(
        group, schema=group[0].schema, columns=columns, filter=filter, use_threads=False
    )
    return scanner.to_table()
