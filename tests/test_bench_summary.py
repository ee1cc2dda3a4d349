"""``python -m benchmarks --summary FILE`` prints the table of docs/performance.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks._summary import HEAD, MEMORY, TIMES, table


def times(where: str, title: str, **seconds: list[float]) -> dict[str, Any]:
    named = {name.replace("_", " "): rounds for name, rounds in seconds.items()}
    return {"bench": where, "kind": "times", "title": title, "seconds": named}


def figure(title: str, value: float) -> dict[str, Any]:
    return {"bench": "memory", "kind": "figure", "title": title, "value": value}


FOUND = [
    times("wire", "read(4,096)", ours=[1.0, 1.0, 9.0], pyodps_maxstorage=[30.0, 30.0, 1.0]),
    times("wire", "read()", ours=[1.0], pyodps_maxstorage=[6.0]),
    times("tables", "table → pandas", ours=[2.0, 2.0], pyodps_maxstorage=[1.5, 1.5]),
    times("tables", "table → pandas, 8 splits", ours=[1.0], pyodps_maxstorage=[5.25]),
    times("engines", "table → Arrow", ours=[1.0], pyodps_maxstorage=[99.0]),
    figure("odps_nb: table → pandas: peak", 1.29),
    figure("pyodps: table → pandas: peak", 1.65),
]


def test_the_table_is_printed_from_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"found": FOUND}))
    assert bench.main(["--summary", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        *HEAD.splitlines(),
        "| verified CRC32C blocks of a 64 MiB blob, read in several sizes "
        "| pyodps, also verified | 6.0 to 30 × |",
        "| table → Arrow / table → pandas, over loopback | pyodps | not measured / 0.8 × |",
        "| table → pandas, with 40 ms latency and 50 MB/s per connection "
        "| pyodps, one split at a time | 5.2 × |",
        "| a table as a pandas DataFrame, peak memory | pyodps: 1.65 × its Arrow size "
        "| 1.29 × its Arrow size |",
    ]


def test_benchmarks_that_were_not_run_have_no_row() -> None:
    assert table({"found": []}) == HEAD


def test_cases_in_the_table_exist_in_the_benchmarks(repo: Path) -> None:
    """A peer that is renamed there would lose its row here."""
    for _, _, name, figures in TIMES:
        source = (repo / "benchmarks" / f"bench_{name}.py").read_text("utf-8")
        assert [case for _, case in figures if f'"{case}"' not in source] == []


def test_the_page_has_the_rows_of_the_table(repo: Path) -> None:
    text = (repo / "docs/performance.md").read_text("utf-8")
    (shown,) = re.findall(r"<!-- speed: .*? -->\n(.*?)\n<!-- /speed -->", text, re.DOTALL)
    assert shown.startswith(HEAD)
    works = [line.split(" | ")[0].strip("| ") for line in shown.splitlines()[2:]]
    known = {work for work, _, _, _ in TIMES}
    assert known <= set(works)
    assert len(set(works) - known) == 1  # the row for memory, which contains a size
    assert MEMORY.partition("a table")[2] in (set(works) - known).pop()
