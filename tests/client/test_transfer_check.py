"""Checks over real sockets which transfer services an account has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.sql.query import run_sql
from odps_nb.client.transfer_check import (
    MAX_TABLES,
    CheckedTable,
    check_transfers,
    choice_among,
    find_sample,
    sample_of,
)
from odps_nb.errors import NotFoundError
from odps_nb.terms import PartitionSpec, Transfer, TransferMode
from tests.support.service.services import ALL, Pool


@pytest.fixture
def account(service_pool: Pool) -> Iterator[Callable[[str], StorageClient]]:
    """Return a function that returns a client of an account with these transfer services."""
    with ExitStack() as stack:

        def client(names: str) -> StorageClient:
            service = service_pool.get(options=("--services", names))
            keys = {"access_id": service.access_id, "access_key": service.access_key}
            profile = Profile(endpoint=service.endpoint, project=service.project, **keys)
            return stack.enter_context(StorageClient(profile))

        yield client


def sample(storage: StorageClient, name: str) -> CheckedTable | None:
    return sample_of(storage, storage.profile.table(name))


def test_a_sample_has_a_plain_column_and_one_partition(
    account: Callable[[str], StorageClient],
) -> None:
    storage = account(ALL)
    media, orders = sample(storage, "media"), sample(storage, "orders")
    assert media is not None
    assert (media.column, media.blobs) == ("id", True)
    assert orders is not None
    assert orders.partition == PartitionSpec((("ds", "2024-01-01"),))
    with pytest.raises(NotFoundError):
        sample(storage, "nope")


def test_tables_without_blobs_and_partitions_are_preferred_and_unreadable_ones_skipped(
    account: Callable[[str], StorageClient],
) -> None:
    storage = account(ALL)
    for statement in (
        "create view if not exists a_view as select id from orders",
        "create table if not exists a_bare (a bigint) partitioned by (p string)",
    ):
        run_sql(storage, f"{statement};")
    assert sample(storage, "a_view") is None
    assert sample(storage, "a_bare") is None  # the tunnel needs a partition, and there is none

    def chosen(*names: str) -> str:
        found = find_sample(storage, names)
        return "" if found is None else found.table.table

    assert chosen("a_view", "nope", "media", "orders", "types_all") == "types_all"
    assert chosen("a_view", "media", "orders") == "orders"
    assert chosen("media", "a_bare") == "media"
    assert chosen("a_view", "nope") == ""
    assert chosen(*["nope"] * MAX_TABLES, "orders") == ""


@pytest.mark.parametrize("names", [ALL, "tunnel", "storage-v1,tunnel", "storage", "storage-v1"])
def test_only_the_services_of_the_account_open_a_session(
    account: Callable[[str], StorageClient], names: str
) -> None:
    storage = account(names)
    for table in ("orders", "types_all", "media"):
        found = sample(storage, table)
        assert found is not None
        checks = check_transfers(storage, found)
        assert [one.service for one in checks] == list(Transfer)
        assert {one.service.value for one in checks if one.ok} == set(names.split(","))
        assert all(one.missing for one in checks if not one.ok)
        assert all(" session of " in one.found for one in checks if one.ok)


def test_the_reported_choice_is_that_of_a_new_connection(
    account: Callable[[str], StorageClient],
) -> None:
    from odps_nb.access.connection import Connection

    for names in (ALL, "tunnel", "storage-v1,tunnel"):
        storage = account(names)
        found = sample(storage, "types_all")
        assert found is not None
        chosen = choice_among(check_transfers(storage, found), TransferMode.AUTO)
        with Connection(storage.profile) as odps:
            rows: pa.Table = odps.table("types_all").read(["row_name"], limit=1).to_arrow()
            assert (rows.num_rows, odps.transfer) == (1, str(chosen.service))


def test_the_transfer_choice_of_the_client_is_neither_used_nor_changed(
    account: Callable[[str], StorageClient],
) -> None:
    storage = account("tunnel")
    found = sample(storage, "types_all")
    assert found is not None
    check_transfers(storage, found)
    assert (storage.transfer.current, dict(storage.transfer.refusals)) == (Transfer.STORAGE, {})
