"""Saved files are complete, have safe names, and overwrite no other file by default."""

import errno
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.access.saving import Folder, file_name_for, safe_name, save_stream
from odps_nb.errors import ConfigError


@pytest.mark.parametrize(
    ("stated", "safe"),
    [
        ("cat.png", "cat.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Windows\\evil.exe", "evil.exe"),
        (".bashrc", "bashrc"),
        ("...", ""),
        ("", ""),
        ("a\x00b\nc.txt", "a_b_c.txt"),
        ("gpj\u202egnp.exe", "gpj_gnp.exe"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("LPT³.log", "_LPT³.log"),
        ("aux .txt", "_aux .txt"),
        ("CONIN$", "_CONIN$"),
        ("console.txt", "console.txt"),
        (". .bashrc", "bashrc"),
        ("con" + " " * 200 + "x", "con x"),
        ("invoice.pdf" + " " * 22 + ".exe", "invoice.pdf .exe"),
        ("-rf", "_-rf"),
        ("a\u200bb\ufeffc\u180ed\u3164.txt", "a_b_c_d_.txt"),
        ("\u3164", "_"),
        ("pandas.py", "blob-pandas.py"),
        ("../uvicorn.PY", "blob-uvicorn.PY"),
        ("numpy.cpython-311-x86_64-linux-gnu.so", "blob-numpy.cpython-311-x86_64-linux-gnu.so"),
        ("site.pth", "blob-site.pth"),
        ("desktop.ini", "blob-desktop.ini"),
        ("photo.png.SCF", "photo.png.SCF_"),
        ("x.library-ms. ", "x.library-ms_"),
        ("report.url", "report.url_"),
        ("tool.desktop", "tool.desktop_"),
        ("Makefile", "blob-Makefile"),
        ("GNUmakefile", "blob-GNUmakefile"),
        ("pyramid.png", "pyramid.png"),
        ("setup.cfg.txt", "setup.cfg.txt"),
        ('a<b>:"|?*.txt', "a_b______.txt"),
        ("Überblick 漢字.pdf", "Überblick 漢字.pdf"),
    ],
)
def test_names_are_made_safe(stated, safe):
    assert safe_name(stated) == safe


@given(st.text(max_size=300))
def test_no_file_name_leaves_its_folder_or_is_too_long(stated):
    name = safe_name(stated)
    assert "/" not in name
    assert "\\" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 150
    assert name == safe_name(name)


_PIECES = [
    *(". /\\:\0\r\u202e\u2066\u200f\u3000\xa0éx漢🙂\u0301\ud800"),
    "..",
    "con",
    "lpt1",
    ".txt",
    " " * 149,
]
_UNSAFE_ANYWHERE = re.compile('[\x00-\x1f\x7f<>:"/\\\\|?*\u202a-\u202e\u2066-\u2069\ud800-\udfff]')
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"
}


@given(
    st.lists(st.sampled_from(_PIECES), max_size=12).map("".join),
    st.integers(0, 160),
    st.sampled_from(["", " ", ".", ". .", "é", ".tar.gz", ". x", ".ending-that-is-too-long"]),
)
def test_every_name_is_safe_on_windows_macos_and_linux(start, filling, end):
    name = safe_name(start + "x" * filling + end)
    assert len(name.encode()) <= 150
    assert not _UNSAFE_ANYWHERE.search(name)
    assert not name.startswith((".", " "))
    assert not name.endswith((".", " "))
    assert name.split(".")[0].rstrip().casefold() not in _DEVICES
    assert name == name.strip() == safe_name(name)


def test_a_nameless_blob_gets_a_name_from_its_reference_and_type():
    name = file_name_for("", "image/png; charset=x", "/wByZWYw")
    assert name.startswith("blob-")
    assert name.endswith(".png")
    assert name == file_name_for("", "image/png", "/wByZWYw")
    assert file_name_for("", "nonsense", "x").endswith(".bin")


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    target = tmp_path / "a.bin"
    assert save_stream([b"ab", b"", b"c"], target, overwrite=False) == target
    assert target.read_bytes() == b"abc"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_broken_download_leaves_no_file(tmp_path):
    def broken():
        yield b"half"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        save_stream(broken(), tmp_path / "a.bin", overwrite=False)
    assert list(tmp_path.iterdir()) == []


def test_the_error_for_a_full_disk_names_the_folder_and_leaves_no_file(tmp_path):
    def chunks():
        yield b"x" * 100_000
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for save in (
        lambda: save_stream(chunks(), tmp_path / "a.bin", overwrite=False),
        lambda: Folder(tmp_path).save(chunks(), "a.bin"),
    ):
        with pytest.raises(ConfigError, match="No space left on device") as caught:
            save()
        assert str(tmp_path) in str(caught.value)
        assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_not_overwritten_by_default(tmp_path):
    target = tmp_path / "a.bin"
    target.write_bytes(b"old")
    chunks = iter([b"new"])
    with pytest.raises(ConfigError, match="already exists"):
        save_stream(chunks, target, overwrite=False)
    assert next(chunks) == b"new"  # nothing was fetched
    assert target.read_bytes() == b"old"
    save_stream([b"new"], target, overwrite=True)
    assert target.read_bytes() == b"new"


def test_a_file_that_appears_in_the_meantime_is_not_overwritten(tmp_path):
    target = tmp_path / "a.bin"

    def chunks():
        target.write_bytes(b"theirs")
        yield b"ours"

    with pytest.raises(ConfigError, match="already exists"):
        save_stream(chunks(), target, overwrite=False)
    assert target.read_bytes() == b"theirs"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_a_name_in_use_gets_a_number(tmp_path):
    names = [Folder(tmp_path).save([b"x"], "a.png").name for _ in range(3)]
    assert names == ["a.png", "a-2.png", "a-3.png"]


def test_the_error_names_a_missing_folder(tmp_path):
    with pytest.raises(ConfigError, match="does not exist"):
        save_stream([b"x"], tmp_path / "no" / "a.bin", overwrite=False)
    with pytest.raises(ConfigError, match="too long"):
        save_stream([b"x"], tmp_path / ("a" * 300), overwrite=False)


def test_files_are_saved_on_a_file_system_without_links(tmp_path, monkeypatch):
    def no_links(*_):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", no_links)
    names = [Folder(tmp_path).save([b"x"], "a.png").name for _ in range(3)]
    assert names == ["a.png", "a-2.png", "a-3.png"]
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"x"] * 3

    def disk_full(*_):
        raise OSError("no room")

    monkeypatch.setattr(type(tmp_path), "replace", disk_full)
    with pytest.raises(OSError, match="no room"):
        save_stream([b"x"], tmp_path / "b.png", overwrite=False)
    assert len(list(tmp_path.iterdir())) == 3
