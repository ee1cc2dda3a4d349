"""Damaged, partly restored or foreign folders are rejected with a message; nothing is deleted."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import odps_nb
from odps_nb.errors import ConfigError
from odps_nb.local.samples.tables import install_samples
from odps_nb.local.server.launch import start
from odps_nb.local.service import Service, Settings
from odps_nb.local.store.resources import Resource
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec, RowRangeSplit, SplitMode, TableName, WriteMode
from odps_nb.wire.calls import CreateReadSession
from odps_nb.wire.type_text import parse_type
from tests.support.service.commands import Ended, check_refusal, serve_each
from tests.support.service.peer import Peer

NAME = TableName(project="local", table="t")
MUTATIONS = int(os.environ.get("ODPS_NB_MUTATIONS", "120"))


def write(service: Service, *values: int, overwrite: bool = False) -> None:
    blobs = [service.blobs.store_bytes(b"%d" % v, "local") for v in values]
    rows = pa.record_batch(
        {"a": pa.array(values, pa.int64()), "b": [blob.reference.raw for blob in blobs]}
    )
    writes = service.write_sessions
    session = writes.create(NAME, PartitionSpec(), overwrite=overwrite, mode=WriteMode.BATCH)
    stream = writes.open_stream(session, "0", 1, exactly_once=False)
    writes.write(session, stream, [rows])
    writes.close_stream(session, "0", 1)
    writes.commit(session)


def values(root: Path) -> list[int]:
    with Service(root, Settings(durable=False)) as service:
        asked = CreateReadSession(table=NAME, split_mode=SplitMode.ROW_OFFSET)
        session = service.read_sessions.create(asked)
        plan = service.read_sessions.get(NAME, session.session_id)
        whole = RowRangeSplit(0, plan.rows)
        return [
            value
            for batch in service.read_sessions.rows(plan, whole)[1]
            for value in batch.column(0).to_pylist()
        ]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and blobs, and next to it the catalog from before the last write."""
    root = tmp_path_factory.mktemp("sound") / "root"
    with Service(root, Settings(durable=False)) as service:
        columns = (("a", "bigint"), ("b", "blob"))
        service.catalog.create_table(
            NAME,
            TableSchema(columns=tuple(Column(name=n, type=parse_type(t)) for n, t in columns)),
            owner="me",
        )
        write(service, 1)
    shutil.copy(root / "catalog.sqlite", root.parent / "older.sqlite")
    with Service(root, Settings(durable=False)) as service:
        write(service, 2, 3)
    return root


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose service was killed: its last changes are in the log next to the catalog."""
    root = tmp_path_factory.mktemp("killed") / "root"
    with start(root, samples=False) as service:
        peer = Peer(service)
        peer.sql("CREATE TABLE t (a bigint);")
        peer.write("t", pa.table({"a": [1]}))
        os.kill(service.pid, signal.SIGKILL)
    assert (root / "catalog.sqlite-wal").stat().st_size
    return root


def data(root: Path) -> dict[str, bytes]:
    found = {}
    for place in ("rows", "blobs", "unknown"):
        for path in (root / place).glob("*"):
            found[path.name] = path.read_bytes()
    return found


def remove(name: str) -> Callable[[Path, Path], None]:
    def damage(root: Path, _: Path) -> None:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def catalogue(change: Callable[[Path], object]) -> Callable[[Path, Path], None]:
    return lambda root, _: (change(root / "catalog.sqlite"), None)[1]


def sql(*statements: str) -> Callable[[Path, Path], None]:
    def change(path: Path) -> None:
        connection = sqlite3.connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    return catalogue(change)


def new(path: Path) -> None:
    """Copy the catalog of another, new folder into it."""
    other = path.parent.parent / "new"
    Service(other, Settings(durable=False)).close()
    shutil.copy(other / "catalog.sqlite", path)


def empty(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert path.stat().st_size


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def first(root: Path, folder: str) -> None:
    min((root / folder).iterdir()).unlink()


DAMAGES = {
    "catalogue missing": (remove("catalog.sqlite"), "without a catalog.sqlite"),
    "catalogue of no bytes": (catalogue(lambda p: p.write_bytes(b"")), "without a catalog.sqlite"),
    "catalogue without tables": (catalogue(empty), "unknown to catalog.sqlite"),
    "catalogue of a new folder": (catalogue(new), "unknown to catalog.sqlite"),
    "catalogue of text": (catalogue(lambda p: p.write_text("?" * 9999)), "file is not a database"),
    "catalogue cut": (catalogue(half), "malformed"),
    "catalogue of one page": (catalogue(lambda p: os.truncate(p, 4096)), "malformed"),
    "catalogue is a folder": (catalogue(lambda p: (p.unlink(), p.mkdir())), "cannot be opened"),
    "database of another program": (
        catalogue(lambda p: (p.unlink(), sql("CREATE TABLE x (y)")(p.parent, p))),
        "another program",
    ),
    "catalogue of another version": (sql("PRAGMA user_version=99"), "layout 99"),
    "catalogue older than the data": (
        lambda root, sound: shutil.copy(sound.parent / "older.sqlite", root / "catalog.sqlite"),
        "older than the data",
    ),
    "catalogue lacks a table": (sql("DROP TABLE pins"), "it has no column pins"),
    "catalogue lacks a column": (
        sql("DROP TABLE pins", "CREATE TABLE pins (session_id TEXT)"),
        "it has no column pins.file_id",
    ),
    "rows missing": (remove("rows"), "data files? missing, .*: rows/"),
    "blobs missing": (remove("blobs"), "data files? missing, .*: blobs/"),
    "one row file missing": (lambda root, _: first(root, "rows"), "1 data file missing, .*: rows/"),
    "one pack missing": (lambda root, _: first(root, "blobs"), "1 data file missing, .*: blobs/"),
    "keys of no JSON": (
        lambda root, _: (root / "access_key.json").write_text("{"),
        "cannot read an access key from",
    ),
    "keys of bytes": (
        lambda root, _: (root / "access_key.json").write_bytes(b"\xff\xfe"),
        "cannot read an access key from",
    ),
    "keys of a list": (
        lambda root, _: (root / "access_key.json").write_text("[1]"),
        "cannot read an access key from",
    ),
    "no keys": (
        lambda root, _: (root / "access_key.json").write_text("{}"),
        "cannot read an access key from",
    ),
    "log missing": (remove("catalog.sqlite-wal"), "catalog.sqlite"),
    "log of zeros": (
        lambda root, _: (root / "catalog.sqlite-wal").write_bytes(bytes(5000)),
        "catalog.sqlite",
    ),
}
OF_A_LOG = ("log missing", "log of zeros")  # damage to the folder of a killed service


def serve(*roots: Path) -> list[Ended]:
    return serve_each(*(("--root", root) for root in roots))


def refused(root: Path, expected: str, by_command: Ended) -> None:
    """Check that the command rejected the folder with the same message as `Service`."""
    with pytest.raises(ConfigError, match=expected) as caught:
        Service(root)
    assert caught.value.option == "root"
    assert caught.value.hint
    check_refusal(by_command, str(caught.value))


@dataclass
class Damaged:
    """A damaged folder, its contents, and the output of the command."""

    root: Path
    before: dict[str, bytes]
    by_command: Ended


@pytest.fixture(scope="module")
def damaged(
    sound: Path, killed: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Damaged]:
    """Each damage in a separate folder, and one process that tries to serve all of them."""
    roots, before = {}, {}
    for kind, (damage, _) in DAMAGES.items():
        root = tmp_path_factory.mktemp("damaged") / "root"
        shutil.copytree(killed if kind in OF_A_LOG else sound, root)
        damage(root, sound)
        roots[kind], before[kind] = root, data(root)
    said = dict(zip(roots, serve(*roots.values()), strict=True))
    return {kind: Damaged(roots[kind], before[kind], said[kind]) for kind in roots}


def test_the_refusal_reaches_the_connecting_client(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(sound, root)
    (root / "catalog.sqlite").unlink()
    with pytest.raises(ConfigError, match=r"without a catalog.*to do: restore") as caught:
        odps_nb.connect("local", root=root)
    assert "Traceback" not in str(caught.value)


@pytest.mark.gate(3)
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_folder_is_refused_with_a_message_and_loses_nothing(
    damaged: dict[str, Damaged], kind: str
) -> None:
    found = damaged[kind]
    assert found.before
    refused(found.root, DAMAGES[kind][1], found.by_command)
    assert data(found.root) == found.before


def test_the_command_exits_with_its_status(damaged: dict[str, Damaged]) -> None:
    root = damaged["catalogue missing"].root
    command = [sys.executable, "-m", "odps_nb.cli", "serve", "--root", str(root), "--json"]
    done = subprocess.run(
        [*command, "--no-samples"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == damaged["catalogue missing"].by_command[2]


def test_a_repaired_folder_is_served_again(sound: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(sound, root)
    (root / "catalog.sqlite").rename(tmp_path / "kept")
    with pytest.raises(ConfigError):
        Service(root)
    (tmp_path / "kept").rename(root / "catalog.sqlite")
    assert values(root) == [1, 2, 3]


@contextmanager
def read_only(tmp_path: Path) -> Iterator[Path]:
    """Return a folder to which no user can write, not even root."""
    place = tmp_path / "fixed"
    place.mkdir()
    if os.geteuid():
        place.chmod(0o500)
        yield place
        place.chmod(0o700)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield Path("/sys/kernel")  # a read-only folder, if the container may not mount
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_folder_that_cannot_be_served_is_refused_with_a_message(tmp_path: Path) -> None:
    """The folder is not writable, is a file or inside one, or is served by another process."""
    file, served = tmp_path / "file", tmp_path / "served"
    file.write_text("mine")
    with read_only(tmp_path) as place, start(served, samples=False):
        wrong = (place / "root", place, file, file / "below")
        *of_wrong, of_served = serve(*wrong, served)
        for root, said in zip(wrong, of_wrong, strict=True):
            refused(root, "cannot be served", said)
        refused(served, "served by another process", of_served)
    assert file.read_text() == "mine"


def test_files_of_the_user_in_a_folder_are_not_deleted(tmp_path: Path) -> None:
    """A root that is a user's project: folders with the same names belong to the user."""
    root = tmp_path / "project"
    for name in ("work/thesis.tex", "rows/table.csv", "blobs/cat.png", "hot/soup.arrow", "x.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    for _ in range(2):
        with Service(root, Settings(durable=False)):
            assert all(
                path.read_text() == str(path.relative_to(root))
                for path in root.rglob("*.*")
                if path.suffix in (".tex", ".csv", ".png", ".arrow", ".md")
            )
    assert len([p for p in root.rglob("*.*") if p.suffix in (".tex", ".csv", ".png", ".md")]) == 4
    assert (root / "hot/soup.arrow").exists()


def test_a_kill_during_the_installation_of_samples_leaves_a_new_folder(tmp_path: Path) -> None:
    """If there are only samples without a catalog, they are created again."""
    root = tmp_path / "root"
    with Service(root, Settings(durable=False), prepare=install_samples):
        pass
    for path in root.glob("catalog*"):
        path.unlink()
    with pytest.raises(ConfigError, match="without a catalog"):
        Service(root)
    with start(root) as service:
        peer = Peer(service)
        assert peer.read("types_all").num_rows
        peer.sql("CREATE TABLE mine (a bigint);")
        peer.write("mine", pa.table({"a": [1]}))
    for path in root.glob("catalog*"):
        path.unlink()
    with pytest.raises(ConfigError, match="without a catalog"):
        Service(root, prepare=install_samples)


def mutate(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    page = 4096 * chance.randrange(max(1, len(content) // 4096))
    kind = chance.choice(["cut", "zeros", "noise", "flip", "swap"])
    if kind == "cut":
        del content[chance.randrange(len(content)) :]
    elif kind == "zeros":
        content[page : page + 4096] = bytes(4096)
    elif kind == "noise":
        at = chance.randrange(len(content))
        content[at : at + 64] = chance.randbytes(min(64, len(content) - at))
    elif kind == "flip":
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    else:
        other = 4096 * chance.randrange(max(1, len(content) // 4096))
        content[page : page + 4096], content[other : other + 4096] = (
            content[other : other + 4096],
            content[page : page + 4096],
        )
    path.write_bytes(content)
    return kind


@pytest.mark.parametrize("mutations", [24, pytest.param(MUTATIONS, marks=pytest.mark.nightly)])
def test_damage_to_the_catalog_is_harmless_or_refused_with_a_message(
    sound: Path, killed: Path, tmp_path: Path, mutations: int
) -> None:
    for number in range(mutations):
        chance = random.Random(number)
        source = chance.choice([sound, killed])
        root = tmp_path / str(number)
        shutil.copytree(source, root)
        target = (
            "catalog.sqlite"
            if source is sound
            else chance.choice(["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"])
        )
        kind = mutate(root / target, chance)
        before = data(root)
        with suppress(ConfigError):
            Service(root, Settings(durable=False)).close()
        assert data(root) == before, (number, kind)
        shutil.rmtree(root)


def test_a_folder_of_an_earlier_layout_is_served_and_accepts_new_objects(
    sound: Path, tmp_path: Path
) -> None:
    """Layout 2 lacks resources, functions, outputs of instances and comments of schemas."""
    root = tmp_path / "root"
    shutil.copytree(sound, root)
    before = values(root)
    sql(
        *("DROP TABLE resources", "DROP TABLE functions"),
        *("ALTER TABLE instances DROP COLUMN outputs", "ALTER TABLE schemas DROP COLUMN comment"),
        "PRAGMA user_version=2",
    )(root, sound)
    content = b"content"
    with Service(root, Settings(durable=False)) as service:
        named = service.resources.named("local", None, "r")
        body = service.folder.work_file(".body")
        body.write_bytes(content)
        facts = dict.fromkeys(("comment", "owner", "updator", "source", "md5"), "")
        numbers = dict.fromkeys(("size", "created", "modified"), 0)
        flags = dict.fromkeys(("is_temp", "is_part"), False)
        given = Resource(**named._asdict(), kind="file", pack=None, **facts, **numbers, **flags)
        service.resources.put(given, body, is_new=True)
        service.catalog.add_schema("local", "s", comment="told")
    with Service(root, Settings(durable=False)) as service:
        found, file = service.resources.open(named)
        with file:
            assert (file.read(), found.size) == (content, len(content))
        service.resources.delete(named)
        assert service.catalog.schemas("local")["s"].comment == "told"
        service.catalog.drop_schema("local", "s")
    assert values(root) == before
