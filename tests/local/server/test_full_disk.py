"""A full disk: a clear error, no committed data is lost, and work continues once space is free."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import ConfigError, OdpsNbError, QueryError, ServerFaultError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import IndexSplit
from tests.support.service.peer import Peer

SMALL = pa.table({"a": [1, 2, 3]})
FULL = "disk of the service is full"


class SmallDisk:
    """A disk of 24 MiB that can be filled to the last byte."""

    def __init__(self, place: Path) -> None:
        self.root, self._ballast = place / "root", place / "ballast"

    def fill(self) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def make_room(self) -> None:
        self._ballast.unlink()

    def data(self) -> set[str]:
        return {p.name for place in ("rows", "blobs") for p in (self.root / place).iterdir()}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root; the test with a limit on files runs everywhere")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def refused(call: Callable[[], object]) -> None:
    for _ in range(3):
        with pytest.raises(ServerFaultError, match=FULL) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (507, "InsufficientStorage")
        assert caught.value.hint == "free disk space on the service, and try again"


def begin(service: LocalService) -> tuple[Peer, str, str]:
    """Create two tables, and open a stream into each."""
    peer = Peer(service)
    peer.make_blob_table("t", "(a bigint, b blob)")
    peer.sql("CREATE TABLE s (a bigint);")
    peer.write("s", SMALL)
    sessions = [peer.open_write(name) for name in "ts"]
    for name, session in zip("ts", sessions, strict=True):
        peer.open_stream(name, session, "0")
    return peer, sessions[0], sessions[1]


@pytest.mark.nightly
def test_a_full_disk_is_reported_and_no_data_is_lost(disk: SmallDisk) -> None:
    blob = os.urandom(100_000)
    with start(disk.root, samples=False) as service:
        peer, into_t, into_s = begin(service)
        kept = peer.put_blob("t", into_t, "0", blob, column_id=2).references[0]
        reader, before = peer.open_read("s"), disk.data()
        disk.fill()
        noise = os.urandom(5_000_000)
        refused(lambda: peer.put_blob("t", into_t, "0", noise, column_id=2))
        refused(lambda: peer.put("s", into_s, "0", pa.table({"a": range(100_000)})))
        refused(lambda: peer.open_read("s"))
        with pytest.raises(OdpsNbError, match=FULL) as caught:
            peer.sql("CREATE TABLE x AS SELECT a FROM s;")
        assert isinstance(caught.value, (QueryError, ServerFaultError))
        assert peer.split("s", reader.session_id, IndexSplit(0)).equals(SMALL)
        assert peer.blobs([kept])[0][0] == blob
        assert disk.data() == before
        assert not list((disk.root / "work").glob("*.*"))
        disk.make_room()
        peer.put("t", into_t, "0", pa.table({"a": [7], "b": pa.array([kept.raw], pa.binary())}))
        peer.close_stream("t", into_t, "0")
        peer.commit("t", into_t)
        peer.sql("INSERT INTO s SELECT 4;")
        assert peer.read("t").column("a").to_pylist() == [7]
    disk.fill()
    with pytest.raises(ConfigError, match=r"free disk space|No space left") as at_start:
        start(disk.root, samples=False)
    assert "Traceback" not in str(at_start.value)
    disk.make_room()
    with start(disk.root, samples=False) as service:
        assert sorted(Peer(service).read("s").column("a").to_pylist()) == [1, 2, 3, 4]
        assert before <= disk.data()
        assert len(disk.data() - before) == 2


@pytest.mark.nightly
def test_a_query_on_a_full_disk_fails(disk: SmallDisk) -> None:
    """The disk is also full when the end of the query is recorded."""
    with start(disk.root, samples=False) as service:
        peer, _, _ = begin(service)
        rows = pa.table({"a": range(200_000)})
        peer.write("s", rows, overwrite=True)
        (disk.root.parent / "half").write_bytes(bytes(12 << 20))

        def fill() -> None:
            for number in range(9):
                peer.sql(f"CREATE TABLE c{number} AS SELECT a * {number} + rand() a FROM s;")

        with pytest.raises(OdpsNbError, match=FULL):
            fill()
        (disk.root.parent / "half").unlink()
        assert peer.read("s").num_rows == 200_000


@pytest.mark.nightly
def test_a_quota_is_reported_as_a_full_disk(tmp_path: Path) -> None:
    """The effect of a quota, which can be tested without root."""
    root = tmp_path / "root"
    with start(root, samples=False) as service:
        peer, into_t, into_s = begin(service)
        _, most = resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (1 << 20, -1))
        noise = os.urandom(5_000_000)
        refused(lambda: peer.put_blob("t", into_t, "0", noise, column_id=2))
        refused(lambda: peer.put("s", into_s, "0", pa.table({"a": range(200_000)})))
        assert peer.read("s").equals(SMALL)
        assert not list((root / "work").glob("*.*"))
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (most, -1))
        assert peer.put_blob("t", into_t, "0", noise, column_id=2).references
