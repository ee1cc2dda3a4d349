"""Writes the files of a folder to a table, one row per file, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.blob import NewBlob
from odps_nb.access.checks import check_overwrite, check_partition
from odps_nb.access.writing.columns import partitioned, schema_of
from odps_nb.access.writing.creating import NewTable, schema_of_target
from odps_nb.access.writing.folder_files import FolderFile, FolderFiles
from odps_nb.access.writing.rows import WriteOptions, write_chunks
from odps_nb.access.writing.sources import (
    BLOB_ROWS,
    Chunk,
    Target,
    WriteInput,
    require_columns,
)
from odps_nb.client.catalog import table_exists
from odps_nb.client.sql.definitions import create_table
from odps_nb.convert.arrow_schema import fit_batch, match_columns
from odps_nb.convert.fitting.conversions import Conversions
from odps_nb.convert.generated import fill_generated
from odps_nb.errors import ConversionError
from odps_nb.formats.registry import media_type
from odps_nb.schema import TypeCode
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table

FILE_COLUMNS = (
    "path string comment 'relative to the folder', name string, size bigint comment 'bytes', "
    "mime_type string comment 'type of the content', modified timestamp, content blob"
)
CONTENT = "content"
FIELDS = pa.schema(
    {
        "path": pa.string(),
        "name": pa.string(),
        "size": pa.int64(),
        "mime_type": pa.string(),
        "modified": pa.timestamp("ns", "UTC"),
    }
)
CHUNK_BYTES = 64 * 2**20
"""Bytes of files to upload before their rows are written and counted as progress."""
_HEAD = 64 * 2**10


def write_files(
    files: FolderFiles, table: Table, options: WriteOptions, *, create: bool
) -> Receipt:
    """Write all files, one row per file; see `Table.write_files`."""
    count, size = files.check()
    storage = table.connection._storage
    if not create or table_exists(storage, table.name):
        return _write(files, count, size, table, options)
    make_table(table, options)
    with NewTable(storage, table.name) as new_table:
        return _write(files, count, size, table, replace(options, before_commit=new_table.keep))


def make_table(table: Table, options: WriteOptions) -> None:
    """Create the table for the files, partitioned by the keys of the partition."""
    schema = partitioned(schema_of(FILE_COLUMNS), None, options.partition)
    create_table(table.connection._storage, table.name, schema)
    table.reload()


def _write(
    files: FolderFiles, count: int, size: int, table: Table, options: WriteOptions
) -> Receipt:
    target, options = checked(table, options)
    write_input = WriteInput(streams=(_chunks(files, target),), rows=count, blob_bytes=size)
    return write_chunks(table, target, write_input, options)


def checked(table: Table, options: WriteOptions) -> tuple[Target, WriteOptions]:
    """Return the target of a file write, and the options with the checked partition."""
    schema = schema_of_target(table)
    spec = check_partition(options.partition, schema, table.name)
    check_overwrite(options.overwrite, spec, schema, table.name, takes_all=False)
    target = Target.of(schema, table.name, spec, conversions=Conversions(timezone="UTC"))
    _check_columns(target, table.name)
    return target, replace(options, partition=spec)


def _check_columns(target: Target, table: TableName) -> None:
    column = target.columns.find(CONTENT)
    if column is None or column.type.code is not TypeCode.BLOB:
        raise ConversionError(
            f"{table} has no BLOB column {CONTENT!r} for the files",
            column=CONTENT,
            target_type="blob",
            hint=f"write to a new table, or create one with the columns: {FILE_COLUMNS}",
        )
    require_columns(FIELDS.names, target)
    match_columns(
        pa.schema([field for field in FIELDS if target.plain.find(field.name)]), target.plain
    )


def _chunks(files: FolderFiles, target: Target) -> Iterator[Chunk]:
    first = 0
    for group in groups(files):
        yield chunk_of(group, first, target)
        for file in group:  # after the upload, verify that the rows describe the sent bytes
            file.require_unchanged()
        first += len(group)


def groups(files: Iterable[FolderFile]) -> Iterator[list[FolderFile]]:
    """Divide files into groups; the rows of a group form one chunk."""
    held: list[FolderFile] = []
    size = 0
    for file in files:
        if held and (len(held) >= BLOB_ROWS or size + file.size > CHUNK_BYTES):
            yield held
            held, size = [], 0
        held.append(file)
        size += file.size
    if held:
        yield held


def chunk_of(group: list[FolderFile], first: int, target: Target) -> Chunk:
    """Return the rows of some files; ``first`` is the first row number, for error messages."""
    names = [PurePosixPath(file.path).name for file in group]
    kinds = [
        media_type(file.head(_HEAD), file.size, name)
        for file, name in zip(group, names, strict=True)
    ]
    batch = pa.record_batch(
        [
            pa.array([file.path for file in group]),
            pa.array(names),
            pa.array([file.size for file in group], pa.int64()),
            pa.array(kinds),
            pa.array([file.modified for file in group], pa.timestamp("ns", "UTC")),
        ],
        schema=FIELDS,
    )
    fields = {name: position for position, name in enumerate(FIELDS.names)}
    positions = [fields.get(column.name.casefold()) for column in target.plain]
    plain = fit_batch(
        batch, target.plain, places=positions, first_row=first, conversions=target.conversions
    )
    plain = fill_generated(plain, target.columns, first)
    content = [
        NewBlob(file.file, mime_type=kind, file_name=name)
        for file, kind, name in zip(group, kinds, names, strict=True)
    ]
    none = [None] * len(group)
    cells = {c.name: content if c.name.casefold() == CONTENT else none for c in target.blobs}
    return Chunk(rows=len(group), plain=plain, cells=cells, first_row=first)
