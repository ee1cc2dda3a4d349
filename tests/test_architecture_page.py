"""The map of the house names modules, files and folders that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROOMS = "access|arrow|client|convert|filters|http|local|notebook|parsing|probe|spark|wire"


def leads_somewhere(words: list[str]) -> bool:
    """Whether a dotted name is a package, a module, or something that is defined in one."""
    for end in range(len(words), 0, -1):
        place = ROOT.joinpath("odps_nb", *words[:end])
        if place.is_dir():
            inside = place / "__init__.py"
            return end == len(words) or f'"{words[end]}"' in inside.read_text("utf-8")
        if (file := place.with_suffix(".py")).exists():
            rest = words[end:]
            return all(re.search(rf"\b{name}\b", file.read_text("utf-8")) for name in rest)
    return False


def test_every_module_of_the_page_is_there() -> None:
    named = set(re.findall(rf"`((?:{ROOMS})(?:\.\w+)+)`", PAGE))
    assert len(named) > 60
    assert [name for name in sorted(named) if not leads_somewhere(name.split("."))] == []


def test_every_path_of_the_page_is_there() -> None:
    named = set(
        re.findall(r"`((?:odps_nb|tests|docs|notebook|local|client|spark)/[\w./-]*)`", PAGE)
    )
    assert len(named) > 10
    missing = [
        n for n in named if not any((base / n).exists() for base in (ROOT, ROOT / "odps_nb"))
    ]
    assert missing == []
