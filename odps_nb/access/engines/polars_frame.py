"""Converts rows to a polars DataFrame, and a table to a polars LazyFrame.

polars passes filters to a pyarrow dataset and does not filter the rows again. But Arrow compares
some values differently: in polars, NaN is the greatest number and ``~is_in`` of a null is null; in
Arrow, neither is true. So the filter is converted back to a polars expression, which polars
applies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.checks import require
from odps_nb.access.engines.dataset import TableDataset
from odps_nb.access.engines.expression import Maker, build, fields_of, read
from odps_nb.convert.narrow_decimals import cast_columns, narrow_schema
from odps_nb.errors import ArgumentError
from odps_nb.terms import TimeUnit

if TYPE_CHECKING:
    import polars as pl

    from odps_nb.access.engines.pushdown import Projection


def scan_polars(dataset: TableDataset) -> pl.LazyFrame:
    """Return a LazyFrame over a dataset; polars pushes down columns, filters and ``head``."""
    polars = require("polars")
    found: pl.LazyFrame = polars.scan_pyarrow_dataset(_ForPolars.like(dataset))
    zones = {field.name: field.type.tz for field in dataset.schema if _has_zone(field.type)}
    return found.with_columns(
        polars.col(name).dt.convert_time_zone(zone) for name, zone in zones.items()
    )


def to_polars(rows: pa.Table) -> pl.DataFrame:
    """Convert rows to a polars DataFrame."""
    polars = require("polars")
    frame: pl.DataFrame = polars.from_arrow(cast_columns(rows, narrow_schema(rows.schema)))
    return frame


def _has_zone(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.tz is not None


class _ForPolars(TableDataset):
    """A dataset whose filters have the semantics of polars.

    Times with a zone are passed to polars in UTC and converted to their zone afterwards, because
    polars (2.1) shifts a filter on a time in another zone by the zone's offset.
    """

    def _arrow_schema(self, unit: TimeUnit | None = None) -> pa.Schema:
        schema = super()._arrow_schema(unit)
        for place, field in enumerate(schema):
            if _has_zone(field.type):
                kind = pa.timestamp(field.type.unit, "UTC")
                schema = schema.set(place, field.with_type(kind))
        return schema

    def _check(
        self, columns: Projection, filter: pc.Expression | None, schema: pa.Schema | None = None
    ) -> pa.Schema:
        return super()._check(columns, None, schema)

    def _row_filter(
        self, filter: pc.Expression | None
    ) -> Callable[[pa.RecordBatch], pa.RecordBatch] | None:
        if filter is None:
            return None
        import polars as pl

        tree, names = read(filter), fields_of(filter)
        if tree is None or names is None:
            raise ArgumentError(
                f"a polars filter cannot be parsed: {filter}",
                hint="use polars.scan_pyarrow_dataset(table.dataset(), allow_pyarrow_filter=False)",
            )
        expression = pl.any_horizontal(build(tree, _maker())).alias("kept")
        wanted = sorted(names)

        def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows: Any = pl.from_arrow(batch.select(wanted))
            mask = rows.select(expression).to_series().fill_null(False)
            if mask.len() != batch.num_rows:  # a filter without columns keeps all rows or none
                return batch if mask.all() else batch.slice(0, 0)
            return batch.filter(mask.to_arrow())

        return keep


def _maker() -> Maker:
    import polars as pl

    def field(path: tuple[str, ...]) -> pl.Expr:
        found = pl.col(path[0])
        for member in path[1:]:
            found = found.struct.field(member)
        return found

    def series(values: pa.Array) -> Any:
        return pl.lit(pl.from_arrow(values))

    return Maker(
        field=field,
        literal=lambda scalar: series(pa.array([scalar], scalar.type)).first(),
        among=lambda value, values: value.is_in(series(values).implode()),
        if_else=lambda test, yes, no: pl.when(test).then(yes).otherwise(no),
        methods={"is_null": "is_null", "is_valid": "is_not_null", "is_nan": "is_nan"},
    )
