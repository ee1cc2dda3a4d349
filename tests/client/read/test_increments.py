"""Rows that some versions of a table added, and sessions that are reopened by their id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.plan import ReadPlan, ReadSession
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.reading import open_read_session, reopen_read_session
from odps_nb.errors import ArgumentError, ConflictError, SessionExpiredError
from odps_nb.terms import TableName
from tests.support.named import NewName

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.storage_api("versions")


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> TableName:
    """A table with four versions, of which the third replaced all rows."""
    made = odps.create_table(new_name("grown"), "id bigint, note string")
    for number in range(4):
        rows = pa.table({"id": [number], "note": [str(number)]})
        made.write(rows, overwrite=number == 2)
    return made.name


def ids(odps: Connection, session: ReadSession) -> list[int]:
    with StorageClient(odps.profile) as storage:
        batches = iter_batches(storage, session)
        return [value for batch in batches for value in batch.column("id").to_pylist()]


def test_the_rows_of_some_versions_are_read(odps: Connection, table: TableName) -> None:
    with StorageClient(odps.profile) as storage:
        session = open_read_session(storage, ReadPlan(table=table, versions=(3, 4)))
        assert (session.row_count, session.latest_version) == (1, 4)
        nothing = open_read_session(storage, ReadPlan(table=table, versions=(4, 4)))
        assert (nothing.splits, nothing.latest_version) == ((), 4)
    assert ids(odps, session) == [3]


def test_versions_that_replaced_rows_are_refused_or_skipped(
    odps: Connection, table: TableName
) -> None:
    with StorageClient(odps.profile) as storage:
        with pytest.raises(ConflictError, match=r"version 3 .* replaced rows") as caught:
            open_read_session(storage, ReadPlan(table=table, versions=(2, 4)))
        assert "only added rows" in str(caught.value.hint)
        session = open_read_session(
            storage, ReadPlan(table=table, versions=(2, 4), appends_only=True)
        )
    assert ids(odps, session) == [3]


def test_a_range_of_versions_whose_end_precedes_its_start_is_refused(table: TableName) -> None:
    with pytest.raises(ArgumentError, match="must be in ascending order"):
        ReadPlan(table=table, versions=(4, 3))


def test_a_session_is_opened_again_with_the_same_rows(odps: Connection, table: TableName) -> None:
    plan = ReadPlan(table=table, columns=("id",), partition_columns=(), splits=2)
    with StorageClient(odps.profile) as storage:
        opened = open_read_session(storage, plan)
        odps.table(str(table)).write(pa.table({"id": [9], "note": ["later"]}))
        again = reopen_read_session(storage, plan, opened.session_id)
        assert (again.splits, again.schema) == (opened.splits, opened.schema)
        with pytest.raises(SessionExpiredError):
            reopen_read_session(storage, plan, "never-was")
    assert ids(odps, again) == [2, 3]
