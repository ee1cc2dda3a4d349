"""``docs/results/clients.md`` keeps the results of clients that did not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.versions import results


def test_the_overview_lists_each_section_of_the_page() -> None:
    written = results._page(results._sections())
    assert results.PAGE.read_text("utf-8") == written, "run `make versions` to write the page again"


def test_a_run_replaces_only_the_section_of_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "PAGE", tmp_path / "clients.md")
    results.PAGE.write_text(results._page({}), "utf-8")
    left_out = [{"tests": ["a/b.py::c[1]", "a/b.py::c[2]"], "reason": "none"}]
    results.record("one", "1.0", "everything", 3, left_out)
    assert not results._sections(), "only `make versions` may write the page"
    monkeypatch.setenv(results.VARIABLE, "1")
    results.record("one", "1.0", "everything", 3, left_out)
    results.record("two", "2.0", "a part", 3, [], failed=1)
    results.record("two", "2.1", "a part", 4, [])
    sections = results._sections()
    assert list(sections) == ["one", "two"]
    assert "| `b.py::c` | none |" in sections["one"]
    assert "| 1.0 | 3 | 0 | 2 |" in sections["one"]
    assert "2.0" not in results.PAGE.read_text("utf-8")
