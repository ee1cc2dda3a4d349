"""Ingests uploaded rows: converts them, splits them by partition, and writes row files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.generated import generated_values
from odps_nb.arrow.validation import Validator
from odps_nb.errors import ProtocolError
from odps_nb.local import errors
from odps_nb.local.store.arrow_types import arrow_schema, arrow_type, spelled
from odps_nb.local.store.blobs import BlobStore
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.row_files import FAR, FINE, RowFileWriter, stored_names, unit_of
from odps_nb.local.store.snapshots import Addition
from odps_nb.local.store.tables import OPERATION, StoredTable
from odps_nb.local.writing.coerce import coerce_batch, match_columns
from odps_nb.local.writing.partial import UPDATED, is_partial
from odps_nb.schema import TEXT, Column, has_timestamp
from odps_nb.terms import PartitionSpec, TimeUnit
from odps_nb.wire.arrow_stream import DEFAULT_MAX_BODY, EndMarkerCheck

MAX_PARTITIONS = 2000


@dataclass(slots=True)
class _Target:
    writer: RowFileWriter
    mark: str = ""
    blobs: set[int] = field(default_factory=set)


class Ingest:
    """Writes the batches of one request. Leaving the ``with`` block before `finish` drops the rows.

    ``spec`` sets partition key values; the other keys are columns of the rows. With ``exact``, a
    missing column raises 400. With ``one_unit``, `write` raises 400 if some timestamps need
    microseconds and others need nanoseconds. With ``partial``, rows may set only some columns.
    """

    def __init__(
        self,
        folder: DataFolder,
        table: StoredTable,
        spec: PartitionSpec,
        blobs: BlobStore,
        *,
        exact: bool = False,
        one_unit: bool = False,
        partial: bool = False,
    ) -> None:
        self._folder, self._table, self._spec, self._blobs = folder, table, spec, blobs
        self._exact, self._one_unit = exact, one_unit
        fixed = {key for key, _ in spec}
        self._dynamic = tuple(c for c in table.schema.partition_columns if c.name not in fixed)
        self._operation: tuple[Column, ...] = (OPERATION,) if table.key_columns else ()
        if partial and self._operation:
            self._operation += (UPDATED,)
        data = table.schema.columns
        if self._operation:  # a delete needs only the key
            keys = set(table.key_columns)
            data = tuple(c if c.name in keys else replace(c, nullable=True) for c in data)
        self._columns: tuple[Column, ...] = (*data, *self._operation, *self._dynamic)
        self._matches: tuple[int | None, ...] | None = None
        columns = (*data, *self._operation)
        names = stored_names((c.name for c in columns), table.stored)
        self._stored = arrow_schema(
            [replace(c, name=name) for c, name in zip(columns, names, strict=True)]
        )
        self._timed = [n for n, c in enumerate(table.schema.columns) if has_timestamp(c.type)]
        # A file has one time unit, so a partition that needs both units is stored in two files.
        self._targets: dict[tuple[PartitionSpec, pa.Schema], _Target] = {}
        self._finished: list[str] = []
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, or raise 400 if they do not match the table."""
        if self._matches is None:
            self._matches = match_columns(
                batch.schema,
                self._columns,
                exact=self._exact,
                optional=(OPERATION.name, UPDATED.name),
            )
        blob_ids: set[int] = set()
        fitted = coerce_batch(
            self._with_text_keys(batch, self._matches),
            self._columns,
            self._matches,
            blobs=lambda array: self._blobs.spell(array, blob_ids),
        )
        if self._operation:
            self._check_nulls(fitted)
        self.rows += fitted.num_rows
        for spec, rows in self._by_partition(fitted):
            if (spec, rows.schema) not in self._targets:
                if len(self._targets) >= MAX_PARTITIONS:
                    raise errors.invalid(
                        f"one request can write to at most {MAX_PARTITIONS} partitions"
                    )
                writer = RowFileWriter(self._folder, rows.schema)
                self._targets[spec, rows.schema] = _Target(writer)
            target = self._targets[spec, rows.schema]
            target.mark = target.mark or self._mark(rows)
            target.blobs |= blob_ids
            target.writer.write(rows)

    @property
    def destinations(self) -> set[tuple[int, PartitionSpec]]:
        """The table id and the partitions to write; if ``spec`` is complete, even without rows."""
        specs = {spec for spec, _ in self._targets}
        if not self._dynamic:
            specs.add(self._whole({}))
        return {(self._table.table_id, spec) for spec in specs}

    def finish(self) -> list[Addition]:
        """Close the files and return them for a commit."""
        done = []
        for (spec, _), target in self._targets.items():
            file = target.writer.finish(target.mark)
            self._finished.append(file.file_name)
            self._blobs.used_by(file.name, target.blobs)
            done.append(Addition(spec=spec, file=file))
        self._finished = []  # the caller now owns the files
        return done

    def __enter__(self) -> Ingest:
        return self

    def __exit__(self, *_: object) -> None:
        for target in self._targets.values():
            target.writer.discard()
        self._folder.drop(self._finished)

    def _with_text_keys(
        self, batch: pa.RecordBatch, matches: tuple[int | None, ...]
    ) -> pa.RecordBatch:
        """Return the batch with integers in text partition columns as text.

        The real service accepts them (pyodps' test of the older protocol,
        test_write_rows_without_partition_by_diff_schema_neg1).
        """
        count = len(self._columns) - len(self._dynamic)
        for column, index in zip(self._dynamic, matches[count:], strict=True):
            if index is None or column.type.code not in TEXT:
                continue
            field = batch.schema.field(index)
            if pa.types.is_integer(field.type):
                values = batch.column(index).cast(pa.string())
                batch = batch.set_column(index, field.name, values)
        return batch

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        """Raise 400 for nulls in NOT NULL columns, except in deletes and partial updates."""
        operations = batch.column(OPERATION.name)
        mask = pc.fill_null(pc.not_equal(operations, ord("D")), fill_value=True)
        if UPDATED in self._operation:
            mask = pc.and_not(mask, is_partial(batch.column(UPDATED.name)))
        for column in self._table.schema.columns:
            if not column.nullable and batch.column(column.name).filter(mask).null_count:
                raise errors.null_value(column.name)

    def _by_partition(
        self, batch: pa.RecordBatch
    ) -> Iterator[tuple[PartitionSpec, pa.RecordBatch]]:
        count = len(self._stored)
        arrays = batch.columns[:count]
        fields = [field.with_type(a.type) for field, a in zip(self._stored, arrays, strict=True)]
        data = pa.record_batch(arrays, schema=pa.schema(fields))
        if not self._dynamic:
            yield self._whole({}), data
            return
        keys = [
            spelled(batch.column(count + i), c.name).dictionary_encode()
            for i, c in enumerate(self._dynamic)
        ]
        for values, rows in _groups(keys):
            chosen = dict(zip((c.name for c in self._dynamic), values, strict=True))
            yield self._whole(chosen), data if rows is None else data.take(pa.array(rows))

    def _whole(self, dynamic: dict[str, str]) -> PartitionSpec:
        values = dict(self._spec.items) | dynamic
        return PartitionSpec(tuple((k, values[k]) for k in self._table.partition_keys))

    def _mark(self, rows: pa.RecordBatch) -> str:
        """Return the file name mark for the rows' time unit, and enforce ``one_unit``."""
        far = rows.schema != self._stored
        if far and not self._one_unit:
            return FAR
        fine = self._is_fine(rows)
        if far and fine:
            unit_of([FAR, FINE])
        return FAR if far else FINE if fine else ""

    def _is_fine(self, rows: pa.RecordBatch) -> bool:
        """Return whether any time in the rows has sub-microsecond digits."""
        for index in self._timed:
            column = rows.column(index)
            wide = arrow_type(self._table.schema.columns[index].type, timestamp_unit=TimeUnit.MICRO)
            try:
                column.cast(wide)
            except pa.ArrowInvalid:
                return True
        return False


def _groups(
    keys: list[pa.DictionaryArray],
) -> Iterator[tuple[tuple[str, ...], np.ndarray | None]]:
    """Yield each combination of key values with the indexes of its rows (``None``: all rows)."""
    if all(len(key.dictionary) == 1 for key in keys):
        yield tuple(key.dictionary[0].as_py() for key in keys), None
        return
    codes = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        codes = codes * max(1, len(key.dictionary)) + key.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for rows in np.split(order, ends):
        if len(rows):
            first = int(rows[0])
            yield tuple(key[first].as_py() for key in keys), rows


def read_body(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the non-empty batches of an uploaded Arrow IPC stream; raise 400 if it is damaged."""
    if not path.stat().st_size:
        raise errors.malformed("the body is not an Arrow IPC stream: it is empty")
    with pa.memory_map(str(path)) as source:
        yield from checked_batches(source.read_buffer())


def checked_batches(stream: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yield validated batches of a client's Arrow IPC stream, or raise 400 if it is damaged."""
    check = EndMarkerCheck(max_decompressed=DEFAULT_MAX_BODY)
    try:
        check.feed(memoryview(stream))
        check.require()
        with pa.ipc.open_stream(stream) as reader:
            validator = Validator(reader.schema)
            for batch in reader:
                if batch.num_rows:
                    validated = validator.validate(batch)
                    check_buffers(validated)
                    yield validated
    except (ProtocolError, pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise errors.malformed(f"the Arrow IPC stream is invalid: {error}") from error


_INGESTION = "ingestion_time_partition"
_TIME = "_partitiontime"


def with_generated(rows: pa.RecordBatch, table: StoredTable, spec: PartitionSpec) -> pa.RecordBatch:
    """Add the generated partition columns that are neither in the rows nor in ``spec``.

    If the table has the property ``ingestion_time_partition``, the column ``_partitiontime``
    defaults to the truncated time of the INSERT.
    """
    fixed = {key for key, _ in spec}
    for column in table.schema.partition_columns:
        generated, source = column.generated, table.schema.source_of(column)
        if generated is None or source is None or column.name in {*fixed, *rows.schema.names}:
            continue
        kind = arrow_type(source.type)
        if source.name in rows.schema.names:
            times = rows.column(source.name)
        elif source.name.casefold() == _TIME and table.properties.get(_INGESTION) == "true":
            now = pa.array([datetime.now(UTC)] * rows.num_rows, pa.timestamp("us"))
            times = pc.floor_temporal(now, unit=generated.unit).cast(kind)
            rows = rows.append_column(source.name, times)
        else:
            times = pa.nulls(rows.num_rows, kind)
        rows = rows.append_column(column.name, generated_values(generated, times))
    return rows


PADDING = 64
"""Writers may pad a buffer of a slice to a multiple of this number of bytes."""


def check_buffers(batch: pa.RecordBatch) -> None:
    """Raise 400 if a buffer is longer than the type and row count of its column allow."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        _check(array, name)


def _check(array: pa.Array, path: str) -> None:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        array, kind = array.storage, array.storage.type
    if _is_unchecked(kind):
        return
    rows, (nulls, *buffers) = len(array), array.buffers()
    _fits(nulls, -(-rows // 8), array, path)
    if width := _offset_width(kind):
        _fits(buffers[0], (rows + 1) * width, array, path)
    elif not pt.is_nested(kind):
        width = (kind.index_type if pt.is_dictionary(kind) else kind).bit_width
        size = -(-rows * width // 8)
        # a buffer of twice the size contains decimal256 values, even if the padding hides it
        is_doubled = (
            pt.is_decimal128(kind) and buffers[0] is not None and buffers[0].size == 2 * size
        )
        _fits(buffers[0], size, array, path, is_doubled=is_doubled)
    for part in _children(array):
        _check(part, path)


def _children(array: pa.Array) -> list[pa.Array]:
    kind = array.type
    if pt.is_struct(kind):
        return [array.field(index) for index in range(kind.num_fields)]
    if pt.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if pt.is_nested(kind) else []


def _is_unchecked(kind: pa.DataType) -> bool:
    """Return whether a type has no buffers, or a layout that no column of the service has."""
    is_view = pt.is_string_view(kind) or pt.is_binary_view(kind) or pt.is_list_view(kind)
    is_odd = pt.is_null(kind) or pt.is_union(kind) or pt.is_run_end_encoded(kind)
    return bool(is_view or is_odd or pt.is_large_list_view(kind))


def _offset_width(kind: pa.DataType) -> int:
    """Return the bytes of one offset; 0 for types without offsets."""
    if pt.is_large_string(kind) or pt.is_large_binary(kind) or pt.is_large_list(kind):
        return 8
    short = pt.is_string(kind) or pt.is_binary(kind) or pt.is_list(kind) or pt.is_map(kind)
    return 4 if short else 0


def _fits(
    buffer: pa.Buffer | None, size: int, array: pa.Array, path: str, *, is_doubled: bool = False
) -> None:
    if buffer is None or buffer.size <= size:
        return
    if is_doubled or buffer.size > -(-size // PADDING) * PADDING:
        raise errors.malformed(
            f"a buffer of the column {path!r} has {buffer.size} bytes, but {len(array)} values of"
            f" {array.type} need {size}; send the types that the session describes"
        )
