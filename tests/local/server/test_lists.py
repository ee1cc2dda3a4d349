"""Filters and pages of the control plane's lists, and refusals of unknown parameters."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import requests

from odps_nb.local.server.launch import LocalService, start
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.http_date import parse_date
from tests.support.named import NewTable
from tests.support.service.peer import Peer


def request(peer: Peer, path: str, *params: tuple[str, str], method: str = "GET") -> WireRequest:
    return WireRequest(
        method=method, path=path.format(peer.service.project), params=params, body=None
    )


def names(peer: Peer, path: str, **params: str) -> list[str]:
    """Return the names (of partitions: the values) in one page of a list."""
    root = ElementTree.fromstring(peer.ok(request(peer, path, *params.items())).content)
    found = [one.text or "" for one in root.iter("Name")]
    return found or [one.get("Value", "") for one in root.iter("Column")]


def pages(peer: Peer, path: str, **params: str) -> list[list[str]]:
    found = []
    while params.get("marker") != "":
        found.append(names(peer, path, **params))
        root = ElementTree.fromstring(peer.ok(request(peer, path, *params.items())).content)
        params["marker"] = root.findtext("Marker") or ""
        assert root.findtext("MaxItems") == params["maxitems"]
    return found


TABLES, SCHEMAS, PROJECTS = "/projects/{}/tables", "/projects/{}/schemas", "/projects"


def test_tables_are_filtered_and_paged(peer: Peer) -> None:
    prefix = f"l{time.time_ns()}"
    for number in range(3):
        peer.sql(f"CREATE TABLE {prefix.upper()}_{number} (a bigint) COMMENT 'c{number}';")
    peer.sql(f"CREATE VIEW {prefix}_v AS SELECT 1 AS a;")
    tables, view = [f"{prefix}_{number}" for number in range(3)], f"{prefix}_v"
    for params, wanted in (
        ({}, [*tables, view]),
        ({"type": "VIRTUAL_VIEW"}, [view]),
        ({"type": "MANAGED_TABLE"}, tables),
        ({"type": "EXTERNAL_TABLE"}, []),
        ({"owner": peer.service.access_id}, [*tables, view]),
        ({"owner": "another"}, []),
        ({"extended": "", "curr_project": peer.service.project}, [*tables, view]),
    ):
        assert names(peer, TABLES, name=prefix, expectmarker="true", **params) == wanted, params
    listed = peer.ok(request(peer, TABLES, ("name", prefix), ("extended", ""))).text
    assert re.findall("<Comment>(.*?)</Comment>", listed) == ["c0", "c1", "c2", ""]
    two = pages(peer, TABLES, name=prefix, maxitems="3")
    assert two == [tables, [view]]
    for invalid in ({"type": "TABLE"}, {"maxitems": "x"}, {"marker": "-1"}):
        (refused,) = invalid.items()
        answer = peer.send(request(peer, TABLES, refused))
        assert (answer.status_code, refused[1] in answer.text) == (400, True)


def test_partitions_are_paged_in_both_orders(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint) PARTITIONED BY (ds string)")
    peer.sql(f"ALTER TABLE {name} ADD PARTITION (ds='1') PARTITION (ds='2') PARTITION (ds='3');")
    path = f"{TABLES}/{name}"
    assert pages(peer, path, partitions="", maxitems="2") == [["1", "2"], ["3"]]
    assert pages(peer, path, partitions="", reverse="", maxitems="2") == [["3", "2"], ["1"]]


def test_only_the_names_of_partitions_can_be_listed(peer: Peer, new_table: NewTable) -> None:
    """The Java and Go SDKs request only names (`getPartitionSpecs`, `GetPartitionValues`)."""
    name = new_table("(a bigint) PARTITIONED BY (ds string, h bigint)")
    peer.sql(f"ALTER TABLE {name} ADD PARTITION (ds='a', h=1) PARTITION (ds='b', h=2);")
    path = f"{TABLES}/{name}"
    assert names(peer, path, partitions="", name="") == ["ds=a/h=1", "ds=b/h=2"]
    answer = peer.send(request(peer, path, ("partitions", ""), ("name", "x")))
    assert (answer.status_code, "parameter 'name'" in answer.text) == (400, True)


def test_several_tables_are_described_in_one_request(peer: Peer, new_table: NewTable) -> None:
    """The Java and Go SDKs send this request (`reloadTables`, `BatchLoadTables`)."""
    tables = [new_table("(a bigint)"), new_table("(b string)")]

    def query(*tables: str) -> requests.Response:
        found = "".join(f"<Table><Project/><Name>{name}</Name><Schema/></Table>" for name in tables)
        wire = request(peer, TABLES, ("query", ""), method="POST")
        return peer.send(replace(wire, body=f"<Tables>{found}</Tables>".encode()))

    root = ElementTree.fromstring(query(*(name.upper() for name in tables)).content)
    for name, found in zip(tables, root, strict=True):
        alone = ElementTree.fromstring(peer.ok(request(peer, f"{TABLES}/{name}")).content)
        assert ElementTree.tostring(found) == ElementTree.tostring(alone)
    assert query(tables[0], "missing").status_code == 404
    assert "the maximum is 100" in query(*["missing"] * 101).text


def test_projects_are_filtered(peer: Peer) -> None:
    own, owner = peer.service.project, peer.service.access_id
    assert own in names(peer, PROJECTS, owner=owner)
    assert names(peer, PROJECTS, name=own[:3], maxitems="5") == [own]
    assert names(peer, PROJECTS, owner="another") == []
    assert names(peer, PROJECTS, name="another") == []


@pytest.fixture(scope="module")
def schemas() -> Iterator[LocalService]:
    with start(samples=False, options=("--schemas",)) as running:
        yield running


def test_schemas_are_filtered_and_paged(schemas: LocalService) -> None:
    peer = Peer(schemas)
    for name in ("s1", "s2"):
        peer.sql(f"CREATE SCHEMA {name};")
    assert names(peer, SCHEMAS) == ["default", "s1", "s2"]
    assert names(peer, SCHEMAS, name="s", owner=schemas.access_id) == ["s1", "s2"]
    assert names(peer, SCHEMAS, owner="another") == []
    assert pages(peer, SCHEMAS, maxitems="2") == [["default", "s1"], ["s2"]]
    peer.session.close()


def test_a_schema_is_created_once_and_described(schemas: LocalService) -> None:
    peer = Peer(schemas)

    def create(lenient: str) -> int:
        body = f"<Schema><Name>once</Name>{lenient}</Schema>".encode()
        wire = replace(request(peer, SCHEMAS, method="POST"), body=body)
        return peer.send(wire).status_code

    assert (create(""), create("")) == (201, 400)
    assert create("<IfNotExists>true</IfNotExists>") == 201
    assert create("<IfNotExists>false</IfNotExists>") == 400
    assert create("<IfNotExists>true</IfNotExists><Comment>late</Comment>") == 201
    peer.sql("create schema if not exists told comment 'a <comment>';")
    answer = peer.ok(request(peer, f"{SCHEMAS}/once"))
    facts = {one.tag: one.text for one in ElementTree.fromstring(answer.content)}
    times = [parse_date(facts.pop(one)) for one in ("CreateTime", "ModifiedTime")]
    told = {"Owner": schemas.access_id, "Comment": None, "Type": "MANAGED"}
    assert facts == {"Name": "once", "Project": schemas.project, **told}
    document = peer.ok(request(peer, f"{SCHEMAS}/told")).content
    assert b"<Comment>a &lt;comment&gt;</Comment>" in document
    created = parse_date(answer.headers["x-odps-creation-time"])
    assert created is not None
    assert times == [created, created]
    assert abs(created - time.time()) < 600
    peer.session.close()


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("/projects/{}/instances", "status", "finished"),
        ("/projects/{}/instances", "daterange", "yesterday"),
        ("/projects/{}/instances", "daterange", "1700000000"),
        ("/projects/{}/instances", "daterange", "x:1700000000"),
        ("/projects/{}/tables/{table}?data", "linenum", "-1"),
        ("/projects/{}/tables/{table}?data", "linenum", "x"),
    ],
)
def test_a_filter_or_limit_with_an_unknown_value_is_refused(
    peer: Peer, new_table: NewTable, path: str, key: str, value: str
) -> None:
    path, _, more = path.replace("{table}", new_table("(a bigint)")).partition("?")
    given = ((more, ""), (key, value)) if more else ((key, value),)
    answer = peer.send(request(peer, path, *given))
    assert answer.status_code == 400
    assert key in answer.text
    assert value in answer.text


def test_the_status_of_instances_is_compared_without_case(peer: Peer) -> None:
    """The Java SDK sends the names of its enum in capitals."""
    peer.sql("SELECT 1;")
    path = "/projects/{}/instances"
    assert peer.last_instance in names(peer, path, status="TERMINATED")
    assert peer.last_instance not in names(peer, path, status="RUNNING")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (TABLES, "comment"),
        (PROJECTS, "user"),
        (PROJECTS, "region"),
        (SCHEMAS, "type"),
        ("/projects/{}/instances", "jobname"),
        ("/projects/{}/instances", "quotaindex"),
        ("/projects/{}/tables/t?partitions", "owner"),
    ],
)
@pytest.mark.parametrize("value", ["x", ""])
def test_a_list_refuses_unsupported_filters(peer: Peer, path: str, key: str, value: str) -> None:
    path, _, more = path.partition("?")
    given = ((more, ""), (key, value)) if more else ((key, value),)
    answer = peer.send(request(peer, path, *given))
    assert answer.status_code == 400
    assert f"parameter '{key}'" in answer.text


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("GET", "/projects/{}", "policy"),
        ("GET", "/projects/{}/tables/{table}", "tagging"),
        ("GET", "/projects/{}/tables/{table}", "columnlabels"),
        ("GET", "/projects/{}/instances/{instance}", "joblog"),
        ("PUT", "/projects/{}/instances/{instance}", "info"),
        ("GET", "/projects/{}/tunnel", "quotas"),
        ("GET", "/projects/{}/volumes", "meta"),
        ("GET", "/tenants", "users"),
    ],
)
def test_a_request_with_an_unknown_sub_resource_returns_not_found(
    peer: Peer, new_table: NewTable, method: str, path: str, key: str
) -> None:
    table = new_table("(a bigint)")
    peer.sql("SELECT 1;")
    path = path.replace("{table}", table).replace("{instance}", peer.last_instance)
    known = peer.send(request(peer, path, method=method))
    assert known.status_code in (200, 409)  # 409: the instance has ended and cannot be cancelled
    answer = peer.send(request(peer, path, (key, ""), ("taskname", "t"), method=method))
    assert answer.status_code == 404
    assert f"?{key}" in answer.text
