"""``overwrite="all"``: drops the old partitions that received no rows, after the commit.

An overwriting session replaces the partitions that receive rows; for the other partitions, see
``docs/open-questions.md``. A failure between commit and drop leaves old partitions, but loses no
rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.checks import Overwrite
from odps_nb.errors import OdpsNbError
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from odps_nb.access.writing.sources import Target
    from odps_nb.client.calls.storage import StorageClient

_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """The partitions that a table had before ``overwrite="all"``; empty for other writes."""

    table: TableName
    partitions: tuple[PartitionSpec, ...] = ()

    @classmethod
    def of(cls, storage: StorageClient, target: Target, overwrite: Overwrite) -> Remainder:
        """List the partitions that may have to be dropped, if ``overwrite`` is ``"all"``."""
        if overwrite != "all" or not target.columns.partition_columns:
            return cls(table=target.table)
        from odps_nb.client.catalog import iter_partitions

        infos = iter_partitions(storage, target.table, target.fixed)
        return cls(table=target.table, partitions=tuple(info.spec.checked() for info in infos))

    def drop(self, storage: StorageClient, written: Iterable[PartitionSpec]) -> None:
        """Drop the partitions that received no rows, one statement each, after the commit."""
        from odps_nb.client.sql.definitions import drop_partition

        received = {_loose(spec) for spec in written}
        rest = [spec for spec in self.partitions if _loose(spec) not in received]
        for number, spec in enumerate(rest):
            try:
                drop_partition(storage, self.table, spec, if_exists=True)
            except OdpsNbError as error:
                error.add_note(
                    f"the rows are committed, but {len(rest) - number} old partitions remain"
                )
                error.hint = f"drop the remaining partitions (the first is {spec}), or write again"
                raise


def named_partitions(batch: pa.RecordBatch, target: Target) -> set[PartitionSpec]:
    """Return the partitions named in a batch's rows; empty if ``target`` fixes all levels."""
    keys = [column.name for column in target.columns.partition_columns]
    if not keys:
        return set()
    rows = pa.Table.from_batches([batch]).select(keys).group_by(keys).aggregate([]).to_pylist()
    named = (((key, str(row[key])) for key in keys) for row in rows)
    return {PartitionSpec((*target.fixed, *pairs)) for pairs in named}


def _loose(spec: PartitionSpec) -> frozenset[tuple[str, str]]:
    """Return a key that is equal for all spellings of one partition."""
    return frozenset((key.casefold(), _loose_value(value)) for key, value in spec)


def _loose_value(value: str) -> str:
    text = value.strip().casefold()
    return str(int(text)) if _WHOLE_NUMBER.fullmatch(text) else text
