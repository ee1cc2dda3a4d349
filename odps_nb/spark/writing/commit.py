"""Limits of what a Spark write commits: the streams of the attempts that Spark counts.

What a failed, killed or late attempt wrote is in no commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odps_nb.errors import ArgumentError
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.write.operations import WriteSessionRef
    from odps_nb.spark.writing.task import Written

#: Streams of one session, and table partitions that one session makes out of the rows: what the
#: service's own connectors keep to.
MAX_STREAMS = 20_000
MAX_PARTITIONS = 512


def check_written(
    table: TableName, done: Sequence[Written], max_partitions: int = MAX_PARTITIONS
) -> None:
    """Refuse a commit of more streams or partitions than a session may have."""
    if len(done) > MAX_STREAMS:
        raise ArgumentError(
            f"{len(done)} tasks wrote into {table}; a session takes {MAX_STREAMS} streams",
            code="TooManyStreams",
            hint=f"write df.coalesce({MAX_STREAMS}), or lower spark.sql.shuffle.partitions",
        )
    named = {spec for one in done for spec in one.partitions}
    if len(named) > max_partitions:
        raise too_many_partitions(table, named, max_partitions)


def check_or_abort(
    storage: StorageClient, session: WriteSessionRef, done: Sequence[Written], max_partitions: int
) -> None:
    """Abort if `check_written` refuses, since Spark's `abort` does not for a complete write."""
    from odps_nb.client.write.session import abort_write

    try:
        check_written(session.table, done, max_partitions)
    except ArgumentError:
        abort_write(storage, session)
        raise


def too_many_partitions(table: TableName, named: set[str], limit: int) -> ArgumentError:
    """Return the refusal of rows that name more partitions than are allowed."""
    some = ", ".join(sorted(named)[:3])
    return ArgumentError(
        f"the rows belong to more than {limit} partitions of {table}: {some}, …",
        code="TooManyPartitions",
        hint="write fewer at a time (filter by partition, or name one with partition=); "
        "raise max_partitions if the service takes more",
    )
