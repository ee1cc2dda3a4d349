"""Handles are pickled without credentials; each process uses its own credentials."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import dask
import pytest

import odps_nb
from odps_nb import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ConfigError, StateError
from tests.access import other_process_job as job
from tests.support.named import NewName
from tests.support.service.connecting import account_of

SECRETS = {
    "access_key": "SeCrEt-of-the-access-key",
    "sts_token": "SeCrEt-of-the-sts-token",
    "app_key": "SeCrEt-of-the-application",
}


@pytest.fixture
def keyed(service: Any) -> Iterator[Connection]:
    """Return a connection whose keys are not stored in a folder, like one to a real project."""
    with odps_nb.connect(**settings_of(service)) as found:
        yield found


def settings_of(service: Any) -> dict[str, str]:
    return account_of(service)


@pytest.fixture
def process() -> Iterator[ProcessPoolExecutor]:
    """Return a pool with one new process, which inherits no connection."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


def handles(odps: Connection) -> dict[str, Any]:
    opened = odps.table("orders").read(["id"], limit=3)
    opened.session_id  # noqa: B018
    return {
        "connection": odps,
        "table": odps.table("orders"),
        "scan": odps.table("orders").read(["id", "ds"], where="id = :x", params={"x": 1000001}),
        "opened scan": opened,
        "result": odps.sql("select 1 as one"),
        "first rows": odps.sql("select id from orders order by id limit 5").first(2),
        "blob": odps.table("media").blobs("content", limit=1)[0],
        "blobs": odps.table("media").blobs("content", limit=2),
    }


@pytest.mark.storage_api("blobs")
def test_unpickled_handles_use_the_same_connection_in_one_process(keyed: Connection) -> None:
    for name, handle in handles(keyed).items():
        for again in (pickle.loads(pickle.dumps(handle)), copy.deepcopy(handle), copy.copy(handle)):
            assert type(again) is type(handle), name
            assert repr(again) == repr(handle)
            if name in ("table", "scan", "opened scan", "result"):
                assert again.connection is keyed
    assert copy.copy(keyed) is copy.deepcopy(keyed) is pickle.loads(pickle.dumps(keyed)) is keyed
    assert pickle.loads(pickle.dumps(keyed.table("orders"))) == keyed.table("orders")


@pytest.mark.storage_api("blobs")
def test_no_pickle_contains_a_secret(service: Any, keyed: Connection) -> None:
    for handle in handles(keyed).values():
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            data = pickle.dumps(handle, protocol)
            assert service.access_key.encode() not in data
            assert service.access_id.encode() not in data
    secretive = odps_nb.connect(
        endpoint="http://127.0.0.1:1/api",
        project="p",
        credentials=odps_nb.StsToken(
            "me",
            SECRETS["access_key"],
            SECRETS["sts_token"],
            app=odps_nb.AccessKey("app", SECRETS["app_key"]),
        ),
    )
    asked = odps_nb.connect(
        endpoint="http://127.0.0.1:1/api",
        project="p",
        credentials=odps_nb.CredentialProcess(f"echo {SECRETS['access_key']}"),
    )
    for odps in (secretive, asked):
        for handle in (odps, odps.table("t"), odps.table("t").read(), odps.blob("/wByZWYw")):
            data = pickle.dumps(handle)
            assert not [secret for secret in SECRETS.values() if secret.encode() in data]
            assert b"127.0.0.1:1" in data
    with pytest.raises(ConfigError, match="never pickled"):
        pickle.dumps(keyed.profile)


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
def test_another_process_uses_the_credentials_of_its_environment(
    keyed: Connection, service: Any, process: ProcessPoolExecutor, new_name: NewName
) -> None:
    variables = {"ODPS_ACCESS_ID": service.access_id, "ODPS_ACCESS_KEY": service.access_key}
    media = keyed.table("media").blobs("content", limit=2)
    opened = keyed.table("orders").read(["id"], limit=3)
    wanted = opened.to_arrow().to_pylist()
    result = keyed.sql("select id from orders order by id limit 5")
    name = new_name("elsewhere")
    made = keyed.create_table(name, "id bigint")
    for work, handle, expected in (
        (job.count, made, 0),
        (job.rows, opened, wanted),
        (job.rows, result, result.to_arrow().to_pylist()),
        (job.rows, result.first(2), result.first(2).to_arrow().to_pylist()),
        (job.content, media[0], media[0].bytes()),
        (job.contents, media, [blob.bytes() for blob in media]),
    ):
        assert process.submit(job.with_environment, variables, work, handle).result(60) == expected
    assert process.submit(job.write, made, 5).result(60) == 1
    assert made.read().to_arrow().to_pylist() == [{"id": 5}]


def test_a_pickled_scan_reads_the_same_snapshot_in_another_process(
    keyed: Connection, service: Any, process: ProcessPoolExecutor, new_name: NewName
) -> None:
    table = keyed.create_table(new_name("snapshot"), [{"id": 1}])
    scan = table.read()
    assert scan.row_count == 1
    table.write([{"id": 2}])
    found = process.submit(job.connected_first, settings_of(service), job.rows, scan).result(60)
    assert found == [{"id": 1}]


def test_an_open_connection_in_the_process_provides_the_credentials(
    keyed: Connection, service: Any, process: ProcessPoolExecutor
) -> None:
    table = keyed.table("orders").read(["id"], limit=1)
    found = process.submit(job.connected_first, settings_of(service), job.rows, table).result(60)
    assert found == table.to_arrow().to_pylist()


@pytest.mark.storage_api("blobs")
def test_using_a_handle_without_credentials_raises_an_error(
    keyed: Connection, process: ProcessPoolExecutor
) -> None:
    blob = keyed.table("media").blobs("content", limit=1)[0]
    for work, handle in ((job.count, keyed.table("orders")), (job.content, blob)):
        kind, hint, notes = process.submit(job.error_of, work, handle).result(60)
        assert kind == "ConfigError"
        assert "ODPS_ACCESS_ID" in hint
        assert "odps_nb.connect" in hint
        assert any("keys are not sent" in note for note in notes)
    assert process.submit(repr, keyed.table("orders")).result(60) == "Table local.orders"
    assert process.submit(repr, keyed).result(60) == repr(keyed)


@pytest.mark.nightly
def test_another_process_of_this_user_reaches_the_embedded_service(
    process: ProcessPoolExecutor,
) -> None:
    with odps_nb.connect("local") as odps:
        table = odps.create_table("t", [{"id": 1}, {"id": 2}])
        data = pickle.dumps(table)
        assert str(odps.profile.access_key).encode() not in data
        assert process.submit(job.count, table).result(60) == 2
    with pytest.raises(StateError, match="closed"):
        table.read().to_arrow()
    gone = pickle.loads(data)  # its connection is closed, so a different one is used
    with pytest.raises(ConfigError, match="embedded service of this connection cannot be reached"):
        gone.read().to_arrow()


@pytest.mark.nightly
def test_dask_tasks_can_use_handles(keyed: Connection, service: Any) -> None:
    table = keyed.table("orders")
    days = [str(spec) for spec in table.partitions()][:2]
    scans = [table.read(["id"], partitions=day, limit=2) for day in days]
    settings = settings_of(service)
    jobs = [dask.delayed(job.connected_first)(settings, job.rows, scan) for scan in scans]
    wanted = [scan.to_arrow().to_pylist() for scan in scans]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert list(dask.compute(*jobs, scheduler="processes", pool=pool)) == wanted
    plain = [dask.delayed(job.rows)(scan) for scan in scans]
    assert list(dask.compute(*plain, scheduler="threads")) == wanted


def test_a_closed_connection_is_not_reused(service: Any) -> None:
    odps = odps_nb.connect(**settings_of(service))
    data = pickle.dumps(odps.table("orders"))
    odps.close()
    with odps_nb.connect(**settings_of(service)) as other:
        again = pickle.loads(data)
        assert again.connection is not odps
        assert again.exists()
        assert again.connection is not other
        again.connection.close()


def test_the_settings_of_a_connection_are_pickled(service: Any, keyed: Connection) -> None:
    shanghai = odps_nb.connect(**settings_of(service), timezone="Asia/Shanghai")
    data = pickle.dumps(shanghai)
    shanghai.close()
    again = pickle.loads(data)
    assert again.profile.timezone == "Asia/Shanghai"
    assert again.profile.access_id == service.access_id
    assert isinstance(again.profile, Profile)
    assert keyed.profile.timezone is None
    again.close()


@pytest.mark.storage_api("blobs")
def test_cached_metadata_of_blobs_is_pickled_with_a_frame(keyed: Connection) -> None:
    frame = keyed.table("media").head(2)
    column = next(name for name in frame if frame[name].dtype.name == "blob")
    again = pickle.loads(pickle.dumps(frame))
    assert str(again) == str(frame)
    assert again[column].odps.size().tolist() == frame[column].odps.size().tolist()
