"""The quickstart in a real JupyterLab and browser, with a real process of the embedded service.

`make test` runs the cells without Spark: ``tests/notebook/browser/test_quickstart_cells.py``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from odps_nb.local.server.launch import start
from odps_nb.notebook.progress.operations import SHOW_AFTER
from tests.support.service.connecting import connected
from tests.support.spark.watched import misbehave

if TYPE_CHECKING:
    from odps_nb.local.server.launch import LocalService

MODEL = "() => window.jupyterapp.shell.currentWidget.context.model.toJSON().cells"
IMAGES = """() => [...document.querySelectorAll('.jp-OutputArea img')]
  .map(image => ({alt: image.alt, loaded: image.complete && image.naturalWidth > 0,
                  local: image.src.startsWith('data:')}))"""


#: The service returns no rows before a progress card is displayed.
SLOW = {"action": "TableRead", "fault": "stall", "seconds": 2 * SHOW_AFTER, "times": 0}


@pytest.fixture(scope="module")
def lab_page(repo: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lab_page", repo / "tools" / "lab_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _text(cell: dict) -> str:
    parts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        parts += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "\n".join("".join(part) for part in parts)


def _is_of_spark(cell: dict) -> bool:
    source = "".join(cell["source"])
    return cell["cell_type"] == "code" and bool(re.search(r"\bspark\b|\bsales\b", source))


@pytest.fixture
def slow_service() -> Iterator[LocalService]:
    """A service with samples that returns no rows before a card is displayed."""
    with start(options=("--misbehave",)) as running, connected(running) as odps:
        misbehave(odps, SLOW)
        yield running


def quickstart(repo: Path, *, spark: bool) -> dict[str, Any]:
    """Return the notebook, with or without the cells that use Spark."""
    saved: dict[str, Any]
    saved = json.loads((repo / "notebooks" / "01_quickstart.ipynb").read_text("utf-8"))
    if not spark:
        saved["cells"] = [cell for cell in saved["cells"] if not _is_of_spark(cell)]
    return saved


@pytest.mark.browser
@pytest.mark.spark
@pytest.mark.nightly  # nightly, because it starts a separate server, Chromium and JVM
def test_the_quickstart_runs_in_a_real_jupyterlab(
    slow_service: LocalService, lab_page: ModuleType, repo: Path, tmp_path: Path
) -> None:
    service = slow_service
    notebook = tmp_path / "01_quickstart.ipynb"
    notebook.write_text(json.dumps(quickstart(repo, spark=True)), "utf-8")
    env = os.environ | service.environment
    with lab_page.open_notebook(notebook, env=env) as page:
        check_run(page, lab_page.run_all(page, seconds=300), service, least=15)


def check_run(page: Any, state: dict[str, Any], service: LocalService, *, least: int) -> None:
    """Check the outputs of more than ``least`` cells; ``state`` is the result of ``run_all``."""
    cells, images = page.evaluate(MODEL), page.evaluate(IMAGES)
    assert state["errors"] == []
    assert state["ran"] == state["total"] > least
    texts = {"".join(cell["source"]).split("\n")[0]: _text(cell) for cell in cells}

    read = next(text for source, text in texts.items() if source.startswith("%odps read"))
    assert "2,048,000 rows" in read
    assert "complete" in read
    assert "verified" not in read
    assert "done in" in read

    gallery = next(text for source, text in texts.items() if source.startswith("%odps blobs"))
    assert gallery.count("<figure") == 24
    assert len(images) >= 10
    assert [image for image in images if not (image["loaded"] and image["local"])] == []
    assert all(image["alt"] for image in images)

    everything = json.dumps(cells)
    assert service.access_key not in everything
    assert service.access_id not in everything
