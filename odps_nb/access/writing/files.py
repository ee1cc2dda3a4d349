"""Writes the files of a folder to a table, one row each, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.blob import NewBlob
from odps_nb.access.checks import check_overwrite, check_partition
from odps_nb.access.writing.columns import schema_of
from odps_nb.access.writing.creating import NewTable, name_the_way
from odps_nb.access.writing.folder_files import Files, FolderFile, FolderFiles
from odps_nb.access.writing.new_columns import partitioned
from odps_nb.access.writing.resumable import write_resumable
from odps_nb.access.writing.rows import WriteOptions, write_chunks
from odps_nb.access.writing.sources import (
    BLOB_ROWS,
    Chunk,
    Target,
    WriteInput,
    require_partition_columns,
)
from odps_nb.client.catalog import table_exists
from odps_nb.client.table_changes import create_table
from odps_nb.convert.arrow_schema import fit_batch, match_columns
from odps_nb.convert.fitting.conversions import Conversions
from odps_nb.convert.generated import fill_generated
from odps_nb.errors import ConversionError, NotFoundError
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table

FILE_COLUMNS = (
    "path string comment 'below the folder', name string, size bigint comment 'bytes', "
    "mime_type string comment 'what the bytes are', modified timestamp, content blob"
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
"""Bytes of files that are uploaded before their rows are written, and progress counts them."""
_HEAD = 64 * 2**10


def write_files(files: Files, table: Table, options: WriteOptions, *, create: bool) -> Receipt:
    """Write all files, one row each; see `Connection.write_files`."""
    count, size = files.check()
    storage = table.connection.storage
    if not create or table_exists(storage, table.name):
        try:
            schema = table.schema
        except NotFoundError as error:
            name_the_way(error)
            raise
        return _write(files, (count, size), table, schema, options)
    _create(table, options)
    with NewTable(storage, table.name) as made:
        options = replace(options, before_commit=made.keep)
        return _write(files, (count, size), table, table.schema, options)


def write_files_resumable(
    files: FolderFiles, table: Table, options: WriteOptions, *, create: bool
) -> Receipt:
    """Write what an earlier call has not; see ``resume`` of `Connection.write_files`."""
    files.check()
    if create and not table_exists(table.connection.storage, table.name):
        _create(table, options)
    try:
        schema = table.schema
    except NotFoundError as error:
        name_the_way(error)
        raise
    target, options = _checked(table, schema, options)
    chunk = partial(_chunk, target=target)
    return write_resumable(table, target, files, options, groups=_groups, chunk=chunk)


def _create(table: Table, options: WriteOptions) -> None:
    schema = partitioned(schema_of(FILE_COLUMNS), None, options.partition)
    create_table(table.connection.storage, table.name, schema)
    table.reload()


def _write(
    files: Files,
    total: tuple[int, int],
    table: Table,
    schema: TableSchema,
    options: WriteOptions,
) -> Receipt:
    target, options = _checked(table, schema, options)
    chunks = _chunks(files, target)
    given = WriteInput(lanes=(chunks,), rows=total[0], blob_bytes=total[1])
    return write_chunks(table, target, given, options)


def _checked(
    table: Table, schema: TableSchema, options: WriteOptions
) -> tuple[Target, WriteOptions]:
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
            hint=f"write to a new table, or make one with the columns: {FILE_COLUMNS}",
        )
    require_partition_columns(FIELDS.names, target)
    match_columns(
        pa.schema([field for field in FIELDS if target.plain.find(field.name)]), target.plain
    )


def _place(column: Column) -> int | None:
    names = FIELDS.names
    return names.index(column.name.casefold()) if column.name.casefold() in names else None


def _chunks(files: Files, target: Target) -> Iterator[Chunk]:
    first = 0
    for group in _groups(files):
        yield _chunk(group, first, target)
        for one in group:  # they are uploaded by now: what was sent is what the rows say
            one.require_unchanged()
        first += len(group)


def _groups(files: Iterable[FolderFile]) -> Iterator[list[FolderFile]]:
    held: list[FolderFile] = []
    size = 0
    for one in files:
        if held and (len(held) >= BLOB_ROWS or size + one.size > CHUNK_BYTES):
            yield held
            held, size = [], 0
        held.append(one)
        size += one.size
    if held:
        yield held


def _chunk(group: list[FolderFile], first: int, target: Target) -> Chunk:
    from odps_nb.notebook.preview.registry import media_type

    names = [PurePosixPath(one.path).name for one in group]
    kinds = [
        media_type(one.head(_HEAD), one.size, name) for one, name in zip(group, names, strict=True)
    ]
    batch = pa.record_batch(
        [
            pa.array([one.path for one in group]),
            pa.array(names),
            pa.array([one.size for one in group], pa.int64()),
            pa.array(kinds),
            pa.array([one.modified for one in group], pa.timestamp("ns", "UTC")),
        ],
        schema=FIELDS,
    )
    places = [_place(column) for column in target.plain]
    plain = fit_batch(
        batch, target.plain, places=places, first_row=first, conversions=target.conversions
    )
    plain = fill_generated(plain, target.columns, first)
    cells = [
        NewBlob(one.file, mime_type=kind, file_name=name)
        for one, kind, name in zip(group, kinds, names, strict=True)
    ]
    others = {column.name: [None] * len(group) for column in target.blobs}
    content = target.columns.find(CONTENT)
    assert content is not None  # checked before
    return Chunk(
        rows=len(group), plain=plain, cells={**others, content.name: cells}, first_row=first
    )
