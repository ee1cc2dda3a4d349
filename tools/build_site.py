"""`make docs`: build the site in build/site from docs/, docstrings and executed notebooks, offline.

    python tools/build_site.py [--no-notebooks] [--only '01*'] [--folder DIR]

Warnings of Sphinx are errors. ``--no-notebooks`` uses the notebooks of an earlier build, or the
sources without outputs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import nbformat
from _service import service_environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from site_pages import ROOT, stage

NOTEBOOKS = ROOT / "notebooks"
BUILD = ROOT / "build"
CELL_TIMEOUT = 300  # seconds
WIDGET = "application/vnd.jupyter.widget-view+json"


def execute(path: Path, folder: Path, environment: dict[str, str]) -> nbformat.NotebookNode:
    """Run a notebook in a separate folder; the JVM's output goes to a log next to the result."""
    notebook = nbformat.read(path, as_version=4)
    work = folder / "work" / path.stem
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(NOTEBOOKS, work, ignore=shutil.ignore_patterns("*.ipynb", ".*", "__pycache__"))
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(work)}},
    )
    with (folder / f"{path.stem}.log").open("wb") as log:
        client.execute(env=environment, stderr=log)
    return notebook


def without_widgets(notebook: nbformat.NotebookNode) -> None:
    """Keep only the static view of each card and gallery; the live view needs a kernel."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if len(data) > 1:
                data.pop(WIDGET, None)


def execute_all(folder: Path, only: str) -> bool:
    """Execute the notebooks, each with a separate service; print how long each of them takes."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(NOTEBOOKS.glob(only)):
        began = time.monotonic()
        with service_environment() as environment:
            try:
                notebook = execute(path, folder, environment)
            except CellExecutionError as error:
                print(f"docs: notebooks/{path.name} failed\n{error}")
                return False
        without_widgets(notebook)
        nbformat.write(notebook, folder / path.name)
        print(f"  ✓ {path.name:<40} {time.monotonic() - began:6.1f} s", flush=True)
    return True


def shown_notebooks(folder: Path) -> dict[str, Path]:
    """Map the name of each notebook to its executed copy, or to its source if there is none."""
    return {
        path.name: done if (done := folder / path.name).exists() else path
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    }


def build(folder: Path) -> int:
    """Build the site from the staged pages; return Sphinx's exit code (not 0 after warnings)."""
    from sphinx.cmd.build import build_main

    words = ["-b", "html", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs")]
    words += ["-d", str(folder / "site-doctrees")]
    return build_main([*words, str(folder / "site-source"), str(folder / "site")])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-notebooks", action="store_true", help="run no notebook")
    parser.add_argument("--only", default="*.ipynb", help="run only notebooks with such a name")
    parser.add_argument("--folder", type=Path, default=BUILD, help="folder that contains site/")
    wanted = parser.parse_args()
    folder = wanted.folder.resolve()
    if not wanted.no_notebooks and not execute_all(folder / "tutorials", wanted.only):
        return 1
    stage(folder / "site-source", shown_notebooks(folder / "tutorials"))
    if code := build(folder):
        return code
    print(f"  the site is in {folder / 'site' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
