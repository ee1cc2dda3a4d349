"""Programs that run notebooks as jobs pass variables on and report why a job failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hosts.conftest import Program
from tests.support.lab import notebook

pytestmark = [pytest.mark.nightly, pytest.mark.kernel]

RUNNERS = {
    "papermill": ("papermill", "job.ipynb", "done.ipynb"),
    "nbconvert": ("nbconvert", "--execute", "--to", "notebook", "--output", "done", "job.ipynb"),
    "jupyter execute": ("jupyter", "execute", "job.ipynb", "--output", "done"),
}
REFUSED = {
    "%odps read orders --colums id": "odps read has no option --colums; did you mean --columns?",
    "%odps read orders -p ds={months}": "there is no variable 'months'; did you mean month?",
    "%odps read orderz": "to do: did you mean orders?",
    "%%odps sql\nselect amout from orders": "amout",
}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("cell", REFUSED)
def test_a_failed_job_reports_the_reason(
    program: Program, tmp_path: Path, runner: str, cell: str
) -> None:
    cells = ("%load_ext odps_nb\n%odps connect\nmonth = '2024-01-01'", cell)
    (tmp_path / "job.ipynb").write_text(json.dumps(notebook(*cells)), "utf-8")
    done = program(*RUNNERS[runner])
    assert done.returncode != 0
    assert REFUSED[cell] in done.stderr


def test_the_saved_notebook_of_a_failed_job_has_an_error_output(
    program: Program, tmp_path: Path
) -> None:
    cells = ("%load_ext odps_nb", "%odps read orders --colums id")
    (tmp_path / "job.ipynb").write_text(json.dumps(notebook(*cells)), "utf-8")
    program(*RUNNERS["papermill"])
    saved = json.loads((tmp_path / "done.ipynb").read_text("utf-8"))
    errors = [
        output
        for one in saved["cells"]
        for output in one.get("outputs", ())
        if output["output_type"] == "error"
    ]
    assert [(one["ename"], one["evalue"]) for one in errors] == [
        ("UsageError", "odps read has no option --colums; did you mean --columns?")
    ]


def test_magics_can_use_the_parameters_of_papermill(program: Program, tmp_path: Path) -> None:
    book = notebook(
        "day, table, most = 'none', 'none', 0",
        "%load_ext odps_nb\nodps = %odps connect",
        "%odps read {table} -p ds={day} -n $most -c ds -o rows",
        "assert list(rows.ds) == [day] * most",
        "found = %odps sql select count(*) as n from orders where ds = :day",
        "assert found.n[0] == 243008",
    )
    book["cells"][0]["metadata"]["tags"] = ["parameters"]
    (tmp_path / "job.ipynb").write_text(json.dumps(book), "utf-8")
    given = ("-p", "day", "2024-01-02", "-p", "table", "orders", "-p", "most", "3")
    done = program(*RUNNERS["papermill"], *given)
    assert done.returncode == 0, done.stderr
