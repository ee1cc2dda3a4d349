"""A file picker without a browser: pieces arrive, rows are written, nothing is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import ArgumentError, ConfigError, FramingError
from odps_nb.notebook.upload.uploader import PIECE, Announced, PickedFiles, Uploader, Wanted

pytestmark = pytest.mark.storage_api("blobs")

Name = Callable[[str], str]


class Browser:
    """Replaces the widget: responds to the kernel's requests with files in memory."""

    def __init__(self, picker: Uploader, files: Mapping[str, bytes]) -> None:
        self.picker, self.files = picker, files
        self.ended = threading.Event()
        self.said: list[Mapping[str, Any]] = []
        self.waiting: list[Mapping[str, Any]] = []
        picker._widget = self

    def send(self, message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
        self.said.append(message)
        if message["kind"] == "want":
            self.waiting.append(message)
        if message["kind"] in ("done", "problem"):
            self.ended.set()

    def close(self) -> None:
        """Be a widget."""

    def upload(self, *, change: str = "") -> Mapping[str, Any]:
        """Press the button, send every piece, and return the outcome."""
        told = [{"name": n, "size": len(d), "modified": 1.7e12} for n, d in self.files.items()]
        self.picker.receive({"do": "upload", "run": 1, "files": told})
        contents = list(self.files.values())
        assert len(self.waiting) <= 4
        while self.waiting:
            want = self.waiting.pop(0)
            at, size = want["start"], want["size"]
            piece = contents[want["file"]][at : at + size]
            self.picker.receive({**want, "do": "piece"}, [piece[: -1 if change else None]])
        assert self.ended.wait(60)
        return self.said[-1]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def picker(odps: Connection, new_name: Name, temporary: Path) -> Iterator[Uploader]:
    made = odps.table(new_name("picked")).upload()
    assert isinstance(made, Uploader)
    yield made
    made.close()
    assert list(temporary.iterdir()) == []


FILES = {
    "large.bin": bytes(range(256)) * 4096 * 5 + b"tail",
    "empty.txt": b"",
    "../<b>évil.csv": b"x,y\n1,2\n",
}


def test_chosen_files_become_rows_of_one_commit(
    odps: Connection, picker: Uploader, temporary: Path
) -> None:
    browser = Browser(picker, FILES)
    assert browser.upload()["kind"] == "done"
    assert picker.receipt is not None
    rows = odps.table(picker.receipt.table).read().to_arrow().to_pylist()
    found = {row["name"]: odps.blob(row["content"]).bytes() for row in rows}
    assert found == {name.replace("/", "_"): data for name, data in FILES.items()}
    assert {row["path"] for row in rows} == set(found)
    assert picker.receipt.rows == 3
    assert list(temporary.iterdir()) == []
    assert "3 written" in repr(picker)
    picker.receive({"do": "ready"})
    assert "3 rows" in browser.said[-1]["said"]


def test_an_error_is_reported_in_words_and_the_next_upload_is_free_of_it(
    odps: Connection, picker: Uploader, temporary: Path
) -> None:
    browser = Browser(picker, FILES)
    said = browser.upload(change="shorter")
    assert said["state"] == "failed"
    assert "changed while it was being sent" in said["lines"][0]
    assert isinstance(picker.error, FramingError)
    assert list(temporary.iterdir()) == []
    again = Browser(picker, FILES)
    assert again.upload()["kind"] == "done"
    assert picker.error is None
    wrong = odps.create_table(picker._table.name.table + "_wrong", "id bigint")
    other = odps.table(wrong.name).upload()
    said = Browser(other, FILES).upload()
    assert "no BLOB column" in said["lines"][0]
    other.close()


def test_cancelling_before_all_is_here_writes_nothing(
    odps: Connection, picker: Uploader, temporary: Path
) -> None:
    browser = Browser(picker, FILES)
    told = [{"name": "a", "size": PIECE * 9, "modified": 0}]
    picker.receive({"do": "upload", "run": 1, "files": told})
    assert len(browser.waiting) == 4
    picker.receive({"do": "cancel"})
    assert browser.said[-1]["state"] == "cancelled"
    picker.receive({**browser.waiting[0], "do": "piece"}, [bytes(PIECE)])
    assert not odps.table(picker._table.name).exists()
    picker.receive({"do": "upload", "run": 2, "files": told})
    picker.receive({"do": "unreadable", "run": 2, "file": 0, "why": "NotFoundError"})
    assert "the browser cannot read a" in browser.said[-1]["lines"][0]


def test_messages_that_no_picker_sends_are_refused(picker: Uploader) -> None:
    browser = Browser(picker, {})
    for content in (
        None,
        {},
        {"do": "nothing"},
        {"do": "piece", "run": 0},
        {"do": "upload", "run": 1, "files": []},
        {"do": "upload", "run": 1, "files": [{"name": "", "size": 1, "modified": 0}]},
        {"do": "upload", "run": 1, "files": [{"name": "a", "size": -1, "modified": 0}]},
        {"do": "upload", "run": 1, "files": [{"name": "a", "size": 1 << 60, "modified": 0}]},
        {"do": "upload", "run": 1},
    ):
        picker.receive(content)
    assert {one["kind"] for one in browser.said} == {"problem"}
    assert len(browser.said) == 5


def test_pieces_come_once_and_in_order(temporary: Path) -> None:
    one = Announced.of({"name": "\ud800x", "size": PIECE + 5, "modified": 1.5})
    assert one.name == "?x"
    picked = PickedFiles([one])
    first, second = picked.wanted()
    assert (first.size, second.size) == (PIECE, 5)
    for piece, data in ((second, b"12345"), (first, b"short"), (Wanted(0, 0, 3), bytes(4))):
        with pytest.raises(FramingError):
            picked.put(piece, data)
    picked.put(first, bytes(PIECE))
    assert not picked.is_whole
    picked.put(second, memoryview(b"12345"))
    (file,) = picked
    assert picked.is_whole
    assert file.file.stat().st_mtime_ns == file.modified == 1_500_000
    assert file.file.parent.stat().st_mode & 0o077 == 0
    picked.close()
    picked.close()
    assert list(temporary.iterdir()) == []


def test_too_many_and_too_large_are_reported_before_anything_arrives(temporary: Path) -> None:
    small = Announced(name="a", size=1, modified=0)
    with pytest.raises(ArgumentError, match="10,001 files"):
        PickedFiles([small] * 10_001)
    with pytest.raises(ConfigError, match="are free in"):
        PickedFiles([Announced(name="a", size=1 << 60, modified=0)])
    assert list(temporary.iterdir()) == []


def test_a_piece_that_was_not_requested_is_neither_kept_nor_written(
    odps: Connection, picker: Uploader, temporary: Path
) -> None:
    told = [{"name": "a", "size": 3, "modified": 0}]
    browser = Browser(picker, {})
    picker.receive({"do": "upload", "run": 1, "files": told})
    for start, size in ((0, 1000), (-1, 3), (1, 2)):
        picker.receive({"do": "upload", "run": 1, "files": told})
        picker.receive({"do": "piece", "run": 1, "file": 0, "start": start, "size": size}, [b"x"])
        assert isinstance(picker.error, FramingError)
        assert list(temporary.iterdir()) == []
    browser.ended.clear()
    picker.receive({"do": "upload", "run": 2, "files": told})
    picker.receive({"do": "piece", "run": 2, "file": 0, "start": 0, "size": 3}, [b"abc"])
    for _ in range(3):  # all pieces have arrived; an empty piece once restarted the write
        picker.receive({"do": "piece", "run": 2, "file": 0, "start": 3, "size": 0}, [b""])
    assert browser.ended.wait(60)
    assert [one["kind"] for one in browser.said].count("done") == 1
    assert picker.receipt is not None
    assert odps.table(picker.receipt.table).read().row_count == 1
