"""Every setting that a hint names exists and is available to users."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import odps_nb
from odps_nb.client.auth.fields import FIELDS
from odps_nb.notebook.explore.view import RowView

ROOT = Path(odps_nb.__file__).parent
PUBLIC = ("odps_nb", "odps_nb.spark", "odps_nb.torch", "odps_nb.stream_io")
#: `name=` in a hint, but not in a SQL setting (`odps.sql.x=`) or a partition (`ds=2024`).
NAMED = re.compile(r"(?<![\w.'/-])([a-z]\w*)=(?![=\d])")
#: Parameters of other libraries in hints, and the placeholder for a partition's key.
FOREIGN = {
    "allow_pyarrow_filter",
    "decryption_properties",
    "drop",
    "filter",
    "full",
    "key",
    "spark_executor_memory",
    "tzinfo",
}
LIMITS = re.compile(r"\b(\w*(?:timeout|deadline|retries|workers|connections)\w*)\b")


def parameters_of(thing: object) -> Iterator[str]:
    if inspect.isclass(thing):
        for name, member in inspect.getmembers(thing):
            if name == "__init__" or not name.startswith("_"):
                yield from parameters_of(member)
    elif callable(thing):
        try:
            yield from inspect.signature(thing).parameters
        except ValueError:  # a built-in has no signature
            return


@pytest.fixture(scope="module")
def reachable() -> set[str]:
    """Every parameter of the public API and of a view, and every setting of a profile."""
    found = {*FIELDS, "credentials", *parameters_of(RowView)}  # the `view` of an explorer
    for module in map(importlib.import_module, PUBLIC):
        for name in module.__all__:
            found.update(parameters_of(getattr(module, name)))
    return found


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in an expression; values in an f-string are omitted."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def values_of(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions of hints that functions return."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and "hint" in function.name:
            for node in ast.walk(function):
                if isinstance(node, ast.Return | ast.Assign) and node.value is not None:
                    yield node.value
                elif isinstance(node, ast.Call):
                    yield from node.args


def hints() -> Iterator[tuple[str, str]]:
    """Each hint in the package with its location.

    ``hint=…``, ``error.hint = …``, ``_HINT_OF…``, and the values of functions like ``_hint_of…``.
    """
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        found = [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.keyword) and node.arg == "hint"
        ]
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and any(
                isinstance(target, ast.Attribute) and target.attr == "hint"
                for target in node.targets
            ):
                found.append(node.value)
        found += [value for name, value in constants.items() if "HINT" in name]
        found += values_of(tree)
        for value in found:
            named = [
                constants[n.id]
                for n in ast.walk(value)
                if isinstance(n, ast.Name) and n.id in constants
            ]
            for one in (value, *named):
                for text in texts(one):
                    yield f"{path.relative_to(ROOT)}:{one.lineno}", text


@pytest.fixture(scope="module")
def hint_texts() -> list[tuple[str, str]]:
    return list(hints())


@pytest.mark.nightly
def test_every_setting_named_in_a_hint_is_available_to_users(
    reachable: set[str], hint_texts: list[tuple[str, str]]
) -> None:
    unknown = [
        f"{place}: {name} in {text!r}"
        for place, text in hint_texts
        for name in {*NAMED.findall(text), *LIMITS.findall(text)}
        if name not in reachable | FOREIGN
    ]
    assert not unknown, "\n".join(unknown)


@pytest.mark.nightly
def test_the_collected_hints_include_known_ones(hint_texts: list[tuple[str, str]]) -> None:
    texts = " ".join(text for _, text in hint_texts)
    assert "ClientOptions(read_timeout=…, deadline=…)" in texts
    assert "credentials=" in texts
    assert "pass tunnel_endpoint= with the public address" in texts
