"""`Connection`: tables, blobs and SQL of one project.

Holds one `StorageClient`. Making one sends no request. Methods import what they need when they are
called, so that a script loads no notebook code and a connection no Spark.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from odps_nb.access.checks import Overwrite, PartitionLike
from odps_nb.access.elsewhere import Address, connect_again, remember
from odps_nb.access.progress import listener_of
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, Progress, ProgressTracker
from odps_nb.errors import StateError
from odps_nb.terms import BlobReference, Compression, PartitionSpec, TableName, TextOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.blob import Blob, BlobColumn
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
    from odps_nb.notebook.upload.uploader import Uploader
    from odps_nb.schema import TableSchema
    from odps_nb.wire.control import SqlCost


class Service(Protocol):
    """An embedded service that lives as long as the connection."""

    @property
    def root(self) -> str:
        """The folder that it serves."""

    def stop(self) -> None:
        """End the process. Idempotent."""


class Connection:
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
        service: Service | None = None,
        address: Address | None = None,
    ) -> None:
        self._profile, self._service = profile, service
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
            ``"id bigint, amount decimal(18,2), note string comment 'free text'"``, a list with one
            such text a column, a dict of names and types, an Arrow schema, a schema of Spark, or a
            `TableSchema`. Or data as for `Table.write`, for instance a DataFrame: the table gets
            its columns, with types as told in ``docs/types-and-times.md``, and its rows in one
            commit. If that fails, the table is dropped again.
        partitioned_by
            ``"ds string"``, names of columns in an Arrow schema or data, or a list of both:
            ``["ds string", "region"]``. ``"trunc_time(d, 'day') as pt"`` makes a table that is
            auto-partitioned by a date or time column.
        primary_key
            Columns that name a row: later rows of a key replace earlier ones. They become
            ``not null``, and the table transactional.
        properties
            Table properties such as ``{"acid.cdc.mode.enable": True}``. What a BLOB column or a
            primary key needs is set automatically.
        lifecycle
            Days until the service drops what was not touched.
        cluster_by, buckets
            Columns to hash and sort rows by, and into how many buckets; with a primary key
            ``buckets`` alone is the number of write buckets.
        if_not_exists
            Leave a table that is there as it is. Not with rows: see ``create`` of `Table.write`.
        index
            As for `Table.write`, for data of pandas; a named index is an error with ``None``.
        progress
            Who is shown the progress of writing rows; by default what suits the place.

        Raises
        ------
        ArgumentError
            A name, type or key that no table can have; nothing was sent.
        ConflictError
            A table of that name exists.
        ConversionError
            A column of the data for which there is no type, or a value that does not fit it.

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
        from odps_nb.access.writing.columns import names_of, properties_of, schema_of
        from odps_nb.access.writing.creating import create_with_rows
        from odps_nb.access.writing.new_columns import has_rows, is_spark_type
        from odps_nb.access.writing.rows import WriteOptions
        from odps_nb.client.sql.definitions import TableOptions
        from odps_nb.client.table_changes import create_table

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
            create_with_rows(table, columns, partitioned_by, options, rows)
            return table
        if is_spark_type(columns):
            from odps_nb.spark.writing.checks import table_columns

            columns = table_columns(columns)
        create_table(self.storage, table.name, schema_of(columns, partitioned_by), options)
        return table

    def drop_table(self, name: str | TableName, *, if_exists: bool = False) -> None:
        """Drop a table with everything in it.

        Raises
        ------
        NotFoundError
            There is none, and ``if_exists`` is not set.
        """
        from odps_nb.client.table_changes import drop_table

        drop_table(self.storage, self.table(name).name, if_exists=if_exists)

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

        ===============  ==========  ================================================
        column           type        holds
        ===============  ==========  ================================================
        ``path``         STRING      the path below the folder, with ``/``
        ``name``         STRING      the file's name
        ``size``         BIGINT      its bytes
        ``mime_type``    STRING      what its first bytes are; its name decides where
                                     they leave it open (``.docx`` is a zip)
        ``modified``     TIMESTAMP   when it was changed last
        ``content``      BLOB        the file, with its name and type
        ===============  ==========  ================================================

        Files are streamed in the order of their paths; memory holds a bounded part. A file that
        changes meanwhile ends the call. After an error nothing is written; without ``resume`` all
        of it begins again then.

        Parameters
        ----------
        table
            Made if it is not there. One that is there needs a BLOB column ``content``; of the
            others it gets those that it has.
        pattern
            Which files: ``"*.jpg"`` is held against names, ``"2024/*.jpg"`` against paths (there
            ``*`` stands for ``/`` too). One or several; case matters.
        recursive, hidden
            Whether to go into folders inside; whether to take what begins with a dot.
        follow_links
            Take symbolic links for what they lead to; otherwise one is an error.
        partition, overwrite, compression
            As for `Table.write`.
        create
            ``False``: the table must be there.
        resume
            Keep the write session open if the call ends early, by an error, an interrupt or the
            death of the kernel: the same call, made again on this machine, sends only the files
            that had not arrived (by groups of 64 MiB or 256 files), or were changed, and commits
            all of them once. A session that is gone by then is said, and all is sent again. A
            table that was made stays.

        Raises
        ------
        ConflictError
            With ``resume``: the same is being written by another process, or the service does not
            say any more whether an earlier call committed.
        ConfigError
            The folder is none, or has a link, an unreadable file or a pipe; nothing was written.
        ArgumentError
            No file is named like that.
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
        from odps_nb.access.writing.files import write_files, write_files_resumable
        from odps_nb.access.writing.folder_files import FolderFiles
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

        The columns are those of `write_files`. The browser sends pieces of 1 MiB into a temporary
        folder of the kernel, while no cell runs; then all files are written in one commit. It
        shows how far each file is; an error is shown there, and leaves nothing behind.

        Parameters
        ----------
        table
            Made with the first files if it is not there; see `write_files`.
        partition, overwrite, create
            As for `write_files`.
        accept
            What the browser offers: ``"image/*"``, ``".csv,.parquet"``; no check of the files.

        Returns
        -------
        Uploader
            Displays itself as the last line of a cell. ``receipt`` is that of the last commit.

        Examples
        --------
        >>> picker = odps.upload("photos", accept="image/*")
        >>> picker
        <Uploader to local.photos, nothing chosen>
        >>> picker.close()
        """
        from odps_nb.access.writing.rows import WriteOptions
        from odps_nb.notebook.upload.uploader import Uploader

        options = WriteOptions(partition=PartitionSpec.of(partition), overwrite=overwrite)
        return Uploader(self.table(table), options, create=create, accept=accept)

    # -- blobs -----------------------------------------------------------------------------------

    def blob(self, reference: str | bytes | BlobReference) -> Blob:
        """Return the handle of a blob; no request is sent until its bytes are read.

        Parameters
        ----------
        reference
            A value of a BLOB column as it was read.
        """
        from odps_nb.access.blob import Blob, reference_of

        self.storage  # noqa: B018  # raises if the connection is closed
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
        `save_blobs` and `each_blob`; to look at them, `gallery`.

        Raises
        ------
        ArgumentError
            A value is no reference; nothing was sent.
        ChecksumError, TruncatedError
            Bytes were damaged or are missing.
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

        Displayed in Jupyter it can be filtered, sorted, searched and selected from, however many
        there are (`BlobColumn.selected`); the notebook keeps the first 64 tiles. Blobs are read
        when they are looked at.

        Parameters
        ----------
        frame
            A pandas or polars DataFrame or an Arrow table: filtered, sorted, joined, from a file.
        column
            The column with references; rows without a blob are left out.
        caption
            Columns whose values stand on the tiles, beside the index of the row.
        limit
            Blobs at most.

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

        Each distinct reference is fetched once and becomes one file, verified and whole, or none.
        Memory holds a bounded part of it, however large the blobs are. After an error or an
        interrupt the complete files stay.

        Parameters
        ----------
        references
            Values of a BLOB column (a list, a Series, an Arrow array) or a `BlobColumn`. A null
            has no file: its path is ``None``, so that the result fits beside the column.
        folder
            An existing folder; no file is ever made outside of it.
        file_name
            Called with the position of the reference and what is known of the blob (``size``,
            ``mime_type``, ``file_name``); returns a file name, or ``None`` for the one
            that the blob states. Both are made safe as `Blob.save` does, and numbered (``-2``)
            when taken, also where they only differ in case.
        overwrite
            Replace files that were there before. Files of the same call never replace each other.
        compression
            ``"zstd"`` or ``"lz4"`` on the way.

        Raises
        ------
        ArgumentError
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

        Blobs come in the order of their first place in ``references``, each distinct one once:
        ``blob.positions`` lists its positions. Nulls are left out. Meanwhile the next ones are
        fetched, into a bounded part of memory, however large they are.

        Parameters
        ----------
        references
            As for `save_blobs`.
        fn
            Runs in this thread. The blob is a binary file (``read``, ``readinto``; no seeking)
            with ``size``, ``mime_type``, ``file_name`` and ``reference``, and is closed
            when the function returns; what was not read is passed over. What the function
            raises ends the call.

        Raises
        ------
        ArgumentError, NotFoundError, ChecksumError, TruncatedError
            As for `save_blobs`, also if the function has kept the error to itself.

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

        return Fetch(
            storage=self.storage,
            compression=Compression.of(compression),
            progress=progress,
        )

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
        listener = listener_of(progress)
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
        from odps_nb.client.sql.query import estimate_sql

        text = bind_query(query, params, settings, timezone=self.profile.timezone)
        return estimate_sql(self.storage, text, settings=settings)

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


def _title(query: str) -> str:
    text = " ".join(query.split())
    return text if len(text) <= 80 else text[:79] + "…"
