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
    fixed: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    partitions: tuple[PartitionSpec, ...] = ()

    @classmethod
    def of(cls, storage: StorageClient, target: Target, overwrite: Overwrite) -> Remainder:
        """List the partitions that may have to be dropped, if ``overwrite`` is ``"all"``."""
        if overwrite != "all" or not target.columns.partition_columns:
            return cls(table=target.table)
        listed = _listed(storage, target.table, target.fixed)
        return cls(table=target.table, fixed=target.fixed, partitions=listed)

    def drop(self, storage: StorageClient, written: Iterable[PartitionSpec]) -> None:
        """Drop the partitions that received no rows, one statement each, after the commit."""
        from odps_nb.client.sql.definitions import drop_partition

        try:
            rest = self._without_rows(storage, set(written))
        except OdpsNbError as error:
            error.add_note("the rows are committed, but old partitions may remain")
            raise
        for number, spec in enumerate(rest):
            try:
                drop_partition(storage, self.table, spec, if_exists=True)
            except OdpsNbError as error:
                error.add_note(
                    f"the rows are committed, but {len(rest) - number} old partitions remain"
                )
                error.hint = f"drop the remaining partitions (the first is {spec}), or write again"
                raise

    def _without_rows(
        self, storage: StorageClient, written: set[PartitionSpec]
    ) -> list[PartitionSpec]:
        """Return the old partitions that received no rows.

        ``01`` and ``1``, or ``A`` and ``a``, may be two spellings of one partition or two
        partitions. They are two if the table now lists both.
        """
        received = {_exact(spec) for spec in written}
        rest = [spec for spec in self.partitions if _exact(spec) not in received]
        similar = {_loose(spec) for spec in written}
        if not any(_loose(spec) in similar for spec in rest):
            return rest
        listed = {_exact(spec) for spec in _listed(storage, self.table, self.fixed)}
        separate = {_loose(spec) for spec in written if _exact(spec) in listed}
        return [
            spec
            for spec in rest
            if _loose(spec) not in similar or (_loose(spec) in separate and _exact(spec) in listed)
        ]


def _listed(
    storage: StorageClient, table: TableName, under: PartitionSpec
) -> tuple[PartitionSpec, ...]:
    from odps_nb.client.catalog import iter_partitions

    return tuple(info.spec.checked() for info in iter_partitions(storage, table, under))


def named_partitions(batch: pa.RecordBatch, target: Target) -> set[PartitionSpec]:
    """Return the partitions named in a batch's rows; empty if ``target`` fixes all levels."""
    keys = [column.name for column in target.columns.partition_columns]
    if not keys:
        return set()
    rows = pa.Table.from_batches([batch]).select(keys).group_by(keys).aggregate([]).to_pylist()
    named = (((key, str(row[key])) for key in keys) for row in rows)
    return {PartitionSpec((*target.fixed, *pairs)) for pairs in named}


def _exact(spec: PartitionSpec) -> frozenset[tuple[str, str]]:
    """Return a key that ignores the order of the levels and the case of their names."""
    return frozenset((key.casefold(), value) for key, value in spec)


def _loose(spec: PartitionSpec) -> frozenset[tuple[str, str]]:
    """Return a key that is equal for all possible spellings of one partition."""
    return frozenset((key.casefold(), _loose_value(value)) for key, value in spec)


def _loose_value(value: str) -> str:
    text = value.strip().casefold()
    return str(int(text)) if _WHOLE_NUMBER.fullmatch(text) else text
