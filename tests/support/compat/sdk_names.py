"""The public names of an SDK class, which its users' code may contain."""

from __future__ import annotations

import dataclasses
import inspect


def names_of(kind: type, *, arguments: bool) -> list[str]:
    """Return methods, properties and fields that the SDK defines, and arguments if asked."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("odps.")]
    names = {name for base in own for name in vars(base)}
    if dataclasses.is_dataclass(kind):
        names |= {field.name for field in dataclasses.fields(kind)}
    if arguments:
        names |= set(inspect.signature(kind).parameters)
    return sorted(name for name in names if not name.startswith("_"))
