"""Checksums detect bytes changed in transit; data without checksums is never called verified."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import odps_nb
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import ChecksumError
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.cards import card_html, card_text
from odps_nb.notebook.progress.operations import Operations
from tests.support.named import NewName
from tests.support.service.services import by_storage_api, by_tunnel
from tests.support.sockets.peers import Line, Peer
from tests.support.watcher import Watcher

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

MARK = 0x0123_4567_89AB_CDEF
SENT = MARK.to_bytes(8, "little")
DAMAGED = SENT[:-1] + bytes([SENT[-1] ^ 4])


class DamagingProxy(Peer):
    """Forwards everything to a plain service, and flips one bit of each marker in the responses."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._place = (parts.hostname, parts.port)
        self.flipped = 0
        super().__init__(self._carry)

    def _carry(self, line: Line) -> None:
        with socket.create_connection(self._place) as service:
            while True:
                for sock in select.select([line.sock, service], [], [])[0]:
                    data = sock.recv(1 << 20)
                    if not data:
                        return
                    if sock is service:
                        self.flipped += data.count(SENT)
                        line.sock.sendall(data.replace(SENT, DAMAGED))
                    else:
                        service.sendall(data)


@contextmanager
def damaged_connection(service: LocalService) -> Iterator[tuple[Connection, DamagingProxy]]:
    with DamagingProxy(service.endpoint) as near, DamagingProxy(service.tunnel_endpoint) as tunnel:
        path = urlsplit(service.endpoint).path
        with odps_nb.connect(
            endpoint=near.url + path,
            tunnel_endpoint=tunnel.url,
            project=service.project,
            access_id=service.access_id,
            access_key=service.access_key,
        ) as connection:
            yield connection, tunnel


def all_texts(tracker: ProgressTracker) -> str:
    snapshot = tracker.snapshot()
    operations = Operations()
    operations.add(tracker)
    listing = operations.listing()
    said = [card_html(snapshot), card_text(snapshot), *words.figures(snapshot)]
    return "\n".join([*said, words.ending(snapshot), repr(listing), str(listing.rows)])


@pytest.mark.parametrize("what", ["read", "sql"])
def test_rows_without_checksums_are_not_reported_as_verified(
    service: LocalService,
    odps: Connection,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    monkeypatch.setattr(Attempts, "pause", lambda self, seconds: None)  # retries do not wait
    table = odps.create_table(new_name("flip"), "id bigint")
    table.write(pa.table({"id": [MARK] * 10}))
    seen = Watcher()
    with damaged_connection(service) as (connection, way):
        if what == "read":
            source = connection.table(table.name).read()
        else:
            source = connection.sql(f"select id from {table.name}")
        if not (by_storage_api() or (what == "read" and not by_tunnel())):
            with pytest.raises(ChecksumError):  # the tunnel sends checksums
                source.to_arrow(progress=seen)
            assert way.flipped >= 10
            return
        rows = source.to_arrow(progress=seen)
        assert way.flipped >= 10
        assert set(rows["id"].to_pylist()) == {int.from_bytes(DAMAGED, "little")}
    said = all_texts(seen.tracker)
    assert "verified" not in said + repr(source) + repr(rows)
    assert "80 B complete" in said


def test_written_rows_are_not_reported_as_verified(odps: Connection, new_name: NewName) -> None:
    table, seen = odps.create_table(new_name("flip"), "id bigint"), Watcher()
    receipt = table.write(pa.table({"id": [MARK] * 10}), progress=seen)
    said = all_texts(seen.tracker)
    assert "verified" not in said + repr(receipt)
    assert "80 B complete" in said


@pytest.mark.storage_api("blobs")
def test_a_changed_blob_raises_an_error_and_an_unchanged_blob_is_verified(
    service: LocalService,
    odps: Connection,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Attempts, "pause", lambda self, seconds: None)  # retries do not wait
    table = odps.create_table(new_name("flip"), "id bigint, content blob")
    table.write(pa.table({"id": [1], "content": [SENT * 100]}))
    whole, damaged = Watcher(), Watcher()
    token = table.read(["content"]).to_arrow()["content"][0].as_py()
    assert [one.verified for one in odps.blobs([token]).fetch(progress=whole)] == [True]
    assert "800 B verified" in all_texts(whole.tracker)
    with damaged_connection(service) as (connection, way):
        blob = connection.blob(token)
        with pytest.raises(ChecksumError):
            blob.bytes()
        assert not blob.verified
        assert "verified" not in repr(blob)
        with pytest.raises(ChecksumError):
            list(connection.blobs([token]).fetch(progress=damaged))
        assert way.flipped
    assert "verified" not in all_texts(damaged.tracker)
