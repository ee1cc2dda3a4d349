"""Finds the preview kinds, and tries them in order to recognise a blob.

Kinds are the files of `odps_nb.formats.kinds` and entry points of installed packages
(``docs/previews.md``). The declared media type is only a label and does not affect recognition.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

from odps_nb.formats.kind import TEXTS, UNKNOWN, Format, Head, Kind
from odps_nb.formats.media_types import type_of_name
from odps_nb.parsing.encodings import CONTROLS, decode

#: Entry point group for other packages' kinds.
GROUP: Final = "odps_nb.preview_kinds"
# a name instead of an import, because the package's modules import this one
_PACKAGE: Final = "odps_nb.formats.kinds"

_log = logging.getLogger("odps_nb")


class Kinds:
    """Preview kinds, in the order in which they are tried.

    Raises `ValueError` if two kinds have the same name or the same brand.
    """

    def __init__(self, kinds: Iterable[Kind]) -> None:
        ordered = sorted(kinds, key=lambda kind: (kind.precedence, kind.name))
        self._by_name = MappingProxyType({kind.name: kind for kind in ordered})
        self._of_binaries = [kind for kind in ordered if not kind.is_text]
        brands = [b for kind in ordered for format in kind.formats for b in format.brands]
        self._brands = frozenset(brands)
        if len(self._by_name) < len(ordered) or len(self._brands) < len(brands):
            raise ValueError("two kinds have the same name or the same brand")

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Kind:
        return self._by_name[name]

    def sniff(self, head: bytes, size: int | None = None, name: str = "") -> Format:
        """Recognise the format of a blob of ``size`` bytes from its first `HEAD` bytes.

        Its ``name`` only decides between formats that the bytes allow.
        """
        whole = size is not None and size <= len(head)
        matched = self._match(self._head(head, whole=whole, name=name))
        if matched.mime != UNKNOWN:
            return matched
        # guess an encoding if no format matches
        guessed = self._head(head, whole=whole, guess=True, name=name)
        return self._match(guessed) if guessed.guessed else matched

    def _head(self, data: bytes, *, whole: bool, name: str, guess: bool = False) -> Head:
        try:
            return Head.of(data, whole=whole, brands=self._brands, guess=guess, name=name)
        except Exception as error:  # noqa: BLE001  # codecs and a library's guess may raise any error
            _log.warning("the encoding of a blob was not detected: %s", error)
            return Head(data=data, whole=whole)

    def _match(self, head: Head) -> Format:
        for kind in self if head.encoding else self._of_binaries:
            try:
                if matched := kind.match(head):
                    return matched
            except Exception as error:  # noqa: BLE001  # other packages' kinds may raise any error
                _log.warning("the preview kind %r failed to recognise a blob: %s", kind.name, error)
        raise AssertionError("the kind 'binary' matches everything")


@cache
def kinds() -> Kinds:
    """Return the kinds of this package (one per file in `kinds`) and of installed packages.

    A kind of another package that fails to load, or reuses a name or brand, is skipped and logged.
    """
    folder = importlib.import_module(_PACKAGE).__path__
    modules = (f"{_PACKAGE}.{module.name}" for module in pkgutil.iter_modules(folder))
    registered = Kinds(importlib.import_module(module).KIND for module in modules)
    for entry in sorted(entry_points(group=GROUP)):
        try:
            registered = Kinds((*registered, entry.load()))
        except Exception as error:  # noqa: BLE001  # other packages may raise any error
            _log.warning("skipping the preview kind %r: %s", entry.name, error)
    return registered


def sniff(head: bytes, size: int | None = None, name: str = "") -> Format:
    """Recognise a format with all `kinds`; see `Kinds.sniff`."""
    return kinds().sniff(head, size, name)


def media_type(head: bytes, size: int, name: str) -> str:
    """Return the media type of a file by its name, or by its first bytes if they contradict it.

    Return ``application/octet-stream`` if unknown.
    """
    guess = type_of_name(name)
    if guess is not None and size and _confirms(head, size, guess):
        return guess
    sniffed = sniff(head, size, name)
    if guess is None or not size:
        return sniffed.mime
    return sniffed.mime if differs(guess, sniffed) else guess


def _confirms(head: bytes, size: int, guess: str) -> bool:
    """Whether the bytes certainly have the type ``guess``, without trying all kinds.

    If true, `differs` is false for the detected format.
    """
    starts, is_text = _proofs().get(guess, ((), guess.startswith("text/")))
    if not is_text:
        return head.startswith(starts) and not head[:64].isascii()
    try:
        text = decode(head, "utf-8", whole=size <= len(head))
    except UnicodeDecodeError:
        return False
    may_be_page = text.lstrip("\ufeff \t\r\n")[:1] == "<" and guess not in _HARMLESS
    if may_be_page or CONTROLS.search(text):
        return False
    seen = Head(data=head, whole=size <= len(head), text=text, encoding="utf-8")
    first = (kind for kind in kinds() if kind.precedence < TEXTS)
    return not any(kind.match(seen) for kind in first)


@cache
def _proofs() -> Mapping[str, tuple[tuple[bytes, ...], bool]]:
    """Return the first bytes that identify each media type, and whether it is a text type."""
    return {
        format.mime: (format.starts, kind.is_text)
        for kind in kinds()
        for format in kind.formats
        if format.starts or kind.is_text
    }


_LABEL: Final = re.compile(r"[\w.+!#$&^-]+/[\w.+!#$&^-]+", re.ASCII)
# Generic types, which do not contradict any format.
_VAGUE: Final = frozenset({"", UNKNOWN, "binary/octet-stream", "application/unknown"})
# Compressed formats: the declared type may be that of the content inside.
_PACKED: Final = frozenset(
    {"application/gzip", "application/x-bzip2", "application/x-xz", "application/zstd"}
)
# Container formats: an unknown declared type may be a more specific one.
_OPEN: Final = frozenset({UNKNOWN, "application/zip", "image/tiff", *_PACKED})
# Text formats that browsers execute, and labels that only mean "text".
_ACTIVE: Final = frozenset({"text/html", "image/svg+xml"})
_HARMLESS: Final = frozenset({"text/plain", "text/markdown", "text/x-markdown", "text/x-rst"})


def differs(declared: str | None, format: Format) -> bool:
    """Whether the declared media type contradicts the detected format and could mislead users.

    A declared type contradicts the detected format if it

    - requires identifying bytes that are missing (``image/png`` for HTML),
    - is a text type although the bytes are not text,
    - hides a page that browsers execute, or
    - is unknown here and belongs to another family (``image/…``).

    Differences in parameters (``; charset=…``) or case are never a contradiction, nor are aliases,
    generic labels, other text types, or the container type of the format (ZIP for ``.docx``).
    """
    label = (declared or "").split(";")[0].strip().lower()
    if label in _VAGUE or label == format.mime or label in format.aliases:
        return False
    if not _LABEL.fullmatch(label):
        return True  # not a media type
    named = [
        (kind.is_text, other)
        for kind in kinds()
        for other in kind.formats
        if label == other.mime or label in other.aliases
    ]
    if any(format.mime in other.aliases for _, other in named):
        return False  # the format's container is declared
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
