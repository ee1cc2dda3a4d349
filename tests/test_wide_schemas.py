"""The work for a schema grows linearly with the number of columns.

pyarrow creates the lists `types`, `names` and `columns` on each access. Reading such a list in a
loop over 4,000 columns took a minute; a blob of one megabyte can have that many columns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

LISTS = {"types", "names", "column_names"}


def repeated(loop: ast.AST) -> list[ast.AST]:
    """Return the parts of a loop that are evaluated in each iteration."""
    if isinstance(loop, ast.For):
        return [*loop.body, *loop.orelse]
    if isinstance(loop, ast.While):
        return [loop.test, *loop.body]
    if isinstance(loop, ast.DictComp):
        first = [loop.key, loop.value]
    elif isinstance(loop, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        first = [loop.elt]
    else:
        return []
    generators = loop.generators
    later = [one.iter for one in generators[1:]]
    return [*first, *later, *(test for one in generators for test in one.ifs)]


def lists_made_in_loops(source: str) -> Iterator[int]:
    """Iterate over the lines on which a loop takes one item of one of these lists."""
    for loop in ast.walk(ast.parse(source)):
        for part in repeated(loop):
            for node in ast.walk(part):
                if (
                    isinstance(node, ast.Subscript)
                    and isinstance(node.value, ast.Attribute)
                    and node.value.attr in LISTS
                    and not isinstance(node.slice, ast.Slice)
                ):
                    yield node.lineno


def test_the_check_detects_a_quadratic_loop() -> None:
    assert list(lists_made_in_loops("[kind for n, kind in found if kind != came.types[n]]")) == [1]
    assert list(lists_made_in_loops("for n in found:\n    print(came.names[n])")) == [2]
    assert list(lists_made_in_loops("types = came.types\n[types[n] for n in found]")) == []


@pytest.mark.nightly
def test_loops_do_not_create_a_list_of_all_columns_to_use_one_item(repo: Path) -> None:
    found = [
        f"{path.relative_to(repo)}:{line}"
        for path in sorted((repo / "odps_nb").rglob("*.py"))
        for line in lists_made_in_loops(path.read_text("utf-8"))
        if "raise" not in path.read_text("utf-8").splitlines()[line - 1]  # once, at the end
    ]
    assert found == []
