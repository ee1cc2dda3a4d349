"""Finds the kinds of previews, and asks them in order what a blob is.

Kinds are the files of `odps_nb.notebook.preview.kinds` and those of installed packages
(``docs/previews.md``). What the server declares is only a label, which decides nothing.
"""

from __future__ import annotations

import importlib
import logging
import mimetypes
import pkgutil
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

from odps_nb.notebook.preview.kind import UNKNOWN, Format, Head, Kind

#: Entry points of kinds that other packages have.
GROUP: Final = "odps_nb.preview_kinds"
# by name: its modules import this one
_PACKAGE: Final = "odps_nb.notebook.preview.kinds"

_log = logging.getLogger("odps_nb")


class Kinds:
    """Kinds of previews, in the order in which they are asked.

    Raises `ValueError` for two kinds of the same name, or a brand that two of them claim.
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
        """Return the format of a blob of ``size`` bytes by its first `HEAD` bytes, or all."""
        whole = size is not None and size <= len(head)
        found = self._match(Head.of(head, whole=whole, brands=self._brands))
        if found.mime != UNKNOWN:
            return found
        # an encoding is guessed where the bytes prove nothing else
        guessed = Head.of(head, whole=whole, brands=self._brands, guess=True)
        return self._match(guessed) if guessed.guessed else found

    def _match(self, head: Head) -> Format:
        for kind in self:
            try:
                if found := kind.match(head):
                    return found
            except Exception as error:  # noqa: BLE001  # another package may raise what it likes
                _log.warning("the preview kind %r could not look at a blob: %s", kind.name, error)
        raise AssertionError("the kind 'binary' matches everything")


@cache
def kinds() -> Kinds:
    """Return the kinds of this package, one for each file in `kinds`, and of installed ones.

    A kind of another package that does not load, or takes a name or brand of another one, is left
    out; the log says so.
    """
    folder = importlib.import_module(_PACKAGE).__path__
    modules = (f"{_PACKAGE}.{module.name}" for module in pkgutil.iter_modules(folder))
    found = Kinds(importlib.import_module(module).KIND for module in modules)
    for entry in sorted(entry_points(group=GROUP)):
        try:
            found = Kinds((*found, entry.load()))
        except Exception as error:  # noqa: BLE001  # of another package: it may raise what it likes
            _log.warning("the preview kind %r is left out: %s", entry.name, error)
    return found


def sniff(head: bytes, size: int | None = None) -> Format:
    """Return what `Kinds.sniff` of all `kinds` says."""
    return kinds().sniff(head, size)


def media_type(head: bytes, size: int, name: str) -> str:
    """Return the media type of a file of ``size`` bytes by its first `HEAD` bytes, then its name.

    ``application/octet-stream`` where nothing is known.
    """
    found = sniff(head, size)
    guess = mimetypes.guess_type(name)[0]
    if guess is None or not size:
        return found.mime
    return found.mime if differs(guess, found) else guess


_LABEL: Final = re.compile(r"[\w.+!#$&^-]+/[\w.+!#$&^-]+", re.ASCII)
# Labels that promise nothing in particular contradict nothing.
_VAGUE: Final = frozenset({"", UNKNOWN, "binary/octet-stream", "application/unknown"})
# What others are packed in: a label may name what is inside.
_PACKED: Final = frozenset(
    {"application/gzip", "application/x-bzip2", "application/x-xz", "application/zstd"}
)
# What others are made of: a label that we do not know may know better.
_OPEN: Final = frozenset({UNKNOWN, "application/zip", "image/tiff", *_PACKED})
# Texts that browsers run, and labels that promise no more than a text.
_ACTIVE: Final = frozenset({"text/html", "image/svg+xml"})
_HARMLESS: Final = frozenset({"text/plain", "text/markdown", "text/x-markdown", "text/x-rst"})


def differs(declared: str | None, format: Format) -> bool:
    """Whether the declared media type contradicts what the bytes are, so that it could mislead.

    It does when bytes would have proved it and do not (``image/png`` over HTML), when it calls
    bytes a text that are none, when a page that browsers run is called something else, and when a
    label that is unknown here is of another family (``image/…``) than a proved format. Parameters
    (``; charset=…``), case, aliases and vague labels contradict nothing, nor do other names of a
    text, or of a container that the format is made of (``.docx`` and ZIP).
    """
    label = (declared or "").split(";")[0].strip().lower()
    if label in _VAGUE or label == format.mime or label in format.aliases:
        return False
    if not _LABEL.fullmatch(label):
        return True  # it is no media type at all
    named = [
        (kind.is_text, other)
        for kind in kinds()
        for other in kind.formats
        if label == other.mime or label in other.aliases
    ]
    if any(format.mime in other.aliases for _, other in named):
        return False  # it is made of this
    if label.startswith("text/") or any(is_text for is_text, _ in named):
        if format.encoding:
            return format.mime in _ACTIVE and label not in _HARMLESS
        return format.mime not in _PACKED
    if named:
        return True
    if format.encoding:
        return format.mime in _ACTIVE
    is_open = format.mime in _OPEN or format.kind == "binary"
    return not is_open and label.partition("/")[0] != format.mime.partition("/")[0]
