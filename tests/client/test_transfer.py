"""The choice of the transfer service, for accounts that lack some of the services."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.receipt import Receipt
from odps_nb.errors import (
    AccessDeniedError,
    ArgumentError,
    InvalidRequestError,
    NoStorageApiError,
    NotFoundError,
    OdpsNbError,
    OdpsNbWarning,
)
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import Transfer
from tests.support.compat.recorder import Recorded, Recorder, recording
from tests.support.service.connecting import connected
from tests.support.watcher import Watcher

FORMS = ("not-found", "no-permission", "quota", "no-path", "region")
#: The services of an account, and the services that refuse its requests.
ACCOUNTS = {
    "tunnel": (Transfer.STORAGE, Transfer.STORAGE_V1),
    "storage-v1,tunnel": (Transfer.STORAGE,),
}
CASES = [("tunnel", form) for form in FORMS] + [("storage-v1,tunnel", "not-found")]
MINE = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def read(odps: Connection) -> None:
    assert odps.table("t").read().to_arrow().num_rows >= 3


def result(odps: Connection) -> None:
    assert odps.sql("select max(id) as top from t").to_arrow().to_pylist() == [{"top": 3}]


def write(odps: Connection) -> None:
    assert odps.table("t").write(MINE).rows == 3


OPERATIONS: dict[str, Callable[[Connection], object]] = {
    "read": read,
    "result": result,
    "write": write,
}


@pytest.fixture(scope="module")
def account() -> Iterator[Callable[[str, str], LocalService]]:
    """Return a service with these transfer services and this form of refusal."""
    running: dict[tuple[str, str], LocalService] = {}
    with ExitStack() as stack:

        def get(services: str, form: str = "not-found") -> LocalService:
            if (services, form) not in running:
                options = ("--services", services, "--form", f"refusal={form}")
                service = stack.enter_context(start(samples=False, options=options))
                with connected(service, transfer="tunnel") as odps:
                    odps.create_table("t", "id bigint")
                    odps.create_table("parts", "id bigint", partitioned_by="p string")
                    odps.table("t").write(MINE)
                running[services, form] = service
            return running[services, form]

        yield get


class Watched:
    """A connection through a proxy that records the requests."""

    def __init__(self, service: LocalService, stack: ExitStack, **more: Any) -> None:
        self._recorder: Recorder = stack.enter_context(recording(service.tunnel_endpoint))
        endpoints = {"endpoint": self._recorder.endpoint, "tunnel_endpoint": self._recorder.base}
        self.odps = stack.enter_context(connected(service, **{**endpoints, **more}))

    def sent(self) -> dict[Transfer, list[Recorded]]:
        """Return the requests since the last call, by service."""
        found: dict[Transfer, list[Recorded]] = {one: [] for one in Transfer}
        for request in self._recorder.take():
            if request.path.startswith("/api/storage/v1/"):
                found[Transfer.STORAGE_V1].append(request)
            elif request.path.startswith("/api/storage/"):
                found[Transfer.STORAGE].append(request)
            elif not request.path.startswith("/api/"):
                found[Transfer.TUNNEL].append(request)
        return found


@pytest.fixture
def watched() -> Iterator[Callable[..., Watched]]:
    with ExitStack() as stack:
        yield lambda service, **more: Watched(service, stack, **more)


@pytest.mark.parametrize("services", ["storage", *ACCOUNTS])
def test_every_request_to_a_transfer_service_names_the_quota(
    account: Callable[[str, str], LocalService], watched: Callable[..., Watched], services: str
) -> None:
    """As in pyodps, in sessions and in requests for rows; also with a given tunnel_endpoint."""
    one = watched(account(f"{services},tunnel" if services == "storage" else services), quota="q")
    for operation in OPERATIONS.values():
        operation(one.odps)
    requests = [request for found in one.sent().values() for request in found]
    assert len(requests) > 5
    assert {dict(request.params).get("quotaName") for request in requests} == {"q"}


# -- with auto ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("services", "form"), CASES)
@pytest.mark.gate(6)
def test_after_the_first_operation_falls_back_the_connection_keeps_the_fallback(
    account: Callable[[str, str], LocalService],
    watched: Callable[..., Watched],
    caplog: pytest.LogCaptureFixture,
    services: str,
    form: str,
    operation: str,
) -> None:
    one = watched(account(services, form))
    refused = ACCOUNTS[services] if operation != "result" else (Transfer.STORAGE,)
    with caplog.at_level(logging.INFO, "odps_nb"):
        OPERATIONS[operation](one.odps)
        first = one.sent()
        OPERATIONS[operation](one.odps)
        second = one.sent()
    for service in refused:
        assert {request.status for request in first[service]} <= {400, 403, 404}
        assert first[service], service
        assert not second[service], service
    assert one.odps._storage.transfer.refusals.keys() == {*refused}
    told = [line for line in caplog.messages if "rows are transferred by" in line]
    assert len(told) == 1
    for service in refused:
        assert told[0].count(f"the {service} refused: ") == 1


@pytest.mark.parametrize("services", ACCOUNTS)
def test_every_later_operation_uses_the_service_that_the_first_one_found(
    account: Callable[..., LocalService], watched: Callable[..., Watched], services: str
) -> None:
    one = watched(account(services))
    read(one.odps)
    one.sent()
    for operation in OPERATIONS.values():
        operation(one.odps)
    sent = one.sent()
    assert not any(sent[service] for service in ACCOUNTS[services])
    assert sent[Transfer.TUNNEL]  # at least the result was read


def test_with_all_services_no_request_is_refused(
    account: Callable[..., LocalService], watched: Callable[..., Watched]
) -> None:
    one = watched(account("storage,storage-v1,tunnel"))
    for operation in OPERATIONS.values():
        operation(one.odps)
    sent = one.sent()
    assert sent[Transfer.STORAGE]
    assert not sent[Transfer.STORAGE_V1]
    assert not sent[Transfer.TUNNEL]
    assert one.odps._storage.transfer.reason is None


@pytest.mark.parametrize(
    ("services", "used"),
    [("tunnel", Transfer.TUNNEL), ("storage-v1,tunnel", Transfer.STORAGE_V1)],
)
def test_a_receipt_and_the_progress_name_the_service_and_the_reason(
    account: Callable[..., LocalService], services: str, used: Transfer
) -> None:
    watcher = Watcher()
    with connected(account(services)) as odps:
        scan = odps.table("t").read()
        scan.to_arrow(progress=watcher)
        told = [event for event in watcher.last.events if f"transferred by the {used}" in event]
        assert len(told) == 1
        assert "the Storage API refused: NoSuchObject: " in told[0]
        receipt: Receipt = odps.table("t").write(MINE)
        assert receipt.transfer is used
        assert f"added in {odps.table('t').name} by the {used}; " in repr(receipt)


# -- transfer= ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["read", "write"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.gate(4)
def test_with_transfer_storage_the_error_names_each_service_that_refused(
    account: Callable[[str, str], LocalService],
    watched: Callable[..., Watched],
    form: str,
    operation: str,
) -> None:
    one = watched(account("tunnel", form), transfer="storage")
    with pytest.raises(NoStorageApiError) as caught:
        OPERATIONS[operation](one.odps)
    sent = one.sent()
    assert not sent[Transfer.TUNNEL]
    text = str(caught.value)
    for service in ACCOUNTS["tunnel"]:
        assert f"{service}: " in text
        codes = {one.answer_json.get("Code") or f"HTTP {one.status}" for one in sent[service]}
        assert any(code in text for code in codes)
        ids = {one.answer_headers.get("x-odps-request-id") for one in sent[service]}
        assert ids == {None} or any(f"request id {one}" in text for one in ids)
    assert "open storage" in (caught.value.hint or "")


def test_with_transfer_storage_results_are_not_read_without_the_storage_api(
    account: Callable[..., LocalService], watched: Callable[..., Watched]
) -> None:
    one = watched(account("tunnel"), transfer="storage")
    found = one.odps.sql("select max(id) as top from t")
    # The control plane returns the first rows as text, without a transfer service.
    with pytest.warns(OdpsNbWarning, match="read as text"):
        assert found.to_arrow().to_pylist() == [{"top": "3"}]
    assert not one.sent()[Transfer.TUNNEL]


@pytest.mark.parametrize("services", [*ACCOUNTS, "storage,storage-v1,tunnel"])
def test_with_transfer_tunnel_nothing_is_sent_to_the_storage_api(
    account: Callable[..., LocalService], watched: Callable[..., Watched], services: str
) -> None:
    one = watched(account(services), transfer="tunnel")
    for operation in OPERATIONS.values():
        operation(one.odps)
    one.odps.table("t").head(2)
    parts = pa.table({"id": [1, 2], "p": ["a", "b"]})
    one.odps.table("parts").write(parts)
    sent = one.sent()
    assert sent[Transfer.TUNNEL]
    assert not sent[Transfer.STORAGE]
    assert not sent[Transfer.STORAGE_V1]


def test_an_unknown_choice_is_refused(account: Callable[..., LocalService]) -> None:
    with pytest.raises(ArgumentError) as caught:
        connected(account("tunnel"), transfer="v2")
    assert caught.value.hint == "use 'auto', 'storage' or 'tunnel'"


# -- errors that do not concern the service -----------------------------------------------------


def missing_table(odps: Connection) -> None:
    odps.table("nothing_here").read().to_arrow()


OWN: dict[str, tuple[Callable[[Connection], object], type[OdpsNbError]]] = {
    "missing table": (missing_table, NotFoundError),
    "missing table of a write": (
        lambda odps: odps.table("nothing_here").write(MINE),
        NotFoundError,
    ),
    "missing partition": (
        lambda odps: odps.table("parts").read(partitions="p=none").to_arrow(),
        NotFoundError,
    ),
    "missing column": (lambda odps: odps.table("t").read(columns=["nope"]).to_arrow(), OdpsNbError),
    "wrong partition key": (
        lambda odps: odps.table("parts").read(partitions="q=1").to_arrow(),
        OdpsNbError,
    ),
    "partition of a plain table": (
        lambda odps: odps.table("t").write(MINE, partition="p=1"),
        OdpsNbError,
    ),
}


def refused(odps: Connection, operation: Callable[[Connection], object]) -> tuple[type, str | None]:
    with pytest.raises(OdpsNbError) as caught:
        operation(odps)
    return type(caught.value), getattr(caught.value, "code", None)


@pytest.mark.parametrize("case", OWN)
@pytest.mark.parametrize("services", ACCOUNTS)
@pytest.mark.gate(4)
def test_an_error_of_a_request_is_the_same_for_every_service_and_does_not_change_the_choice(
    account: Callable[..., LocalService],
    watched: Callable[..., Watched],
    services: str,
    case: str,
) -> None:
    operation, kind = OWN[case]
    with connected(account("storage,storage-v1,tunnel")) as everything:
        expected = refused(everything, operation)
        assert not everything._storage.transfer.refusals
    assert issubclass(expected[0], kind)
    one = watched(account(services))
    assert refused(one.odps, operation) == expected
    # The first operation fails, so it does not show whether the account has the service.
    assert not one.odps._storage.transfer.refusals
    read(one.odps)
    assert one.odps._storage.transfer.refusals.keys() == {*ACCOUNTS[services]}
    assert refused(one.odps, operation) == expected
    assert one.odps._storage.transfer.refusals.keys() == {*ACCOUNTS[services]}


KEYS = {"owner": "o-secret", "reader": "r-secret", "analyst": "a-secret"}
RIGHTS = {"reader": {"ours": "read"}, "analyst": {"ours": "query"}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, LocalService]]:
    """Services with keys that have limited permissions, by their transfer services."""
    path = tmp_path_factory.mktemp("keys") / "credentials.json"
    path.write_text(json.dumps({"keys": KEYS, "rights": RIGHTS}))
    path.chmod(0o600)
    found: dict[str, LocalService] = {}
    with ExitStack() as stack:
        for services in ("storage,storage-v1,tunnel", *ACCOUNTS):
            options = ("--services", services, "--credentials", str(path))
            service = start(samples=False, project="ours", options=options)
            found[services] = stack.enter_context(service)
            with as_key(service, "owner") as owner:
                owner.create_table("t", MINE)
                owner.create_table("parts", "id bigint", partitioned_by="p string")
        yield found


@pytest.mark.parametrize("services", ACCOUNTS)
def test_a_missing_permission_for_an_object_named_like_a_service_is_no_missing_service(
    guarded: dict[str, LocalService], services: str
) -> None:
    with as_key(guarded[services], "analyst", project="tenant_region") as odps:
        assert refused(odps, OPERATIONS["read"]) == (AccessDeniedError, "NoPermission")


def as_key(service: LocalService, name: str, **more: Any) -> Connection:
    return connected(service, access_id=name, access_key=KEYS[name], **more)


@pytest.mark.parametrize(("key", "operation"), [("reader", "write"), ("analyst", "read")])
@pytest.mark.parametrize("services", ACCOUNTS)
def test_a_missing_permission_raises_the_same_error_and_does_not_change_the_choice(
    guarded: dict[str, LocalService], services: str, key: str, operation: str
) -> None:
    with as_key(guarded["storage,storage-v1,tunnel"], key) as everything:
        expected = refused(everything, OPERATIONS[operation])
        assert not everything._storage.transfer.refusals
    assert expected == (AccessDeniedError, "NoPermission")
    with as_key(guarded[services], key) as odps:
        for _ in range(2):
            assert refused(odps, OPERATIONS[operation]) == expected
        assert not odps._storage.transfer.refusals
    with as_key(guarded[services], key, transfer="tunnel") as odps:
        assert refused(odps, OPERATIONS[operation]) == expected


# -- operations that need the Storage API --------------------------------------------------------


def changes(odps: Connection) -> None:
    odps.table("t").read(since=1).to_arrow()


def blobs(odps: Connection) -> None:
    odps.table("pictures").read().to_arrow()


def write_blob(odps: Connection) -> None:
    odps.table("pictures").write(pa.table({"id": [1], "picture": [b"x"]}))


@pytest.mark.parametrize("operation", [changes, blobs, write_blob])
@pytest.mark.parametrize("transfer", ["auto", "tunnel"])
@pytest.mark.parametrize("services", ACCOUNTS)
def test_errors_for_blobs_and_changes_name_the_missing_service(
    account: Callable[..., LocalService],
    services: str,
    transfer: str,
    operation: Callable[[Connection], object],
) -> None:
    with connected(account(services), transfer=transfer) as odps:
        if not odps.table("pictures").exists():
            odps.create_table("pictures", "id bigint, picture blob")
        if not odps.table("changed").exists():
            odps.create_table("changed", "id bigint not null", primary_key=["id"])
        for _ in range(2):
            with pytest.raises(NoStorageApiError) as caught:
                operation(odps)
            hint = caught.value.hint or ""
            assert "open storage" in hint or "transfer='auto'" in hint
        read(odps)  # an error of one operation does not affect others


def test_the_other_columns_of_a_table_with_a_blob_are_read_by_the_tunnel(
    account: Callable[..., LocalService],
) -> None:
    with connected(account("tunnel")) as odps:
        odps.create_table("beside", "id bigint, picture blob")
        assert odps.table("beside").read(columns=["id"]).to_arrow().schema.names == ["id"]


# -- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("services", ACCOUNTS)
def test_a_result_is_limited_if_the_key_may_only_query(
    guarded: dict[str, LocalService], services: str
) -> None:
    with as_key(guarded[services], "analyst") as odps:
        found = odps.sql("select id from t order by id limit 3").to_arrow()
        assert found.column("id").to_pylist() == [1, 2, 3]


def test_a_statement_without_a_result_has_no_rows(account: Callable[..., LocalService]) -> None:
    with connected(account("tunnel")) as odps:
        found = odps.sql("create table if not exists t (id bigint)").to_arrow()
        assert (found.num_rows, found.num_columns) == (0, 0)


def test_a_missing_instance_keeps_the_choice(account: Callable[..., LocalService]) -> None:
    with connected(account("tunnel")) as odps:
        with pytest.raises((NotFoundError, InvalidRequestError)):
            odps.result("20261128000000000gnothing").to_arrow()
        assert not odps._storage.transfer.refusals
