"""Upsert and stream sessions of the tunnel: documents and refusals, over sockets.

``tests/compat/test_pyodps_tunnel.py`` drives them with the stock client.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odps_nb.local.routes.tunnel_rows import encode_rows
from odps_nb.wire.type_text import parse_columns
from tests.support.named import NewTable
from tests.support.service.peer import Peer
from tests.support.service.tunnel import Tunnel

COLUMNS = "k bigint, v string"
EXTRA = (
    ", __version bigint, __app_version bigint, __operation tinyint, __key_cols array<bigint>,"
    " __value_cols array<bigint>"
)


@pytest.fixture
def upserts(peer: Peer, new_table: NewTable) -> Tunnel:
    name = new_table(
        "(k bigint not null, v string, primary key (k))"
        " TBLPROPERTIES ('transactional'='true', 'write.bucket.num'='3')"
    )
    return Tunnel(peer, name, "upserts")


@pytest.fixture
def streams(peer: Peer, new_table: NewTable) -> Tunnel:
    return Tunnel(peer, new_table(f"({COLUMNS})"), "streams")


def keyed(operation: int | None, places: list[int] | None = None) -> bytes:
    """Encode one row of an upsert session."""
    columns = parse_columns(COLUMNS + EXTRA)
    row: list[Any] = [1, "x", None, None, operation, None, places]
    types = [pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int8()]
    types += [pa.list_(pa.int64())] * 2
    arrays = [pa.array([value], kind) for value, kind in zip(row, types, strict=True)]
    batch = pa.record_batch(arrays, names=[column.name for column in columns])
    return b"".join(bytes(piece) for piece in encode_rows(columns, iter([batch])))


def plain() -> bytes:
    batch = pa.record_batch({"k": pa.array([1, 2]), "v": pa.array(["x", None])})
    columns = parse_columns(COLUMNS)
    return b"".join(bytes(piece) for piece in encode_rows(columns, iter([batch])))


def test_an_upsert_session_returns_keys_buckets_and_quota(upserts: Tunnel) -> None:
    made = upserts.ask("POST", slotnum=2, lifecycle=1, quotaName="q").json()
    server = upserts.peer.service.tunnel_endpoint.removeprefix("http://")
    assert made == {
        "id": made["id"],
        "schema": {
            "columns": [
                {"name": "k", "type": "bigint", "comment": "", "nullable": False, "column_id": 0},
                {"name": "v", "type": "string", "comment": "", "nullable": True, "column_id": 1},
            ],
            "partitionKeys": [],
        },
        "hash_key": ["k"],
        "hasher": "default",
        "slots": [
            {"slot_id": "0", "buckets": [0, 2], "worker_addr": server},
            {"slot_id": "1", "buckets": [1], "worker_addr": server},
        ],
        "status": "normal",
        "enable_partial_update": False,
        "quota_name": "q",
    }
    assert upserts.ask("GET", upsertid=made["id"], quotaName="q").json() == made
    committed = upserts.ask("POST", upsertid=made["id"]).json()
    assert committed["status"] == "committed"
    assert upserts.ask("POST", upsertid=made["id"]).json() == committed  # a repeated commit
    late = upserts.refusal("PUT", keyed(85), upsertid=made["id"], bucketid=0)
    assert late[:2] == (409, "InvalidState")


@pytest.mark.parametrize(
    ("operation", "places", "params", "code", "said"),
    [
        (85, None, {"bucketid": 3}, "InvalidArgument", "bucketid is '3'; it must be 0 to 2"),
        (85, None, {}, "InvalidArgument", "bucketid is ''"),
        (85, None, {"bucketid": 0, "record_count": 2}, "MalformedDataStream", "but 1 rows"),
        (73, None, {"bucketid": 0}, "InvalidArgument", "__operation must be 85"),
        (None, None, {"bucketid": 0}, "InvalidArgument", "__operation must be 85"),
        (85, [1], {"bucketid": 0}, "InvalidArgument", "the table allows no partial updates"),
    ],
)
def test_wrong_upserts_are_refused_and_store_nothing(
    upserts: Tunnel,
    operation: int | None,
    places: list[int] | None,
    params: dict[str, Any],
    code: str,
    said: str,
) -> None:
    session = upserts.ask("POST").json()["id"]
    found = upserts.refusal("PUT", keyed(operation, places), upsertid=session, **params)
    assert found[:2] == (400, code)
    assert said in found[2]
    assert upserts.ask("POST", upsertid=session).json()["status"] == "committed"
    name = upserts.path.split("/")[-2]
    assert upserts.peer.query(f"SELECT * FROM {name}").num_rows == 0


def test_the_number_of_slots_is_at_least_one(upserts: Tunnel) -> None:
    assert "it must be a number of at least 1" in upserts.refusal("POST", slotnum=0)[2]


@pytest.mark.parametrize("header", ["odps-slot-num", "odps-tunnel-slot-num"])
def test_a_stream_session_has_the_requested_number_of_slots(streams: Tunnel, header: str) -> None:
    """The first header is that of pyodps; the Java and Go SDKs send the second."""
    assert len(streams.ask("POST", header=f"{header}: 2").json()["slots"]) == 2


def test_a_stream_session_returns_slots_and_the_schema_version(streams: Tunnel) -> None:
    made = streams.ask("POST", quotaName="q").json()
    server = streams.peer.service.tunnel_endpoint.removeprefix("http://")
    # the Go SDK requires numbers; pyodps reads "QuotaName", Java and Go read "quota_name"
    assert (made["slots"], made["schema_version"]) == ([[0, server]], 0)
    assert (made["status"], made["QuotaName"], made["quota_name"]) == ("normal", "q", "q")
    put = streams.ask("PUT", plain(), uploadid=made["session_name"], slotid=0, record_count=2)
    assert put.status_code == 200
    assert put.headers["odps-tunnel-slot-num"] == "1"
    assert put.headers["odps-tunnel-routed-server"] == server
    name = streams.path.split("/")[-2]
    assert streams.peer.query(f"SELECT * FROM {name}").num_rows == 2
    assert streams.ask("POST", uploadid=made["session_name"]).json()["status"] == "closed"


@pytest.mark.parametrize(
    ("params", "code", "said"),
    [
        ({"slotid": 1}, "InvalidArgument", "slotid is '1'; it must be 0 to 0"),
        ({}, "InvalidArgument", "slotid is ''"),
        ({"slotid": 0, "record_count": 3}, "MalformedDataStream", "record_count is 3, but 2"),
        ({"slotid": 0, "schema_version": "x"}, "NoSuchSchema", "is not the latest version"),
    ],
)
def test_wrong_stream_uploads_are_refused_and_store_nothing(
    streams: Tunnel, params: dict[str, Any], code: str, said: str
) -> None:
    session = streams.ask("POST").json()["session_name"]
    found = streams.refusal("PUT", plain(), uploadid=session, **params)
    assert found[1] == code
    assert said in found[2]
    name = streams.path.split("/")[-2]
    assert streams.peer.query(f"SELECT * FROM {name}").num_rows == 0


def test_sessions_of_other_kinds_are_not_found(streams: Tunnel, peer: Peer) -> None:
    batch = peer.open_write(streams.path.split("/")[-2])
    for session in (batch, f"{batch}-1", "?"):
        found = streams.refusal("GET", uploadid=session)
        assert found[:2] == (404, "StreamSessionNotFound")
