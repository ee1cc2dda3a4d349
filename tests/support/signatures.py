"""The public signatures of the package: importable names, and the types that they contain.

``python -m tests.support.signatures > tests/public_api.txt`` updates the snapshot.
"""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

from odps_nb.access.blob import Blob
from odps_nb.access.blobs.column import BlobColumn
from odps_nb.access.connection import Connection
from odps_nb.access.scan import Scan
from odps_nb.access.sql import Result
from odps_nb.access.table import Table

PUBLIC = ("odps_nb", "odps_nb.errors", "odps_nb.spark", "odps_nb.stream_io", "odps_nb.torch")
TYPES = "odps_nb.types"
#: Classes that methods return; their constructors are internal.
MADE = (Blob, BlobColumn, Connection, Result, Scan, Table)
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def exported(*modules: str) -> dict[str, Any]:
    """Return each public name of some modules with its module, and its object."""
    found: dict[str, Any] = {}
    for module in modules:
        loaded = importlib.import_module(module)
        found.update({f"{module}.{name}": getattr(loaded, name) for name in loaded.__all__})
    return found


def callables(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Return a function, or the constructor, methods and properties of one of our classes."""
    if not inspect.isclass(thing):
        if callable(thing) and inspect.isfunction(inspect.unwrap(thing)):
            yield name, thing
        return
    make = inspect.unwrap(thing.__init__)
    own = inspect.isfunction(make) and make.__module__.startswith("odps_nb")
    if own and thing not in MADE and not issubclass(thing, BaseException):
        yield f"{name}.__init__", make
    for member in sorted(dir(thing)):
        raw = inspect.getattr_static(thing, member)
        of_base = issubclass(thing, BaseException) and member not in vars(thing)
        if member.startswith("_") or of_base:
            continue
        found = getattr(raw, "__func__", getattr(raw, "fget", raw))
        if inspect.isfunction(found) and found.__module__.startswith("odps_nb"):
            yield f"{name}.{member}", found


@functools.cache
def _imports(module: str) -> dict[str, str]:
    """Return the origin of each imported name of a module, including imports for type checkers."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        alias.asname or alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def types_of(function: Any) -> set[str]:
    """Return the names of our types in the annotations of a function."""
    named: set[str] = set()
    function = inspect.unwrap(function)
    imports = _imports(function.__module__)
    for text in getattr(function, "__annotations__", {}).values():
        for word in _NAME.findall(re.sub(r"Literal\[.*?\]", "", str(text))):
            if "." not in word and not hasattr(builtins, word):
                origin = imports.get(word, function.__module__)
                if origin.startswith("odps_nb"):
                    named.add(word)
    return named


def public_classes() -> set[type]:
    """Return our classes that are importable, or that public functions and methods return."""
    found: set[type] = set()
    todo = list(exported(*PUBLIC[:-1], TYPES).values())  # without those that need torch
    while todo:
        thing = todo.pop()
        if thing in found or (inspect.isclass(thing) and issubclass(thing, BaseException)):
            continue
        if inspect.isclass(thing) and thing.__module__.startswith("odps_nb"):
            found.add(thing)
        for _, function in callables("", thing):
            function = inspect.unwrap(function)
            imports, own = _imports(function.__module__), function.__module__
            for word in _NAME.findall(str(function.__annotations__.get("return", ""))):
                origin = imports.get(word, own)
                if origin.startswith("odps_nb"):
                    made = getattr(importlib.import_module(origin), word, None)
                    todo += [made] if inspect.isclass(made) else []
    return found


class _Text(str):
    """An annotation that is displayed without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _unquoted(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        one.replace(annotation=_text(one.annotation)) for one in signature.parameters.values()
    ]
    return signature.replace(
        parameters=parameters, return_annotation=_text(signature.return_annotation)
    )


def _text(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def snapshot() -> list[str]:
    """Return one line for each public name, with its signature or its type."""
    lines: list[str] = []
    for name, thing in exported(*PUBLIC).items():
        if inspect.isclass(thing):
            bases = ", ".join(base.__name__ for base in thing.__bases__)
            lines.append(f"class {name}({bases})")
        elif inspect.ismodule(thing) or not callable(thing):
            lines.append(f"{name}: {type(thing).__name__}")
        for where, function in callables(name, thing):
            owner, _, member = where.rpartition(".")
            static = inspect.getattr_static(thing, member, None) if owner == name else None
            signature = _unquoted(inspect.signature(function))
            if isinstance(static, property):
                lines.append(f"{where}: {signature.return_annotation!r}")
            else:
                lines.append(f"{where}{signature}")
    lines += [f"type {TYPES}.{name}" for name in importlib.import_module(TYPES).__all__]
    return lines


if __name__ == "__main__":
    print("\n".join(snapshot()))
