"""The count of a DataFrame before any row is read, and the size that Spark plans with.

PySpark cannot pass statistics to the planner, which takes a Python function's output to be as large
as its input. So the input, one row per split, is padded to the size of the table (`split_rows`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.client.read.plan import ReadSession

#: Spark broadcasts nothing larger, whatever its threshold: where nothing is known, and at most.
LARGEST = 8 << 30
_CELL = 8  # bytes of a value in a row of Spark's, at least; and of one number of `range`
#: Empty columns beside the number of a split: what Spark counts for each row of `split_rows`.
_PADS = 10
_ROW, _PADDED = 8 + _CELL, 8 + _CELL + 100 * _PADS


def with_known_count(df: DataFrame, session: ReadSession) -> DataFrame:
    """Let ``df.count()`` of this DataFrame return the row count of the session, if it is known.

    One that is to be cached counts its rows, since that is how users fill the cache.
    """
    rows, this = session.row_count, weakref.ref(df)
    if rows is None:
        return df

    def count() -> int:
        """Return the number of rows: the read session's, unless they are to be cached."""
        frame = this()
        if frame is not None and (frame.storageLevel.useMemory or frame.storageLevel.useDisk):
            return type(frame).count(frame)
        return rows

    vars(df)["count"] = count
    return df


def planned_size(session: ReadSession) -> int:
    """Return the size in bytes that Spark should plan with; overestimated if unsure.

    A join broadcasts the side that is small enough; a table that is not must never look so.
    """
    rows = session.stored_rows if session.row_count is None else session.row_count
    least = (rows or 0) * _CELL * (1 + len(session.schema))
    widths = [TYPE_FACTS[column.type.code].width for column in session.schema]
    if rows is not None and all(widths):  # what is wider than a cell is kept beside it
        return min(LARGEST, least + rows * sum(width for width in widths if width > _CELL))
    if session.estimated_size is None:
        return LARGEST
    return min(LARGEST, max(session.estimated_size, least))


def split_rows(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Return one row per split, its number, in a partition each, padded to that total size.

    Further columns are null and only look large. The rest is made up by numbers that the JVM counts
    and drops: 17 million, a few nanoseconds each, for a table too large for any broadcast.
    """
    step = max(1, -(-size * _ROW // (_CELL * _PADDED * max(1, count))))
    numbers = spark.range(0, count * step, 1, max(1, count)).filter(f"id % {step} = 0")
    pads = [f"cast(null as binary) _{index}" for index in range(_PADS)]
    return numbers.selectExpr(f"id div {step} split", *pads)
