"""Finds the kinds of previews, and asks them in order what a blob is.

What the server declares is only a label: nothing here looks at it. Kinds are the files of
`odps_nb.notebook.preview.kinds`: a new one needs no line anywhere else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from types import MappingProxyType

from odps_nb.notebook.preview import kinds as _package
from odps_nb.notebook.preview.kind import Format, Head, Kind

__all__ = ["Kinds", "kinds", "sniff"]


class Kinds:
    """Kinds of previews, in the order in which they are asked.

    Parameters
    ----------
    kinds
        In any order. Kinds of other packages would be added here.

    Raises
    ------
    ValueError
        For two kinds of the same name, or a brand that two of them claim.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        ordered = sorted(kinds, key=lambda kind: (kind.precedence, kind.name))
        self._by_name = MappingProxyType({kind.name: kind for kind in ordered})
        brands = [b for kind in ordered for format in kind.formats for b in format.brands]
        self._brands = frozenset(brands)
        if len(self._by_name) < len(ordered) or len(self._brands) < len(brands):
            raise ValueError("two kinds have the same name or the same brand")

    def __repr__(self) -> str:
        return f"Kinds({', '.join(self._by_name)})"

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Kind:
        return self._by_name[name]

    def sniff(self, head: bytes, size: int | None = None) -> Format:
        """Return the format of a blob, told from its first bytes alone.

        Parameters
        ----------
        head
            The first `HEAD` bytes, or all of them.
        size
            Length of the whole blob in bytes, if known; a head of that length is the whole blob.
        """
        whole = size is not None and size <= len(head)
        seen = Head.of(head, whole=whole, brands=self._brands)
        found = (kind.match(seen) for kind in self)
        return next(format for format in found if format is not None)  # "binary" fits always


@cache
def kinds() -> Kinds:
    """Return the kinds of this package, one for each file in `kinds`."""
    names = (module.name for module in pkgutil.iter_modules(_package.__path__))
    return Kinds(importlib.import_module(f"{_package.__name__}.{name}").KIND for name in names)


def sniff(head: bytes, size: int | None = None) -> Format:
    """Return what `Kinds.sniff` of the kinds of this package says."""
    return kinds().sniff(head, size)
