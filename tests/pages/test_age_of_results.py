"""Pages of docs/results/ that long runs write are not much older than the code that they test."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

#: The code that a page describes. The other pages are compared with new results by `make test`.
CODE = {
    "clients.md": ("odps_nb/local",),
    "corpora.md": ("odps_nb/formats", "odps_nb/notebook/preview"),
    "fuzzing.md": ("odps_nb/wire", "odps_nb/stream_io", "odps_nb/formats", "odps_nb/parsing"),
    "nightly.md": ("odps_nb",),
    "simulation.md": ("odps_nb/client", "odps_nb/spark/writing"),
    "single-faults.md": ("odps_nb/client", "odps_nb/http", "odps_nb/access"),
    "soak.md": ("odps_nb",),
}
#: Commits that may have changed that code since the run.
CHANGES = 100


def git(repo: Path, *words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=repo, capture_output=True, text=True, check=True).stdout


@pytest.mark.nightly
@pytest.mark.parametrize("page", CODE)
def test_at_most_100_commits_changed_the_code_of_a_page(repo: Path, page: str) -> None:
    text = (repo / "docs" / "results" / page).read_text("utf-8")
    commits = re.findall(r"\d{4}-\d\d-\d\d[^,|]*, commit ([0-9a-f]{7,40})\b", text)
    assert commits, f"{page} does not name the commit of its run"
    ages = {one: git(repo, "rev-list", "--count", f"{one}..", "--", *CODE[page]) for one in commits}
    assert max(map(int, ages.values())) <= CHANGES, ages
