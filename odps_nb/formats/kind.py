"""Declares preview kinds: their formats, recognition, limits and drawing.

A kind is a file in `odps_nb.formats.kinds` with a constant ``KIND``. A parser that uses
native code is a file in `odps_nb.formats.parsers` with ``parse(data, options)``, which
runs in the parser process. Kinds and parsers raise `UnshowableError` with the reason if a blob
cannot be shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, Final

from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.parsing.encodings import decode_detected, detect, guess_encoding
from odps_nb.parsing.values import UnshowableError

#: Maximum bytes used for recognition; every preview may read this many.
HEAD: Final = 64 * 1024
MIB: Final = 1024 * 1024
#: Media type of unknown bytes.
UNKNOWN: Final = "application/octet-stream"
#: Reason if drawing requires all bytes of a blob that is larger than its limit.
TOO_LARGE: Final = "too large to look inside"

# Values of `Kind.precedence`: kinds with lower values are tried first.
FIRST: Final = 0  #: tried before the text kinds; for formats that may look like text (PDF)
TEXTS: Final = 100  #: from here to `BINARIES`: tried only for bytes that are text
BINARIES: Final = 200  #: tried only for bytes that are not text
LAST: Final = 300  #: the fallback


@dataclass(frozen=True, slots=True)
class Format:
    """A file format: its names, and the bytes that identify it."""

    mime: str  #: Media type; ``data:`` URLs use this constant, never a declared type.
    label: str  #: Display name: ``PNG``, ``CSV``, ….
    _: KW_ONLY
    aliases: tuple[str, ...] = ()  #: Other media types used for the format.
    starts: tuple[bytes, ...] = ()  #: First bytes that identify the format; see `Kind.recognise`.
    brands: tuple[bytes, ...] = ()  #: Brands of an ISO base media file that identify the format.
    limit: int = 0  #: Maximum bytes to read, if more than `Kind.limit`.
    kind: str = ""  #: Name of the kind; set by recognition.
    encoding: str = ""  #: Python's name of the text encoding; set by recognition.
    guessed: bool = False  #: Whether the encoding was guessed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first bytes of a blob, from which kinds recognise its format."""

    data: bytes = field(repr=False)  #: At most `HEAD` bytes.
    whole: bool  #: Whether these are all the blob's bytes.
    text: str = field(default="", repr=False)  #: The decoded bytes; empty if they are not text.
    encoding: str = ""  #: The encoding of the text.
    guessed: bool = False  #: Whether the encoding was guessed.
    brand: bytes = b""  #: The first recognised brand of an ISO base media file.
    name: str = ""  #: The file's name; only decides between formats that the bytes allow.

    @classmethod
    def of(
        cls,
        data: bytes,
        *,
        whole: bool,
        brands: Set[bytes] = frozenset(),
        guess: bool = False,
        name: str = "",
    ) -> Head:
        """Create a head: decode the bytes if they are text, and look for one of ``brands``.

        With ``guess``, guess the encoding of bytes that state no encoding and are not UTF-8.
        """
        look = guess_encoding if guess else partial(detect, guess=False)
        detected = look(data, whole=whole) if data else None
        return cls(
            data=data,
            whole=whole,
            text=decode_detected(data, detected.name, whole=whole)[0] if detected else "",
            encoding=detected.name if detected else "",
            guessed=detected is not None and detected.guessed,
            brand=_brand(data, brands),
            name=name,
        )


#: Draws an excerpt of a blob: ``draw(excerpt, format, size, *, name)``, where ``name`` is the
#: displayed name of the blob. After an `UnshowableError`, the tile shows the reason.
Draw = Callable[..., Drawing]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of preview: its formats, and how to recognise and draw them."""

    name: str  #: Name, used as a filter in galleries.
    formats: tuple[Format, ...]
    draw: Draw
    draw_rendered: Draw | None = None  #: Used instead of ``draw`` if ``render=True``.
    fallback: Draw | None = None  #: Used if ``draw`` fails, instead of the reason alone.
    #: Returns one of the formats; called if no ``starts`` or ``brands`` match. It may only inspect
    #: bytes and text, because libraries must run in the parser process.
    recognise: Callable[[Head], Format | None] | None = None
    #: Lower values are tried first: `FIRST`, `TEXTS`, `BINARIES` or `LAST`, plus a small offset.
    precedence: int = BINARIES
    limit: int = HEAD  #: Maximum size of a blob that is read in full.
    head: int = HEAD  #: Number of bytes to read from a larger blob.
    alone: int = 0  #: Read limit for a large preview of a single blob, if above ``limit``.
    whole: bool = False  #: Whether drawing requires all bytes.
    _starts: tuple[bytes, ...] = field(init=False, repr=False)  # first bytes of all formats

    def __post_init__(self) -> None:
        starts = tuple(start for format in self.formats for start in format.starts)
        object.__setattr__(self, "_starts", starts)

    @property
    def is_text(self) -> bool:
        """Whether the kind is tried only for bytes that are text."""
        return TEXTS <= self.precedence < BINARIES

    def match(self, head: Head) -> Format | None:
        """Return the format of the bytes, or ``None`` if they are of another kind."""
        if self.is_text and not head.encoding:
            return None
        matched = None
        if head.brand or head.data.startswith(self._starts):
            matched = next((format for format in self.formats if _proves(head, format)), None)
        if matched is None and self.recognise is not None:
            matched = self.recognise(head)
        if matched is None:
            return None
        encoding = head.encoding if self.is_text else ""
        return replace(
            matched, kind=self.name, encoding=encoding, guessed=self.is_text and head.guessed
        )


def _proves(head: Head, format: Format) -> bool:
    return head.data.startswith(format.starts) or head.brand in format.brands


def _brand(data: bytes, known: Set[bytes]) -> bytes:
    if data[4:8] != b"ftyp":
        return b""
    # the major brand, a version number, then the compatible brands
    end = min(int.from_bytes(data[:4], "big"), len(data), 128)
    brands = (data[8:12], *(data[at : at + 4] for at in range(16, end - 3, 4)))
    return next((brand for brand in brands if brand in known), b"")


def text_of(excerpt: Excerpt, format: Format) -> str:
    """Return the excerpt as text, with U+FFFD in place of a few invalid bytes."""
    try:
        return decode_detected(excerpt.data, format.encoding, whole=excerpt.whole)[0]
    except UnicodeDecodeError as error:
        raise UnshowableError(f"not valid {format.encoding} from byte {error.start} on") from None


def load_json(text: str | bytes) -> Any:
    """Parse JSON; return ``None`` if the text is not valid JSON.

    Numbers become strings, because converting long numbers is slow.
    """
    try:
        return json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
