"""`Connection`: tables, blobs and SQL of one project.

Methods import what they need, so that a script loads no notebook code and no Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import Overwrite, PartitionLike
from odps_nb.access.elsewhere import Address, connect_again, remember
from odps_nb.access.progress import listener_of
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.client.catalog import list_projects, list_schemas, list_tables
from odps_nb.client.table_changes import create_table, drop_table
from odps_nb.errors import StateError
from odps_nb.terms import BlobReference, Compression, PartitionSpec, TableName, TextOptions, shorten

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.blob import Blob
    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.access.blobs.frames import FrameBlobs
    from odps_nb.access.blobs.many import Fetch, Reference
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.client.blob.head import BlobHead
    from odps_nb.client.blob.many import BlobRecord
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.blob_cache import BlobCache
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.local.server.launch import LocalService
    from odps_nb.notebook.upload.uploader import Uploader
    from odps_nb.schema import TableSchema
    from odps_nb.wire.control import SqlCost


class Connection:
    """Tables, blobs and SQL of one project; made by ``odps_nb.connect(…)``.

    A context manager; `close` frees the sockets and stops an embedded service. Thread-safe; a
    forked child opens its own sockets. Can be pickled, without credentials: another process uses
    those that are configured there (see ``docs/howto/other-processes.md``).

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
        service: LocalService | None = None,
        address: Address | None = None,
    ) -> None:
        self._profile, self._service = profile, service
        self._client: StorageClient | None = None
        self._closed = False
        self._made_address = address
        remember(self)

    @property
    def profile(self) -> Profile:
        """Endpoint, project and credentials; secrets are not in its repr.

        Raises
        ------
        ConfigError
            The connection comes from a pickle, and this process has no credentials.
        """
        if not isinstance(self._profile, Profile):
            self._profile = self._profile()
        return self._profile

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
        """Blobs on this machine's disk, shared by all connections; ``None`` if switched off.

        See `odps_nb.Blob.open`. ``clear()`` removes all of them, ``folder`` is where they are,
        ``size`` and ``limit`` are in bytes.
        """
        return self._storage.blob_cache

    # -- tables -------------------------------------------------------------------------------

    def table(self, name: str | TableName) -> Table:
        """Return the handle of a table; sends no request.

        ``name`` is ``table``, ``project.table`` or ``project.schema.table``; anything else is an
        `ArgumentError`.
        """
        from odps_nb.access.table import Table

        return Table(self, self.profile.table(name))

    def tables(self, pattern: str | None = None) -> list[str]:
        """Return the names of the project's tables, sorted; of a pattern such as ``ord*``."""
        return list_tables(self._storage, pattern)

    def schemas(self, pattern: str | None = None) -> list[str]:
        """Return the names of the project's schemas, sorted; of a pattern, as for `tables`.

        Raises
        ------
        ServiceError
            The project has no schemas.
        """
        return list_schemas(self._storage, pattern)

    def projects(self, pattern: str | None = None) -> list[str]:
        """Return the names of the projects that the key may list, as for `tables`."""
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
        index: bool | None = None,
        progress: Progress = None,
    ) -> Table:
        """Create a table, with rows if some are given, and return its handle.

        Parameters
        ----------
        columns
            ``"id bigint, amount decimal(18,2), note string comment 'free text'"``, a list with such
            a text for each column, a dict of names and types, a schema of Arrow or Spark, or a
            `TableSchema`. Or data as for `Table.write`: the table gets its columns (types:
            ``docs/types-and-times.md``), and its rows in one commit. If that fails, the table is
            dropped again.
        partitioned_by
            ``"ds string"``, names of columns, or a list of both: ``["ds string", "region"]``.
            ``"trunc_time(d, 'day') as pt"`` auto-partitions by a date or time column.
        primary_key
            Columns that identify a row: later rows of a key replace earlier ones. The columns
            become ``not null``, the table transactional.
        properties
            Table properties such as ``{"acid.cdc.mode.enable": True}``. What a BLOB column or a
            primary key needs is set automatically.
        lifecycle
            Days until the service drops unchanged data.
        cluster_by, buckets
            Columns to hash and sort rows by, and number of buckets; with a primary key, ``buckets``
            alone is the number of write buckets.
        if_not_exists
            Leave an existing table as it is. Not with rows: see ``create`` of `Table.write`.
        index, progress
            As for `Table.write`; a named index of pandas data is an error with ``index=None``.

        Raises
        ------
        ArgumentError
            A name, type or key that no table can have; nothing was sent.
        ConflictError
            A table of that name exists.
        ConversionError
            The data has a column without a type, or a value that does not fit it.

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
        if has_rows(columns):
            rows = WriteOptions(index=index, progress=progress)
            create_and_write(table, columns, partitioned_by, options, rows)
            return table
        create_table(self._storage, table.name, schema_of(columns, partitioned_by), options)
        return table

    def drop_table(self, name: str | TableName, *, if_exists: bool = False) -> None:
        """Drop a table with everything in it.

        Raises
        ------
        NotFoundError
            No such table, and ``if_exists`` is not set.
        """
        drop_table(self._storage, self.table(name).name, if_exists=if_exists)

    def write_files(
        self,
        folder: str | os.PathLike[str],
        table: str | TableName,
        *,
        pattern: str | Sequence[str] = "*",
        recursive: bool = True,
        hidden: bool = False,
        follow_links: bool = False,
        partition: PartitionLike | None = None,
        overwrite: Overwrite = False,
        create: bool = True,
        compression: str | Compression | None = None,
        resume: bool = False,
        progress: Progress = None,
    ) -> Receipt:
        """Write the files of a folder to a table, one row each, in one commit.

        Columns: ``path`` STRING (below the folder, with ``/``), ``name`` STRING, ``size`` BIGINT
        (bytes), ``mime_type`` STRING (by the first bytes, or by the name if they leave it open, as
        of ``.docx``), ``modified`` TIMESTAMP, ``content`` BLOB (with name and type).

        Files are streamed in the order of their paths, in bounded memory. After an error nothing is
        written.

        Parameters
        ----------
        table
            Created if missing. An existing one needs a BLOB column ``content``; of the other
            columns above it may have any.
        pattern
            Which files: ``"*.jpg"`` matches names, ``"2024/*.jpg"`` paths (where ``*`` also matches
            ``/``). One or several; case matters.
        recursive, hidden
            Include files of folders inside; include names that begin with a dot.
        follow_links
            Follow symbolic links; otherwise one is an error.
        partition, overwrite, compression, progress
            As for `Table.write`.
        create
            ``False``: the table must exist.
        resume
            Keep the write session open if the call ends early, by an error, an interrupt or the
            death of the kernel. The same call on this machine then sends only changed files and
            those that had not arrived (by groups of 64 MiB or 256 files), and commits all once. If
            the session has expired, it says so and sends all again. A created table stays.

        Raises
        ------
        ConflictError
            With ``resume``: another process is writing the same, or it is unknown whether an
            earlier call committed.
        ConfigError
            No folder, or it has a link, an unreadable file or a pipe; nothing was written.
        ArgumentError
            No file matches ``pattern``.
        FramingError
            A file changed while it was written.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("a.txt", "b.txt"):
        ...         _ = pathlib.Path(folder, name).write_text(f"this is {name}")
        ...     odps.write_files(folder, "doc_files").blobs
        2
        >>> odps.table("doc_files").read(["path", "size", "mime_type"]).to_pandas()
            path  size   mime_type
        0  a.txt    13  text/plain
        1  b.txt    13  text/plain
        >>> odps.drop_table("doc_files")
        """
        from odps_nb.access.writing.files import write_files
        from odps_nb.access.writing.folder_files import FolderFiles
        from odps_nb.access.writing.resumable import write_files_resumable
        from odps_nb.access.writing.rows import WriteOptions

        files = FolderFiles(
            folder=Path(folder).expanduser(),
            patterns=(pattern,) if isinstance(pattern, str) else tuple(pattern),
            recursive=recursive,
            hidden=hidden,
            follow_links=follow_links,
        )
        options = WriteOptions(
            partition=PartitionSpec.of(partition),
            overwrite=overwrite,
            compression=Compression.of(compression),
            progress=progress,
        )
        write = write_files_resumable if resume else write_files
        return write(files, self.table(table), options, create=create)

    def upload(
        self,
        table: str | TableName,
        *,
        partition: PartitionLike | None = None,
        overwrite: Overwrite = False,
        create: bool = True,
        accept: str = "",
    ) -> Uploader:
        """Return a file picker for a notebook: files chosen in the browser become rows of a table.

        The browser sends pieces of 1 MiB into a temporary folder of the kernel, while no cell runs;
        then all files are written in one commit. It shows progress and errors; after an error
        nothing is written.

        Parameters
        ----------
        table, partition, overwrite, create
            As for `write_files`; a missing table is created with the first files.
        accept
            What the browser offers: ``"image/*"``, ``".csv,.parquet"``; does not check the files.

        Returns
        -------
        Uploader
            Displays itself as the last line of a cell; ``receipt`` is that of the last commit.
        """
        from odps_nb.access.writing.rows import WriteOptions
        from odps_nb.notebook.upload.uploader import Uploader

        options = WriteOptions(partition=PartitionSpec.of(partition), overwrite=overwrite)
        return Uploader(self.table(table), options, create=create, accept=accept)

    # -- blobs -----------------------------------------------------------------------------------

    def blob(self, reference: str | bytes | BlobReference) -> Blob:
        """Return the handle of a blob, by a value of a BLOB column; sends no request."""
        from odps_nb.access.blob import Blob, reference_of

        self._storage  # noqa: B018  # raises if the connection is closed
        return Blob(self, reference_of(reference))

    def blobs(
        self,
        references: Iterable[Reference],
        *,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> Iterator[BlobRecord]:
        """Fetch many blobs in few requests: one record per reference, in order, verified.

        Leaving the iterator early closes its connection. For blobs that do not fit into memory use
        `save_blobs` and `each_blob`; to look at them, `gallery`. Errors: as for `save_blobs`.
        """
        from odps_nb.access.blobs.many import iter_records

        return iter_records(self._fetch(compression, progress), references)

    def gallery(
        self,
        frame: Any,
        column: str,
        *,
        caption: str | Sequence[str] | None = None,
        limit: int | None = None,
    ) -> BlobColumn:
        """Return the blobs of a frame's column as a gallery, each under its row.

        In Jupyter the user filters, sorts, searches and selects them (`BlobColumn.selected`). Blobs
        are read when they come into view; the notebook keeps the first 64 tiles.

        Parameters
        ----------
        frame
            A pandas or polars DataFrame or an Arrow table.
        column
            The column with references; rows without a blob are left out.
        caption
            Columns whose values the tiles show, beside the index of the row.
        limit
            Maximum number of blobs.

        Raises
        ------
        NotFoundError
            The frame has no such column.
        ArgumentError
            A value is no reference.

        Examples
        --------
        >>> media = odps.table("media").read(["content", "declared"]).to_pandas()
        >>> pictures = media[media["declared"] == "image/png"]
        >>> odps.gallery(pictures, "content", caption="declared", limit=2)
        BlobColumn(2 blobs of content)
        """
        from odps_nb.access.blobs.frames import frame_gallery

        return frame_gallery(self, frame, column, caption, limit)

    def _frame_blobs(self) -> FrameBlobs:
        """Return what ``series.odps`` fetches blobs with, for a column without a connection."""
        from odps_nb.access.blobs.frames import FrameBlobs

        return FrameBlobs(self)

    def save_blobs(
        self,
        references: Iterable[Reference | None],
        folder: str | os.PathLike[str],
        *,
        file_name: Callable[[int, BlobHead], str | None] | None = None,
        overwrite: bool = False,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> list[Path | None]:
        """Save many blobs as files of a folder: one path per reference, in order.

        Each distinct reference is fetched once and becomes one file, verified and complete, or
        none. Memory is bounded. After an error or an interrupt the complete files stay.

        Parameters
        ----------
        references
            Values of a BLOB column (a list, a Series, an Arrow array) or a `BlobColumn`. The path
            of a null is ``None``, so that the result fits beside the column.
        folder
            An existing folder; no file is created outside of it.
        file_name
            Called with the position of the reference and a `BlobHead` (``size``, ``mime_type``,
            ``file_name``); returns a file name, or ``None`` for the stated one. Names are made safe
            as in `Blob.save`, and numbered (``-2``) if taken, also if they differ only in case.
        overwrite
            Replace earlier files. Files of the same call never replace each other.
        compression
            ``"zstd"`` or ``"lz4"`` for the transfer.

        Raises
        ------
        ArgumentError
            A value is no reference; nothing was sent.
        ConfigError
            The folder does not exist, or no file can be made there.
        NotFoundError, ChecksumError, TruncatedError
            A blob does not exist, or stayed damaged; a note says which one.

        Examples
        --------
        >>> import tempfile
        >>> media = odps.table("media").head(3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     media["file"] = odps.save_blobs(media["content"], folder)
        ...     [path.name for path in media["file"]]
        ['mountains.jpg', 'mandelbrot.png', 'julia.webp']
        """
        from odps_nb.access.blobs.many import References, save_blobs

        fetch = self._fetch(compression, progress)
        return save_blobs(
            fetch, References(references), folder, file_name=file_name, overwrite=overwrite
        )

    def each_blob(
        self,
        references: Iterable[Reference | None],
        fn: Callable[[StreamedBlob], object],
        *,
        compression: str | Compression | None = None,
        progress: Progress = None,
    ) -> int:
        r"""Call a function with each blob in turn, as a readable file; return how many.

        Blobs come in the order of their first position in ``references``, each distinct one once
        (``blob.positions``), without nulls. The next ones are fetched meanwhile, in bounded memory.

        Parameters
        ----------
        references, compression
            As for `save_blobs`.
        fn
            Runs in this thread. The blob is a binary file (``read``, ``readinto``; no seeking) with
            ``size``, ``mime_type``, ``file_name`` and ``reference``, closed when the function
            returns; unread bytes are skipped. An error of the function ends the call.

        Raises
        ------
        ArgumentError, NotFoundError, ChecksumError, TruncatedError
            As for `save_blobs`, also if the function has caught the error.

        Examples
        --------
        >>> def show(blob):
        ...     print(blob.file_name, blob.positions, blob.read(4))
        >>> one, other = odps.table("media").blobs("content", limit=2)
        >>> odps.each_blob([one, other, one], show)
        mountains.jpg (0, 2) b'\xff\xd8\xff\xe0'
        mandelbrot.png (1,) b'\x89PNG'
        2
        """
        from odps_nb.access.blobs.many import References, each_blob

        return each_blob(self._fetch(compression, progress), References(references), fn)

    def _fetch(self, compression: str | Compression | None, progress: Progress) -> Fetch:
        from odps_nb.access.blobs.many import Fetch

        return Fetch(self._storage, Compression.of(compression), progress)

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
            The text of one statement, with ``:name`` for values. It may begin with settings:
            ``set odps.sql.allow.fullscan=true; select …``.
        params
            Values for ``:name``, e.g. ``{"ids": [1, 2]}`` for ``id in (:ids)``, and names of tables
            and columns for ``{name}``. Values are those of Python, NumPy, pandas, Arrow and polars;
            times keep their nanoseconds. Times with a zone need a connection with one, in which
            the query runs. Without ``params`` the query is sent as it is.
        settings
            Settings of the job, e.g. ``{"odps.sql.type.system.odps2": "true"}``; they override
            those in the text.
        wait
            Return when the query has succeeded; otherwise at once: see `Result.wait`.
        timeout
            Maximum seconds to wait. The query is cancelled then, and by an interrupt.
        text, char_padding, progress
            As for `Table.read`.

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
            return Result(self, submit_sql(self._storage, query, settings=settings), text=shown)
        listener = listener_of(progress)
        title = shorten(" ".join(query.split()), 80)
        with ProgressTracker("sql", title, listener=listener) as tracker:
            tracker.phase(Phase.RUNNING)
            instance = run_sql(
                self._storage,
                query,
                settings=settings,
                timeout=timeout,
                tracker=tracker,
                cancel=self._storage.operation(),
            )
        return Result(self, instance, text=shown)

    def result(
        self, instance_id: str, *, text: str = "strict", char_padding: bool = False
    ) -> Result:
        """Return the result of a query of this project by its instance id; two requests.

        The query may come from another process, and may still run; see `Result.instance_id`.
        ``text`` and ``char_padding`` are as for `Table.read`.

        Raises
        ------
        NotFoundError
            The project has no such instance; or its result has expired when rows are read.
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
        return Result(self, find_sql(self._storage, instance_id), text=shown)

    def sql_cost(
        self,
        query: str,
        *,
        params: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> SqlCost:
        """Return the service's estimate of the cost of a query, with arguments as for `sql`."""
        from odps_nb.access.binding.text import bind_query
        from odps_nb.client.sql.query import estimate_sql

        text = bind_query(query, params, settings, timezone=self.profile.timezone)
        return estimate_sql(self._storage, text, settings=settings)

    # -- life ---------------------------------------------------------------------------------

    def cancel(self) -> None:
        """Cancel everything running over this connection, from any thread.

        Reads, writes, queries and blobs raise `CancelledError` and close their sockets; a write
        that has not begun its commit is aborted. The connection stays usable.
        """
        if self._client is not None:
            self._client.cancel()

    def close(self) -> None:
        """Cancel what runs (see `cancel`), close the sockets, stop an embedded service. Idempotent.

        In a forked child this does not affect the parent.
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
        state = " (closed)" if self._closed else ""
        return f"<Connection to {where} at {there['endpoint']}{state}>"


def _reconnect(address: Address) -> Connection:
    """Return the connection that a pickle leads to, in this process or another one."""
    return connect_again(address, lambda profile: Connection(profile, address=address))
