"""Write ``docs/results/clients.md``, the results of unchanged clients with the embedded service.

Each suite of a client calls `record` when it ends. Sections of other clients stay as they are.
Only `make versions` sets `VARIABLE`, so that a part of a suite does not change the page.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nightly import state

VARIABLE = "RECORD_CLIENTS"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "clients.md"
HEAD = """# Clients that run unchanged

Written by `make versions`, which runs these clients against the embedded service; see
CONTRIBUTING.md.

| client | version | passed | failed | left out | run |
|---|---|---|---|---|---|
"""
COLUMNS = "| version | passed | failed | left out | run |\n|---|---|---|---|---|\n"


def record(
    client: str,
    version: str,
    ran: str,
    passed: int,
    left_out: Iterable[Mapping[str, Any]],
    *,
    failed: int = 0,
) -> None:
    """Replace the section of one client, if the environment contains `VARIABLE`.

    Args:
        client: Its name, which is the title of the section.
        version: Its version, or versions.
        ran: What ran, in Markdown.
        passed: Number of tests that passed.
        left_out: Mappings with a ``reason``, and ``tests`` or ``what`` (a text): the tests that
            cannot pass, or what is not tested.
        failed: Number of tests that failed and are not left out.
    """
    rows = [(_markdown_of(one), one["reason"]) for one in left_out]
    count = sum(len(one.get("tests", [0])) for one in left_out)
    run = f"{dt.datetime.now(tz=dt.UTC):%Y-%m-%d}, commit {state()}"
    wrong = f"**{failed}**" if failed else "0"
    facts = f"| {version} | {passed} | {wrong} | {count} | {run} |"
    text = f"{COLUMNS}{facts}\n\n{ran.strip()}\n"
    if rows:
        text += "\n| left out | reason |\n|---|---|\n"
        text += "".join(f"| {what} | {reason} |\n" for what, reason in sorted(rows, key=str))
    if VARIABLE in os.environ:
        PAGE.write_text(_page(_sections() | {client: text}), "utf-8")


def _markdown_of(one: Mapping[str, Any]) -> str:
    """Return the Markdown that names what one entry leaves out."""
    if "what" in one:
        return str(one["what"])
    tests = sorted({test.rpartition("/")[2].partition("[")[0] for test in one["tests"]})
    return ", ".join(f"`{test}`" for test in tests)


def _sections() -> dict[str, str]:
    """Return the sections on the page, by client."""
    found = re.split(r"^## (.+)\n\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {name: f"{text.strip()}\n" for name, text in zip(found[::2], found[1::2], strict=True)}


def _page(sections: Mapping[str, str]) -> str:
    ordered = sorted(sections.items())
    overview = "".join(f"| {name} {text.splitlines()[2]}\n" for name, text in ordered)
    return HEAD + overview + "".join(f"\n## {name}\n\n{text}" for name, text in ordered)
