"""A name that is looked up is found once."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "odps_nb"


def test_a_public_class_name_is_defined_once() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_few_files_have_one_name() -> None:
    stems: dict[str, int] = defaultdict(int)
    for path in ROOT.rglob("*.py"):
        stems[path.stem] += path.stem != "__init__"
    assert stems["catalog"] <= 2
