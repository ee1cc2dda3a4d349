"""Responses that the vendor's Java clients need, tested without Java.

``tests/versions/java_clients.py`` runs the clients themselves. The facts are from their source code
(odps-sdk-core and odps-sdk-storage-api 0.57.1, odps-jdbc 3.4.2).
"""

from __future__ import annotations

import pyarrow as pa
import pytest
import requests

from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.terms import Compression, TableName
from odps_nb.wire import control
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.codings import encoder
from tests.support.named import NewTable
from tests.support.service.peer import Peer


def ask(peer: Peer, path: str, *, rest: bool, **params: str) -> requests.Response:
    """Send a signed GET request below the REST or the tunnel endpoint."""
    endpoint = peer.service.endpoint if rest else peer.service.tunnel_endpoint
    path = f"/projects/{peer.service.project}/{path}"
    wire = WireRequest(method="GET", path=path, params=tuple(params.items()))
    return peer.session.get(wire.url(endpoint), headers=peer.signature(wire, endpoint), timeout=60)


def test_a_running_instance_has_an_empty_end_time() -> None:
    """`Instance.reload` fails if the header is missing; it accepts an empty value."""
    _, headers = control.InstanceStatus(status="Running", started_at=1.0).encode()
    assert headers["x-odps-end-time"] == ""
    assert control.InstanceStatus.decode(b"<Instance><Status>Running</Status></Instance>", headers)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_previews_of_the_tunnel_have_times_as_structs(
    peer: Peer, new_table: NewTable, kind: str
) -> None:
    """`Table.read` requires structs at every level; pyodps reads them at every level, too."""
    name = new_table(f"(t {kind}, at datetime, l array<{kind}>)")
    time = f"cast('2024-02-29 23:59:58.123456789' as {kind})"
    at = "cast('2024-02-29 00:00:00' as datetime)"
    peer.sql(f"insert into {name} select {time}, {at}, array({time}, null);")
    response = ask(peer, f"tables/{name}/preview", rest=False, limit="100")
    rows = pa.ipc.open_stream(response.content).read_all()
    assert rows.schema.field("t").type == SECONDS_AND_NANOS
    assert rows.schema.field("l").type.value_type == SECONDS_AND_NANOS
    assert pa.types.is_timestamp(rows.schema.field("at").type)
    found = {"sec": 1709251198, "nano": 123456789}
    assert rows["t"].to_pylist() == [found]
    assert rows["l"].to_pylist() == [[found, None]]


def test_lz4_frames_have_independent_blocks() -> None:
    """lz4-java rejects dependent blocks: bit 5 of the frame's flags must be set."""
    frame = encoder(Compression.LZ4)
    assert (frame.feed(b"x" * 200_000) + frame.finish())[4] & 0x20


def test_a_project_without_schemas_is_its_own_schema(peer: Peer, new_table: NewTable) -> None:
    """`DatabaseMetaData.getTables` of JDBC names the project as the schema."""
    name, project = new_table("(a bigint)"), peer.service.project
    listed = ask(peer, "tables", rest=True, curr_schema=project, expectmarker="true", name=name)
    assert f"<Name>{name}</Name>" in listed.text
    assert ask(peer, f"tables/{name}", rest=True, curr_schema=project).status_code == 200
    assert ask(peer, "tables", rest=True, curr_schema="other").status_code == 404


def test_the_document_of_a_table_names_its_schema() -> None:
    """`Table.read` previews the table in the schema of the document."""
    inside = control.TableInfo(name=TableName(project="p", schema="s", table="t"))
    outside = control.TableInfo(name=TableName(project="p", table="t"))
    assert b"<SchemaName>s</SchemaName>" in inside.encode()[0]
    assert b"SchemaName" not in outside.encode()[0]


def test_headers_are_utf8(peer: Peer) -> None:
    """The SDK sends the comment of a resource in a header, and signs it."""
    service, comment = peer.service, "中文哈哈哈123"
    sent = WireRequest(method="GET", path=f"/projects/{service.project}/tables")
    signed = peer.signature(sent, service.endpoint, {"x-odps-comment": comment})
    headers = {**signed, "x-odps-comment": comment.encode()}
    response = peer.session.get(sent.url(service.endpoint), headers=headers, timeout=60)
    assert response.status_code == 200
