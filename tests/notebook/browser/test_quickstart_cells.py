"""The quickstart runs without its Spark cells in the JupyterLab that these tests share."""

from __future__ import annotations

import pytest
from lab_page import run_all

from tests.support.lab import close_notebook, open_notebook
from tests.test_quickstart import SLOW, check_run, quickstart


@pytest.mark.nightly
@pytest.mark.browser
def test_the_quickstart_runs_in_jupyterlab(lab_page, jupyter, service, odps, stalled, repo):
    stalled(SLOW)
    jupyter.write("01_quickstart.ipynb", quickstart(repo, spark=False))
    open_notebook(lab_page, jupyter, "01_quickstart.ipynb")
    check_run(lab_page, run_all(lab_page, seconds=300), service, least=12)
    close_notebook(lab_page, kernel=True)
    odps.drop_table("status_report")
