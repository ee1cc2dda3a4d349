"""Every tutorial runs unchanged: a copy in an empty home, a real kernel, a separate service.

A new file in ``notebooks/`` is included automatically; additional requirements are in `FACTS`.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from odps_nb.local.server.launch import LocalService, start

if TYPE_CHECKING:
    import nbformat

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
GIB = 2**30
SPARK = 1.4  # GiB, for a notebook that starts Spark, including its JVM and Python workers
LARGEST = 3_000_000  # bytes of a notebook with its results
KEYS = ("ENDPOINT", "TUNNEL_ENDPOINT", "PROJECT", "ACCESS_ID", "ACCESS_KEY")

Texts = Mapping[str, str]
"""What each code cell shows, by its first line."""


def _quickstart(shown: Texts) -> None:
    assert "2,048,000 rows" in _of(shown, "%odps read orders")
    assert "rows by created, by status" in _of(shown, 'odps.table("orders").chart')
    assert "6 rows" in _of(shown, "odps.drop_table")


def _looking(shown: Texts) -> None:
    assert "2,048,000 rows" in _of(shown, "%odps schema orders")
    assert "probe" in shown["statuses"]
    assert "3047997" in _of(shown, "odd =")
    assert "where=" in _of(shown, "print(view.code)")
    assert "amount by status" in _of(shown, 'orders.read(where="quantity < 100").chart')
    assert "231,072" in shown["%odps partitions orders"]


def _reading(shown: Texts) -> None:
    assert "2,048,000 rows" in _of(shown, "times =")
    assert "stopped after 3 batches; cancelled" in _of(shown, "from odps_nb.errors")
    assert "rainbow" in _of(shown, "events.write")
    assert "3 rows in the old snapshot" in _of(shown, "print(today")
    assert "259,840 of 259,840 rows" in _of(shown, "day =")
    assert ", 0 verified" in _of(shown, "day =")
    assert "verified: True" in _of(shown, "photo =")


def _writing(shown: Texts) -> None:
    for number in (1, 2, 3):
        assert re.search(rf"{number} +100000 +100000\n?", shown["counted"])
    assert "620,000 rows before, 620,000 after" in _of(shown, "after =")


def _blobs(shown: Texts) -> None:
    assert "7 blobs" in _of(shown, "odps.drop_table")
    gallery = _of(shown, "odps.blobs(shoebox")
    assert gallery.count("<figure") == 7
    assert "8 notes" in gallery
    assert "14 notes" in gallery
    assert "<script" in _of(shown, "by_name =")
    markup = set(_of(shown, "from html.parser").split())
    assert {"img", "figure"} <= markup
    assert not markup & {"script", "a", "iframe", "svg", "href", "onload", "onerror"}
    assert "the same bytes as in the folder: True" in _of(shown, "same =")


def _pipeline(shown: Texts) -> None:
    assert "DecompressionBombError" in _of(shown, "%odps read media_features -c name,bytes")
    assert _of(shown, "%odps blobs media_features").count("<figure") == 15


def _hood(shown: Texts) -> None:
    assert "28 more" in _of(shown, "from odps_nb.client.calls.storage")
    assert _of(shown, "from odps_nb.errors import ChecksumError").count("CRC32C of block 2") == 2
    assert "32,768 of 32,768" in _of(shown, "right, block")
    assert "1 bit was flipped; 2 requests" in _of(shown, "flips = 0")
    assert "without a meddler: True" in _of(shown, "flips = 0")
    assert "2 of 3 frames" in _of(shown, "two =")
    assert re.search(r"[\d,]+ are missing", _of(shown, "cut ="))
    assert "without its end marker" in _of(shown, "from odps_nb.wire.arrow_stream")
    assert "the same rows in the same order: True" in _of(shown, "breaks =")
    assert "3 resumes" in _of(shown, "breaks =")


def _learning(shown: Texts) -> None:
    assert "800 blobs" in _of(shown, 'odps.drop_table("tut_shapes')
    assert "((600, 128), (200, 128))" in _of(shown, "Image.MAX_IMAGE_PIXELS")
    right = re.search(r"right: (\d+)%", _of(shown, "seed ="))
    assert right
    assert int(right[1]) > 70  # guessing would be right for a quarter of them
    assert " taken for " in _of(shown, "chances =")
    assert _of(shown, "import duckdb").count("<tr") == 4


def _production(shown: Texts) -> None:
    assert "status 0" in _of(shown, "import os")
    assert "session-expiry" in _of(shown, "print(*odps_nb_command")
    assert "credentials=<function>" in _of(shown, "import tempfile")
    assert shown["days"].count("<td>5</td>") == 2
    assert "5 rows are still there" in _of(shown, "import pandas as pd")
    errors = _of(shown, "def told(error)")
    for name in ("NotFoundError", "AccessDeniedError", "LimitExceededError"):
        assert name in errors
    assert re.search("request id: [0-9A-F]{24}", errors)
    assert "attempt 4" in _of(shown, "import logging")
    assert "['order', 'refund', 'logout']" in _of(shown, 'odps.drop_table("tut_events')
    assert "third night:  []" in _of(shown, 'odps.drop_table("tut_events')
    job = _of(shown, "def scheduled")
    assert "status 0" in job
    assert "status 1" in job


FACTS: dict[str, Callable[[Texts], None]] = {
    "01_quickstart.ipynb": _quickstart,
    "02_looking_at_a_table.ipynb": _looking,
    "03_reading.ipynb": _reading,
    "04_writing.ipynb": _writing,
    "05_blobs.ipynb": _blobs,
    "06_spark_pipeline.ipynb": _pipeline,
    "07_under_the_hood.ipynb": _hood,
    "08_machine_learning.ipynb": _learning,
    "09_production.ipynb": _production,
}
"""By file: what must hold of the results, beside what holds for all."""


def _of(shown: Texts, beginning: str) -> str:
    return next(text for source, text in shown.items() if source.startswith(beginning))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_saved_without_results(name: str) -> None:
    saved = json.loads((FOLDER / name).read_text("utf-8"))
    code = [cell for cell in saved["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert saved["metadata"]["kernelspec"]["name"] == "python3"
    identities = [cell.get("id") for cell in saved["cells"]]
    assert all(identities)
    assert len(set(identities)) == len(identities)


@pytest.fixture
def own_service() -> Iterator[LocalService]:
    """A service for one notebook, because its memory is measured as well."""
    with start() as running:
        yield running


@pytest.fixture
def visitor(own_service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, inside an empty home."""
    for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("ODPS_NB_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    for key in KEYS:
        monkeypatch.setenv(f"ODPS_{key}", getattr(own_service, key.lower()))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


class Peak(threading.Thread):
    """Adds up the memory of processes and their children; ``most`` is the largest sum.

    Shared memory pages count once (PSS).
    """

    def __init__(self, *pids: int) -> None:
        super().__init__(name="peak", daemon=True)
        self.pids, self.most = list(pids), dict[str, int]()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.1):
            now = self._look()
            if sum(now.values()) > sum(self.most.values()):
                self.most = now

    def _look(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for pid in self.pids:
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                for one in (process, *process.children(recursive=True)):
                    with suppress(psutil.Error):  # the process has ended in the meantime
                        found[f"{one.name()} {one.pid}"] = one.memory_full_info().pss
        return found

    def __enter__(self) -> Peak:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def __repr__(self) -> str:
        parts = (f"{name} {size / 2**20:.0f}" for name, size in self.most.items())
        return f"{sum(self.most.values()) / 2**20:.0f} MiB ({', '.join(parts)})"


def _texts(notebook: nbformat.NotebookNode) -> Texts:
    found = {}
    for cell in notebook.cells:
        data: list[Mapping[str, Any]] = [one.get("data", one) for one in cell.get("outputs", ())]
        parts = [one.get(kind, "") for one in data for kind in ("text", "text/plain", "text/html")]
        found[cell.source.split("\n")[0]] = "\n".join(parts)
    return found


@pytest.mark.kernel
@pytest.mark.spark
@pytest.mark.nightly  # up to two minutes each; `make test` runs the quickstart in a real JupyterLab
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_cell_runs_in_an_empty_home(
    name: str, visitor: Path, own_service: LocalService
) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(shutil.copy(FOLDER / name, visitor), as_version=4)
    nbformat.validate(notebook)
    began = time.monotonic()
    with Peak(own_service.pid) as peak:
        client = NotebookClient(
            notebook,
            timeout=300,
            kernel_name="python3",
            resources={"metadata": {"path": str(visitor)}},
            on_notebook_start=lambda notebook: peak.pids.append(client.km.provisioner.pid),
        )
        client.execute()  # a cell that fails raises its error
    print(f"\n{name}: {time.monotonic() - began:.1f} s, {peak}")

    texts = _texts(notebook)
    assert [text for text in texts.values() if "Traceback" in text] == []
    spark = any("spark.session(" in cell.source for cell in notebook.cells)
    assert sum(peak.most.values()) < (SPARK if spark else 1) * GIB, peak
    saved = json.dumps(notebook)
    assert own_service.access_key not in saved
    assert own_service.access_id not in saved
    assert len(saved) < LARGEST
    FACTS.get(name, lambda _: None)(texts)
