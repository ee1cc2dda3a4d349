"""`Connection`: tables, blobs and SQL of one project.

Holds one `StorageClient`. Making one sends no request. What a notebook shows is passed in as
`Faces`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from odps_nb.access.by_reference import ByReference
from odps_nb.access.elsewhere import Address, remember
from odps_nb.access.faces import PLAIN, Faces
from odps_nb.access.making_tables import MakesTables
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker, listener_of
from odps_nb.errors import StateError
from odps_nb.terms import TableName, TextMode, TextOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.client.blob.cache import BlobCache
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.wire.control import SqlCost

__all__ = ["Connection", "Service"]


class Service(Protocol):
    """An embedded service that lives as long as the connection."""

    @property
    def root(self) -> str:
        """The folder that it serves."""

    def stop(self) -> None:
        """End the process. Idempotent."""


class Connection(ByReference, MakesTables):
    """Tables, blobs and SQL of one project; made by ``odps_nb.connect(…)``.

    A context manager; `close` frees the sockets and stops an embedded service. Thread-safe; usable
    in a forked child, which opens its own sockets. Can be pickled, without credentials: another
    process uses those that are configured there (see ``docs/howto/other-processes.md``).

    Examples
    --------
    >>> odps.tables("ord*")
    ['orders']
    >>> odps.sql("select count(*) as days from (select distinct ds from orders) t").to_pandas()
       days
    0     8
    """

    def __init__(
        self,
        profile: Profile | Callable[[], Profile],
        *,
        faces: Faces = PLAIN,
        service: Service | None = None,
        address: Address | None = None,
    ) -> None:
        self._profile, self._faces, self._service = profile, faces, service
        self._storage: StorageClient | None = None
        self._closed = False
        self._made_address = address
        remember(self)

    @property
    def profile(self) -> Profile:
        """Endpoint, project and credentials; secrets are not in its repr.

        Raises
        ------
        ConfigError
            The connection was pickled in another process, and this one has no credentials.
        """
        if not isinstance(self._profile, Profile):
            self._profile = self._profile()
        return self._profile

    @property
    def _has_profile(self) -> bool:
        """Whether the credentials are known already; ``False`` before the first use elsewhere."""
        return isinstance(self._profile, Profile)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def _address(self) -> Address:
        """What a pickle holds: settings without credentials."""
        if self._made_address is None:
            settings = tuple(self.profile.as_settings().items())
            root = None if self._service is None else self._service.root
            self._made_address = Address(
                connection_id=uuid.uuid4().hex, settings=settings, root=root
            )
        return self._made_address

    @property
    def faces(self) -> Faces:
        """Functions of higher floors: progress, pictures, Spark."""
        return self._faces

    @property
    def storage(self) -> StorageClient:
        """The Storage API client, for protocol-level work."""
        if self._closed:
            raise StateError("the connection is closed", hint="connect again")
        if self._storage is None:
            from odps_nb.client.calls.storage import StorageClient

            self._storage = StorageClient(self.profile)
        return self._storage

    @property
    def blob_cache(self) -> BlobCache | None:
        """Blobs on this machine's disk, shared by all connections; ``None``: switched off.

        See `odps_nb.Blob.open`. Its ``clear()`` removes all of them, ``folder`` says where they
        are, ``size`` and ``limit`` are in bytes.
        """
        return self.storage.blob_cache

    # -- tables -------------------------------------------------------------------------------

    def table(self, name: str | TableName) -> Table:
        """Return the handle of a table; sends no request.

        Parameters
        ----------
        name
            ``table``, ``project.table`` or ``project.schema.table``.

        Raises
        ------
        ArgumentError
            This cannot be the name of a table.
        """
        from odps_nb.access.table import Table

        return Table(self, self.profile.table(name))

    def tables(self, pattern: str | None = None) -> list[str]:
        """Return the names of the project's tables, sorted.

        Parameters
        ----------
        pattern
            Only names like this, e.g. ``ord*``; case does not matter.
        """
        from odps_nb.client.catalog import list_tables

        return list_tables(self.storage, pattern)

    def schemas(self, pattern: str | None = None) -> list[str]:
        """Return the names of the project's schemas, sorted.

        Parameters
        ----------
        pattern
            Only names like this, as for `tables`.

        Raises
        ------
        ServiceError
            The project has no schemas: the service says so in its own words.

        Examples
        --------
        >>> odps.schemas()
        ['default']
        """
        from odps_nb.client.catalog import list_schemas

        return list_schemas(self.storage, pattern)

    def projects(self, pattern: str | None = None) -> list[str]:
        """Return the names of the projects that the key may list, sorted.

        Parameters
        ----------
        pattern
            Only names like this, as for `tables`.

        Examples
        --------
        >>> odps.projects()
        ['local']
        """
        from odps_nb.client.catalog import list_projects

        return list_projects(self.storage, pattern)

    # -- SQL ----------------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
        wait: bool = True,
        timeout: float | None = None,
        text: str = "strict",
        char_padding: bool = False,
        progress: Progress = None,
    ) -> Result:
        """Run a query on the service.

        Parameters
        ----------
        query
            The text of one statement. Never put values into it yourself: write ``:name``, and the
            value into ``params``. It may begin with settings:
            ``set odps.sql.allow.fullscan=true; select …``.
        params
            Values of the ``:name`` in the query, e.g. ``{"ids": [1, 2]}`` for ``id in (:ids)``,
            and names of tables and columns for ``{name}``. Without them the query is sent as it
            is. Values are those of Python, NumPy, pandas, Arrow and polars; times keep their
            nanoseconds. Times with a zone need a connection with one, in which the query runs.
        settings
            Settings of the job, e.g. ``{"odps.sql.type.system.odps2": "true"}``; they count more
            than those in the text.
        wait
            Return when the query has succeeded; otherwise at once, and `Result.wait` waits.
        timeout
            Maximum seconds to wait. An interrupt or the end of this time cancels the query.
        text, char_padding
            What to do with text of the result that is not UTF-8, and whether to keep the blanks at
            the end of CHAR, as for `Table.read`.

        Raises
        ------
        QueryError
            It failed; the message is the service's own.
        ArgumentError
            A ``:name`` without a value in ``params``, a value without a SQL literal, a null after
            ``not in``, or a ``{name}`` whose value is not a name.

        Examples
        --------
        >>> found = odps.sql(
        ...     "select status from orders where id in (:ids)", params={"ids": [1000001, 1000002]}
        ... )
        >>> found.to_arrow().num_rows
        2
        """
        from odps_nb.access.binding.text import bind_query
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.query import run_sql, submit_sql

        shown = TextOptions.of(text, char_padding=char_padding)
        query = bind_query(query, params, settings, timezone=self.profile.timezone)
        if not wait:
            return Result(self, submit_sql(self.storage, query, settings=settings), text=shown)
        listener = listener_of(progress, default=self._faces.listener)
        with ProgressTracker("sql", _title(query), listener=listener) as tracker:
            tracker.phase(Phase.RUNNING)
            instance = run_sql(
                self.storage,
                query,
                settings=settings,
                timeout=timeout,
                tracker=tracker,
                cancel=self.storage.operation(),
            )
        return Result(self, instance, text=shown)

    def result(
        self, instance_id: str, *, text: str = "strict", char_padding: bool = False
    ) -> Result:
        """Return the result of a query by its instance id, also from another process; two requests.

        The query may still run: `Result.status`, `Result.wait` and `Result.cancel` work as for
        the result of `sql`, and its rows can be read for as long as the service keeps them.

        Parameters
        ----------
        instance_id
            `Result.instance_id` of the query, which is also on its card and page. It must have run
            in the project of this connection.
        text, char_padding
            As for `sql`.

        Raises
        ------
        NotFoundError
            The project has no such instance; or later, when rows are read, its result is gone.
        ArgumentError
            This cannot be the id of an instance.

        Examples
        --------
        >>> noted = odps.sql("select count(*) as n from orders").instance_id
        >>> odps.result(noted).to_arrow().to_pylist()
        [{'n': 2048000}]
        """
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.query import find_sql

        shown = TextOptions.of(text, char_padding=char_padding)
        return Result(self, find_sql(self.storage, instance_id), text=shown)

    def sql_cost(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> SqlCost:
        """Return the service's estimate of what a query costs; nothing is run.

        Parameters
        ----------
        query, params, settings
            As for `sql`.

        Examples
        --------
        >>> odps.sql_cost("select * from orders where ds = '2024-01-02'").complexity
        1.0
        """
        from odps_nb.access.binding.text import bind_query
        from odps_nb.client.sql.cost import estimate_sql

        text = bind_query(query, params, settings, timezone=self.profile.timezone)
        return estimate_sql(self.storage, text, settings=settings)

    def accelerated_rows(
        self,
        instance_id: str,
        query_id: int,
        *,
        columns: Sequence[str] | None = None,
        text: str = "strict",
    ) -> pa.RecordBatchReader:
        """Return the rows of an accelerated query that ran elsewhere (pyodps' interactive SQL).

        Its result is read without a session, so neither the number of rows nor which times are
        instants is known: times come unchanged, in UTC without a zone.

        Parameters
        ----------
        instance_id, query_id
            The instance that runs such queries, and the number of the query in it.
        columns
            Names in the order wanted; ``None`` for all.
        text
            As for `Table.read`; ``"binary"`` shows all columns that arrive as text as bytes. CHAR
            keeps its blanks, because these rows come without the types of MaxCompute.

        Returns
        -------
        pyarrow.RecordBatchReader
            Reads while it is read; ``read_pandas()`` or ``read_all()`` takes all. Close it when
            it is left early.

        Raises
        ------
        NotFoundError
            No such instance, or no result.
        """
        from odps_nb.access.reading.accelerated import accelerated_rows

        names, mode = tuple(columns or ()), TextMode.of(text)
        return accelerated_rows(self, instance_id, query_id, names, mode)

    # -- life ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel everything running over this connection, from any thread; waiting calls raise.

        Reads, writes, queries and blobs end with `CancelledError` and close their sockets; a
        write that has not begun its commit is aborted. The connection stays usable.
        """
        if self._storage is not None:
            self._storage.cancel()

    def close(self) -> None:
        """Cancel what runs, close the sockets, stop its embedded service, if any. Idempotent.

        Half-read rows and blobs raise `CancelledError` from then on; an unfinished write is
        aborted. In a forked child this does not affect the parent.
        """
        self._closed = True
        if self._storage is not None:
            self._storage.close()
        if self._service is not None:
            self._service.stop()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return self._faces.reconnect, (self._address,)

    def __copy__(self) -> Connection:
        return self

    def __deepcopy__(self, _: Any) -> Connection:
        return self

    def __repr__(self) -> str:
        there = dict(self._address.settings)
        where = ".".join(there[name] for name in ("project", "schema") if name in there)
        state = " (closed)" if self._closed else ""
        return f"<Connection to {where} at {there['endpoint']}{state}>"


def _title(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 80 else text[:79] + "…"
