"""Values of a write: its session, its closed streams, and the operation of each row.

Rows of a primary-key table carry ``__operation`` (int8): 85 upserts a row, 68 deletes it; the last
row of a key in a stream wins (live tests of the Python SDK: test_delta_table_record_writer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ArgumentError
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from odps_nb.wire.schema_json import WriteSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionRef:
    """Identifies a write session in another process; may be pickled."""

    table: TableName
    session_id: str
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    route_token: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReceipt:
    """A closed stream, as a commit needs it; may be pickled. ``size`` is in bytes of Arrow."""

    stream_id: str
    version: int
    rows: int
    size: int


OPERATION = "__operation"
UPSERT, DELETE = ord("U"), ord("D")


def takes_operation(schema: WriteSchema) -> bool:
    """Return whether rows of this stream must have the operation column.

    It may be listed with the system or the data columns: the Python SDK looks in both.
    """
    listed = (*schema.schema.columns, *schema.system_columns)
    return any(column.name == OPERATION for column in listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Adds the operation column to batches of a write; may be pickled."""

    operation: int | None = None
    """`UPSERT` or `DELETE`, for all rows; ``None``: append, or upsert where the table has a key."""
    flag: str | None = None
    """A boolean column of the rows, not of the table: where it is true the row is deleted."""

    def put(self, batch: pa.RecordBatch, schema: WriteSchema) -> pa.RecordBatch:
        """Return the batch with the operation column where the stream has it."""
        if not takes_operation(schema):
            if self.operation is None:
                return batch
            raise ArgumentError(
                "the service takes no upserts and deletes for this table: its write stream has no "
                f"column {OPERATION!r}",
                hint="only tables with a primary key take them; write() adds rows to others",
            )
        operation = UPSERT if self.operation is None else self.operation
        operations: pa.Array = pa.repeat(pa.scalar(operation, pa.int8()), batch.num_rows)
        if self.flag is not None:
            deleted = pc.fill_null(batch.column(self.flag), fill_value=False)
            batch = batch.select([name for name in batch.schema.names if name != self.flag])
            gone = pa.repeat(pa.scalar(DELETE, pa.int8()), batch.num_rows)
            operations = pc.if_else(deleted, gone, operations)
        names = [column.name for column in schema.schema.columns]
        place = names.index(OPERATION) if OPERATION in names else batch.num_columns
        return batch.add_column(place, pa.field(OPERATION, pa.int8()), operations)
