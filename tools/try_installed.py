"""Test an installed odps_nb: write and read a table, then run the quickstart notebook."""

from __future__ import annotations

import os
import sys

import nbformat
import pandas
from nbclient import NotebookClient

import odps_nb
from odps_nb.local.server.launch import start


def main() -> None:
    assert odps_nb.__file__.startswith(sys.prefix), odps_nb.__file__
    with odps_nb.connect("local") as odps:
        odps.create_table("tried", "id bigint, name string")
        frame = pandas.DataFrame({"id": [1, 2], "name": ["a", None]})
        assert odps.table("tried").write(frame).rows == 2
        assert odps.table("tried").read().to_arrow().column("id").to_pylist() == [1, 2]
    notebook = nbformat.read("01_quickstart.ipynb", as_version=4)
    with start() as service:
        for name in ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key"):
            os.environ[f"ODPS_{name.upper()}"] = getattr(service, name)
        NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    print(f"odps_nb {odps_nb.__version__}: {len(code)} cells of the quickstart")


if __name__ == "__main__":
    main()
