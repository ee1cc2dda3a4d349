"""`write_files` writes the files of a folder to a table in one commit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.writing.files import FILE_COLUMNS
from odps_nb.access.writing.folder_files import FolderFiles
from odps_nb.errors import (
    ArgumentError,
    ConfigError,
    ConversionError,
    FramingError,
    NotFoundError,
    OdpsNbError,
)
from tests.support.named import NewName
from tests.support.watcher import Watcher

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files, one of which has a wrong extension, and hidden files."""
    root = tmp_path / "files"
    for path, content in {
        "b.txt": b"hello",
        "a/deep/photo.jpg": PNG,
        "a/table.csv": b"x,y\n1,2\n3,4\n",
        "a/report.docx": b"PK\x03\x04" + bytes(60),
        "script.py": b"print('hi')\n",
        "empty.bin": b"",
        "ünïcode ☃.dat": bytes(range(256)) * 300,
        ".hidden": b"no",
        ".git/config": b"no",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


@pytest.mark.storage_api("blobs")
def test_files_of_a_folder_become_rows(odps: Connection, new_name: NewName, folder: Path) -> None:
    name = new_name("files")
    receipt = odps.table(name).write_files(folder)
    rows = odps.table(name).read().to_arrow().to_pylist()
    assert {row["path"]: row["mime_type"] for row in rows} == {
        "a/deep/photo.jpg": "image/png",
        "a/report.docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "a/table.csv": "text/csv",
        "b.txt": "text/plain",
        "empty.bin": "application/x-empty",
        "script.py": "text/x-python",
        "ünïcode ☃.dat": "application/octet-stream",
    }
    assert [row["path"] for row in rows] == sorted(row["path"] for row in rows)
    assert (receipt.rows, receipt.blobs) == (7, 7)
    for row in rows:
        file, blob = folder / row["path"], odps.blob(row["content"])
        content = file.read_bytes()
        assert (blob.bytes(), row["size"]) == (content, len(content))
        assert (blob.file_name, blob.mime_type) == (file.name, row["mime_type"])
        assert row["name"] == file.name
        assert row["modified"] == pd.Timestamp(file.stat().st_mtime_ns)


@pytest.mark.storage_api("blobs")
def test_a_file_of_unknown_type_is_stored(
    odps: Connection, new_name: NewName, folder: Path
) -> None:
    (folder / "cut").write_bytes("Les élèves\n".encode("cp1252") * 5_940 + b"caf\xe9 \x81")
    written = odps.table(new_name("cut"))
    assert written.write_files(folder, recursive=False).rows == 5
    (cut,) = written.read(where="name = 'cut'").to_arrow().to_pylist()
    assert odps.blob(cut["content"]).bytes() == (folder / "cut").read_bytes()


@pytest.mark.storage_api("blobs")
def test_patterns_select_files_and_partitions_are_created(
    odps: Connection, new_name: NewName, folder: Path
) -> None:
    name = new_name("some")
    odps.table(name).write_files(folder, pattern=["*.txt", "a/*.csv"], partition="ds=1")
    odps.table(name).write_files(folder, recursive=False, hidden=True, partition="ds=2")
    odps.table(name).write_files(folder, pattern="*.py", partition="ds=2", overwrite=True)
    found = odps.table(name).read(["path", "ds"]).to_arrow().to_pylist()
    assert sorted((row["ds"], row["path"]) for row in found) == [
        ("1", "a/table.csv"),
        ("1", "b.txt"),
        ("2", "script.py"),
    ]
    assert [one.path for one in FolderFiles(folder=folder, hidden=True, recursive=False)] == [
        ".hidden",
        "b.txt",
        "empty.bin",
        "script.py",
        "ünïcode ☃.dat",
    ]


@pytest.mark.storage_api("blobs")
def test_only_the_columns_of_an_existing_table_are_written(
    odps: Connection, new_name: NewName, folder: Path
) -> None:
    own = odps.create_table(new_name("own"), "id bigint, NAME string, content blob")
    own.write_files(folder, pattern="b.txt")
    (row,) = own.read().to_arrow().to_pylist()
    assert (row["id"], row["NAME"], odps.blob(row["content"]).bytes()) == (None, "b.txt", b"hello")
    bare = odps.create_table(new_name("bare"), "content blob")
    assert bare.write_files(folder).rows == 7
    for columns, error in (
        ("id bigint, path string", ConversionError),
        ("content string", ConversionError),
        ("id bigint not null, content blob", ConversionError),
        ("size string, content blob, day date not null", ConversionError),
    ):
        table = odps.create_table(new_name("bad"), columns)
        with pytest.raises(error):
            table.write_files(folder)
    with pytest.raises(NotFoundError):
        odps.table(new_name("none")).write_files(folder, create=False)


@pytest.mark.storage_api("blobs")
def test_links_that_match_no_pattern_are_skipped(
    odps: Connection, new_name: NewName, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside.bin").write_bytes(b"outside")
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    (folder / "broken.bin").symlink_to(tmp_path / "nowhere")
    (folder / "itself.bin").symlink_to(folder / "itself.bin")
    for follow in (False, True):
        written = odps.table(new_name("l")).write_files(
            folder, pattern="*.txt", follow_links=follow
        )
        assert written.rows == 1


@pytest.mark.storage_api("blobs")
def test_links_pipes_and_missing_files_are_reported_before_anything_is_written(
    odps: Connection, new_name: NewName, folder: Path, tmp_path: Path
) -> None:
    name = new_name("never")
    (tmp_path / "outside.txt").write_bytes(b"outside")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(ConfigError, match="symbolic link") as caught:
        odps.table(name).write_files(folder)
    assert caught.value.hint.endswith("or exclude it with pattern=")
    assert (
        odps.table(new_name("l")).write_files(folder, follow_links=True, pattern="*.txt").rows == 2
    )
    (folder / "link.txt").unlink()
    (folder / "a" / "up").symlink_to(folder)
    with pytest.raises(ConfigError, match="symbolic link") as caught:
        odps.table(name).write_files(folder, pattern="*.txt")
    assert caught.value.hint.endswith("or remove it")
    with pytest.raises(ConfigError, match="link to one of its parent"):
        odps.table(name).write_files(folder, follow_links=True)
    (folder / "a" / "up").unlink()
    (folder / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        odps.table(name).write_files(folder, follow_links=True)
    (folder / "broken").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(ConfigError, match="is a pipe, socket or device"):
        odps.table(name).write_files(folder)
    (folder / "pipe").unlink()
    with (folder / "a" / "film.mp4").open("wb") as film:
        film.truncate(5 * 2**30 + 1)  # uses no disk space
    with pytest.raises(ArgumentError, match=r"a/film\.mp4 has 5,368,709,121 bytes"):
        odps.table(name).write_files(folder)
    (folder / "a" / "film.mp4").unlink()
    (folder / "late.txt").touch()
    os.utime(folder / "late.txt", ns=(10**19, 10**19))
    if (folder / "late.txt").stat().st_mtime_ns == 10**19:  # some file systems limit times
        with pytest.raises(ConfigError, match=r"late\.txt was modified at a time outside"):
            odps.table(name).write_files(folder)
    (folder / "late.txt").unlink()
    os.close(os.open(os.fsencode(folder) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(ConfigError, match="UTF-8"):
        odps.table(name).write_files(folder)
    with pytest.raises(ConfigError, match="not a folder"):
        odps.table(name).write_files(folder / "b.txt")
    with pytest.raises(ArgumentError, match="the path is empty"):
        odps.table(name).write_files("")
    with pytest.raises(ArgumentError, match=r"matches \*\.mp3"):
        odps.table(name).write_files(folder, pattern="*.mp3")
    assert not odps.table(name).exists()


@pytest.mark.storage_api("blobs")
def test_a_file_that_changes_during_the_write_leaves_no_table(
    odps: Connection, new_name: NewName, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def grow(head: bytes, size: int, name: str) -> str:
        with (folder / name).open("ab") as file:
            file.write(b"more")
        return "text/plain"

    name, totals = new_name("changing"), Watcher()
    monkeypatch.setattr("odps_nb.access.writing.files.media_type", grow)
    with Connection(odps.profile) as other:
        with pytest.raises(FramingError, match="changed while") as changed:
            other.table(name).write_files(folder, pattern="b.txt", progress=totals)
        assert any("was dropped" in note for note in changed.value.notes)
        assert not other.table(name).exists()
    assert (totals.last.rows_total, totals.last.phase.value) == (1, "failed")
    (one,) = FolderFiles(folder=folder, patterns=("b.txt",))
    one.file.unlink()
    for ask in (lambda: one.head(10), one.require_unchanged):
        with pytest.raises(ConfigError, match="cannot be read"):
            ask()


def removed(file: Path) -> None:
    file.unlink()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_device(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


def cut(file: Path) -> None:
    os.truncate(file, 1)


def a_link_to_a_similar_file(file: Path) -> None:
    """Replace a file with a link to another file of the same size and time."""
    shutil.copy2(file, file.parent.parent / "elsewhere")
    file.unlink()
    file.symlink_to(file.parent.parent / "elsewhere")


def below_another_folder(file: Path) -> None:
    """Replace the folder with a link to a copy."""
    folder = file.parent
    shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("before"))
    folder.symlink_to(folder.with_name("copy"))


CHANGES = (removed, a_folder, a_pipe, a_device, cut, a_link_to_a_similar_file, below_another_folder)


@pytest.mark.storage_api("blobs")
@pytest.mark.gate(4)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("resume", [False, True], ids=["at once", "resumable"])
def test_a_file_replaced_during_the_upload_is_never_committed(
    odps: Connection,
    new_name: NewName,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    change: Callable[[Path], None],
    resume: bool,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))

    def change_and_detect(head: bytes, size: int, name: str) -> str:
        change(folder / name)
        return "text/plain"

    table = odps.create_table(new_name("replaced"), FILE_COLUMNS)
    monkeypatch.setattr("odps_nb.access.writing.files.media_type", change_and_detect)
    with Connection(odps.profile) as other:
        with pytest.raises(OdpsNbError, match=r"changed while|cannot be read"):
            other.table(table.name).write_files(
                folder, pattern="b.txt", progress=False, resume=resume
            )
        assert table.read().row_count == 0
