"""`Connection`: tables, blobs and SQL of one project.

Methods import other modules when they are called, so most scripts load neither notebook code nor
Spark.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import check_count
from odps_nb.access.displayed import DisplayedText
from odps_nb.access.pickling import Address, connect_again, remember
from odps_nb.access.progress import listener_of
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.client.catalog import list_projects, list_schemas, list_tables
from odps_nb.client.sql.definitions import create_table, drop_table
from odps_nb.errors import ArgumentError, ServiceError, StateError
from odps_nb.explained import Instructive, explained
from odps_nb.terms import (
    BlobReference,
    TableName,
    TextOptions,
    Transfer,
    TransferMode,
    query_title,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.blob import Blob
    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.access.queries import Queries, Query
    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.access.writing.columns import ColumnsLike
    from odps_nb.client.blob_cache import BlobCache
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.transfer import TransferChoice
    from odps_nb.convert.fitting.conversions import (
        DecimalConversion,
        TextConversion,
        TimeConversion,
    )
    from odps_nb.local.server.launch import LocalService
    from odps_nb.schema import TableSchema
    from odps_nb.wire.control import SqlCost

MAX_QUERIES = 100
"""Number of statements that `Connection.queries` remembers."""


@explained
class Connection(DisplayedText, Instructive):
    """Tables, blobs and SQL of one project; created by ``odps_nb.connect(…)``.

    A context manager that calls `close`. Thread-safe; a forked child opens its own sockets. A
    pickle contains no credentials: a process that loads it uses its own credentials (see
    ``docs/howto/other-processes.md``).

    Examples
    --------
    >>> odps.tables("ord*")
    ['orders']
    >>> odps.sql("select count(*) as days from (select distinct ds from orders) t").to_pandas()
       days
    0     8
    """

    _instead = {  # noqa: RUF012
        "read write head explore chart partitions": "call odps.table('name').{name}(…)",
        "gallery": "call odps.table('name').blobs()",
        "execute execute_sql query run_sql": "call odps.sql('select …')",
        "get_table t list_tables": "call odps.table('name') or odps.tables()",
        "[]": "call odps.table({key})",
    }

    def __init__(
        self,
        profile: Profile | Callable[[], Profile],
        *,
        service: LocalService | None = None,
        address: Address | None = None,
    ) -> None:
        self._profile, self._service = profile, service
        self._client: StorageClient | None = None
        self._closed = False
        self._project_zone: str | None = None  # "": the project does not name it
        self._queries: deque[Query] = deque(maxlen=MAX_QUERIES)
        self._jobs: deque[Query] = deque(maxlen=MAX_QUERIES)  # SQL jobs of explorers and charts
        if address is None:  # for pickles: the settings without credentials
            settings = tuple(self.profile.as_settings().items())
            root = None if service is None else service.root
            address = Address(connection_id=uuid.uuid4().hex, settings=settings, root=root)
        self._address = address
        remember(self)

    @property
    def profile(self) -> Profile:
        """Endpoint, project and credentials; the repr contains no secrets.

        Raises
        ------
        ConfigError
            The connection was unpickled in a process that has no credentials.
        """
        if not isinstance(self._profile, Profile):
            self._profile = self._profile()
        return self._profile

    def _changed(self, *, schema: str | None, timezone: str | None) -> Connection:
        """Return a connection to the same service, which its `close` does not stop."""
        profile = dataclasses.replace(self.profile, schema=schema, timezone=timezone)
        known = tuple(profile.as_settings().items())
        address = dataclasses.replace(self._address, connection_id=uuid.uuid4().hex, settings=known)
        return Connection(profile, address=address)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def _storage(self) -> StorageClient:
        """The Storage API client."""
        if self._closed:
            raise StateError("the connection is closed", hint="connect again")
        if self._client is None:
            from odps_nb.client.calls.storage import StorageClient

            self._client = StorageClient(self.profile)
        return self._client

    @property
    def blob_cache(self) -> BlobCache | None:
        """The disk cache of blobs, shared by all connections; ``None`` if it is off.

        See `odps_nb.Blob.open`. ``clear()`` empties it; ``size`` and ``limit`` are in bytes.
        """
        return self._storage.blob_cache

    @property
    def transfer(self) -> str:
        """The service that transfers rows: ``Storage API``, ``Storage API v1`` or ``tunnel``.

        The next read or write of a table uses this service. If the account lacks it, the connection
        switches to the next one and logs the reason (logger ``odps_nb``, level INFO). ``%odps
        status`` shows the reason, and ``odps-nb doctor`` checks each service. See ``transfer=`` of
        `odps_nb.connect`.

        Examples
        --------
        >>> odps.transfer
        'Storage API'
        """
        return str(self._service_of_rows)

    @property
    def _service_of_rows(self) -> Transfer:
        choice = self._transfers
        return choice.current or choice.mode.services[-1]

    @property
    def _transfers(self) -> TransferChoice:
        """The client's choice of a transfer service, or that of a new client; sends no request."""
        if self._client is not None:
            return self._client.transfer
        if isinstance(self._profile, Profile):
            return self._profile.transfer
        from odps_nb.client.transfer import TransferChoice

        settings = dict(self._address.settings)
        return TransferChoice(TransferMode.of(settings.get("transfer")))

    @property
    def _sql_zone(self) -> str | None:
        """The time zone of statements that set none; ``None`` if the project does not name it.

        Without a time zone of the connection, sends one request, and caches the response.
        """
        if self.profile.timezone is not None:
            return self.profile.timezone
        if self._project_zone is None:
            from odps_nb.wire.control import GetProject

            self._project_zone = ""
            with suppress(ServiceError):  # the key may not read the properties
                info = self._storage.control(GetProject(project=self.profile.project))
                self._project_zone = info.timezone or ""
        return self._project_zone or None

    # -- tables -------------------------------------------------------------------------------

    def table(self, name: str | TableName) -> Table:
        """Return a handle to a table; sends no request.

        ``name`` is ``table``, ``project.table`` or ``project.schema.table``; anything else raises
        an `ArgumentError`.
        """
        from odps_nb.access.table import Table

        return Table(self, self.profile.table(name))

    def tables(self, pattern: str | None = None) -> list[str]:
        """Return the sorted names of the project's tables that match ``pattern``, e.g. ``ord*``."""
        return list_tables(self._storage, pattern)

    def schemas(self, pattern: str | None = None) -> list[str]:
        """Return the sorted names of the project's schemas; ``pattern`` is as for `tables`.

        Raises
        ------
        ServiceError
            The project has no schemas.
        """
        return list_schemas(self._storage, pattern)

    def projects(self, pattern: str | None = None) -> list[str]:
        """Return the names of the projects that the access key may list; see `tables`."""
        return list_projects(self._storage, pattern)

    def create_table(
        self,
        name: str | TableName,
        columns: str | Sequence[str] | pa.Schema | TableSchema | Any,
        *,
        partitioned_by: str | Sequence[str] | None = None,
        primary_key: str | Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        comment: str = "",
        lifecycle: int | None = None,
        cluster_by: str | Sequence[str] = (),
        buckets: int | None = None,
        if_not_exists: bool = False,
        types: ColumnsLike | None = None,
        decimals: DecimalConversion = "exact",
        text: TextConversion = "exact",
        times: TimeConversion = "exact",
        index: bool | None = None,
        progress: Progress = None,
    ) -> Table:
        """Create a table, write rows if data is passed, and return the table's handle.

        Parameters
        ----------
        columns
            ``"id bigint, amount decimal(18,2), note string comment 'free text'"``, a list with one
            such string per column, a dict of names and types, an Arrow or Spark schema, or a
            `TableSchema`. Alternatively, data as for `Table.write`. The data's columns define the
            table (see ``docs/types-and-times.md``), and the rows are written in one commit, so do
            not write them again. If the write fails before its commit, the table is dropped.
        partitioned_by
            ``"ds string"``, a column name, or a list of both: ``["ds string", "region"]``.
            ``"trunc_time(d, 'day') as pt"`` auto-partitions by a date or time column.
        primary_key
            Columns that identify a row: a later row replaces an earlier row with the same key. The
            columns become ``not null``, and the table becomes transactional.
        properties
            Table properties such as ``{"acid.cdc.mode.enable": True}``, which records changes for
            24 hours, and rejects INSERT INTO (see ``docs/howto/incremental-reads.md``). Properties
            required by a BLOB column or a primary key are set automatically.
        lifecycle
            Number of days after which the service drops unchanged data.
        cluster_by, buckets
            Columns to cluster rows by, and the number of buckets. With a primary key, pass only
            ``buckets``, which is then the number of write buckets.
        if_not_exists
            Leave an existing table unchanged. Cannot be combined with data: use ``create`` of
            `Table.write` instead.
        types
            With data: types of some columns, e.g. ``{"price": "decimal(10,2)", "ds": "date"}``, in
            any form that ``columns`` accepts. The values must fit these types.
        decimals, text, times
            With data: allowed conversions, as for `Table.write`.
        index, progress
            As for `Table.write`, but ``index=None`` raises an error if the pandas index has a name.

        Raises
        ------
        ArgumentError
            A name, type or key is invalid; nothing was sent.
        ConflictError
            A table with this name exists.
        ConversionError
            A column's type cannot be determined, or a value does not fit the type.

        Examples
        --------
        >>> users = odps.create_table("doc_users", "id bigint, name string", primary_key="id")
        >>> [(column.name, column.nullable) for column in users.schema]
        [('id', False), ('name', True)]
        >>> import pandas as pd
        >>> copy = odps.create_table("doc_copy", pd.DataFrame({"id": [1, 2], "name": ["a", "b"]}))
        >>> copy.head()
           id name
        0   1    a
        1   2    b
        >>> odps.drop_table("doc_users"), odps.drop_table("doc_copy")
        (None, None)
        """
        from odps_nb.access.writing.columns import has_rows, names_of, properties_of, schema_of
        from odps_nb.access.writing.creating import create_and_write
        from odps_nb.access.writing.rows import WriteOptions
        from odps_nb.client.sql.definitions import TableOptions
        from odps_nb.convert.fitting.conversions import Conversions

        table = self.table(name)
        conversions = Conversions(decimals=decimals, text=text, times=times)
        options = TableOptions(
            primary_key=names_of(primary_key),
            properties=properties_of(properties),
            comment=comment,
            lifecycle=check_count("lifecycle", lifecycle),
            cluster_by=names_of(cluster_by),
            buckets=check_count("buckets", buckets),
            if_not_exists=if_not_exists,
        )
        if has_rows(columns):
            rows = WriteOptions(index=index, conversions=conversions, progress=progress)
            create_and_write(table, columns, partitioned_by, options, rows, types)
            return table
        if types is not None or conversions != Conversions():
            raise ArgumentError(
                "types=, decimals=, text= and times= require data",
                hint="write the types in the description of the columns",
            )
        create_table(self._storage, table.name, schema_of(columns, partitioned_by), options)
        return table

    def drop_table(self, name: str | TableName, *, if_exists: bool = False) -> None:
        """Drop a table and all its data.

        Raises
        ------
        NotFoundError
            The table does not exist, and ``if_exists`` is not set.
        """
        drop_table(self._storage, self.table(name).name, if_exists=if_exists)

    # -- blobs -----------------------------------------------------------------------------------

    def blob(self, reference: str | bytes | BlobReference) -> Blob:
        """Return a handle to a blob, given a value of a BLOB column; sends no request."""
        from odps_nb.access.blob import Blob, reference_of

        self._storage  # noqa: B018  # raises if the connection is closed
        return Blob(self, reference_of(reference))

    def blobs(
        self,
        references: Iterable[Any],
        column: str | None = None,
        *,
        caption: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> BlobColumn:
        """Return handles to many blobs, shown as a gallery in Jupyter; sends no request.

        The returned `BlobColumn` fetches, streams and saves its blobs in few requests.

        Parameters
        ----------
        references
            Values of a BLOB column as a list, a Series or an Arrow array, with or without nulls. If
            ``column`` is passed, a pandas or polars DataFrame or an Arrow table.
        column
            The frame's column of references. Each tile in the gallery shows the index of its row.
        caption
            Columns of the frame to show in each tile in addition to the index.
        limit
            Maximum number of blobs; rows without a blob are skipped.

        Raises
        ------
        NotFoundError
            The frame has no such column.
        ArgumentError
            A value is not a blob reference.

        Examples
        --------
        >>> media = odps.table("media").read(["content", "declared"]).to_pandas()
        >>> pictures = media[media["declared"] == "image/png"]
        >>> odps.blobs(pictures, "content", caption="declared", limit=2)
        BlobColumn(2 blobs of content)
        """
        from odps_nb.access.blobs.frames import column_of_frame, column_of_values

        self._storage  # noqa: B018  # raises if the connection is closed
        limit = check_count("limit", limit, at_least=0)
        if column is not None:
            return column_of_frame(self, references, column, caption, limit)
        if caption is not None:
            raise ArgumentError(
                "caption= requires a frame and the name of its BLOB column",
                argument="caption",
                hint="pass both: odps.blobs(frame, 'content', caption=…)",
            )
        return column_of_values(self, references, limit)

    def _frame_blobs(self) -> FrameBlobs:
        """Return the `FrameBlobs` that ``series.odps`` uses for a column without a connection."""
        from odps_nb.access.blobs.frames import FrameBlobs

        return FrameBlobs(self)

    # -- SQL ----------------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        wait: bool = True,
        timeout: float | None = None,
        max_bytes: int | None = None,
        text: str = "strict",
        char_padding: bool = False,
        progress: Progress = None,
    ) -> Result:
        """Run a SQL statement on the service and return its result.

        Parameters
        ----------
        query
            One SQL statement, with ``:name`` as a placeholder for a value. It may begin with
            settings: ``set odps.sql.allow.fullscan=true; select …``.
        params
            Values for ``:name``, e.g. ``{"ids": [1, 2]}`` for ``id in (:ids)``. A placeholder
            ``{name}`` is replaced by a table or column name. Python, NumPy, pandas, Arrow and
            polars values are accepted; times keep their nanoseconds. Times with a zone require a
            connection with a time zone; the query then runs in that zone. Without ``params``, the
            query is sent unchanged.
        settings
            Job settings, e.g. ``{"odps.sql.type.system.odps2": True}``; they override the
            settings in ``query``.
        wait
            Wait until the query has succeeded. ``False``: return immediately; see `Result.wait`.
        timeout
            Maximum seconds to wait. After that, or on an interrupt, the query is cancelled.
        max_bytes
            Do not run a query that the service estimates to read more bytes (see `sql_cost`). The
            estimate delays the query. Default: no limit, no estimate.
        text, char_padding, progress
            As for `Table.read`.

        Raises
        ------
        QueryError, NotFoundError, ConflictError
            The query failed; the message comes from the service. A `NotFoundError` names an object
            that does not exist, a `ConflictError` one that exists already.
        LimitExceededError
            The estimate exceeds ``max_bytes`` or was not returned; nothing was run.
        ArgumentError
            ``params`` lacks a value, a value has no SQL literal, a null follows ``not in``, or the
            value for a ``{name}`` is not a valid name.

        Examples
        --------
        >>> found = odps.sql(
        ...     "select status from orders where id in (:ids)", params={"ids": [1000001, 1000002]}
        ... )
        >>> found.to_arrow().num_rows
        2
        """
        from odps_nb.access.queries import Query
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.cost import check_cost
        from odps_nb.client.sql.query import run_sql
        from odps_nb.client.sql.settings import texts_of

        shown = TextOptions.of(text, char_padding=char_padding)
        chosen = None if settings is None else texts_of(settings)
        query = self._bound(query, params, chosen)
        if (most := check_count("max_bytes", max_bytes)) is not None:
            check_cost(self._storage, query, most, settings=chosen)
        if not wait:
            return self._start(query, shown, chosen, mine=True)
        storage, ran = self._storage, Query(sql=query, settings=chosen, connection=self)
        self._queries.append(ran)
        listener = listener_of(progress)
        with (
            ran._watched(cancels=True),
            ProgressTracker("sql", query_title(query), listener=listener) as tracker,
        ):
            tracker.phase(Phase.RUNNING)
            instance = run_sql(
                storage,
                query,
                settings=chosen,
                timeout=timeout,
                tracker=tracker,
                cancel=storage.operation(),
            )
        return Result(self, instance, text=shown, query=ran)

    def _bound(
        self, query: str, params: Mapping[str, object] | None, settings: Mapping[str, str] | None
    ) -> str:
        from odps_nb.access.binding.text import bind_query

        zone, schema = self.profile.timezone, self.profile.schema
        return bind_query(query, params, settings, timezone=zone, schema=schema)

    def _start(
        self, query: str, shown: TextOptions, settings: Mapping[str, str] | None, *, mine: bool
    ) -> Result:
        """Submit a statement; ``mine``: whether the user, not an explorer or a chart, wrote it."""
        from odps_nb.access.queries import Query
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.query import submit_sql

        storage = self._storage
        ran = Query(sql=query, settings=settings, connection=self, mine=mine)
        (self._queries if mine else self._jobs).append(ran)
        with ran._watched(ends=False):
            instance = submit_sql(storage, query, settings=settings)
        return Result(self, instance, text=shown, query=ran)

    def queries(self, *, mine: bool = False) -> Queries:
        """Return the last 100 statements that `sql` sent in this process, newest first.

        The list is displayed as a table with the time, state, seconds and rows of each statement.
        It also includes the last 100 SQL jobs of explorers and charts, unless ``mine`` is set, and
        is kept in memory only.

        Examples
        --------
        >>> result = odps.sql("select count(*) as n from orders where ds = '2024-01-01'")
        >>> newest = odps.queries()[0]
        >>> newest.state, newest.run().to_pandas()["n"].tolist()
        ('success', [231072])
        """
        from odps_nb.access.queries import Queries

        queries = [*self._queries.copy(), *(() if mine else self._jobs.copy())]
        return Queries(sorted(queries, key=lambda query: query._began, reverse=True))

    def result(
        self, instance_id: str, *, text: str = "strict", char_padding: bool = False
    ) -> Result:
        """Return the result of a query in this project, given its instance id; sends two requests.

        The query may have been started by another process and may still be running; see
        `Result.instance_id`. ``text`` and ``char_padding`` are as for `Table.read`.

        Raises
        ------
        NotFoundError
            The project has no such instance. Also raised when reading rows of an expired result.
        ArgumentError
            ``instance_id`` is not a valid instance id.

        Examples
        --------
        >>> noted = odps.sql("select count(*) as n from orders").instance_id
        >>> odps.result(noted).to_arrow().to_pylist()
        [{'n': 2048000}]
        """
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.query import find_sql

        shown = TextOptions.of(text, char_padding=char_padding)
        return Result(self, find_sql(self._storage, instance_id), text=shown)

    def sql_cost(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> SqlCost:
        """Return the service's cost estimate for a query; arguments are as for `sql`."""
        from odps_nb.client.sql.cost import estimate_sql
        from odps_nb.client.sql.settings import texts_of

        chosen = None if settings is None else texts_of(settings)
        text = self._bound(query, params, chosen)
        return estimate_sql(self._storage, text, settings=chosen)

    # -- lifecycle ----------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel all running operations of this connection. May be called from any thread.

        Reads, writes, queries and blob transfers raise `CancelledError` and close their sockets; a
        write that has not begun its commit is aborted. The connection stays usable.
        """
        if self._client is not None:
            self._client.cancel()

    def close(self) -> None:
        """Cancel running work, close the sockets and stop an embedded service. Idempotent.

        See `cancel`. Closing in a forked child does not affect the parent.
        """
        self._closed = True
        if self._client is not None:
            self._client.close()
        if self._service is not None:
            self._service.stop()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return _reconnect, (self._address,)

    def __copy__(self) -> Connection:
        return self

    def __deepcopy__(self, _: Any) -> Connection:
        return self

    def __repr__(self) -> str:
        there = dict(self._address.settings)
        where = ".".join(there[name] for name in ("project", "schema") if name in there)
        service = self._service_of_rows
        rows = "" if service is Transfer.STORAGE else f", rows by the {service}"
        state = " (closed)" if self._closed else ""
        return f"<Connection to {where} at {there['endpoint']}{rows}{state}>"


def _reconnect(address: Address) -> Connection:
    """Return the open connection for an unpickled address, or a new one."""
    return connect_again(address, lambda profile: Connection(profile, address=address))
