"""`Table`: a handle to a table, with its metadata and methods to read and write it.

About 400 of its lines document the public methods, so it stays one file.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from odps_nb.access.blobs.frames import blob_dtypes, gather_blobs, learn_heads
from odps_nb.access.checks import (
    Overwrite,
    PartitionLike,
    check_count,
    check_overwrite,
    check_partition,
    check_whole_partition,
)
from odps_nb.access.displayed import Displayed
from odps_nb.access.engines.for_engines import ForEngines
from odps_nb.access.partitions import (
    PartitionDetails,
    choose_partitions,
    fetch_details,
    no_choice,
    target_partition,
)
from odps_nb.access.progress import listener_of
from odps_nb.access.reading.first_rows import preview_rows
from odps_nb.access.reading.planning import ReadOptions, plan_read
from odps_nb.access.scan import Scan
from odps_nb.access.viewed import Viewed
from odps_nb.access.writing.columns import ColumnsLike
from odps_nb.access.writing.creating import write_table
from odps_nb.access.writing.open_write import OpenWrite, open_write
from odps_nb.access.writing.pictures import ImageFormat
from odps_nb.access.writing.rows import WriteOptions
from odps_nb.access.writing.upserting import change_rows
from odps_nb.client.calls.progress import Progress, ProgressTracker
from odps_nb.client.catalog import fetch_primary_key, fetch_table, iter_partitions, table_exists
from odps_nb.client.read.increments import Bound
from odps_nb.client.sql.definitions import (
    add_columns,
    add_partition,
    drop_partition,
    truncate_table,
)
from odps_nb.convert.fitting.conversions import (
    Conversions,
    DecimalConversion,
    TextConversion,
    TimeConversion,
)
from odps_nb.convert.frame_options import Decimals, DtypeBackend, FrameOptions
from odps_nb.errors import ArgumentError, OdpsNbError, visible
from odps_nb.explained import expanded, explained
from odps_nb.lifetime import renew_after_fork
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    Compression,
    PartitionSpec,
    TableName,
    TextOptions,
    TimeUnit,
    count_of,
    format_bytes,
)
from odps_nb.wire.type_text import format_type

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.blob import Blob
    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.access.connection import Connection
    from odps_nb.access.receipt import Receipt
    from odps_nb.client.write.operations import WriteSessionRef
    from odps_nb.wire.control import TableInfo

_SHOWN_COLUMNS = 60


@explained
class Table(Displayed, Viewed, ForEngines):
    """A handle to a table on the service; created by ``odps.table(name)``.

    Examples
    --------
    >>> orders = odps.table("orders")
    >>> orders.head(2, partitions="ds=2024-01-01", columns=["id", "ds"])
            id          ds
    0  1000001  2024-01-01
    1  1000002  2024-01-01
    """

    _instead = {  # noqa: RUF012
        "to_pandas to_arrow to_polars to_spark batches reader": "call table.read().{name}(); "
        "columns, partitions=, where= and limit= of read() select what to read",
        "filter where select query loc iloc": "call table.read(['column'], where='…').to_pandas()",
        "columns dtypes": "see table.schema",
        "gallery": "call table.blobs()",
        "count len shape size": "see table.read().row_count",
        "upload": "upload files with the file browser of JupyterLab, then call write_files(folder)",
        "[]": "call table.read({names}).to_pandas()",
        "[:]": "call table.head(5), or loop over table.read().batches()",
        "frame": "call table.read(limit=…).to_pandas().{name}",
    }

    def __init__(self, connection: Connection, name: TableName) -> None:
        self._connection, self._name = connection, name
        self._lock = threading.Lock()
        self._info: TableInfo | None = None
        self._partition_count: int | None = None
        self._primary_key: tuple[str, ...] | None = None
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Replace the lock in a forked child, because a thread of the parent may hold it."""
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return type(self), (self._connection, self._name)

    @property
    def name(self) -> TableName:
        """The project, schema and table name."""
        return self._name

    @property
    def connection(self) -> Connection:
        """The connection of the table."""
        return self._connection

    @property
    def info(self) -> TableInfo:
        """All metadata (owner, comment, times, size, …); one request, then cached."""
        with self._lock:
            if self._info is None:
                self._info = fetch_table(self._connection._storage, self._name)
            return self._info

    @property
    def schema(self) -> TableSchema:
        """Columns and partition columns; one request, then cached.

        Raises
        ------
        NotFoundError
            The table does not exist; the hint lists similar names.
        """
        return self.info.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Columns of the primary key, empty if there is none; one request, then cached."""
        with self._lock:
            if self._primary_key is None:
                self._primary_key = fetch_primary_key(self._connection._storage, self._name)
            return self._primary_key

    def partitions(self, under: PartitionLike | None = None) -> list[PartitionSpec]:
        """Return the current partitions, in the service's order.

        ``under`` is a partial spec, e.g. ``ds=2024-01-01`` for all hours of a day. Raises an
        `ArgumentError` if the table is not partitioned.
        """
        spec, storage = self._under(under), self._connection._storage
        specs = [info.spec for info in iter_partitions(storage, self._name, spec)]
        if not spec.items:
            self._partition_count = len(specs)
        return specs

    def partition_details(self, under: PartitionLike | None = None) -> list[PartitionDetails]:
        """Return each partition's row count, size and times.

        Requests the list of partitions, and then each partition (one request per partition).
        ``under`` and errors are as for `partitions`.
        """
        return fetch_details(self._connection._storage, self._name, self._under(under))

    def _under(self, partition: PartitionLike | None) -> PartitionSpec:
        if not self.schema.partition_columns:
            raise ArgumentError(f"{self._name} is not partitioned")
        spec = PartitionSpec.of(partition)
        if partition is not None and not spec.items:
            raise no_choice()
        return check_partition(spec, self.schema, self._name)

    def reload(self) -> Table:
        """Clear the cached metadata and return this table; the next use fetches metadata again."""
        with self._lock:
            self._info = self._partition_count = self._primary_key = None
        return self

    def exists(self, partition: PartitionLike | None = None) -> bool:
        """Whether the table, or one of its partitions, exists now; each call asks the service."""
        storage = self._connection._storage
        if partition is None:
            return table_exists(storage, self._name)
        return table_exists(storage, self._name, self._one_partition(partition))

    # -- reading ------------------------------------------------------------------------------

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | None = None,
        params: Mapping[str, object] | None = None,
        partitions: PartitionLike | Iterable[PartitionLike] | None = None,
        limit: int | None = None,
        splits: int | None = None,
        split_bytes: int | None = None,
        compression: str | Compression | None = None,
        timestamp_unit: str | None = None,
        text: str = "strict",
        char_padding: bool = False,
        max_bytes: int | None = None,
        progress: Progress = None,
        since: Bound | None = None,
        until: Bound | None = None,
        changes: bool = False,
        session_id: str | None = None,
    ) -> Scan:
        """Plan a read; rows are transferred when the `Scan` is converted or iterated.

        Parameters
        ----------
        columns
            Column names in the desired order. Default: all columns, partition columns last.
        where
            A condition in MaxCompute's SQL, e.g. ``"amount > 10 and status in ('new', 'paid')"``.
            It may use comparisons, ``in``, ``between``, ``like``, ``is null``, ``and``, ``or``,
            ``not``, arithmetic and a few functions (``docs/filters.md``). The service uses it to
            skip blocks of rows, and the client filters the remaining rows exactly.
        params
            Values for ``:name`` and ``{name}`` in ``where``, as for `Connection.sql`.
        partitions
            One or more partitions. Each is a spec of all levels or of the first ones
            (``"ds=2024-01-01"``), a range (``"ds>=2024-01-01,ds<2024-02-01"`` or
            ``{"ds >=": day}``), or ``"latest"`` (the largest first-level value that has rows).
            Values are compared by the column's type. This call resolves ranges and ``"latest"``
            once. An empty list or spec raises an `ArgumentError`; only ``None`` means all.
        limit
            Maximum number of rows.
        splits, split_bytes
            Number of splits, or bytes per split; not both. Splits are read concurrently.
        compression
            ``"zstd"`` or ``"lz4"``, useful on a slow network. Default: none.
        timestamp_unit
            Unit of TIMESTAMPs. ``"us"`` truncates finer digits. The service limits ``"ns"`` to
            times from 1970-01-01 through 2038-01-19. Default: nanoseconds, or microseconds with an
            `OdpsNbWarning` if a time is outside that range.
        text
            Handling of text that is not UTF-8: ``"strict"`` raises an error, ``"replace"``
            replaces each invalid sequence with U+FFFD, and ``"binary"`` reads all text of data
            columns as bytes, including nested text (``docs/types-and-times.md``).
        char_padding
            Keep the trailing spaces with which the service pads CHAR(n). By default, they are
            stripped, even in nested values, so that ``df[df.c == "ab"]`` finds rows.
        max_bytes
            Maximum bytes of Arrow data. A larger result raises a `LimitExceededError`.
        progress
            A `ProgressListener`, or ``False`` for no progress display. By default, progress is
            shown as a card in a notebook and as a line in a terminal.
        since, until
            Read only changes after ``since`` and up to ``until``. Each is a version (pass
            `Scan.latest_version` as ``since`` of the next read), or a time in the project's time
            zone, as a naive datetime or text. If the table has a primary key, the read returns the
            latest state of each added or updated row and omits deleted rows.
        changes
            Return every change to a table with a primary key, and append a column ``_change``:
            ``insert``, ``delete`` (the old row), ``update_before`` or ``update_after``. The table
            must record changes. They expire after 24 hours by default, and may appear some minutes
            after their commit (see ``docs/howto/incremental-reads.md``). The service reports
            neither the version of a change nor the order of changes to different keys. To process
            versions in order, read each one: ``since=v, until=v + 1``.
        session_id
            Read the snapshot of a session opened elsewhere (`Scan.session_id`). Pass the same
            ``columns``, ``partitions``, ``where`` and ``since``, because the session may contain
            no other rows.

        Raises
        ------
        NotFoundError
            A table or column does not exist (see the hint), or a range contains no partition.
        ArgumentError
            An argument is invalid; nothing was read.
        ConflictError
            A version in the range replaced rows (for example by an overwrite), so row-level changes
            are not available.

        Examples
        --------
        >>> odps.table("orders").read(["id", "ds"], where="quantity > 9", limit=2).to_pandas()
                id          ds
        0  1000081  2024-01-01
        1  1000100  2024-01-01
        """
        options = ReadOptions(
            columns=columns,
            where=where,
            params=params,
            partitions=partitions,
            limit=limit,
            splits=splits,
            split_bytes=split_bytes,
            compression=compression,
            timestamp_unit=_time_unit(timestamp_unit),
            text=text,
            char_padding=char_padding,
            since=since,
            until=until,
            changes=changes,
        )
        if session_id is not None and not session_id.strip():
            raise ArgumentError(
                "session_id is blank", hint="pass the session_id of a scan, or omit session_id="
            )
        zone = self._connection.profile.timezone or "UTC"
        plan = plan_read(
            self._name,
            lambda: self.schema,
            lambda: self.primary_key,
            options,
            self._connection._storage,
            timezone=zone,
        )
        bound = check_count("max_bytes", max_bytes)
        return Scan(
            self._connection, plan, max_bytes=bound, progress=progress, session_id=session_id
        )

    def head(
        self,
        rows: int = 5,
        *,
        partitions: PartitionLike | Iterable[PartitionLike] | None = None,
        columns: Sequence[str] | None = None,
        decimals: Decimals = "auto",
        dtype_backend: DtypeBackend | None = None,
        dtypes: Mapping[str, Any] | None = None,
        text: str = "strict",
        char_padding: bool = False,
        progress: Progress = False,
    ) -> pd.DataFrame:
        """Return the first rows as a DataFrame, without reading the rest of the table.

        Fetches the rows with one request if the service offers a preview of the table; otherwise
        performs a short read. For each of the first blobs, one more small request fetches its name
        and size. ``partitions``, ``columns``, ``text``, ``char_padding`` and ``progress`` are as
        for `read`, the other parameters as for `Scan.to_pandas`.
        """
        from odps_nb.convert.first_rows import FirstRows
        from odps_nb.convert.pandas_frame import to_pandas

        options = FrameOptions(decimals=decimals, dtype_backend=dtype_backend, dtypes=dtypes)
        specs: tuple[PartitionSpec, ...] = ()
        if partitions is not None:
            storage = self._connection._storage
            specs = choose_partitions(partitions, self.schema, self._name, storage)
        shown = TextOptions.of(text, char_padding=char_padding)
        listener = listener_of(progress)
        with ProgressTracker("read", str(self._name), listener=listener) as tracker:
            preview = preview_rows(
                self, rows, partitions=specs, columns=columns, text=shown, tracker=tracker
            )
        if preview is not None:
            blobs = blob_dtypes(self._connection, self.schema)
            frame = to_pandas(preview, options=options, blobs=blobs)
        else:
            scan = self.read(
                columns,
                partitions=specs or None,
                limit=rows,
                splits=1,
                text=text,
                char_padding=char_padding,
            )
            frame = scan.to_pandas(
                decimals=decimals, dtype_backend=dtype_backend, dtypes=dtypes, progress=listener
            )
            if columns is None and scan.schema.names != self.schema.names:
                self.reload()  # columns were added after the metadata was cached
        learn_heads(frame)
        return FirstRows.of(frame, partial(self._show_head, is_whole=partitions is None))

    def _show_head(self, frame: pd.DataFrame, *, is_whole: bool) -> str:
        from odps_nb.notebook.explore.static import frame_html

        total = self.info.record_count if is_whole else None
        return frame_html(frame, self, self.schema.all_columns, total)

    def _viewed(self, *, opens: bool) -> Scan:
        return _opened_read(self) if opens else self.read()

    def blobs(
        self,
        column: str | None = None,
        *,
        limit: int | None = None,
        keep: Callable[[Blob], object] | None = None,
        where: str | None = None,
        params: Mapping[str, object] | None = None,
        partitions: PartitionLike | Iterable[PartitionLike] | None = None,
        progress: Progress = None,
    ) -> BlobColumn:
        """Return handles to a column's blobs; a blob's bytes are fetched when they are used.

        The first three number, date, boolean or string columns are also read, for the captions.

        Parameters
        ----------
        column
            The BLOB column, or a path such as ``pages.element.image``. Optional if the table has
            only one BLOB column or path.
        limit
            Maximum number of blobs, not counting nulls. Default: all.
        keep
            Function that returns whether to keep a blob, e.g. ``lambda blob: blob.size > 1000``.
            ``limit`` counts only kept blobs. Using a size, type or name takes one request per blob.
        where, params, partitions, progress
            As for `read`.

        Raises
        ------
        NotFoundError
            The table has no such BLOB column; the hint lists its BLOB columns.

        Examples
        --------
        >>> pictures = odps.table("media").blobs("content", where="declared = 'image/png'")
        >>> pictures[0].file_name, pictures[0].bytes()[:4]
        ('mandelbrot.png', b'\\x89PNG')
        """
        read = partial(
            self.read, where=where, params=params, partitions=partitions, progress=progress
        )
        return gather_blobs(self, column, limit, read, keep)

    # -- writing ------------------------------------------------------------------------------

    def write(
        self,
        data: Any,
        *,
        partition: PartitionLike | None = None,
        overwrite: Overwrite = False,
        workers: int | None = None,
        compression: str | Compression | None = None,
        image_format: str = "png",
        decimals: DecimalConversion = "exact",
        text: TextConversion = "exact",
        times: TimeConversion = "exact",
        create: bool = False,
        partitioned_by: str | Sequence[str] | None = None,
        types: ColumnsLike | None = None,
        index: bool | None = None,
        progress: Progress = None,
    ) -> Receipt:
        """Write rows in one commit: all of them or, after an error, none.

        If an error has ``in_doubt`` set, its commit may have succeeded: check the table before you
        write the rows again.

        Parameters
        ----------
        data
            A pandas, polars (eager or lazy) or Spark DataFrame; an Arrow table, batch or reader
            (anything with ``__arrow_c_stream__``); a list of rows; a dict of columns; or an
            iterator of rows or tables, which is streamed in bounded memory. Each row is a dict, a
            dataclass, a named tuple, or a tuple or list in the table's column order. Columns are
            matched by name; missing columns become null. A Series is written as one column. A BLOB
            column accepts ``bytes``, a ``pathlib.Path`` (file name and type are stored), a PIL
            image, a NumPy array, a binary file object, an `odps_nb.NewBlob`, a `Blob` (copied) or
            ``None``.
        partition
            The partition to write to, created if missing. Values of the other partition columns
            come from the data. In an auto-partitioned table, they are computed (``trunc_time`` of a
            column, in UTC).
        overwrite
            ``True``: replace the rows of an unpartitioned table, or of a partition named in full.
            ``"partitions"``: replace each partition that receives rows and keep the others.
            ``"all"``: replace all partitions (those under ``partition`` if it is a partial spec).
            Partitions without new rows are dropped after the commit, with one statement each. If a
            statement fails, the new rows and the remaining partitions are kept, and the error says
            so.
        workers
            Number of streams to write concurrently. Default: depends on the data size.
        compression
            Compression of the Arrow stream: ``"zstd"`` or ``"lz4"``. Default: none.
        image_format
            Format of images and arrays in BLOB columns: ``"png"``, ``"webp"`` (both lossless),
            ``"jpeg"`` (lossy), or ``"npy"`` for arrays of any shape and numeric type. A value that
            the format cannot store raises an error before anything is sent. A picture that was
            opened and not changed keeps its orientation (EXIF); of several frames, the current one
            is stored. Pass a ``pathlib.Path`` to store a file unchanged.
        decimals
            Handling of values with more decimal places than their DECIMAL column allows:
            ``"exact"`` raises an error, ``"round"`` rounds half away from zero.
        text
            ``"exact"``: accept text only for text and binary columns. ``"parse"``: parse text for
            numeric, time and boolean columns as well (``12.5``, ``2024-01-31 10:00:00``, ``true``).
        times
            Handling of times that are more precise than their column, such as microseconds for
            DATETIME: ``"exact"`` raises an error, ``"round"`` rounds half to even.
        create
            Create a missing table, with types as in ``docs/types-and-times.md``, and drop it if the
            write fails before its commit. To set a comment or lifecycle, use
            `Connection.create_table`.
        partitioned_by
            With ``create``: a column of the data, ``"ds string"``, or a list of both. Default:
            ``partition``.
        types
            With ``create``: types of some columns, e.g. ``{"price": "decimal(10,2)"}``, in any form
            that ``columns`` of `Connection.create_table` accepts. The values must fit these types.
        index
            ``True``: write the named levels of a pandas index as columns. ``False``: ignore the
            index. Default: ignore it, with an `OdpsNbWarning` if it has names or labels, but raise
            an error if a column of the table is only in the index, or if the write creates the
            table and the index has a name.
        progress
            As for `read`.

        Raises
        ------
        ConversionError
            Columns, types or values do not fit the table; the error lists them with row numbers.
        NotFoundError
            The table does not exist, and ``create`` is not set.
        ConflictError
            The columns of the table have changed since this object fetched them: call `reload`.

        Examples
        --------
        >>> import pandas as pd
        >>> table = odps.create_table("doc_write", "id bigint, name string")
        >>> table.write(pd.DataFrame({"id": [1, 2], "name": ["a", None]})).rows
        2
        >>> table.write(pd.DataFrame({"id": [3]}), overwrite=True).rows
        1
        >>> table.write([{"id": 4, "name": "d"}, {"id": 5}]).rows
        2
        >>> odps.table("doc_write_new").write(pd.DataFrame({"id": [4]}), create=True).rows
        1
        >>> odps.drop_table("doc_write"), odps.drop_table("doc_write_new")
        (None, None)
        """
        options = WriteOptions(
            partition=target_partition(partition),
            overwrite=overwrite,
            workers=workers,
            compression=Compression.of(compression),
            image_format=ImageFormat.of(image_format),
            index=index,
            conversions=Conversions(decimals=decimals, text=text, times=times),
            progress=progress,
        )
        receipt = write_table(
            self, data, options, create=create, partitioned_by=partitioned_by, types=types
        )
        self.reload()
        return receipt

    def write_files(
        self,
        folder: str | os.PathLike[str],
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
        """Write the files of a folder to this table, one row per file, in one commit.

        The columns are ``path`` STRING (relative, with ``/``), ``name`` STRING, ``size`` BIGINT
        (bytes), ``mime_type`` STRING, ``modified`` TIMESTAMP and ``content`` BLOB (with name and
        type). The media type comes from the name, unless the first bytes contradict it.

        A missing table is created. An existing table must have the BLOB column ``content``; the
        other columns are optional.

        Files are streamed in path order, in bounded memory, and committed as by `write`.

        Parameters
        ----------
        pattern
            Case-sensitive pattern for the files to write, or a list of patterns. ``"*.jpg"`` is
            matched against names, ``"2024/*.jpg"`` against paths, where ``*`` also matches ``/``.
        recursive, hidden
            Include files in subfolders; include files and folders whose names begin with a dot.
        follow_links
            Follow symbolic links; otherwise, a link raises an error, unless it leads to a file and
            matches no ``pattern``.
        partition, overwrite, compression, progress
            As for `write`.
        create
            ``False``: raise if the table does not exist.
        resume
            Keep the write session open if the call ends early because of an error, an interrupt or
            a dead kernel. Repeating the call on this machine then sends only the groups of files
            (64 MiB or 256 files each) that changed or had not arrived, and commits all files once.
            If the session has expired, the call reports this and sends all files again. A table
            that the call created is kept.

        Raises
        ------
        ConflictError
            With ``resume``: another process is writing the same folder to this table, or it is
            unknown whether an earlier call committed.
        ConfigError
            The folder is missing, or contains a link, an unreadable file or a pipe. Nothing was
            written.
        ArgumentError
            No file matches ``pattern``.
        FramingError
            A file changed while it was being sent.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("a.txt", "b.txt"):
        ...         _ = pathlib.Path(folder, name).write_text(f"this is {name}")
        ...     odps.table("doc_files").write_files(folder).blobs
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

        files = FolderFiles(
            folder=expanded(folder),
            patterns=(pattern,) if isinstance(pattern, str) else tuple(pattern),
            recursive=recursive,
            hidden=hidden,
            follow_links=follow_links,
        )
        options = WriteOptions(
            partition=target_partition(partition),
            overwrite=overwrite,
            compression=Compression.of(compression),
            progress=progress,
        )
        write = write_files_resumable if resume else write_files
        receipt = write(files, self, options, create=create)
        self.reload()
        return receipt

    def open_write(
        self,
        partition: PartitionLike | None = None,
        *,
        overwrite: Overwrite = False,
        session_id: str | WriteSessionRef | None = None,
        compression: str | Compression | None = None,
        decimals: DecimalConversion = "exact",
        text: TextConversion = "exact",
        times: TimeConversion = "exact",
    ) -> OpenWrite:
        """Open a write session in which several processes can write rows for one commit.

        Parameters
        ----------
        partition, overwrite, compression, decimals, text, times
            As for `write`, except that ``overwrite="all"`` is not available.
        session_id
            The session to join: its ``handle``, or its id together with ``partition``.

        Returns
        -------
        OpenWrite
            A context manager; leaving it without a commit aborts the session if it was opened here.

        Raises
        ------
        SessionExpiredError
            The session has expired.
        StateError
            The session was already committed or aborted.

        Examples
        --------
        >>> import pandas as pd
        >>> table = odps.create_table("doc_open_write", "id bigint")
        >>> with table.open_write() as session:
        ...     handle = session.handle  # for other processes
        ...     for start in (0, 10):
        ...         _ = session.write(pd.DataFrame({"id": range(start, start + 3)}))
        ...     there = table.open_write(session_id=handle)  # where the handle was sent
        ...     with there.open_stream("worker 1") as stream:
        ...         _ = stream.write(pd.DataFrame({"id": [20]}))
        ...     receipt = stream.close()
        ...     session.commit([receipt]).rows
        7
        >>> odps.drop_table("doc_open_write")
        """
        spec = check_partition(target_partition(partition), self.schema, self._name)
        return open_write(
            self,
            spec,
            overwrite=check_overwrite(overwrite, spec, self.schema, self._name, takes_all=False),
            session=session_id,
            compression=Compression.of(compression),
            conversions=Conversions(decimals=decimals, text=text, times=times),
        )

    def upsert(
        self,
        data: Any,
        *,
        partition: PartitionLike | None = None,
        deleted: str | None = None,
        partial: bool = False,
        index: bool | None = None,
        compression: str | Compression | None = None,
        decimals: DecimalConversion = "exact",
        text: TextConversion = "exact",
        times: TimeConversion = "exact",
        progress: Progress = None,
    ) -> Receipt:
        """Insert rows, or replace the rows with the same key, in one atomic commit.

        If several rows of ``data`` have the same key, the last one is kept. A Spark DataFrame has
        no order, so it should have one row per key.

        Parameters
        ----------
        data, partition, index, compression, decimals, text, times, progress
            As for `write`. Columns missing from the data become null, even in existing rows.
        partial
            Keep the values of columns missing from the data in existing rows; in new rows, they are
            null. All rows must have the same columns. The rows are always sent by the tunnel, and
            merged by a SQL statement, which is billed.
        deleted
            Name of a boolean column that is in the data, but not in the table. Rows where it is
            true are deleted by their key in the same commit; the others, also if it is null, are
            written.

        Raises
        ------
        ArgumentError
            The table has no primary key.
        ConversionError
            As for `write`.

        Examples
        --------
        >>> import pandas as pd
        >>> recorded = {"acid.cdc.mode.enable": True}
        >>> table = odps.create_table(
        ...     "doc_upsert", "id bigint, v string", primary_key="id", properties=recorded
        ... )
        >>> table.upsert(pd.DataFrame({"id": [1, 2, 1], "v": ["a", "b", "c"]})).verb
        'upserted'
        >>> table.read().to_arrow().sort_by("id").column("v").to_pylist()
        ['c', 'b']
        >>> table.read(since=1, changes=True).to_arrow().column("_change").to_pylist()
        ['insert', 'insert']
        >>> odps.drop_table("doc_upsert")
        """
        options = WriteOptions(
            partition=target_partition(partition),
            compression=Compression.of(compression),
            index=index,
            conversions=Conversions(decimals=decimals, text=text, times=times),
            progress=progress,
        )
        return change_rows(self, data, options, delete=False, deleted=deleted, keeps=partial)

    def delete(
        self,
        data: Any,
        *,
        partition: PartitionLike | None = None,
        index: bool | None = None,
        compression: str | Compression | None = None,
        decimals: DecimalConversion = "exact",
        text: TextConversion = "exact",
        times: TimeConversion = "exact",
        progress: Progress = None,
    ) -> Receipt:
        """Delete the rows with these keys in one atomic commit, ignoring keys without a row.

        Parameters
        ----------
        data
            As for `write`. Only the key columns and the partition columns not in ``partition`` are
            used. Rows without column names, such as tuples, must have only these columns, in this
            order. If the key has one column, a list, an array or a Series of key values is also
            accepted.
        partition, index, compression, decimals, text, times, progress
            As for `write`.

        Raises
        ------
        ArgumentError
            The table has no primary key.

        Examples
        --------
        >>> table = odps.create_table("doc_delete", "id bigint, v string", primary_key="id")
        >>> table.upsert([(1, "a"), (2, "b"), (3, "c")]).rows
        3
        >>> table.delete([1, 3]).rows
        2
        >>> table.read(["v"]).to_arrow().column("v").to_pylist()
        ['b']
        >>> odps.drop_table("doc_delete")
        """
        options = WriteOptions(
            partition=target_partition(partition),
            compression=Compression.of(compression),
            index=index,
            conversions=Conversions(decimals=decimals, text=text, times=times),
            progress=progress,
        )
        return change_rows(self, data, options, delete=True)

    # -- changes ------------------------------------------------------------------------------

    def truncate(self, partition: PartitionLike | None = None) -> None:
        """Delete all rows of the table or of one partition, and keep the empty partition."""
        spec = PartitionSpec() if partition is None else self._one_partition(partition)
        truncate_table(self._connection._storage, self._name, spec)
        self.reload()

    def add_columns(
        self,
        columns: ColumnsLike,
        *,
        if_not_exists: bool = False,
    ) -> None:
        """Add columns after the table's last data column; existing rows have null in them.

        Parameters
        ----------
        columns
            A description as for `Connection.create_table`, such as
            ``"price decimal(10,2), note string comment 'free text'"``.
        if_not_exists
            Skip columns that the table already has, whatever their types.

        Raises
        ------
        ArgumentError
            A name or type is invalid; nothing was sent.
        ConflictError
            The table has such a column, and ``if_not_exists`` is not set; nothing was changed.

        Examples
        --------
        >>> table = odps.create_table("doc_add_columns", "id bigint")
        >>> table.add_columns("price decimal(10,2), note string comment 'free text'")
        >>> [f"{column.name} {column.type}" for column in table.schema]
        ['id bigint', 'price decimal(10,2)', 'note string']
        >>> odps.drop_table("doc_add_columns")
        """
        from odps_nb.access.writing.columns import schema_of

        storage, added = self._connection._storage, schema_of(columns)
        schema = self.reload().schema
        add_columns(storage, self._name, added, schema, if_not_exists=if_not_exists)
        self.reload()

    def add_partition(self, partition: PartitionLike, *, if_not_exists: bool = False) -> None:
        """Create an empty partition, e.g. ``"ds=2024-01-01,hour=3"``; not needed before `write`.

        Raises
        ------
        ConflictError
            The partition exists, and ``if_not_exists`` is not set.
        """
        spec = self._one_partition(partition)
        add_partition(self._connection._storage, self._name, spec, if_not_exists=if_not_exists)
        self.reload()

    def drop_partition(self, partition: PartitionLike, *, if_exists: bool = False) -> None:
        """Drop one partition and its rows; the spec must name all partition levels.

        Raises
        ------
        NotFoundError
            The partition does not exist, and ``if_exists`` is not set.
        """
        spec = self._one_partition(partition)
        drop_partition(self._connection._storage, self._name, spec, if_exists=if_exists)
        self.reload()

    def _one_partition(self, partition: PartitionLike) -> PartitionSpec:
        return check_whole_partition(PartitionSpec.of(partition), self.schema, self._name)

    # -- inside -------------------------------------------------------------------------------

    def _whole(self) -> Scan:
        return self.read()

    # -- display --------------------------------------------------------------------------------

    def _facts(self) -> str:
        info = self.info
        facts = [info.kind.partition(" ")[2]] if info.kind else []
        if info.schema.partition_columns:
            count = self._partition_count
            facts.append("partitions" if count is None else count_of(count, "partition"))
        if info.record_count is not None and not info.is_view:
            facts.append(f"{info.record_count:,} rows")
        if info.size is not None and not info.is_view:
            facts.append(format_bytes(info.size))
        return " · ".join([*facts, *([info.comment] if info.comment else [])])

    def _rows(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for kind, columns in (
            ("", self.schema.columns),
            ("partition", self.schema.partition_columns),
        ):
            for c in columns:
                generated = f": {c.generated.text}" if c.generated is not None else ""
                rows.append((c.name, format_type(c.type), kind + generated, c.comment))
        return rows

    def __format__(self, spec: str) -> str:
        """Return the table's full name, so that f-strings of SQL can contain a table."""
        name = self._name
        if name.schema is None and self.connection.profile.schema:  # two parts name a schema then
            name = dataclasses.replace(name, schema="default")
        return format(str(name), spec)

    def __repr__(self) -> str:
        """Return the table's name and cached metadata; sends no request."""
        if self._info is None:
            return f"Table {self._name}"
        rows = self._rows()
        width = max((len(str(row[0])) for row in rows), default=0)
        lines = [f"Table {self._name}", *([self._facts()] if self._facts() else [])]
        lines += [
            f"  {row[0]!s:{width}}  {row[1]}{f'  ({row[2]})' if row[2] else ''}"
            for row in rows[:_SHOWN_COLUMNS]
        ]
        if len(rows) > _SHOWN_COLUMNS:
            lines.append(f"  … and {len(rows) - _SHOWN_COLUMNS} more columns")
        return visible("\n".join(lines))

    def _static_page(self) -> Mapping[str, str]:
        from odps_nb.notebook.display.listing import Listing

        if self.schema.partition_columns and self._partition_count is None:
            self.partitions()
        text = repr(self)
        caption = " · ".join(part for part in (str(self._name), self._facts()) if part)
        listing = Listing(
            headers=("column", "type", "", "comment"),
            rows=tuple(self._rows()),
            caption=caption,
            empty="no columns",
        )
        return {**listing._static_page(), "text/plain": text}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and other._name == self._name
            and other._connection is self._connection
        )

    def __hash__(self) -> int:
        return hash(self._name)


def _time_unit(text: str | None) -> TimeUnit | None:
    units = {None: None, "us": TimeUnit.MICRO, "ns": TimeUnit.NANO}
    if text not in units:
        raise ArgumentError(f"timestamp_unit is {text!r}", hint="pass 'us' or 'ns'")
    return units[text]


def _opened_read(table: Table) -> Scan:
    """Return a read of the whole table, fetching the session and the columns concurrently."""

    def ask() -> None:
        with suppress(OdpsNbError):  # opening the session raises the same error
            table.schema  # noqa: B018

    asking = threading.Thread(target=ask, name="odps-nb-columns", daemon=True)
    asking.start()
    scan = table.read()
    scan.row_count  # noqa: B018
    asking.join()
    scan._table_schema = table.schema
    return scan
