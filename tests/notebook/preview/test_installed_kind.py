"""The package in ``docs/previews.md``, built and installed by pip: its kind is available."""

import os
import subprocess
import sys

import pytest

from tests.support.pages import blocks

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "midi-preview"
version = "1"

[tool.hatch.build.targets.wheel]
only-include = ["midi_preview.py"]
"""
USE = """
import io
from odps_nb.notebook.preview.tile import mimebundle

class File(io.BytesIO):
    verified = True

class Song:
    data = b"MThd" + bytes([0, 0, 0, 6, 0, 1, 0, 3, 1, 224]) + bytes(40)
    size, mime_type, file_name = len(data), "audio/midi", "<b>song.mid"

    def open(self):
        return File(self.data)

print(mimebundle(Song())["text/plain"])
"""


@pytest.mark.nightly  # pip builds the package; a faster test checks the entry point without pip
def test_a_kind_of_an_installed_package_is_available(tmp_path, repo):
    code, entry = (block.text for block in blocks(repo / "docs" / "previews.md"))
    assert len([line for line in code.splitlines() if line]) <= 10
    source = tmp_path / "source"
    source.mkdir()
    (source / "midi_preview.py").write_text(code, encoding="utf-8")
    (source / "pyproject.toml").write_text(PROJECT + entry, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    pip += ["--no-index", "--quiet", "--target", str(tmp_path / "site"), str(source)]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    path = os.pathsep.join([str(tmp_path / "site"), str(repo)])
    done = subprocess.run(
        [sys.executable, "-c", USE],
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("<Blob <b>song.mid  MIDI · 3 tracks · ")
