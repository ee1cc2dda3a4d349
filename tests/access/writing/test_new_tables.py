"""Requests for a table that this connection has just created are retried until it is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.client.calls.new_tables import WAIT_SECONDS, CreatedTable
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import NotFoundError, QueryError, ServiceError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import TableName
from odps_nb.wire.calls import WireRequest
from tests.support.clocks import Clock
from tests.support.named import NewName
from tests.support.service.connecting import connected

ROWS = pa.table({"id": [1, 2]})


class Account:
    """A connection and its clock; the service refuses requests by rules."""

    def __init__(self, service: LocalService, **more: str) -> None:
        self.odps, self.clock = connected(service, **more), Clock()
        self.odps._client = StorageClient(
            self.odps.profile, monotonic=self.clock, sleep=self.clock.sleep
        )
        self.rules: list[dict[str, object]] = []

    def hide(
        self, action: str, message: str = "ODPS-0130131:Table not found", **more: object
    ) -> None:
        rule = {"action": action, "fault": "status", "code": "NoSuchTable", "message": message}
        self.send("PUT", json.dumps({"rules": [rule | more]}).encode())

    def send(self, method: str, body: bytes | None = None) -> list[dict[str, int]]:
        wire = WireRequest(method=method, path="/misbehaviour", body=body)
        _, found = self.odps._storage.rest(wire)
        return json.loads(found)["rules"]

    @property
    def refused(self) -> int:
        return sum(rule["injected"] for rule in self.send("GET"))


@pytest.fixture(scope="module")
def service(_private_home: None) -> Iterator[LocalService]:
    with start(samples=False, options=("--misbehave",)) as service:
        yield service


@pytest.fixture
def account(service: LocalService) -> Iterator[Account]:
    account = Account(service)
    with account.odps:
        yield account
        account.send("DELETE")


def read(odps: Connection, name: str) -> object:
    return odps.table(name).read().to_arrow()


def write(odps: Connection, name: str) -> object:
    return odps.table(name).write(ROWS)


def describe(odps: Connection, name: str) -> object:
    return odps.table(name).schema


def query(odps: Connection, name: str) -> object:
    return odps.sql(f"select * from {name}").to_arrow()


USES = {
    "its description": ("auto", "/api/projects/{project}/tables/{name}", describe),
    "a read session": ("auto", "TableCreateReadSession", read),
    "a write session": ("auto", "TableCreateWriteSession", write),
    "a download session": ("tunnel", "/projects/{project}/tables/{name}", read),
    "a query": ("auto", "/api/projects/{project}/instances", query),
}
MESSAGE = "ODPS-0130131:[1,15] Table not found - table {project}.{name} cannot be resolved"


@pytest.fixture(params=USES)
def use(
    request: pytest.FixtureRequest, service: LocalService, new_name: NewName
) -> Iterator[tuple[Account, Callable[[], object], Callable[..., None]]]:
    """An account with a new table, a function that uses it, and a function that hides it."""
    transfer, action, do = USES[request.param]
    account, name = Account(service, transfer=transfer), new_name("fresh")
    facts = {"project": account.odps.profile.project, "name": name}
    with account.odps as odps:
        odps.create_table(name, "id bigint")

        def hide(**more: object) -> None:
            account.hide(action.format(**facts), MESSAGE.format(**facts), **more)

        yield account, lambda: do(odps, name), hide
        account.send("DELETE")
        odps.drop_table(name, if_exists=True)


def test_a_new_table_is_requested_until_it_is_found(use) -> None:
    account, do, hide = use
    hide(times=4)
    before = account.clock.now
    do()
    assert account.refused == 4
    assert 1 < account.clock.now - before < 10


def test_a_new_table_that_is_never_found_raises_the_original_error(use) -> None:
    account, do, hide = use
    hide(times=0)
    before = account.clock.now
    with pytest.raises((NotFoundError, QueryError), match=r"Table not found") as caught:
        do()
    assert WAIT_SECONDS * 0.9 < account.clock.now - before <= WAIT_SECONDS
    assert 8 < account.refused < 40
    assert any("this connection created" in note for note in caught.value.__notes__)
    before = account.clock.now
    with pytest.raises((NotFoundError, QueryError)):
        do()
    assert account.clock.now == before


def test_a_missing_table_of_another_connection_is_reported_immediately(
    account: Account, service: LocalService, new_name: NewName
) -> None:
    name = new_name("theirs")
    with connected(service) as other:
        other.create_table(name, "id bigint")
        account.hide(f"/api/projects/{other.profile.project}/tables/{name}", times=0)
        before = account.clock.now
        with pytest.raises(NotFoundError) as caught:
            describe(account.odps, name)
        assert (account.clock.now, account.refused) == (before, 1)
        assert caught.value.hint == (
            f"try again in a minute: the project lists {name}, but this service does not find it"
        )
        other.drop_table(name)


@pytest.mark.parametrize(
    "drop",
    [
        lambda own, other, name: own.drop_table(name),
        lambda own, other, name: own.sql(f"DROP TABLE IF EXISTS {name}"),
        lambda own, other, name: other.drop_table(name),
    ],
    ids=["drop_table", "SQL", "another connection, after it was found"],
)
def test_a_dropped_table_is_reported_as_missing_immediately(
    account: Account, service: LocalService, new_name: NewName, drop
) -> None:
    name = new_name("dropped")
    table = account.odps.create_table(name, "id bigint")
    assert table.exists()
    before = account.clock.now
    with connected(service) as other:
        drop(account.odps, other, name)
    assert not table.exists()
    with pytest.raises(NotFoundError) as caught:
        describe(account.odps, name)
    assert account.clock.now == before
    assert not any("this connection created" in note for note in caught.value.__notes__)


def test_a_missing_partition_of_a_new_table_is_reported_immediately(
    account: Account, new_name: NewName
) -> None:
    table = account.odps.create_table(new_name("parts"), "id bigint", partitioned_by="ds string")
    before = account.clock.now
    assert not table.exists("ds=1")
    assert account.clock.now == before
    account.odps.drop_table(table.name)


@pytest.mark.parametrize(
    ("code", "message", "missing"),
    [
        ("NoSuchTable", "no", True),
        ("NoSuchObject", "the table fresh does not exist", True),
        ("NoSuchObject", "the requested resource does not exist", False),  # an unknown URL
        ("NoSuchPartition", "partition ds=1 of fresh does not exist", False),
        ("NoSuchProject", "ODPS-0420111: Project not found - 'q'", False),
        (None, 'ODPS-0110061: Failed to run ddltask - Table not found - "p" "fresh"', True),
        (None, "ODPS-0110061: Failed to run ddltask - fresh has the partition already", False),
        ("NoPermission", "no right to read fresh", False),
    ],
)
def test_only_an_error_that_says_that_the_table_is_missing_is_retried(code, message, missing):
    clock = Clock()
    table = CreatedTable(TableName(project="p", table="fresh"), clock.now, clock)
    assert table.is_missing(ServiceError(message, code=code)) is missing
