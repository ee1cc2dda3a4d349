"""Incremental reads of table versions: bounds, request options, and the change in each row.

Tables with a primary key support the modes ``append`` and ``cdc``, which return one split per
changed bucket, and system columns (C++ client's live tests TestIncrementalReadOptions*). Other
tables support the modes ``version`` and ``timestamp``, which are documented but untested.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ArgumentError, FramingError, shown
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import SplitMode

Bound = SupportsIndex | datetime.date | str
"""A version number, or a time in the project's time zone."""

CHANGE = Column(name="_change", type=PrimitiveType(TypeCode.STRING), nullable=False)
"""The column that names each row's kind of change."""
OPERATION_TYPE = Column(name="__meta_op_type", type=PrimitiveType(TypeCode.TINYINT))
WORDS = {2: "insert", 4: "delete", 8: "update", 16: "update_before", 32: "update_after"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """Versions after ``start`` and up to ``end``; each bound is a number, or a time as text.

    If ``end`` is ``None``, the range ends at the newest version when the session is created.
    ``keyed``: whether the table has a primary key. ``changes``: whether to return every change;
    requires ``keyed``.
    """

    start: int | str
    end: int | str | None = None
    changes: bool = False
    keyed: bool = True

    def request(self) -> dict[str, Any]:
        """Return the `CreateReadSession` options that select these versions."""
        timed = isinstance(self.start, str)
        mode = "timestamp" if timed or isinstance(self.end, str) else "version"
        if self.keyed:
            mode = "cdc" if self.changes else "append"
        versions = [bound if isinstance(bound, int) else -1 for bound in (self.start, self.end)]
        times = [bound if isinstance(bound, str) else "-1" for bound in (self.start, self.end)]
        options = {
            "EnableIncrementalRead": True,
            "StartVersion": versions[0],
            "EndVersion": versions[1],
            "StartTimeStamp": times[0],
            "EndTimeStamp": times[1],
            "Mode": mode,
        }
        return {"incremental_read": True, "incremental_options": options}

    @property
    def split_mode(self) -> SplitMode | None:
        """The split mode that the service requires; ``None`` if any mode is allowed."""
        return SplitMode.BUCKET if self.keyed else None

    def check_start(self, latest: int) -> None:
        """Raise if the start is after the table's latest version (0 if unknown)."""
        if isinstance(self.start, int) and 0 < latest < self.start:
            raise ArgumentError(
                f"since is {self.start}, but the latest version of the table is {latest}",
                argument="since",
                hint="check whether the table was dropped and created again; if so, read all rows",
            )

    def shown(self, schema: TableSchema) -> TableSchema:
        """Return the batches' schema, with `CHANGE` in place of the operation column."""
        if not self.changes:
            return schema
        return replace(schema, columns=(*schema.columns, CHANGE))


def on_the_wire(columns: Sequence[Column]) -> list[Column]:
    """Return the session's columns as streamed: with `OPERATION_TYPE` in place of `CHANGE`."""
    return [OPERATION_TYPE if column.name == CHANGE.name else column for column in columns]


def names_on_the_wire(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the session's columns as they are in the stream; see `on_the_wire`."""
    return tuple(OPERATION_TYPE.name if name == CHANGE.name else name for name in names)


def in_words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Replace each row's operation code with the name of the change."""
    index = batch.schema.get_field_index(OPERATION_TYPE.name)
    if index < 0:  # the column was not requested
        return batch
    numbers = batch.column(index)
    positions = pc.index_in(numbers, value_set=pa.array(list(WORDS), pa.int8()))
    if positions.null_count:
        unknown = numbers.filter(positions.is_null())[0].as_py()
        raise FramingError(f"a row has the unknown operation code {unknown!r}")
    words = pa.array(list(WORDS.values()), pa.string()).take(positions)
    return batch.set_column(index, pa.field(CHANGE.name, pa.string(), nullable=False), words)


def plan_increment(
    since: Bound | None, until: Bound | None, *, changes: bool, keyed: bool, names: Sequence[str]
) -> Increment:
    """Validate ``since``, ``until`` and ``changes``; return the increment to read."""
    if changes and not keyed:
        raise ArgumentError(
            "changes=True needs a table with a primary key",
            code="NoPrimaryKey",
            hint="omit changes=: read(since=…) returns the rows that were added",
        )
    if changes and CHANGE.name in {name.casefold() for name in names}:
        raise ArgumentError(
            f"changes=True adds a column {CHANGE.name!r}, but the table already has one",
            hint="read without changes=True, or rename the column",
        )
    start = 0 if since is None else _bound("since", since)
    end = None if until is None else _bound("until", until)
    backwards = isinstance(start, type(end)) and end is not None and end < start  # type: ignore[operator]
    if backwards:
        raise ArgumentError(
            f"until ({end}) is before since ({start})", hint="exchange them, or omit until="
        )
    now = datetime.datetime.now(datetime.UTC)
    latest = now + datetime.timedelta(days=1)  # no time zone is ahead of UTC by a whole day
    if isinstance(start, str) and start > latest.isoformat(" "):
        raise ArgumentError(
            f"since is {start}, which is in the future",
            argument="since",
            hint="pass the time of the last read, in the project's time zone",
        )
    return Increment(start=start, end=end, changes=changes, keyed=keyed)


def _bound(name: str, value: Bound) -> int | str:
    if hasattr(value, "__index__") and not isinstance(value, bool):
        with suppress(TypeError):  # raised for arrays
            version = operator.index(value)
            if version < 0:
                raise ArgumentError(
                    f"{name} is {version}; versions start at 0",
                    argument=name,
                    hint="pass Scan.latest_version of an earlier read",
                )
            if version < 2**63:
                return version
    moment = _moment(value)
    if moment is None:
        raise ArgumentError(
            f"{name} is {shown(value)}; it must be a version number or a time",
            hint=f"pass e.g. {name}=7, or {name}='2024-01-31 12:00:00'",
        )
    if moment.tzinfo is not None:
        raise ArgumentError(
            f"{name} has a time zone; it must be a naive time in the project's time zone",
            hint="convert it: .astimezone(zone).replace(tzinfo=None)",
        )
    return moment.isoformat(" ", "milliseconds")


def _moment(value: object) -> datetime.datetime | None:
    if isinstance(value, datetime.datetime):
        return value if value == value else None  # NaT
    if isinstance(value, datetime.date):
        return datetime.datetime.combine(value, datetime.time())
    try:
        return datetime.datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
