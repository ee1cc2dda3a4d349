"""`Table.head` sends one request if a preview returns the rows, otherwise it does a short read.

Also tests read sessions that another process continues by their id.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from odps_nb.access.blobs import frames
from odps_nb.errors import NotFoundError, SessionExpiredError
from odps_nb.local.server.launch import start
from tests.support.compat.recorder import Recorder
from tests.support.service.connecting import account_of, connected
from tests.support.spark.watched import misbehave

DAY = "ds=2024-01-01"


def actions(recorder: Recorder) -> list[str]:
    """Return the actions of the Storage API requests since the last call."""
    return [one.action for one in recorder.take() if one.action]


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"columns": ["status", "id"]},
        {"partitions": DAY},
        {"partitions": DAY, "columns": ["id", "created"]},
        {"partitions": DAY, "columns": ["ds", "id"]},  # the preview has no partition columns
    ],
)
def test_the_first_rows_are_those_of_a_read(odps, words):
    orders = odps.table("orders")
    found = orders.head(7, **words)
    columns, partitions = words.get("columns"), words.get("partitions")
    read = orders.read(columns, partitions=partitions, limit=7, splits=1).to_pandas()
    assert found.equals(read)
    assert list(found.dtypes) == list(read.dtypes)


@pytest.mark.storage_api("its requests")
def test_the_first_rows_take_one_request_if_a_preview_suffices(watched, recorder):
    orders = watched.table("orders")
    assert len(orders.head(3)) == 3
    assert actions(recorder) == ["TablePreview"]
    assert list(orders.head(3, columns=["ds"]).columns) == ["ds"]
    assert actions(recorder) == ["TableCreateReadSession", "TableRead"]


@pytest.mark.storage_api("its requests")
def test_a_read_follows_a_preview_with_too_few_rows(watched, recorder, new_name):
    table = watched.create_table(new_name("few"), "id bigint")
    table.write(pa.table({"id": [1, 2]}))
    actions(recorder)
    assert table.head()["id"].tolist() == [1, 2]
    assert actions(recorder) == ["TablePreview", "TableCreateReadSession", "TableRead"]
    assert table.head(2)["id"].tolist() == [1, 2]
    assert actions(recorder) == ["TablePreview"]


def test_a_missing_partition_raises_an_error(odps):
    with pytest.raises(NotFoundError):
        odps.table("orders").head(partitions="ds=1999-01-01")


@pytest.mark.storage_api("blobs")
def test_the_first_rows_include_blobs(odps):
    media = odps.table("media")
    found, read = media.head(3), media.read(limit=3, splits=1).to_pandas()
    assert found.equals(read)
    assert odps.blob(found["content"][0]).bytes()


JOB = """
import json, sys, odps_nb
words = json.loads(sys.argv[1])
with odps_nb.connect(**words["connect"]) as odps:
    scan = odps.table("orders").read(["id"], where=words["where"], session_id=words["session"])
    print(json.dumps([scan.to_arrow()["id"].to_pylist(), scan.session_id]))
"""


@pytest.mark.parametrize("where", [None, "quantity > 8 and id < 1000300"])
def test_another_process_reads_the_same_snapshot(odps, forking, where):
    scan = odps.table("orders").read(["id"], where=where, partitions=DAY)
    profile = odps.profile
    words = account_of(profile)
    given = json.dumps({"connect": words, "where": where, "session": scan.session_id})
    ended = forking.run(JOB, given)
    assert ended.returncode == 0, ended.stderr
    ids, session = json.loads(ended.stdout)
    assert session == scan.session_id
    assert ids == scan.to_arrow()["id"].to_pylist()
    assert len(ids) >= 10


def test_a_missing_session_raises_an_error(odps):
    opened = odps.table("orders").read(["id"], partitions="ds=2024-01-01").session_id
    service = opened[: opened.find(":") + 1]  # ids begin with the service's name
    scan = odps.table("orders").read(["id"], session_id=f"{service}nothing-of-this-name")
    with pytest.raises(SessionExpiredError, match="does not exist"):
        scan.to_arrow()


@pytest.mark.storage_api("blobs")
def test_a_short_read_follows_a_refused_preview(monkeypatch):
    monkeypatch.setattr(frames, "_PATIENCE", 0.2)
    monkeypatch.setattr("odps_nb.notebook.explore.static.SECONDS", 0.2)
    with (
        start(samples=False, options=("--misbehave",)) as service,
        connected(service) as odps,
    ):
        rows = pa.table({"id": [1, 2, 3], "content": [b"a", b"b", b"c"]})
        table = odps.create_table("refused", "id bigint, content blob")
        table.write(rows)
        for status in (400, 403):
            misbehave(
                odps,
                {"action": "TablePreview", "fault": "status", "status": status, "times": 9},
                {"action": "BlobRead", "fault": "stall", "at": 0, "seconds": 600, "times": 0},
            )
            first = table.head(2)
            assert first["id"].tolist() == [1, 2]
            assert repr(first).count("blob …") == 2  # the media types are unknown
            assert first._repr_html_().count("blob …") == 2


def test_the_first_rows_of_a_table_with_a_key_are_the_latest_versions(odps, new_name):
    table = odps.create_table(new_name("keyed"), "id bigint, v string", primary_key="id")
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.upsert(pa.table({"id": [1, 3], "v": ["new", "c"]}))
    table.delete(pa.table({"id": [2]}))
    assert sorted(table.head(2).itertuples(index=False, name=None)) == [(1, "new"), (3, "c")]


def test_the_first_rows_include_recently_added_columns(odps, new_name):
    table = odps.create_table(new_name("grown"), "id bigint")
    table.write(pa.table({"id": [1]}))
    assert list(table.head(1)) == ["id"]
    odps.sql(f"alter table {table.name.table} add columns (s string)").to_arrow()
    found = table.head(1)
    assert (list(found), found["id"].tolist(), found["s"].isna().all()) == (["id", "s"], [1], True)
    assert list(table.schema.names) == ["id", "s"]
