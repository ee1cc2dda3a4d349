"""Statistics of a DataFrame before any row is read, its count, and the size that Spark plans with.

PySpark cannot pass statistics to the planner, which takes a Python function's output to be as large
as its input. So the input, one row per split, is padded to the size of the table (`split_rows`).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.errors import StateError
from odps_nb.terms import TableName
from odps_nb.type_facts import TYPE_FACTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.client.read.splits import ReadSession

_KEPT = "_odps_nb_facts"
#: Spark broadcasts nothing larger, whatever its threshold: where nothing is known, and at most.
LARGEST = 8 << 30
_CELL = 8  # bytes of a value in a row of Spark's, at least; and of one number of `range`
#: Empty columns beside the number of a split: what Spark counts for each row of `split_rows`.
_PADS = 10
_ROW, _PADDED = 8 + _CELL, 8 + _CELL + 100 * _PADS


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """Row count, size and expiry of a read session, as reported when it was opened.

    ``row_count`` is exact, or ``None`` with a filter. ``size_bytes`` is the service's estimate
    before any filter. ``expires_at`` is in seconds of the epoch.

    Examples
    --------
    >>> import odps_nb.spark
    >>> day = odps_nb.spark.read(spark, odps, "orders", partitions="ds=2024-01-01")
    >>> found = odps_nb.spark.facts(day)
    >>> str(found.table), found.splits > 0
    ('local.orders', True)
    """

    table: TableName
    session_id: str
    splits: int
    row_count: int | None = None
    size_bytes: int | None = None
    expires_at: float | None = None

    @classmethod
    def _of(cls, session: ReadSession) -> ReadFacts:
        """Take the statistics of an open session."""
        return cls(
            table=session.table,
            session_id=session.session_id,
            splits=len(session.splits),
            row_count=session.row_count,
            size_bytes=session.estimated_size,
            expires_at=session.expires_at,
        )


def facts(df: DataFrame) -> ReadFacts:
    """Return the statistics of a DataFrame of `odps_nb.spark.read`; no request, no job.

    Raises
    ------
    StateError
        The DataFrame was not made by a read, or was made from one: a filter, a selection.

    Examples
    --------
    >>> import odps_nb.spark
    >>> day = odps_nb.spark.read(spark, odps, "orders", partitions="ds=2024-01-01")
    >>> odps_nb.spark.facts(day).row_count == day.count()
    True
    """
    kept = vars(df).get(_KEPT)
    if not isinstance(kept, ReadFacts):
        raise StateError(
            "no statistics are known of this DataFrame",
            hint="ask the DataFrame that odps_nb.spark.read returned, not one made from it",
        )
    return kept


def attach_facts(df: DataFrame, session: ReadSession) -> DataFrame:
    """Attach the statistics that `facts` returns; return the same DataFrame."""
    vars(df)[_KEPT] = ReadFacts._of(session)
    return df


def count_from_facts(df: DataFrame) -> DataFrame:
    """Let ``df.count()`` of this DataFrame say the row count of the session, if it is known.

    One that is to be cached counts its rows, since that is how users fill the cache.
    """
    rows, this = facts(df).row_count, weakref.ref(df)
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
