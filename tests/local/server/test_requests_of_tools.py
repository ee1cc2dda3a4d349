"""Responses that Python tools of other authors need, tested without the tools.

``tests/versions/python_tools.py`` runs the tools themselves. The facts are from their source code
(pyodps_catalog 0.4.0, maxc-cli 0.9.4, alibabacloud-maxcompute-mcp-server 0.1.8) and from the SDKs.
"""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest
import requests

from odps_nb.wire.calls import WireRequest
from tests.support.named import NewTable
from tests.support.service.peer import Peer

CATALOG = "/api/catalog/v1alpha"


@pytest.fixture
def sold(new_table: NewTable) -> str:
    return new_table(
        "(id bigint NOT NULL COMMENT 'key', v map<string,decimal(10,2)>)"
        " COMMENT 'all sales' PARTITIONED BY (ds string) LIFECYCLE 3"
    )


def catalog(
    peer: Peer, path: str, method: str = "GET", body: Any = None, **params: str
) -> requests.Response:
    data = None if body is None else json.dumps(body).encode()
    path = CATALOG + path.replace("{project}", peer.service.project)
    wire = WireRequest(method=method, path=path, params=tuple(params.items()), body=data)
    return peer.send(wire, **({"Content-Type": "application/json"} if data else {}))


def pages(peer: Peer, path: str, kind: str, **params: str) -> list[list[Any]]:
    """Return all pages of a list."""
    found = []
    while True:
        told = catalog(peer, path, **params).json()
        found.append(told[kind])
        if "nextPageToken" not in told:
            return found
        params["pageToken"] = told["nextPageToken"]


def test_the_catalog_describes_a_project_and_its_schema(peer: Peer) -> None:
    project = peer.service.project
    told = catalog(peer, "/projects/{project}", view="BASIC").json()
    assert (told["projectId"], told["schemaEnabled"]) == (project, False)
    assert told in pages(peer, "/projects", "projects", pageSize="1")[0]
    (schemas,) = pages(peer, "/projects/{project}/schemas", "schemas")
    assert [one["schemaName"] for one in schemas] == ["default"]
    assert catalog(peer, "/projects/{project}/schemas/default").json() == schemas[0]


def test_the_catalog_describes_a_table(peer: Peer, sold: str) -> None:
    peer.sql(f"ALTER TABLE {sold} ADD PARTITION (ds='1') PARTITION (ds='2') PARTITION (ds='3');")
    tables = "/projects/{project}/schemas/default/tables"
    listed = [one for page in pages(peer, tables, "tables", pageSize="2") for one in page]
    assert sold in [one["tableName"] for one in listed]
    told = catalog(peer, f"{tables}/{sold}").json()
    assert (told["type"], told["description"]) == ("MANAGED_TABLE", "all sales")
    assert told["partitionDefinition"] == {"partitionedColumns": [{"field": "ds"}]}
    assert told["expirationOptions"] == {"partitionExpirationDays": 3}
    key, value, _ = told["tableSchema"]["fields"]
    assert (key["mode"], key["description"], key["typeCategory"]) == ("REQUIRED", "key", "BIGINT")
    assert [one["fieldName"] for one in value["fields"]] == ["key", "value"]
    assert value["fields"][1]["precision"] == "10"
    found = pages(peer, f"{tables}/{sold}/partitions", "partitions", pageSize="2")
    assert [[one["spec"] for one in page] for page in found] == [["ds=1", "ds=2"], ["ds=3"]]


def test_the_catalog_changes_supported_properties_of_a_table(peer: Peer, sold: str) -> None:
    path = f"/projects/{{project}}/schemas/default/tables/{sold}"
    old = catalog(peer, path).json()
    fields = old["tableSchema"]["fields"]
    key = fields[0] | {"mode": "NULLABLE", "description": "the key", "fields": []}
    new = {"fieldName": "n", "sqlTypeDefinition": "INT", "typeCategory": "INT"}
    schema = {"fields": [key, *fields[1:], new]}
    told = catalog(peer, path, "PUT", old | {"description": "sold", "tableSchema": schema}).json()
    assert told["description"] == "sold"
    found = [(one["fieldName"], one["mode"]) for one in told["tableSchema"]["fields"]]
    assert found == [(name, "NULLABLE") for name in ("id", "v", "n", "ds")]
    for change, status in (
        ({}, 409),  # the etag is that of the old table
        ({"etag": told["etag"], "labels": {"a": "b"}}, 400),
        ({"etag": told["etag"], "tableSchema": {"fields": fields[:1]}}, 400),
    ):
        assert catalog(peer, path, "PUT", old | change).status_code == status, change


def test_the_catalog_finds_tables_by_name(peer: Peer, sold: str) -> None:
    project = peer.service.project
    query = f"type=TABLE,project={project},name:{sold[1:]}"
    (entry,) = catalog(peer, "/namespaces/1:search", "POST", query=query).json()["entries"]
    assert entry["name"] == f"projects/{project}/schemas/default/tables/{sold}"
    assert (entry["displayName"], entry["description"]) == (sold, "all sales")


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("GET", "/projects/{project}", {"view": "FULL"}),
        ("GET", "/projects/{project}/schemas/default/tables", {"query": "a"}),
        ("GET", "/projects/{project}/schemas/default/models", {}),
        ("POST", "/projects/{project}/schemas/default/tables", {}),
        ("POST", "/namespaces/1:search", {"query": "type=RESOURCE"}),
        ("POST", "/namespaces/1:search", {"query": "type=TABLE,region=cn"}),
    ],
)
def test_the_catalog_refuses_unsupported_objects(
    peer: Peer, method: str, path: str, params: dict[str, str]
) -> None:
    told = catalog(peer, path, method, **params)
    assert told.status_code in (400, 404)
    assert "embedded service" in told.json()["message"]
    assert (told.json()["reason"] == "NotFound") == (told.status_code == 404)


# -- security -----------------------------------------------------------------------------------


def ask(peer: Peer, path: str, method: str = "GET", body: str = "", **params: str) -> Any:
    path = f"/projects/{peer.service.project}/{path}"
    wire = WireRequest(
        method=method, path=path, params=tuple(params.items()), body=body.encode() or None
    )
    return ElementTree.fromstring(peer.ok(wire).content)


def test_grants_equal_the_permissions_of_the_key(peer: Peer) -> None:
    user = peer.service.access_id
    for query in ("SHOW GRANTS;", f"show grants for user {user}"):
        body = f"<Authorization><Query>{query}</Query></Authorization>"
        found = json.loads(ask(peer, "authorization", "POST", body).findtext("Result"))
        project, tables = found["ACL"][user]
        assert project["Resource"] == f"acs:odps:*:projects/{peer.service.project}"
        assert {"Select", "Download", "Drop"} < set(tables["Action"])


def test_statements_that_change_rights_are_refused(peer: Peer) -> None:
    for query in ("grant admin to x", "create role r", "list roles"):
        body = f"<Authorization><Query>{query}</Query></Authorization>"
        with pytest.raises(Exception, match=f"does not support '{query}'"):
            ask(peer, "authorization", "POST", body)


@pytest.mark.parametrize("end", ["", "/"])
def test_permissions_are_checked(peer: Peer, end: str) -> None:
    resource = f"/projects/{peer.service.project}/tables/t"
    body = json.dumps([{"Action": "Select", "Resource": resource}])
    assert ask(peer, f"auth{end}", "POST", body).findtext("Result") == "ALLOW"


def test_the_keys_are_listed_as_users(peer: Peer) -> None:
    names = [one.text for one in ask(peer, "users").iter("DisplayName")]
    assert peer.service.access_id in names
    assert ask(peer, f"users/{names[0]}", type="displayname").findtext("ID") == names[0]
    assert ask(peer, f"users/{names[0]}", roles="").tag == "Roles"
