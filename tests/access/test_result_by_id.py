"""`Connection.result` finds a query by its instance id, also from another process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from odps_nb import Connection
from odps_nb.errors import ArgumentError, CancelledError, NotFoundError, QueryError
from odps_nb.notebook.progress.words import ids
from tests.support.compat.recorder import Recorder
from tests.support.named import NewName
from tests.support.watcher import Watcher

SLOW = "select count(*) as n from orders a join orders b on a.status = b.status"


def test_a_query_can_be_found_by_its_id_with_rows_and_text(
    watched: Connection, recorder: Recorder
) -> None:
    ran = watched.sql("select ds, count(*) as n from orders group by ds order by ds limit 2")
    recorder.take()
    found = watched.result(f" {ran.instance_id}\n")
    assert len(recorder.take()) == 2
    assert found.status() == "success"
    assert found.to_arrow().equals(ran.to_arrow())
    assert found.sql.rstrip(";") == ran.sql
    assert found.instance_id == ran.instance_id
    assert ran.instance_id in repr(found)


def test_another_process_finds_a_query_by_its_id(odps: Connection) -> None:
    noted = odps.sql("select 7 as seven").instance_id
    profile = odps.profile
    job = (
        "import os, odps_nb;"
        "odps = odps_nb.connect();"
        f"print(odps.result({noted!r}).to_arrow().to_pylist())"
    )
    environment = {
        "ODPS_ENDPOINT": profile.endpoint,
        "ODPS_PROJECT": profile.project,
        "ODPS_ACCESS_ID": str(profile.access_id),
        "ODPS_ACCESS_KEY": str(profile.access_key),
        "ODPS_TUNNEL_ENDPOINT": profile.tunnel_endpoint or "",
    }
    found = subprocess.run(
        [sys.executable, "-c", job],
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.stdout == "[{'seven': 7}]\n", found.stderr


def test_a_running_query_can_be_waited_for_and_cancelled(odps: Connection) -> None:
    started = odps.sql(SLOW, wait=False)
    found = odps.result(started.instance_id)
    assert found.status() in ("running", "waiting")
    found.cancel()
    with pytest.raises(CancelledError):
        found.wait()
    later = odps.result(started.instance_id)
    assert later.status() in ("cancelled", "failed")
    with pytest.raises(QueryError):
        later.wait()
    with pytest.raises(QueryError):
        later.to_arrow()


def test_a_failed_query_raises_its_error(odps: Connection) -> None:
    with pytest.raises(NotFoundError) as failed:
        odps.sql("select * from no_such_table_anywhere")
    (noted,) = (note for note in failed.value.__notes__ if note.startswith("instance "))
    found = odps.result(noted.removeprefix("instance "))
    assert found.status() == "failed"
    with pytest.raises(NotFoundError, match="no_such_table_anywhere"):
        found.to_arrow()


def test_statements_without_rows_are_found_by_their_id(odps: Connection, new_name: NewName) -> None:
    name = new_name("made")
    noted = odps.sql(f"create table {name} (id bigint)").instance_id
    assert odps.result(noted).to_arrow().num_rows == 0


def test_unknown_ids_are_not_found(odps: Connection) -> None:
    with pytest.raises(NotFoundError, match="does not exist") as refused:
        odps.result("20240101000000000gunknown")
    assert "check the id" in (refused.value.hint or "")
    for wrong in ("", "a/b", "../tables", "x?y", "x" * 200, 5, None):
        with pytest.raises(ArgumentError, match=r"is not the id of an inst|instance_id is"):
            odps.result(wrong)  # type: ignore[arg-type]


def test_the_progress_names_the_instance_of_a_query(odps: Connection) -> None:
    ran, read = Watcher(), Watcher()
    result = odps.sql("select 1 as n", progress=ran)
    result.to_arrow(progress=read)
    for watcher in (ran, read):
        assert ids(watcher.last)[0] == f"instance {result.instance_id}"
