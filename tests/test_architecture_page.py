"""The pages about the design name modules, files and folders that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = "|".join(path.parent.name for path in (ROOT / "odps_nb").glob("*/__init__.py"))
PAGES = [ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
NAME = re.compile(rf"`(?:odps_nb\.)?((?:{PACKAGES})(?:\.\w+)+)`")
FILE = re.compile(rf"`((?:odps_nb|tests|docs|labextensions|{PACKAGES})/[\w./*-]*)`")
OTHERS = {"http.client.HTTPResponse"}  # classes of Python


def is_defined(words: list[str]) -> bool:
    """Whether a dotted name is a package, a module, or a name in one of them."""
    for end in range(len(words), 0, -1):
        place = ROOT.joinpath("odps_nb", *words[:end])
        if place.is_dir():
            inside = place / "__init__.py"
            return end == len(words) or f'"{words[end]}"' in inside.read_text("utf-8")
        if (file := place.with_suffix(".py")).exists():
            rest = words[end:]
            return all(re.search(rf"\b{name}\b", file.read_text("utf-8")) for name in rest)
    return False


def exists(path: str) -> bool:
    """Whether a path of the checkout or of the package is a file, a folder or a module."""
    return any(
        any(base.glob(pattern))
        for base in (ROOT, ROOT / "odps_nb")
        for pattern in (path, f"{path.rstrip('/')}.py")
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_module_and_path_of_the_page_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    names = set(NAME.findall(text)) - OTHERS
    assert [name for name in sorted(names) if not is_defined(name.split("."))] == []
    assert [path for path in sorted(set(FILE.findall(text))) if not exists(path)] == []


def test_the_pages_name_modules_and_paths() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert len(set(NAME.findall(text))) > 60
    assert len(set(FILE.findall(text))) > 30
