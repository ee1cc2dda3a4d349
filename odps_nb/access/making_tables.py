"""The methods of a `Connection` that make and drop tables.

What they do is in ``odps_nb.access.writing.creating`` and ``odps_nb.access.writing.files``.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import Overwrite, PartitionLike
from odps_nb.client.calls.progress import Progress
from odps_nb.terms import Compression, PartitionSpec, TableName

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.faces import Faces, Uploader
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.schema import TableSchema

__all__ = ["MakesTables"]


class MakesTables:
    """The methods of a `Connection` that make and drop tables."""

    @property
    @abstractmethod
    def storage(self) -> StorageClient:
        """The Storage API client of the connection."""

    @property
    @abstractmethod
    def faces(self) -> Faces:
        """Functions of higher floors: progress, pictures, Spark."""

    @abstractmethod
    def table(self, name: str | TableName) -> Table:
        """Return the handle of a table; sends no request."""

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
            primary key needs is set by itself.
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
        if has_rows(columns):
            rows = WriteOptions(index=index, progress=progress)
            create_with_rows(table, columns, partitioned_by, options, rows)
            return table
        if is_spark_type(columns):
            columns = self.faces.spark_columns(columns)
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

        options = WriteOptions(partition=PartitionSpec.of(partition), overwrite=overwrite)
        return self.faces.upload(self.table(table), options, create, accept)
