"""The same call resumes an interrupted upload of a folder and writes each file once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.writing import files as writing
from odps_nb.access.writing import resumable
from odps_nb.access.writing.resumable import Journal, open_journal
from odps_nb.client.auth.profile import Profile
from odps_nb.client.write.base import WriteSession
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import abort_write, fetch_write_state, resume_write_session
from odps_nb.errors import ConfigError, ConflictError, FramingError
from tests.support.named import NewName
from tests.support.watcher import Watcher

pytestmark = pytest.mark.storage_api("resumable writes")

COUNT = 7


class Stopped(BaseException):
    """Ends a call like an interrupt."""


class Types:
    """Returns each file's media type, records its name, and runs an action at one file."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.at: dict[str, Callable[[], object]] = {}

    def __call__(self, head: bytes, size: int, name: str) -> str:
        self.names.append(name)
        self.at.pop(name, lambda: None)()
        return "text/plain"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for journals; each upload request contains at most two files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(writing, "BLOB_ROWS", 2)
    return tmp_path / "state" / "odps_nb" / "uploads"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "files"
    root.mkdir()
    for number in range(COUNT):
        (root / f"{number}.txt").write_text(f"content of {number}")
    return root


@pytest.fixture
def types() -> Types:
    return Types()


@pytest.fixture
def conn(odps: Connection, types: Types, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setattr("odps_nb.access.writing.files.media_type", types)
    with Connection(odps.profile) as made:
        yield made


def stop() -> None:
    raise Stopped


def contents(odps: Connection, name: str) -> dict[str, bytes]:
    rows = odps.table(name).read().to_arrow().to_pylist()
    assert len({row["path"] for row in rows}) == len(rows)
    return {row["path"]: odps.blob(row["content"]).bytes() for row in rows}


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def interrupt(conn: Connection, types: Types, folder: Path, name: str, at: str) -> BaseException:
    types.at[at] = stop
    with pytest.raises(Stopped) as caught:
        conn.table(name).write_files(folder, resume=True)
    types.names.clear()
    return caught.value


def test_a_resumed_upload_sends_no_file_twice(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path, state: Path
) -> None:
    name = new_name("resumed")
    error = interrupt(conn, types, folder, name, "5.txt")
    assert any("4 of 7 files have arrived" in note for note in error.__notes__)
    assert contents(odps, name) == {}
    (journal,) = state.iterdir()
    assert journal.stat().st_mode & 0o077 == 0
    assert "content of" not in journal.read_text()
    events = Watcher()
    receipt = conn.table(name).write_files(folder, resume=True, progress=events)
    assert types.names == ["4.txt", "5.txt", "6.txt"]
    assert contents(odps, name) == files_in(folder)
    assert (receipt.rows, receipt.blobs, receipt.resumed) == (COUNT, COUNT, 4)
    assert "(4 rows from an earlier call)" in repr(receipt)
    assert (events.last.rows, events.last.fraction) == (COUNT, 1.0)
    assert "4 of 7 files arrived in an earlier call" in events.last.events
    assert list(state.iterdir()) == []


def test_another_process_resumes_the_upload_of_a_killed_process(
    odps: Connection,
    conn: Connection,
    types: Types,
    new_name: NewName,
    folder: Path,
    profile: Profile,
) -> None:
    name = new_name("killed")
    job = (
        "import os, sys\n"
        "from odps_nb.access.writing import files\n"
        "import odps_nb\n"
        "files.BLOB_ROWS = 2\n"
        "real = files.media_type\n"
        "def media_type(head, size, name):\n"
        "    if name == '3.txt': os.kill(os.getpid(), 9)\n"
        "    return real(head, size, name)\n"
        "files.media_type = media_type\n"
        "odps_nb.connect().table(sys.argv[2]).write_files(sys.argv[1], resume=True)\n"
    )
    env = {
        **os.environ,
        "ODPS_ENDPOINT": profile.endpoint,
        "ODPS_PROJECT": profile.project,
        "ODPS_ACCESS_ID": profile.access_id,
        "ODPS_ACCESS_KEY": profile.access_key,
    }
    child = subprocess.run([sys.executable, "-c", job, str(folder), name], env=env, timeout=300)
    assert child.returncode == -signal.SIGKILL
    assert conn.table(name).write_files(folder, resume=True).resumed == 2
    assert types.names == [f"{number}.txt" for number in range(2, COUNT)]
    assert contents(odps, name) == files_in(folder)


def test_a_resumed_upload_sends_changed_and_new_files_and_omits_removed_files(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path
) -> None:
    name = new_name("changed")
    interrupt(conn, types, folder, name, "6.txt")
    (folder / "1.txt").write_text("another content")
    (folder / "2.txt").unlink()
    (folder / "new.txt").write_text("new")
    assert conn.table(name).write_files(folder, resume=True).resumed == 2
    assert types.names == ["0.txt", "1.txt", "3.txt", "6.txt", "new.txt"]
    assert contents(odps, name) == files_in(folder)


def test_after_the_session_expired_all_files_are_sent_again_with_a_note(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path, state: Path
) -> None:
    name, events = new_name("gone"), Watcher()
    interrupt(conn, types, folder, name, "5.txt")
    (journal,) = state.iterdir()
    session = json.loads(journal.read_text().splitlines()[0])["session"]
    abort_write(odps._storage, WriteSessionRef(table=odps.table(name).name, session_id=session))
    receipt = conn.table(name).write_files(folder, resume=True, progress=events)
    assert (receipt.rows, receipt.resumed, len(types.names)) == (COUNT, 0, COUNT)
    assert any(
        "earlier session was aborted; sending all files again" in line
        for line in events.last.events
    )
    interrupt(conn, types, folder, name, "5.txt")
    (journal,) = state.iterdir()
    lines = journal.read_text().splitlines()
    journal.write_text(lines[0].replace(json.loads(lines[0])["session"], "nosuchsession") + "\n")
    conn.table(name).write_files(folder, resume=True, progress=events, overwrite=False)
    assert any(
        "earlier session was not found; sending all files again" in line
        for line in events.last.events
    )
    assert odps.table(name).read().to_arrow().num_rows == 2 * COUNT


def test_a_call_that_failed_after_its_commit_is_not_repeated(
    odps: Connection,
    conn: Connection,
    types: Types,
    new_name: NewName,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_name("committed")
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", lambda _: stop())
        with pytest.raises(Stopped):
            conn.table(name).write_files(folder, resume=True)
    types.names.clear()
    receipt = conn.table(name).write_files(folder, resume=True)
    assert (receipt.rows, receipt.resumed, types.names) == (COUNT, COUNT, [])
    assert contents(odps, name) == files_in(folder)


def test_if_the_outcome_of_a_commit_is_unknown_the_call_raises_an_error(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path, state: Path
) -> None:
    name = new_name("unknown")
    interrupt(conn, types, folder, name, "5.txt")
    (journal,) = state.iterdir()
    lines = journal.read_text().splitlines()
    lines[0] = lines[0].replace(json.loads(lines[0])["session"], "nosuchsession")
    journal.write_text("\n".join([*lines, '{"commit": []}', '{"torn']))
    with pytest.raises(ConflictError, match="is unknown") as caught:
        conn.table(name).write_files(folder, resume=True)
    assert str(journal) in (caught.value.hint or "")
    assert contents(odps, name) == {}
    journal.unlink()
    assert conn.table(name).write_files(folder, resume=True).resumed == 0


def test_a_session_that_was_committed_elsewhere_is_not_written_again(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path, state: Path
) -> None:
    name = new_name("elsewhere")
    interrupt(conn, types, folder, name, "5.txt")
    (journal,) = state.iterdir()
    session = json.loads(journal.read_text().splitlines()[0])["session"]
    ref = WriteSessionRef(table=odps.table(name).name, session_id=session)
    streams = fetch_write_state(odps._storage, ref).streams
    resume_write_session(odps._storage, ref).commit(streams.items())
    written = contents(odps, name)
    assert len(written) == 4
    with pytest.raises(ConflictError, match="does not record a commit"):
        conn.table(name).write_files(folder, resume=True)
    assert contents(odps, name) == written


def test_a_journal_that_cannot_be_written_is_refused(
    conn: Connection, new_name: NewName, folder: Path, state: Path
) -> None:
    state.parent.parent.write_bytes(b"a file in place of the folder")
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        conn.table(new_name("closed")).write_files(folder, resume=True)
    assert "XDG_STATE_HOME" in (caught.value.hint or "")


def test_no_second_commit_is_requested_without_the_session_status(
    odps: Connection,
    conn: Connection,
    new_name: NewName,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, ask = new_name("status"), resumable.fetch_write_state
    monkeypatch.setattr(
        resumable, "fetch_write_state", lambda *a, **k: replace(ask(*a, **k), status=None)
    )
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", lambda _: stop())
        with pytest.raises(Stopped):
            conn.table(name).write_files(folder, resume=True)
    with pytest.raises(ConflictError, match="does not report its status"):
        conn.table(name).write_files(folder, resume=True)
    assert contents(odps, name) == files_in(folder)


def test_a_failed_commit_is_requested_again_and_no_rows_are_sent_again(
    odps: Connection,
    conn: Connection,
    types: Types,
    new_name: NewName,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = new_name("again")
    with monkeypatch.context() as patch:
        patch.setattr(WriteSession, "commit", lambda *_: stop())
        with pytest.raises(Stopped) as caught:
            conn.table(name).write_files(folder, resume=True)
    assert any("resumes unless the commit has succeeded" in note for note in caught.value.__notes__)
    types.names.clear()
    assert conn.table(name).write_files(folder, resume=True).resumed == COUNT
    assert (types.names, contents(odps, name)) == ([], files_in(folder))


def test_only_one_process_uploads_a_folder_and_folders_are_independent(
    conn: Connection, types: Types, new_name: NewName, folder: Path
) -> None:
    name, said = new_name("twice"), []

    def again() -> None:
        with pytest.raises(ConflictError) as caught:
            conn.table(name).write_files(folder / ".." / "files", resume=True)
        said.append(caught.value.code)
        conn.table(name).write_files(folder, resume=True, pattern="1.*")

    types.at["3.txt"] = again
    conn.table(name).write_files(folder, resume=True)
    assert said == ["UploadUnderWay"]
    with open_journal("a") as one:
        one.begin(WriteSessionRef(table=conn.table(name).name, session_id="s"))
        assert one.read() is not None
        for damaged in (b"damaged", b'{"format": 2, "session": "s", "route": null}'):
            one.path.write_bytes(damaged + b"\n")
            assert one.read() is None


def test_without_resume_an_error_aborts_and_leaves_no_journal(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path, state: Path
) -> None:
    name = new_name("plain")
    types.at["5.txt"] = stop
    with pytest.raises(Stopped):
        conn.table(name).write_files(folder)
    assert not state.exists()
    assert not odps.table(name).exists()


def test_a_file_that_changes_during_the_upload_is_sent_by_the_next_call(
    odps: Connection, conn: Connection, types: Types, new_name: NewName, folder: Path
) -> None:
    name = new_name("growing")

    def grow() -> Any:
        return (folder / "3.txt").write_text("longer than it was before")

    types.at["3.txt"] = grow
    with pytest.raises(FramingError, match="changed while"):
        conn.table(name).write_files(folder, resume=True)
    assert conn.table(name).write_files(folder, resume=True).resumed == 2
    assert contents(odps, name) == files_in(folder)
