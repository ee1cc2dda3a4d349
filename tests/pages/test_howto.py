"""Every block of ``docs/howto`` and of the page about hosts runs and gives the output shown.

``python -m tests.support.pages docs/howto/errors.md`` runs one page in an empty home.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.pages import (
    ROOT,
    blocks,
    close_all,
    command_line,
    shell,
    show_page,
)

FOLDER = ROOT / "docs" / "howto"
# Pages that take at least half a second of processor time; faster tests cover the same functions.
NIGHTLY = {
    "blobs-and-files",
    "cancel-and-background",
    "notebooks-elsewhere",  # starts a kernel
    "parquet-and-csv-files",
    "polars-and-duckdb",
    "spark-on-a-cluster",
}


def _params() -> Iterator[Any]:
    for page in (*sorted(FOLDER.glob("*.md")), FOLDER.parent / "notebooks-elsewhere.md"):
        marks = []
        if "odps_nb.spark" in "".join(block.text for block in blocks(page, "python")):
            marks += [
                pytest.mark.spark,
                pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
            ]
        if page.stem in NIGHTLY:
            marks.append(pytest.mark.nightly)
        yield pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.gate(5)
@pytest.mark.parametrize("page", list(_params()))
def test_the_output_that_a_page_shows_is_the_actual_output(
    page: Path, empty_folder: Path, request: pytest.FixtureRequest
) -> None:
    if request.node.get_closest_marker("spark"):  # `session()` returns the shared one
        request.getfixturevalue("spark_session")
    names: dict[str, Any] = {}
    wide = pd.option_context("display.width", 100, "display.max_columns", 20)
    with shell() as magics, wide:
        try:
            shown = list(show_page(page, names, magics=magics, command=command_line))
        finally:
            close_all(names)
    wrong = [f"{one.block.place} gave\n{one.came}\nnot\n{one.told}" for one in shown if not one.ok]
    assert not wrong, "\n\n".join(wrong)
    assert shown or page.stem == "index"


def test_every_page_is_in_the_index() -> None:
    listed = re.findall(r"\]\(([\w-]+\.md)\)", (FOLDER / "index.md").read_text("utf-8"))
    assert sorted(listed) == sorted(
        page.name for page in FOLDER.glob("*.md") if page.stem != "index"
    )
