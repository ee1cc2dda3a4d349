"""The results that ``make bench`` stores, and the differences between two runs that it reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from benchmarks import __main__ as bench
from benchmarks import plot_ratios
from benchmarks._results import LINES, changes, gathered, keep


def times(
    ours: list[float], theirs: list[float], title: str = "table → Arrow"
) -> dict[str, object]:
    seconds = {"odps_nb": ours, "pyodps": theirs}
    same = {"odps_nb": [1.0, 1.0, 1.0], "pyodps": [1.0, 1.0, 1.0]}
    return {
        "bench": "tables",
        "kind": "times",
        "title": title,
        "seconds": seconds,
        "processor": same,
    }


def document_of(*facts: dict[str, object]) -> dict[str, object]:
    return {"found": list(facts)}


def test_a_result_is_slower_only_if_it_exceeds_the_noise_of_both_runs() -> None:
    old = document_of(times([1.0, 1.1, 0.9, 1.0], [1.0, 1.0, 1.0, 1.0]))
    new = document_of(times([2.0, 2.1, 1.9, 2.0], [1.0, 1.0, 1.0, 1.0]))
    assert list(changes(old, new)) == [("slower", "tables: table → Arrow: 1 → 0.5 × pyodps")]
    assert [word for word, _ in changes(new, old)] == ["faster"]


def test_a_slower_machine_is_not_reported_as_a_change() -> None:
    old = document_of(times([1.0, 1.1, 0.9, 1.0], [1.0, 1.1, 0.9, 1.0]))
    new = document_of(times([3.0, 3.3, 2.7, 3.0], [3.0, 3.3, 2.7, 3.0]))
    assert list(changes(old, new)) == []


def test_a_difference_within_the_spread_of_rounds_is_not_reported_as_a_change() -> None:
    old = document_of(times([1.0, 2.0, 0.5, 1.0], [1.0, 1.0, 1.0, 1.0]))
    new = document_of(times([1.2, 2.5, 0.6, 1.3], [1.0, 1.0, 1.0, 1.0]))
    assert list(changes(old, new)) == []


def test_without_a_peer_the_seconds_of_both_runs_are_compared() -> None:
    def alone(seconds: list[float]) -> dict[str, object]:
        one = times(seconds, [])
        return {**one, "seconds": {"odps_nb": seconds}, "processor": {"odps_nb": [0.0] * 3}}

    changed = changes(document_of(alone([1.0, 1.0, 1.0])), document_of(alone([0.5, 0.5, 0.5])))
    assert list(changed) == [("faster", "tables: table → Arrow: 1 → 2 a second")]


@pytest.mark.parametrize(("wanted", "word"), [("less", "worse"), ("more", "better")])
def test_a_single_figure_counts_as_changed_if_it_differs_by_a_fifth(wanted: str, word: str) -> None:
    def peak(value: float) -> dict[str, object]:
        facts = {"title": "peak", "value": value, "unit": "MiB", "wanted": wanted}
        return {"bench": "memory", "kind": "figure", **facts}

    assert list(changes(document_of(peak(10)), document_of(peak(11.9)))) == []
    line = "memory: peak: 10 → 12.5 MiB"
    assert list(changes(document_of(peak(10)), document_of(peak(12.5)))) == [(word, line)]


def test_a_newly_missed_goal_is_reported_as_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def document(name: str, *, met: bool) -> str:
        goal = {"bench": "wire", "kind": "goal", "title": "read", "line": name, "met": met}
        about = {"made": "today", "odps_nb": "1", "system": "Linux", "load": [0.1]}
        path = tmp_path / name
        path.write_text(json.dumps({**about, "found": [goal]}))
        return str(path)

    old, new = document("old", met=True), document("new", met=False)
    assert bench.main(["--compare", old, new]) == 1
    assert "missed   wire: read: old → new" in capsys.readouterr().out
    assert bench.main(["--compare", new, old]) == 0
    assert "0 became worse, 1 better" in capsys.readouterr().out


def test_results_are_stored_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LINES, raising=False)
    keep("goal", title="nobody")
    monkeypatch.setenv(LINES, str(tmp_path / "lines"))
    keep("goal", title="somebody", line="x", met=True)
    document = gathered(tmp_path / "lines")
    assert [one["title"] for one in document["found"]] == ["somebody"]
    assert document["load"]
    assert document["pyodps"]


def test_a_plot_of_releases_has_a_row_for_each_client_with_its_quartiles(tmp_path: Path) -> None:
    first = document_of(times([1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 4.0, 4.0]))
    second = document_of(
        times([1.0, 1.0, 1.0], [8.0, 8.0, 8.0]), times([1.0] * 3, [1.0] * 3, "more")
    )
    made = plot_ratios.rows([first, second])
    assert [row.name for row in made] == ["table → Arrow  |  pyodps", "more  |  pyodps"]
    assert made[0].points == ((0, 2.0, 3.0, 4.0), (1, 8.0, 8.0, 8.0))
    assert made[1].points == ((1, 1.0, 1.0, 1.0),)
    plot_ratios.draw(made, ["0.1", "0.2"], tmp_path / "ratios.png")
    with Image.open(tmp_path / "ratios.png") as drawn:
        assert drawn.width > drawn.height > 100
