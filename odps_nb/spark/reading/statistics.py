"""Provides the row count of a DataFrame without reading it, and the size for Spark's planner.

PySpark cannot pass statistics to the planner, which assumes that a Python function's output is as
large as its input. So the input, one row per split, is padded to the table's size (`split_rows`).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.client.read.plan import ReadSession

#: Maximum size reported to the planner, and the size reported for a table of unknown size; Spark
#: never broadcasts a table of this size.
LARGEST = 8 << 30
_CELL = 8  # minimum bytes of a value in a Spark row; a number of `range` also has 8 bytes
#: Number of binary columns in `split_rows`; Spark counts each as 100 bytes per row.
_PADS = 10
_ROW = 8 + _CELL
#: Maximum size without binary columns, which cost each task 1 to 2 ms.
_UNPADDED = 1 << 20


def with_known_count(df: DataFrame, session: ReadSession) -> DataFrame:
    """Make ``df.count()`` return the row count that the session reported, if there is one.

    A cached DataFrame still counts its rows, because users fill the cache with ``count()``.
    """
    rows, this = session.row_count, weakref.ref(df)
    if rows is None:
        return df

    def count() -> int:
        """Return the row count of the read session; run a job only if the DataFrame is cached."""
        frame = this()
        if frame is not None and (frame.storageLevel.useMemory or frame.storageLevel.useDisk):
            return type(frame).count(frame)
        return rows

    vars(df)["count"] = count
    return df


def planned_size(session: ReadSession) -> int:
    """Return the size in bytes for Spark's planner; an overestimate if the size is uncertain.

    Spark broadcasts a small side of a join, so a large table must never look small.
    """
    rows = session.stored_rows if session.row_count is None else session.row_count
    least = (rows or 0) * _CELL * (1 + len(session.schema))
    widths = [TYPE_FACTS[column.type.code].width for column in session.schema]
    if rows is not None and all(widths):  # a wider value is stored in addition to its cell
        return min(LARGEST, least + rows * sum(width for width in widths if width > _CELL))
    if session.estimated_size is None:
        return LARGEST
    return min(LARGEST, max(session.estimated_size, least))


def split_rows(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Return one numbered row per split, each in its own partition, padded to ``size`` bytes.

    Spark estimates the size from extra ``range`` rows, which the JVM filters out: at most 17
    million rows, each taking a few nanoseconds. For a large table, columns of one byte increase the
    size of each row. They are not null, because Spark cannot send a null column to Python with
    ``spark.sql.execution.arrow.compression.codec=lz4``.
    """
    pads = [f"x'00' _{index}" for index in range(_PADS if size > _UNPADDED else 0)]
    step = max(1, -(-size * _ROW // (_CELL * (_ROW + 100 * len(pads)) * max(1, count))))
    numbers = spark.range(0, count * step, 1, max(1, count)).filter(f"id % {step} = 0")
    return numbers.selectExpr(f"id div {step} split", *pads)
