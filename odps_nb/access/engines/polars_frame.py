"""Converts rows to a polars DataFrame, and a table to a polars LazyFrame.

polars applies its own filters to the rows, because Arrow compares some values differently: in
polars, NaN is the greatest number, and whether ``is_in`` finds nulls is an option. The part of the
filter that polars can express in Arrow only decides which rows to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.checks import require
from odps_nb.access.engines.dataset import BATCH_ROWS, TableDataset
from odps_nb.convert.narrow_decimals import cast_columns, narrow_schema
from odps_nb.terms import TimeUnit

if TYPE_CHECKING:
    import polars as pl

    from odps_nb.access.engines.pushdown import Projection


def scan_polars(dataset: TableDataset) -> pl.LazyFrame:
    """Return a LazyFrame over a dataset; polars pushes down columns, filters and ``head``."""
    polars = require("polars")
    from polars.io.plugins import register_io_source

    source = _Unfiltered.like(dataset)

    def frames(
        columns: list[str] | None, predicate: Any, rows: int | None, batch_rows: int | None
    ) -> Iterator[Any]:
        # polars limits the rows before it filters them
        filter = None if predicate is None or rows is not None else _arrow_filter(predicate, source)
        names = source.schema.names[:1] if columns == [] else columns
        scanner = source.scanner(names, filter, batch_rows or BATCH_ROWS)
        with closing(scanner.to_batches()) as batches:
            for batch in batches:
                frame: Any = polars.from_arrow(batch)
                if rows is not None:
                    frame = frame.head(rows)
                    rows -= frame.height
                yield frame if predicate is None else frame.filter(predicate)
                if rows == 0:
                    break

    schema = polars.from_arrow(source.schema.empty_table()).schema
    lazy_frame: pl.LazyFrame = register_io_source(frames, schema=schema, is_pure=True)
    zones = {field.name: field.type.tz for field in dataset.schema if _has_zone(field.type)}
    return lazy_frame.with_columns(
        polars.col(name).dt.convert_time_zone(zone) for name, zone in zones.items()
    )


def to_polars(rows: pa.Table) -> pl.DataFrame:
    """Convert rows to a polars DataFrame."""
    polars = require("polars")
    frame: pl.DataFrame = polars.from_arrow(cast_columns(rows, narrow_schema(rows.schema)))
    return frame


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


class _Unfiltered(TableDataset):
    """A dataset that uses a filter only to skip rows, with times in UTC.

    Times are converted to their zone afterwards, because polars (2.1) shifts a filter on a time in
    another zone by the zone's offset.
    """

    def _arrow_schema(self, unit: TimeUnit | None = None) -> pa.Schema:
        schema = super()._arrow_schema(unit)
        for index, field in enumerate(schema):
            if _has_zone(field.type):
                kind = pa.timestamp(field.type.unit, "UTC")
                schema = schema.set(index, field.with_type(kind))
        return schema

    def _check(
        self, columns: Projection, filter: pc.Expression | None, schema: pa.Schema | None = None
    ) -> pa.Schema:
        return super()._check(columns, None, schema)

    def _row_filter(
        self, filter: pc.Expression | None
    ) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        return lambda batch: batch


def _arrow_filter(predicate: Any, dataset: TableDataset) -> pc.Expression | None:
    """Return a polars filter as an Arrow expression; ``None`` if polars cannot express it."""
    import polars as pl

    recorder: Any = _Recorder(dataset.schema)
    pl.scan_pyarrow_dataset(recorder).filter(predicate).collect()
    return recorder.filter


class _Recorder:
    """A dataset without rows that records the filter that polars passes to it."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema, self.filter = schema, None

    def to_batches(self, *, filter: Any = None, **_: Any) -> Iterator[pa.RecordBatch]:
        self.filter = filter
        return iter(())
