"""`Connection`: a project to work with.

Holds one `StorageClient` and hands out tables, blobs and query results. Making one costs no
request. Knows how nothing looks: that is lent to it as `Faces`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from odps_nb.access.faces import PLAIN, Faces
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, ProgressListener, ProgressTracker
from odps_nb.errors import InvalidRequestError, StateError
from odps_nb.terms import BlobReference, Compression, TableName

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.blob import Blob
    from odps_nb.access.many_blobs import Fetch, Reference
    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.blob.many import BlobRecord
    from odps_nb.client.blob.streamed import PassingBlob
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.schema import TableSchema

__all__ = ["Connection", "Service"]


class Service(Protocol):
    """An embedded service that lives as long as the connection."""

    def stop(self) -> None:
        """End the process. Idempotent."""


class Connection:
    """Tables, blobs and SQL of one project; made by ``odps_nb.connect(…)``.

    A context manager; `close` frees the sockets and stops an embedded service. Thread-safe, and
    of use in a forked child, which gets sockets of its own.

    Examples
    --------
    >>> odps.tables("ord*")
    ['orders']
    >>> odps.sql("select count(*) as days from (select distinct ds from orders) t").to_pandas()
       days
    0     8
    """

    def __init__(
        self, profile: Profile, *, faces: Faces = PLAIN, service: Service | None = None
    ) -> None:
        self._profile, self._faces, self._service = profile, faces, service
        self._storage: StorageClient | None = None
        self._closed = False

    @property
    def profile(self) -> Profile:
        """Endpoint, project and credentials; secrets are not in its repr."""
        return self._profile

    @property
    def faces(self) -> Faces:
        """What higher floors lend: progress, pictures, Spark."""
        return self._faces

    @property
    def storage(self) -> StorageClient:
        """The client underneath, for protocol-level work."""
        if self._closed:
            raise StateError("the connection is closed", hint="connect again")
        if self._storage is None:
            from odps_nb.client.calls.storage import StorageClient

            self._storage = StorageClient(self._profile)
        return self._storage

    # -- tables -------------------------------------------------------------------------------

    def table(self, name: str | TableName) -> Table:
        """Return the handle of a table; no request until one is needed.

        Parameters
        ----------
        name
            ``table``, ``project.table`` or ``project.schema.table``.

        Raises
        ------
        InvalidRequestError
            This cannot be the name of a table.
        """
        from odps_nb.access.table import Table

        return Table(self, self._profile.table(name))

    def tables(self, pattern: str | None = None) -> list[str]:
        """Return the names of the project's tables, sorted.

        Parameters
        ----------
        pattern
            Only names like this, e.g. ``ord*``; case does not matter.
        """
        from odps_nb.client.catalog import list_tables

        return list_tables(self.storage, pattern)

    def create_table(
        self,
        name: str | TableName,
        columns: str | pa.Schema | TableSchema,
        *,
        partitioned_by: str | Sequence[str] | None = None,
        primary_key: str | Sequence[str] = (),
        properties: Mapping[str, object] | None = None,
        comment: str = "",
        lifecycle: int | None = None,
        cluster_by: str | Sequence[str] = (),
        buckets: int | None = None,
        if_not_exists: bool = False,
    ) -> Table:
        """Create a table and return its handle.

        Parameters
        ----------
        columns
            ``"id bigint, amount decimal(18,2), note string comment 'free text'"``, an Arrow
            schema (types as told in ``odps_nb.convert.arrow_types.odps_type``), or a
            `TableSchema`.
        partitioned_by
            ``"ds string"``, or names of columns in an Arrow schema.
        primary_key
            Columns that name a row: later rows of a key replace earlier ones. They become
            ``not null``, and the table transactional.
        properties
            Table properties such as ``{"acid.cdc.mode.enable": True}``. What a BLOB column or a
            primary key needs is set by itself.
        lifecycle
            Days until the service drops what was not touched.
        cluster_by, buckets
            Columns to hash and sort rows by, and into how many buckets; with a primary key
            ``buckets`` alone is the number of write buckets.
        if_not_exists
            Leave a table that is there as it is.

        Raises
        ------
        InvalidRequestError
            A name, type or key that no table can have; nothing was sent.
        ConflictError
            A table of that name exists.

        Examples
        --------
        >>> users = odps.create_table("doc_users", "id bigint, name string", primary_key="id")
        >>> [(column.name, column.nullable) for column in users.schema]
        [('id', False), ('name', True)]
        >>> odps.drop_table("doc_users")
        """
        from odps_nb.access.columns import names_of, properties_of, schema_of
        from odps_nb.client.catalog import create_table
        from odps_nb.client.sql.definitions import TableOptions

        table = self.table(name)
        options = TableOptions(
            primary_key=names_of(primary_key),
            properties=properties_of(properties),
            comment=comment,
            lifecycle=lifecycle,
            cluster_by=names_of(cluster_by),
            buckets=buckets,
            if_not_exists=if_not_exists,
        )
        create_table(self.storage, table.name, schema_of(columns, partitioned_by), options)
        return table

    def drop_table(self, name: str | TableName, *, if_exists: bool = False) -> None:
        """Drop a table with everything in it.

        Raises
        ------
        NotFoundError
            There is none, and ``if_exists`` is not set.
        """
        from odps_nb.client.catalog import drop_table

        drop_table(self.storage, self._profile.table(name), if_exists=if_exists)

    # -- SQL ----------------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
        wait: bool = True,
        timeout: float | None = None,
        progress: ProgressListener | None = None,
    ) -> Result:
        """Run a query on the service.

        Parameters
        ----------
        query
            The text. Never put values into it yourself: write ``:name``, and the value into
            ``params``.
        params
            Values of the ``:name`` in the query, e.g. ``{"ids": [1, 2]}`` for ``id in (:ids)``;
            without them the query is sent as it is. Datetimes with a zone need a connection with
            one, in which the query then runs.
        settings
            Settings of the job, e.g. ``{"odps.sql.type.system.odps2": "true"}``.
        wait
            Return when the query has succeeded; otherwise at once, and `Result.wait` waits.
        timeout
            Seconds to wait at most. An interrupt or the end of this time stops the query.

        Raises
        ------
        QueryError
            It failed; the message is the service's own.
        ConfigError
            A ``:name`` without a value in ``params``, or a value that SQL cannot write.

        Examples
        --------
        >>> found = odps.sql(
        ...     "select status from orders where id in (:ids)", params={"ids": [1000001, 1000002]}
        ... )
        >>> found.to_arrow().num_rows
        2
        """
        from odps_nb.access.binding import bind
        from odps_nb.access.sql import Result
        from odps_nb.client.sql.query import SQL_ZONE, run_sql, submit_sql

        if not query.strip():
            raise InvalidRequestError("the query is empty")
        if params is not None:
            zone = (settings or {}).get(SQL_ZONE) or self._profile.timezone
            query = bind(query, params, source="params has no", timezone=zone)
        if not wait:
            return Result(self, submit_sql(self.storage, query, settings=settings))
        listener = progress or self._faces.listener()
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
        return Result(self, instance)

    def accelerated_rows(
        self, instance_id: str, query_id: int, *, columns: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows of an accelerated query that ran elsewhere (pyodps' interactive SQL).

        Its result is read without a session, so that nobody knows how many rows there will be,
        nor which times are instants: they come as they are, in UTC without a zone.

        Parameters
        ----------
        instance_id, query_id
            The instance that runs such queries, and the number of the query in it.
        columns
            Names in the order wanted; ``None`` for all.

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
        from odps_nb.access.accelerated import accelerated_rows

        return accelerated_rows(self, instance_id, query_id, tuple(columns or ()))

    # -- blobs --------------------------------------------------------------------------------

    def blob(self, reference: str | bytes | BlobReference) -> Blob:
        """Return the handle of a blob; no request until its bytes are wanted.

        Parameters
        ----------
        reference
            A value of a BLOB column as it was read.
        """
        from odps_nb.access.blob import Blob, reference_of

        return Blob(self.storage, reference_of(reference), faces=self._faces)

    def blobs(
        self,
        references: Iterable[Reference],
        *,
        compression: str | Compression | None = None,
        progress: ProgressListener | None = None,
    ) -> Iterator[BlobRecord]:
        """Fetch many blobs in few requests: one record per reference, in order, verified.

        Leaving the iterator early closes its connection. For blobs that are too many or too large
        for memory there are `save_blobs` and `each_blob`.

        Raises
        ------
        InvalidRequestError
            A value is no reference; nothing was sent.
        ChecksumError, TruncatedError
            Bytes were damaged or are missing.
        """
        from odps_nb.access.many_blobs import iter_records

        return iter_records(self._fetch(compression, progress), references)

    def save_blobs(
        self,
        references: Iterable[Reference | None],
        folder: str | os.PathLike[str],
        *,
        name: Callable[[int, BlobHead], str | None] | None = None,
        overwrite: bool = False,
        compression: str | Compression | None = None,
        progress: ProgressListener | None = None,
    ) -> list[Path | None]:
        """Save many blobs as files of a folder: one path per reference, in order.

        Each distinct reference is fetched once and becomes one file, verified and whole, or none.
        Memory holds a bounded part of it, however large the blobs are. After an error or an
        interrupt the files that were whole stay.

        Parameters
        ----------
        references
            Values of a BLOB column (a list, a Series, an Arrow array) or a `BlobColumn`. A null
            has no file: its path is ``None``, so that the result fits beside the column.
        folder
            An existing folder; no file is ever made outside of it.
        name
            Called with the position of the reference and what is known of the blob (``size``,
            ``mime_type``, ``custom_file_name``); returns a file name, or ``None`` for the one
            that the blob states. Both are made safe as `Blob.save` does, and numbered (``-2``)
            when taken, also where they only differ in case.
        overwrite
            Replace files that were there before. Files of the same call never replace each other.
        compression
            ``"zstd"`` or ``"lz4"`` on the way.

        Raises
        ------
        InvalidRequestError
            A value is no reference; nothing was sent.
        ConfigError
            The folder does not exist, or no file can be made there.
        NotFoundError, ChecksumError, TruncatedError
            A blob is not there, or stayed damaged; a note says which one.

        Examples
        --------
        >>> import tempfile
        >>> media = odps.table("media").head(3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     media["file"] = odps.save_blobs(media["content"], folder)
        ...     [path.name for path in media["file"]]
        ['mountains.jpg', 'mandelbrot.png', 'julia.webp']
        """
        from odps_nb.access.many_blobs import References, save_blobs

        fetch = self._fetch(compression, progress)
        return save_blobs(fetch, References(references), folder, name=name, overwrite=overwrite)

    def each_blob(
        self,
        references: Iterable[Reference | None],
        fn: Callable[[PassingBlob], object],
        *,
        compression: str | Compression | None = None,
        progress: ProgressListener | None = None,
    ) -> int:
        r"""Call a function with each blob in turn, as a file that is read; return how many.

        Blobs come in the order of their first place in ``references``, each distinct one once:
        ``blob.positions`` says where it stands. Nulls are left out. Meanwhile the next ones
        arrive, as much as a bounded part of memory takes, however large they are.

        Parameters
        ----------
        references
            As for `save_blobs`.
        fn
            Runs in this thread. The blob is a binary file (``read``, ``readinto``; no seeking)
            with ``size``, ``mime_type``, ``custom_file_name`` and ``reference``, and is closed
            when the function returns; what was not read is passed over. What the function
            raises ends the call.

        Raises
        ------
        InvalidRequestError, NotFoundError, ChecksumError, TruncatedError
            As for `save_blobs`, also if the function has kept the error to itself.

        Examples
        --------
        >>> def show(blob):
        ...     print(blob.custom_file_name, blob.positions, blob.read(4))
        >>> one, other = odps.table("media").blobs("content", limit=2)
        >>> odps.each_blob([one, other, one], show)
        mountains.jpg (0, 2) b'\xff\xd8\xff\xe0'
        mandelbrot.png (1,) b'\x89PNG'
        2
        """
        from odps_nb.access.many_blobs import References, each_blob

        return each_blob(self._fetch(compression, progress), References(references), fn)

    def _fetch(
        self, compression: str | Compression | None, progress: ProgressListener | None
    ) -> Fetch:
        from odps_nb.access.many_blobs import Fetch

        return Fetch(
            storage=self.storage,
            compression=Compression.of(compression),
            listener=lambda: progress or self._faces.listener(),
        )

    # -- life ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Stop what runs over this connection, from any thread; those who wait for it raise.

        Reads, writes, queries and blobs end with `CancelledError` and close their sockets; a
        write that has not begun its commit is aborted. The connection stays usable.
        """
        if self._storage is not None:
            self._storage.cancel()

    def close(self) -> None:
        """Stop what runs, free the sockets, end an embedded service of ours. Idempotent.

        Half-read rows and blobs raise `CancelledError` from then on; a half-done write is
        aborted. In a forked child this ends nothing of the parent.
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
        raise StateError(
            "a connection is never pickled: it holds keys and sockets",
            hint="connect again where it is needed, by the name of a profile",
        )

    def __repr__(self) -> str:
        profile = self._profile
        where = profile.project + (f".{profile.schema}" if profile.schema else "")
        state = " (closed)" if self._closed else ""
        return f"<Connection to {where} at {profile.endpoint}{state}>"


def _title(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 80 else text[:79] + "…"
