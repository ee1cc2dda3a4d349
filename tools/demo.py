"""`make demo`: run the quickstart notebook on the embedded service and print the results.

It starts the service with its sample tables, executes ``notebooks/01_quickstart.ipynb`` in a real
kernel with one output line per step, writes ``build/quickstart.html``, and prints figures that it
queries from that kernel. If a step fails, the demo ends with its error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import nbformat
from _service import service_environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "01_quickstart.ipynb"
REPORT = ROOT / "build" / "quickstart.html"
LOG = ROOT / "build" / "demo.log"
CELL_TIMEOUT = 300  # seconds; Spark's first start is the slowest step

# run in the notebook's kernel at the end
FIGURES = """
import json as _json
from odps_nb.notebook.progress.operations import loaded_magics as _loaded_magics
from odps_nb.terms import format_bytes as _format_bytes

_runs = [one.tracker.snapshot() for one in _loaded_magics().operations.all()]
print(_json.dumps({
    "rows into pandas": f"{len(orders):,}",
    "bytes verified": _format_bytes(sum(run.verified_bytes for run in _runs)),
    "rows committed": f"{receipt.rows:,}",
    "rows counted by Spark": f"{spark_rows:,}",
    "blobs shown": f"{len(photos):,}",
}))
"""


def title_of(cells: list[nbformat.NotebookNode], index: int) -> str:
    """Return the heading above a code cell, as a title of its step."""
    for cell in reversed(cells[:index]):
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            return cell.source.splitlines()[0].lstrip("# ")
    return "start"


def execute(client: NotebookClient, notebook: nbformat.NotebookNode) -> None:
    """Run the cells in order; print one line per step (a heading and the cells below it)."""
    current, began = "", time.monotonic()
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        title = title_of(notebook.cells, index)
        if title != current:
            finish_line(current, began)
            current, began = title, time.monotonic()
            print(f"  · {title} …", end="", flush=True)
        client.execute_cell(cell, index)
    finish_line(current, began)


def finish_line(title: str, began: float) -> None:
    if title:
        line = f"  ✓ {title:<52} {time.monotonic() - began:6.1f} s"
        print(("\r" if sys.stdout.isatty() else "\n") + line, flush=True)


def figures_of(client: NotebookClient) -> dict[str, str]:
    """Query figures from the notebook's kernel, in a cell that is not part of the notebook."""
    first = client.nb.cells[0]
    cell = client.execute_cell(
        nbformat.v4.new_code_cell(FIGURES), 0, store_history=False, execution_count=0
    )
    client.nb.cells[0] = first  # nbclient stores the executed cell at this index
    found: dict[str, str] = json.loads(cell.outputs[0].text)
    return found


def save(notebook: nbformat.NotebookNode) -> None:
    body, _ = HTMLExporter().from_notebook_node(
        notebook, resources={"metadata": {"name": "odps_nb quickstart"}}
    )
    REPORT.write_text(body, encoding="utf-8")


def main() -> int:
    began = time.monotonic()
    print("\nodps_nb: the quickstart notebook on the embedded service\n")
    print("  · starting the embedded service with sample tables …", end="", flush=True)
    with service_environment() as environment:
        finish_line("embedded service with sample tables", began)
        os.environ.update(environment)  # inherited by the kernel, which is a child process
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        client = NotebookClient(
            notebook, timeout=CELL_TIMEOUT, resources={"metadata": {"path": str(NOTEBOOK.parent)}}
        )
        REPORT.parent.mkdir(exist_ok=True)
        # the terminal output of the JVM is not shown
        with LOG.open("wb") as log, client.setup_kernel(stderr=log):
            try:
                execute(client, notebook)
            except CellExecutionError as error:
                save(notebook)
                print(f"\n\ndemo: this step failed; see {REPORT.relative_to(ROOT)}\n{error}")
                return 1
            figures = figures_of(client)
        save(notebook)
    print()
    for label, value in figures.items():
        print(f"  {label:<24} {value:>14}")
    print(f"\n  {time.monotonic() - began:.0f} s in total; the notebook with its outputs is in")
    print(f"  {REPORT.relative_to(ROOT)}\n")
    print("  next:  make lab     run it yourself in JupyterLab")
    print("         make test    everything CI runs")
    print("         make bench   speed compared with pyodps\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
