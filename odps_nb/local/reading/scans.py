"""Reads row ranges of a snapshot as Arrow batches, with columns selected and rows filtered.

A snapshot is a list of files whose rows are numbered consecutively. Reads are lazy and hold one
row group at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.local.store.arrow_types import arrow_schema, arrow_type, constant, in_units
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.row_files import read_rows, stored_names
from odps_nb.schema import Column
from odps_nb.terms import TimeUnit

if TYPE_CHECKING:  # `predicates` imports sqlglot, which only filters need
    from odps_nb.local.reading.predicates import Evaluator, Predicate

MASK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFile:
    """A row file of a snapshot. ``kept`` is the number of its rows that the filter keeps."""

    name: str
    rows: int
    values: tuple[tuple[str, str], ...] = ()
    kept: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The input of a stream; ``predicate`` is evaluated for each block of ``block_rows`` rows.

    ``stored`` maps columns to their names in the files, where these differ.
    """

    files: tuple[ScanFile, ...]
    columns: tuple[Column, ...]
    table_columns: tuple[Column, ...]
    partition_keys: frozenset[str]
    stored: Mapping[str, str] = field(default_factory=dict)
    timestamp_unit: TimeUnit = TimeUnit.NANO
    datetime_unit: TimeUnit = TimeUnit.MILLI
    predicate: Predicate | None = None
    block_rows: int = 1

    def schema(self, columns: Sequence[Column] | None = None) -> pa.Schema:
        """Return the Arrow schema of the stream, or of some of its columns."""
        return arrow_schema(
            self.columns if columns is None else columns,
            timestamp_unit=self.timestamp_unit,
            datetime_unit=self.datetime_unit,
        )


def scan(
    folder: DataFolder,
    plan: ScanPlan,
    start: int,
    stop: int,
    *,
    columns: Sequence[Column] | None = None,
    skip: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Yield rows ``[start, stop)`` of the snapshot, filtered, without empty batches.

    ``columns`` is a selection of the plan's columns, in output order; ``skip`` is the number of
    rows to skip at the start, counted after the filter.
    """
    selected = tuple(plan.columns if columns is None else columns)
    if plan.predicate is None:
        start, skip = min(start + skip, stop), 0
    with contextlib.ExitStack() as stack:
        evaluator = None
        if plan.predicate is not None:
            evaluator = stack.enter_context(plan.predicate.evaluator())
        reader = _Reader(folder, plan, selected, evaluator)
        for file, low, high in cut_rows(plan.files, start, stop):
            for batch in reader.batches(file, low, high):
                skipped = min(skip, batch.num_rows)
                skip -= skipped
                if skipped < batch.num_rows:
                    yield batch.slice(skipped) if skipped else batch


def cut_rows(
    files: Sequence[ScanFile], start: int, stop: int
) -> Iterator[tuple[ScanFile, int, int]]:
    """Yield (file, first, stop) for the files that contain rows ``[start, stop)``."""
    seen = 0
    for file in files:
        low, high = max(start - seen, 0), min(stop - seen, file.rows)
        if low < high:
            yield file, low, high
        seen += file.rows
        if seen >= stop:
            return


class _Reader:
    """Reads the files of a plan. ``evaluator`` applies the filter, if there is one."""

    def __init__(
        self,
        folder: DataFolder,
        plan: ScanPlan,
        wanted: Sequence[Column],
        evaluator: Evaluator | None,
    ) -> None:
        self._folder, self._plan, self._wanted, self._evaluator = folder, plan, wanted, evaluator
        names = () if plan.predicate is None else plan.predicate.columns
        self._used = {c.name: c for c in plan.table_columns if c.name in names}

    def batches(self, file: ScanFile, low: int, high: int) -> Iterator[pa.RecordBatch]:
        """Yield rows ``[low, high)`` of one file, filtered."""
        if self._evaluator is None or self._plan.block_rows <= 1:
            yield from self._rows(file, low, high, self._evaluator)
            return
        for start, stop in self._kept_blocks(file, low, high, self._evaluator):
            yield from self._rows(file, start, stop, None)

    def _kept_blocks(
        self, file: ScanFile, low: int, high: int, evaluator: Evaluator
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges within ``[low, high)`` whose blocks contain a row that the filter keeps.

        Blocks start at multiples of the block size in the file, even if a split starts inside one,
        so that the rows returned do not depend on the splits. Adjacent blocks within one mask are
        joined and read together.
        """
        size = self._plan.block_rows
        start, end = low // size * size, min(file.rows, -(-high // size) * size)
        row, block, has_match = start, start // size, False
        for batch in gathered(self._stored(file, self._used, start, end)):
            mask = evaluator.mask(_arrays(batch, self._used, file), batch.num_rows)
            seen, ranges = 0, list[tuple[int, int]]()
            while seen < len(mask):
                stop = min(end, (block + 1) * size)
                count = min(stop - row, len(mask) - seen)
                has_match = has_match or bool(mask.slice(seen, count).true_count)
                row, seen = row + count, seen + count
                if row == stop:
                    first = max(low, block * size)
                    if has_match and ranges and ranges[-1][1] == first:
                        first = ranges.pop()[0]
                    if has_match:
                        ranges.append((first, min(high, stop)))
                    block, has_match = block + 1, False
            yield from ranges

    def _rows(
        self, file: ScanFile, low: int, high: int, evaluator: Evaluator | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in ``[low, high)`` of one file that the evaluator keeps."""
        filter_columns = {} if evaluator is None else self._used
        needed = {c.name: c for c in self._wanted} | filter_columns
        schema = self._plan.schema(self._wanted)
        for batch in self._stored(file, needed, low, high):
            arrays, rows = _arrays(batch, needed, file), batch.num_rows
            if evaluator is not None:
                mask = evaluator.mask({name: arrays[name] for name in filter_columns}, rows)
                if mask.true_count < rows:  # filter first, because converting times may raise
                    arrays = {c.name: arrays[c.name].filter(mask) for c in self._wanted}
                    rows = mask.true_count
            if rows and self._wanted:
                shown = [in_units(arrays[field.name], field.type) for field in schema]
                yield pa.record_batch(shown, schema=schema)
            elif rows:
                yield pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))

    def _stored(
        self, file: ScanFile, columns: Iterable[str], low: int, high: int
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name in columns if name not in self._plan.partition_keys]
        stored = stored_names(names, self._plan.stored)
        if stored == names:
            yield from read_rows(self._folder, file.name, names, low, high)
            return
        shown = dict(zip(stored, names, strict=True))
        for batch in read_rows(self._folder, file.name, stored, low, high):
            # without columns, a batch has one unnamed column with its row count
            yield batch.rename_columns([shown.get(name, name) for name in batch.schema.names])


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches up to `MASK_BYTES`, because each evaluation of a filter has a fixed cost."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= MASK_BYTES:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, size = [], 0
    if held:
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _arrays(
    batch: pa.RecordBatch, columns: dict[str, Column], file: ScanFile
) -> dict[str, pa.Array]:
    """Return columns by name. Adds partition values, and nulls for columns newer than the file."""
    values, arrays = dict(file.values), {}
    for name, column in columns.items():
        target, index = arrow_type(column.type), batch.schema.get_field_index(name)
        if name in values:
            arrays[name] = pa.repeat(constant(values[name], column.type, name), batch.num_rows)
        elif index >= 0:
            arrays[name] = batch.column(index)
        else:
            arrays[name] = pa.nulls(batch.num_rows, target)
    return arrays
