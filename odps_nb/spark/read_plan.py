"""What a DataFrame will read, checked against the table before anything is opened (floor 5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from odps_nb.access.checks import PartitionLike, check_columns, check_partitions
from odps_nb.errors import InvalidRequestError
from odps_nb.terms import Compression, TableName, TimeUnit

if TYPE_CHECKING:
    from odps_nb.client.read import ReadPlan
    from odps_nb.client.storage import StorageClient

__all__ = ["plan_read"]


def plan_read(
    storage: StorageClient,
    table: TableName,
    *,
    columns: Sequence[str] | None = None,
    partitions: PartitionLike | Iterable[PartitionLike] | None = None,
    where: str | None = None,
    limit: int | None = None,
    splits: int | None = None,
    split_bytes: int | None = None,
    compression: Compression = Compression.NONE,
) -> ReadPlan:
    """Return the plan; one request for the table's schema, where names must be checked.

    Raises
    ------
    NotFoundError
        No such table or column; close names are in the hint.
    InvalidRequestError
        An argument that makes no sense.
    """
    from odps_nb.client.catalog import fetch_table
    from odps_nb.client.read import ReadPlan

    if columns is not None and not len(columns):
        raise InvalidRequestError(
            "columns is empty", hint="name at least one, or leave it out for all"
        )
    schema = None if columns is None and not partitions else fetch_table(storage, table).schema
    wanted: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    if schema is not None and columns is not None:
        wanted = check_columns(columns, schema, table)
        keys = tuple(column.name for column in schema.partition_columns)
    return ReadPlan(
        table=table,
        columns=wanted,
        partition_columns=keys,
        partitions=() if schema is None else check_partitions(partitions, schema, table),
        where=where or None,
        limit=limit,
        splits=splits,
        split_bytes=split_bytes,
        compression=compression,
        timestamp_unit=TimeUnit.MICRO,  # Spark has no other
    )
