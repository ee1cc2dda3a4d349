"""The kernel responds to the JupyterLab sidebar with few requests to the service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.errors import (
    AccessDeniedError,
    ConnectError,
    NotFoundError,
    ServerFaultError,
    ThrottledError,
)
from odps_nb.notebook.magics import completion, sidebar
from odps_nb.notebook.magics.completion import NameCache
from odps_nb.notebook.magics.sidebar import answer, children
from tests.support.sockets.relays import TlsFront


def fail_if_called(kind, of):
    """Fail, because the sidebar must send its own queries."""
    raise AssertionError


@pytest.fixture
def cache() -> NameCache:
    return NameCache(fail_if_called)


@dataclass
class CountedConnection:
    odps: Connection
    front: TlsFront

    def requests(self) -> int:
        return sum(said.count(b" HTTP/1.1\r\n") for said in self.front.said)


@pytest.fixture
def counted(service) -> Iterator[CountedConnection]:
    """A connection through a proxy that counts its requests."""
    place = urlsplit(service.endpoint)
    with (
        TlsFront((place.hostname, place.port), None, listens=True) as front,
        odps_nb.connect(
            endpoint=f"{front.url}{place.path}",
            project=service.project,
            access_id=service.access_id,
            access_key=service.access_key,
        ) as odps,
    ):
        yield CountedConnection(odps, front)


def test_each_expansion_sends_one_request(counted, cache, new_name):
    counted.odps.sql(f"create schema {(schema := new_name('shelf'))}")
    counted.odps.create_table(
        f"local.{schema}.books", "id bigint comment 'the number', title string"
    )
    before = counted.requests()
    try:
        found = children(counted.odps, cache, "projects")
        assert (found["kind"], found["current"]) == ("projects", "local")
        assert "local" in found["items"]
        found = children(counted.odps, cache, "schemas", ["local"])
        assert found["kind"] == "schemas"
        assert {"default", schema} <= set(found["items"])
        found = children(counted.odps, cache, "tables", ["local", schema])
        assert (found["items"], found["prefix"]) == (["books"], f"local.{schema}.")
        assert not found["more"]
        found = children(counted.odps, cache, "columns", [f"local.{schema}.books"])
        number, title = found["items"]
        assert number == {
            "name": "id",
            "type": "bigint",
            "comment": "the number",
            "partition": False,
        }
        assert title["type"] == "string"
        assert (found["rows"], found["partitioned"]) == (0, False)
        assert counted.requests() - before == 4
    finally:
        counted.odps.drop_table(f"local.{schema}.books")
        counted.odps.sql(f"drop schema {schema}")


def test_many_tables_are_described_in_one_request_and_missing_tables_are_null(counted, cache):
    before = counted.requests()
    children(counted.odps, cache, "described", ["orders", "media"])
    assert counted.requests() - before == 1
    found = children(counted.odps, cache, "described", ["orders", "no_such_table", "media"])
    orders, missing, media = found["items"]
    assert missing is None
    assert orders["rows"] == 2_048_000
    assert (orders["partitioned"], media["partitioned"]) == (True, False)
    assert orders["items"] == children(counted.odps, cache, "columns", ["orders"])["items"]
    assert "content" in cache.known("columns", "media")


def test_partitions_are_listed_with_rows_and_truncation_is_reported(odps, cache, monkeypatch):
    found = children(odps, cache, "partitions", ["orders"])
    assert [one["name"] for one in found["items"]] == [
        str(spec) for spec in odps.table("orders").partitions()
    ]
    assert found["items"][0]["rows"] in (None, 231_072)
    assert not found["more"]
    monkeypatch.setattr(sidebar, "MAX_PARTITIONS", 2)
    found = children(odps, cache, "partitions", ["orders"])
    assert (len(found["items"]), found["more"]) == (2, True)


def test_a_new_variable_is_neither_in_the_kernel_nor_in_a_cell(shell):
    shell.run_line_magic("load_ext", "odps_nb")
    assert answer("variable", []).data == {"name": "df"}
    shell.user_ns["df"] = 1
    assert answer("variable", []).data == {"name": "df2"}
    assert answer("variable", ["df2", "df3"]).data == {"name": "df4"}


def test_comments_cannot_hide_or_reorder_text(odps, cache, new_name):
    table = odps.create_table(new_name("said"), "id bigint comment 'a\u202egnp.exe'")
    (item,) = children(odps, cache, "columns", [str(table.name)])["items"]
    assert item["comment"] == "a\\u202egnp.exe"


def test_the_sidebar_and_completion_share_the_cache_of_tables(counted, cache):
    tables = children(counted.odps, cache, "tables", ["local", "default"])
    assert "orders" in tables["items"]
    assert tables["prefix"] == ""
    assert cache.known("tables", "") == tuple(tables["items"])
    before = counted.requests()
    assert children(counted.odps, cache, "tables", ["local", "default"]) == tables
    assert counted.requests() == before
    children(counted.odps, cache, "tables", ["local", "default"], fresh=True)
    assert counted.requests() == before + 1
    columns = children(counted.odps, cache, "columns", ["orders"])["items"]
    assert [one["name"] for one in columns if one["partition"]] == ["ds"]
    assert cache.known("columns", "orders") == tuple(one["name"] for one in columns)


def test_ten_thousand_tables_are_listed_and_truncation_is_reported(odps, cache, monkeypatch):
    cache.remember("tables", "", [f"table_{n:05}" for n in range(10_000)])
    found = children(odps, cache, "tables", ["local", "default"])
    assert (len(found["items"]), found["more"]) == (10_000, False)
    monkeypatch.setattr(completion, "MAX_NAMES", 2)
    monkeypatch.setattr(sidebar, "MAX_NAMES", 2)
    found = children(odps, cache, "tables", ["local", "default"], fresh=True)
    assert (len(found["items"]), found["more"]) == (2, True)


def test_a_project_without_schemas_shows_its_tables(faulty_odps, stalled, cache):
    refusal = {"fault": "status", "status": 400, "times": 0}
    stalled({"action": "/api/projects/local/schemas", **refusal})
    found = children(faulty_odps, cache, "schemas", ["local"])
    assert found["kind"] == "tables"
    assert "orders" in found["items"]


def test_without_permission_the_list_has_only_the_connected_project(faulty_odps, stalled, cache):
    stalled({"action": "/api/projects", "fault": "status", "status": 403, "times": 0})
    assert children(faulty_odps, cache, "projects")["items"] == ["local"]
    with pytest.raises(AccessDeniedError):
        children(faulty_odps, cache, "schemas", ["local"])  # also refused


def test_an_error_of_a_busy_service_does_not_mean_that_there_are_no_schemas():
    assert sidebar._is_refused(NotFoundError("none", status=404))
    assert not sidebar._is_refused(ThrottledError("slowly", status=429))
    assert not sidebar._is_refused(ServerFaultError("broken", status=503))


def test_without_magics_or_connection_the_sidebar_says_what_to_run(shell):
    assert answer("projects").data == {
        "problem": ["No connection yet.", "Run %load_ext odps_nb, then %odps connect."],
        "waiting": True,
    }
    shell.run_line_magic("load_ext", "odps_nb")
    assert answer("projects").data == {
        "problem": ["No connection yet.", "Run %odps connect."],
        "waiting": True,
    }


def test_the_front_end_gets_json_and_errors_as_lines(shell, odps, service):
    shell.run_line_magic("load_ext", "odps_nb")
    shell.user_ns["c"] = odps
    shell.run_line_magic("odps", "connect c")
    code = '__import__("sys").modules["odps_nb.notebook.magics.sidebar"].answer({})'
    reply = shell.user_expressions(
        {
            "columns": code.format('"columns", ["orders"], fresh=False'),
            "missing": code.format('"columns", ["no_such_table"], fresh=True'),
        }
    )
    items = reply["columns"]["data"]["application/json"]["items"]
    assert items[0]["name"] == "id"
    missing = reply["missing"]["data"]["application/json"]
    assert missing["problem"][0].startswith(NotFoundError.__name__)
    assert "no_such_table" in missing["problem"][0]
    assert not missing["waiting"]
    assert service.access_key not in str(reply)


def test_cached_names_expire_and_a_lookup_of_known_names_sends_no_request():
    now = [0.0]
    cache = NameCache(fail_if_called, ttl=60, clock=lambda: now[0])
    assert cache.known("tables", "") is None
    cache.remember("tables", "", ["orders"])
    assert cache.known("tables", "") == ("orders",)
    now[0] = 60.0
    assert cache.known("tables", "") is None


def test_a_list_requested_by_completion_is_not_requested_twice():
    cache = NameCache(lambda kind, of: ["orders"], patience=30)
    cache.prefetch()
    assert cache.known("tables", "") == ("orders",)
    cache.close()


def test_the_sidebar_fetches_names_that_completion_failed_to_fetch():
    def broken(kind, of):
        raise ConnectError("no answer")

    cache = NameCache(broken, patience=30)
    cache.prefetch()
    assert cache.known("tables", "") is None
    cache.close()
