"""`RowFilter`: the condition of a read, applied to its batches."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.filters.evaluate import mask_of
from odps_nb.filters.literals import refuse
from odps_nb.filters.parse import parse_condition
from odps_nb.filters.sent import predicate_of
from odps_nb.filters.tree import (
    ColumnValue,
    Compare,
    Constant,
    IsIn,
    Node,
    PyValue,
    columns_of,
    nodes_of,
)
from odps_nb.schema import TableSchema, TypeCode
from odps_nb.terms import TimeUnit


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition on rows; a frozen value that can be pickled, and unpickled without sqlglot.

    ``columns`` are those that it needs, in the spelling and order of the table. ``predicate`` is
    the part that is sent to the service; empty where nothing can be sent.
    """

    text: str
    condition: Node
    columns: tuple[str, ...]
    predicate: str

    @classmethod
    def parse(
        cls,
        text: str,
        schema: TableSchema,
        *,
        timezone: str = "UTC",
        unit: TimeUnit | None = None,
    ) -> RowFilter:
        """Parse a condition over the columns of a table; see `odps_nb.filters.parse`.

        ``unit`` is the unit in which TIMESTAMPs arrive. Microseconds cannot be compared exactly
        with a time that has more digits, which is refused.
        """
        condition = parse_condition(text, schema, timezone=timezone)
        return cls.of(condition, schema, unit=unit, text=text)

    @classmethod
    def of(
        cls, condition: Node, schema: TableSchema, *, unit: TimeUnit | None = None, text: str = ""
    ) -> RowFilter:
        """Return the filter of a condition over the columns of a table; see `parse`."""
        if unit is TimeUnit.MICRO and any(map(_needs_nanoseconds, nodes_of(condition))):
            raise refuse(
                "it has a time in nanoseconds, and the times of this read have microseconds",
                "round the time: value.floor('us') of pandas, or .astype('datetime64[us]')",
            )
        needed = set(columns_of(condition))
        return cls(
            text=text,
            condition=condition,
            columns=tuple(name for name in schema.names if name in needed),
            predicate=predicate_of(condition, schema),
        )

    def apply(self, batch: pa.RecordBatch, keep: int | None = None) -> pa.RecordBatch:
        """Return the rows that satisfy the condition.

        Raises `ArgumentError`: a value for which the condition has no meaning.

        Parameters
        ----------
        batch
            Rows with the columns that the filter needs among others, in any order.
        keep
            How many columns to keep, from the first on; all by default.
        """
        mask = self._mask(batch)
        if keep is not None and keep < batch.num_columns:
            batch = batch.select(range(keep))
        wanted = pc.sum(mask).as_py() or 0
        if wanted == batch.num_rows:
            return batch
        return batch.filter(mask) if wanted else batch.slice(0, 0)

    def rows(self, batch: pa.RecordBatch) -> list[int]:
        """Return the numbers of the rows that satisfy the condition."""
        found: list[int] = pc.indices_nonzero(self._mask(batch)).to_pylist()
        return found

    def _mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        places = {name.casefold(): n for n, name in enumerate(batch.schema.names)}
        columns = {name: batch.column(places[name.casefold()]) for name in self.columns}
        return mask_of(self.condition, columns, batch.num_rows)


def _needs_nanoseconds(node: Node) -> bool:
    """Whether a column whose values may be cut to microseconds meets a time with more digits."""
    values: tuple[PyValue, ...] = ()
    if isinstance(node, Compare) and isinstance(node.right, Constant):
        column, values = node.left, (node.right.value,)
    elif isinstance(node, IsIn):
        column, values = node.value, node.among
    else:
        return False
    return (
        isinstance(column, ColumnValue)
        and column.code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
        and any(isinstance(value, int) and value % 1000 != 0 for value in values)
    )
