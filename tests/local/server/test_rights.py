"""Keys with limited permissions: 403 for what a key may not do, in every interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pyarrow as pa
import pytest
import requests
from odps import ODPS
from odps.errors import NoPermission

from odps_nb.errors import AccessDeniedError, QueryError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import BlobReference, IndexSplit, TableName
from odps_nb.wire import calls, control
from odps_nb.wire.calls import v1
from tests.support.service.commands import check_refusal, serve_each
from tests.support.service.peer import Peer

KEYS = {
    "admin": "a-secret",
    "asker": "q-secret",
    "reader": "r-secret",
    "writer": "w-secret",
    "nobody": "n-secret",
}
RIGHTS = {
    "asker": {"ours": "query"},
    "reader": {"ours": "read"},
    "writer": {"ours": "write", "theirs": "read"},
    "nobody": {},
}
DENIED = "ODPS-0130013"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    path = tmp_path_factory.mktemp("keys") / "credentials.json"
    path.write_text(json.dumps({"keys": KEYS, "rights": RIGHTS}))
    path.chmod(0o600)
    options = ("--credentials", str(path))
    with start(samples=False, project="ours", options=options) as running:
        admin = as_key(running, "admin")
        admin.sql("CREATE TABLE t (a bigint);")
        admin.write("t", pa.table({"a": [1]}))
        hidden = as_key(running, "admin", "theirs")
        hidden.make_blob_table("hidden", "(a bigint, b blob)")
        yield running


def as_key(service: LocalService, key: str, project: str = "ours") -> Peer:
    return Peer(replace(service, access_id=key, access_key=KEYS[key], project=project))


def stock(service: LocalService, key: str) -> ODPS:
    return ODPS(
        key,
        KEYS[key],
        project="ours",
        endpoint=service.endpoint,
        tunnel_endpoint=service.tunnel_endpoint,
        overwrite_global=False,  # otherwise pyodps uses this tunnel for every later entry
    )


def denied(peer: Peer, text: str) -> None:
    with pytest.raises(QueryError, match=DENIED) as caught:
        peer.sql(f"{text};")
    assert caught.value.code == "NoPermission"


def test_a_key_without_listed_rights_may_do_everything(guarded: LocalService) -> None:
    assert as_key(guarded, "admin").read("t").num_rows == 1
    assert as_key(guarded, "admin", "theirs").read("hidden").num_rows == 0


def test_a_key_that_may_only_read_cannot_write(guarded: LocalService) -> None:
    reader = as_key(guarded, "reader")
    assert reader.read("t").num_rows == 1
    assert reader.query("SELECT count(*) AS n FROM t;").to_pylist() == [{"n": 1}]
    with pytest.raises(AccessDeniedError, match=DENIED) as caught:
        reader.open_write("t")
    assert (caught.value.status, caught.value.code) == (403, "NoPermission")
    assert caught.value.request_id
    for text in (
        "INSERT INTO t VALUES (2)",
        "CREATE TABLE made (a bigint)",
        "CREATE TABLE made AS SELECT 1 AS a",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
        "ALTER TABLE t ADD COLUMNS (b bigint)",
        "CREATE SCHEMA made",
    ):
        denied(reader, text)
    assert as_key(guarded, "admin").read("t").num_rows == 1


@pytest.mark.parametrize(("key", "seen"), [("reader", {"ours"}), ("writer", {"ours", "theirs"})])
def test_the_information_schema_shows_the_projects_of_a_key(
    guarded: LocalService, key: str, seen: set[str]
) -> None:
    for view in ("tables", "columns"):
        text = f"SELECT DISTINCT table_catalog AS p FROM system_catalog.information_schema.{view};"
        rows = as_key(guarded, key).query(text, {"odps.namespace.schema": "true"})
        assert set(rows["p"].to_pylist()) == seen


def test_a_key_that_may_write_can_read_only_in_that_project(guarded: LocalService) -> None:
    writer = as_key(guarded, "writer")
    writer.sql("CREATE TABLE w (a bigint);")
    writer.write("w", pa.table({"a": [1, 2]}))
    assert writer.read("w").num_rows == 2
    assert writer.query("SELECT count(*) AS n FROM theirs.hidden;").to_pylist() == [{"n": 0}]
    denied(writer, "INSERT INTO theirs.hidden SELECT a, null FROM w")
    denied(writer, "CREATE TABLE theirs.made AS SELECT 1 AS a")


@pytest.mark.parametrize("key", ["reader", "nobody"])
def test_a_project_without_permission_is_refused_by_every_interface(
    guarded: LocalService, key: str
) -> None:
    peer = as_key(guarded, key, "theirs")
    table = TableName(project="theirs", table="hidden")
    for request in (
        calls.CreateReadSession(table=table),
        calls.CreateWriteSession(table=table),
        calls.Preview(table=table),
        calls.ReadRows(table=table, session_id="x", split=IndexSplit(0)),
        control.GetProject(project="theirs"),
        control.GetTable(table=table),
        control.ListTables(project="theirs"),
        control.SubmitSql(project="theirs", sql="SELECT 1;"),
    ):
        wire = request.encode(2) if hasattr(request, "ACTION") else request.encode()
        with pytest.raises(AccessDeniedError, match=DENIED) as caught:
            peer.ok(wire)
        assert caught.value.code == "NoPermission"
    if key == "reader":
        own = as_key(guarded, key)
        body = b"<Tables><Table><Project>theirs</Project><Name>hidden</Name></Table></Tables>"
        path, params = "/projects/ours/tables", (("query", ""),)
        wire = calls.WireRequest(method="POST", path=path, params=params, body=body)
        assert own.send(wire).status_code == 403
        denied(own, "SELECT * FROM theirs.hidden")
        denied(own, "CREATE TABLE copied LIKE theirs.hidden")
        denied(own, "SHOW TABLES IN theirs")
        denied(own, "DESC theirs.hidden")


@pytest.mark.parametrize(
    ("key", "table", "call"),
    [
        ("reader", "hidden", calls.CreateReadSession),
        ("reader", "t", calls.CreateWriteSession),
        ("nobody", "t", v1.WriteBlock),
        ("reader", "t", v1.CommitBlocks),
        ("reader", "t", "upserts"),
        ("reader", "t", "streams"),
    ],
)
def test_version_1_and_tunnel_sessions_need_a_right(
    guarded: LocalService, key: str, table: str, call: type[Any] | str
) -> None:
    project = "theirs" if table == "hidden" else "ours"
    peer = as_key(guarded, key, project)
    name = TableName(project=project, table=table)
    if isinstance(call, str):
        peer = Peer(replace(peer.service, endpoint=guarded.tunnel_endpoint))
        path = f"/projects/{project}/tables/{table}/{call}"
        wire = calls.WireRequest(method="POST", path=path, body=b"")
    else:
        more = {"session_id": "s"} if call.__module__.endswith("v1") else {}
        numbers = {v1.WriteBlock: {"block_number": 0}, v1.CommitBlocks: {"messages": ()}}
        wire = v1.encode_v1(call(table=name, **more, **numbers.get(call, {})))
    with pytest.raises(AccessDeniedError, match=DENIED) as caught:
        peer.ok(wire)
    assert caught.value.code == "NoPermission"


RESOURCE, FUNCTION = "projects/ours/resources", "projects/ours/registration/functions"


@pytest.mark.parametrize(
    ("right", "method", "path"),
    [
        ("query", "GET", RESOURCE),
        ("query", "GET", f"{RESOURCE}/r?meta"),
        ("query", "HEAD", f"{RESOURCE}/r"),
        ("read", "GET", f"{RESOURCE}/r"),
        ("write", "POST", RESOURCE),
        ("write", "PUT", f"{RESOURCE}/r"),
        ("write", "PUT", f"{RESOURCE}/r?updateowner"),
        ("write", "DELETE", f"{RESOURCE}/r"),
        ("query", "GET", FUNCTION),
        ("query", "GET", f"{FUNCTION}/r"),
        ("write", "POST", FUNCTION),
        ("write", "PUT", f"{FUNCTION}/r"),
        ("write", "PUT", f"{FUNCTION}/r?updateowner"),
        ("write", "DELETE", f"{FUNCTION}/r"),
        ("query", "GET", "connection/mcqa?project=ours"),
        ("query", "GET", "quotas/q?project=ours"),
        ("query", "POST", "mcqa/projects/ours/sessions"),
        ("query", "GET", "mcqa/projects/ours/instances"),
    ],
)
def test_resources_functions_and_connections_need_a_right(
    guarded: LocalService, right: str, method: str, path: str
) -> None:
    path, _, query = path.partition("?")
    admin = as_key(guarded, "admin")

    def sent(peer: Peer, method: str, path: str, name: str, query: str = "") -> requests.Response:
        return peer.send(
            calls.WireRequest(
                method=method,
                path=f"/{path}",
                params=tuple(parse_qsl(query, keep_blank_values=True)),
                headers=(("x-odps-resource-type", "file"), ("x-odps-resource-name", name)),
                body=f"<Function><Alias>{name}</Alias></Function>".encode(),
            )
        )

    for of in (RESOURCE, FUNCTION):
        sent(admin, "POST", of, "r")
    for key, grade in {"nobody": 0, "asker": 1, "reader": 2, "writer": 3}.items():
        allowed = grade > ("query", "read", "write").index(right)
        answer = sent(as_key(guarded, key), method, path, "new" if method == "POST" else "r", query)
        assert (answer.status_code < 300, answer.status_code == 403) == (allowed, not allowed), key
    for of in (RESOURCE, FUNCTION):
        sent(admin, "DELETE", f"{of}/new", "")


def test_the_stock_client_is_refused_with_its_own_error(guarded: LocalService) -> None:
    entry = stock(guarded, "reader")
    with entry.get_table("t").open_reader() as rows:
        assert rows.count == 1
    with pytest.raises(NoPermission), entry.get_table("t").open_writer() as writer:
        writer.write([[2]])
    with pytest.raises(NoPermission):
        entry.get_table("hidden", project="theirs").reload()
    assert [project.name for project in entry.list_projects()] == ["ours"]


def test_users_who_may_read_a_project_may_read_its_blobs(guarded: LocalService) -> None:
    admin = as_key(guarded, "admin", "theirs")
    session = admin.open_write("hidden")
    admin.open_stream("hidden", session, "0")
    made = admin.put_blob("hidden", session, "0", b"data", column_id=2).references
    references: list[BlobReference] = list(made)
    assert as_key(guarded, "writer").blobs(references)[0][0] == b"data"
    with pytest.raises(AccessDeniedError, match=DENIED):
        as_key(guarded, "reader").blobs(references)


def test_a_result_of_sql_belongs_to_the_user_who_ran_it(guarded: LocalService) -> None:
    writer, reader = as_key(guarded, "writer"), as_key(guarded, "reader")
    writer.sql("SELECT * FROM theirs.hidden;")
    instance = writer.last_instance
    for wire in (
        control.GetInstance(project="ours", instance_id=instance).encode(),
        control.GetInstanceResult(project="ours", instance_id=instance).encode(),
        calls.CreateInstanceReadSession(project="ours", instance_id=instance).encode(2),
    ):
        with pytest.raises(AccessDeniedError):
            reader.ok(wire)
        assert writer.ok(wire).ok


@pytest.mark.nightly
def test_invalid_rights_are_refused_at_the_start(tmp_path: Path) -> None:
    wrong = {
        "but 'keys' does not": {"stranger": {"ours": "read"}},
        "is not an access right": {"me": {"ours": "all"}},
    }
    options = []
    for number, rights in enumerate(wrong.values()):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps({"keys": {"me": "my-secret"}, "rights": rights}))
        path.chmod(0o600)
        options.append(("--credentials", path))
    for expected, ended in zip(wrong, serve_each(*options), strict=True):
        check_refusal(ended, expected)
        assert "my-secret" not in str(ended)


def test_clients_see_the_permissions_of_a_key(guarded: LocalService) -> None:
    """Grants, permissions and the Catalog API show the same rights as refusals do."""
    reader, project = stock(guarded, "reader").get_project(), "projects/ours"
    (grants,) = reader.run_security_query("SHOW GRANTS;")["ACL"].values()
    assert [one["Action"][-1] for one in grants] == ["CreateInstance", "Download"]
    for action, result in (("Select", "ALLOW"), ("Drop", "DENY")):
        body = json.dumps([{"Action": action, "Resource": f"{project}/tables/t"}])
        answer = reader.odps.rest.post(f"{reader.resource()}/auth/", data=body)
        assert f"<Result>{result}</Result>" in answer.text
    catalog = reader.odps.catalog_rest
    listed = catalog.get(f"{catalog.endpoint}/api/catalog/v1alpha/projects").json()["projects"]
    assert [one["projectId"] for one in listed] == ["ours"]
    with pytest.raises(NoPermission, match=DENIED):
        catalog.get(f"{catalog.endpoint}/api/catalog/v1alpha/projects/theirs")
