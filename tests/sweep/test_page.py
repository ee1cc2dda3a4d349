"""The page of the sweep covers the existing jobs and faults."""

from __future__ import annotations

import json

from tests.sweep.jobs import JOBS, PAIR_JOBS
from tests.sweep.outcomes import FAULTS, PAIRED
from tests.sweep.page import PAGE, page
from tests.sweep.peer import PEER_JOBS


def test_the_page_has_a_row_for_each_job_and_a_column_for_each_fault() -> None:
    singles = PAGE.read_text().partition("\n## ")[0]
    lines = [line for line in singles.splitlines() if line.startswith("| ")]
    assert lines[0].split(" | ")[1:] == [
        *(fault.name for fault in FAULTS[:-1]),
        f"{FAULTS[-1].name} |",
    ]
    assert [line.split(" | ")[0] for line in lines[1:]] == [
        f"| {job.name}" for job in (*JOBS, *PEER_JOBS)
    ]


def test_a_cell_counts_runs_and_names_the_unsuccessful_ones() -> None:
    note = {"job": "append", "fault": "cut", "ends": {"right": 7, "error": 2, "in doubt": 1}}
    line = next(one for one in page([json.dumps(note)]).splitlines() if one.startswith("| append "))
    assert "| 10 (2 e, 1 d) |" in line
    assert line.count("–") == len(FAULTS) - 1


def test_the_page_has_a_table_of_pairs_for_each_job() -> None:
    section = PAGE.read_text().partition("\n## Two faults in one run\n")[2]
    tables = section.split("\n### Two faults: ")[1:]
    assert [one.splitlines()[0] for one in tables] == [job.name for job in PAIR_JOBS]
    for one in tables:
        lines = [line for line in one.splitlines() if line.startswith("| ")]
        assert [line.split(" | ")[0] for line in lines[1:]] == [f"| {f.name}" for f in PAIRED]


def test_pairs_are_counted_apart_from_single_faults() -> None:
    single = {"job": "append", "fault": "cut", "ends": {"right": 7}}
    pair = {"job": "append", "fault": "cut, then 503", "ends": {"right": 5, "error": 1}}
    made = page([json.dumps(single), json.dumps(pair)])
    assert ", 7 runs)" in made
    assert ", 6 runs)" in made
    assert "6 runs: 5 gave the right result, 1 ended in an error and changed nothing." in made
    assert "| cut | – | – | – | – | – | 6 (1 e) | – |" in made
