"""Computes what the rows of an INSERT lack in a table that is AUTO PARTITIONED BY an expression."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.arrow.generated import generated_values
from odps_nb.local.store.arrow_types import arrow_type
from odps_nb.local.store.tables import Table
from odps_nb.terms import PartitionSpec

__all__ = ["with_generated"]

_INGESTION = "ingestion_time_partition"
_TIME = "_partitiontime"


def with_generated(rows: pa.RecordBatch, table: Table, spec: PartitionSpec) -> pa.RecordBatch:
    """Return rows with the partition column that neither they nor ``spec`` have.

    A table with the property ``ingestion_time_partition`` has the truncated time of the INSERT in
    its column ``_partitiontime``, where a statement gives none.
    """
    fixed = {key for key, _ in spec}
    for column in table.schema.partition_columns:
        made, source = column.generated, table.schema.source_of(column)
        if made is None or source is None or column.name in {*fixed, *rows.schema.names}:
            continue
        kind = arrow_type(source.type)
        if source.name in rows.schema.names:
            times = rows.column(source.name)
        elif source.name.casefold() == _TIME and table.properties.get(_INGESTION) == "true":
            now = pa.array([datetime.now(UTC)] * rows.num_rows, pa.timestamp("us"))
            times = pc.floor_temporal(now, unit=made.unit).cast(kind)
            rows = rows.append_column(source.name, times)
        else:
            times = pa.nulls(rows.num_rows, kind)
        rows = rows.append_column(column.name, generated_values(made, times))
    return rows
