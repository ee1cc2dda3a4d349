"""The page of the sweep is of the jobs and faults that there are."""

from __future__ import annotations

import json

from tests.sweep.jobs import JOBS
from tests.sweep.outcomes import FAULTS
from tests.sweep.page import PAGE, page
from tests.sweep.peer import PEER_JOBS


def test_the_page_has_a_row_for_each_job_and_a_column_for_each_fault() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert lines[0].split(" | ")[1:] == [
        *(fault.name for fault in FAULTS[:-1]),
        f"{FAULTS[-1].name} |",
    ]
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        f"| {job.name}" for job in (*JOBS, *PEER_JOBS)
    ]


def test_a_cell_counts_runs_and_names_those_that_did_not_succeed() -> None:
    note = {"job": "append", "fault": "cut", "ends": {"right": 7, "error": 2, "in doubt": 1}}
    line = next(one for one in page([json.dumps(note)]).splitlines() if one.startswith("| append "))
    assert "| 10 (2 e, 1 d) |" in line
    assert line.count("–") == len(FAULTS) - 1
