"""The magics in the README run, and show what the README describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.pages import blocks, close_all, shell


@pytest.mark.nightly  # draws a gallery; in `make test`, the quickstart runs the same magics
def test_magics_of_the_readme_work_as_shown(repo: Path, empty_folder: Path) -> None:
    cells = [block.text for block in blocks(repo / "README.md") if block.is_magics]
    explorer, gallery, read = cells
    names: dict[str, Any] = {}
    with shell() as run:
        try:
            shown = run(explorer, names)
            assert "the service responds" in shown
            assert "2,048,000 rows" in shown
            assert "first 24 of 47 blobs" in run(gallery, names)
            run(read, names)
            assert list(names["df"].columns) == ["id", "amount", "status"]
            assert len(names["df"]) > 1000
        finally:
            close_all(names)
