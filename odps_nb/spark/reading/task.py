"""`read_split`: reads one split as Arrow batches in the schema that Spark expects, in a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.errors import ConversionError
from odps_nb.spark.progress.counting import TaskCounter, counted
from odps_nb.spark.reading.casting import select
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.terms import IndexSplit, RowRangeSplit, Split

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from odps_nb.client.read.plan import ReadSession

_EXPIRED = (
    "read the table again (odps_nb.spark.read, or load() of a new reader); a task never opens "
    "a new session, because it would read a different snapshot from the other tasks"
)


@dataclass(frozen=True, slots=True)
class SplitList:
    """All splits of a session; stored compactly, because the list is pickled with every task."""

    count: int
    rows: int | None = None  # total rows if the splits are equal ranges; None for splits by index
    others: tuple[Split, ...] = ()

    @classmethod
    def of(cls, splits: Sequence[Split]) -> SplitList:
        """Store only the row count if the splits are equal row ranges, otherwise all splits."""
        last = splits[-1] if splits else None
        rows = last.offset + last.count if isinstance(last, RowRangeSplit) else None
        even = cls(len(splits), rows)
        if all(even[number] == split for number, split in enumerate(splits)):
            return even
        return cls(len(splits), others=tuple(splits))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Split:
        if not 0 <= number < self.count:
            raise IndexError(number)
        if self.others:
            return self.others[number]
        if self.rows is None:
            return IndexSplit(number)
        offset, end = (self.rows * n // self.count for n in (number, number + 1))
        return RowRangeSplit(offset, end - offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """The parameters for reading any split of one session; ``session`` is stored without splits."""

    profile: TaskProfile
    session: ReadSession
    splits: SplitList
    counter: TaskCounter | None = None

    @classmethod
    def of(
        cls, profile: TaskProfile, session: ReadSession, *, counter: TaskCounter | None = None
    ) -> ReadTask:
        """Return the parameters for reading the splits of an open session."""
        return cls(
            profile=profile,
            session=dataclasses.replace(session, splits=()),
            splits=SplitList.of(session.splits),
            counter=counter,
        )


def read_split(
    task: ReadTask, number: int, schema: pa.Schema, *, expired: str = _EXPIRED
) -> Iterator[pa.RecordBatch]:
    """Read one split as batches of ``schema``; ``expired`` is the hint for an expired session."""
    from odps_nb.client.read.splits import iter_split
    from odps_nb.convert.references import present_batch

    split, table = task.splits[number], str(task.session.table)
    with (
        task_errors(f"{split} of {table}", expired=expired),
        counted(task.counter, part=number) as tracker,
        task.profile.open() as storage,
    ):
        for batch in iter_split(storage, task.session, split, tracker=tracker):
            yield select(present_batch(batch, task.session.schema), schema)


def require_types(asked: StructType, known: StructType) -> None:
    """Raise unless the requested schema has the table's types; Spark does not check this."""
    types = {field.name.casefold(): field.dataType.simpleString() for field in known.fields}
    pairs = {f.name: (types[f.name.casefold()], f.dataType.simpleString()) for f in asked.fields}
    wrong = [
        f"{name} is {has}, not {requested}"
        for name, (has, requested) in pairs.items()
        if has.casefold() != requested.casefold()
    ]
    if wrong:
        raise ConversionError(
            f"the schema that was passed does not fit the table: {'; '.join(wrong)}",
            hint="use the types of the table, and cast afterwards",
        )
