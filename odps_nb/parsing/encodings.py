"""Detects the encoding of text: the one stated in its first bytes, UTF-8, or a library's guess.

``charset-normalizer`` inspects a bounded sample. If it finds several equally likely encodings, as
for short text, the first of them in `_COMMON` is used; GBK comes first because it is common.

A few invalid bytes do not change the encoding: each is decoded as U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

SAMPLE: Final = 64 * 1024
"""Maximum number of bytes to inspect."""
CONTROLS: Final = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
"""Characters that do not occur in text."""
_UNASSIGNED: Final = re.compile("[\x80-\x9f\ue000-\uf8ff\ufffe\uffff]")
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_STATED: Final = (
    re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})"),
    re.compile(rb"(?i)<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})"),
    re.compile(rb"^(?:[^\n]{0,200}\n)?[^\n]{0,200}coding[:=]\s*([\w.-]{1,40})"),
)
_ESCAPES: Final = re.compile(rb"\x1b[$(]")
_COMMON: Final = ("gb18030", "gbk", "gb2312", "big5", "cp932", "cp949", "cp1251", "cp1252")
_USUAL: Final = re.compile(r"cp125[0-57]|gb\w+|big5\w*|cp93[26]|cp949|euc_\w+|shift_\w+|iso2022\w+")
_ADJACENT: Final = re.compile(rb"[\x80-\xff]{2}")
_ABOUT_EQUAL: Final = 0.03  # maximum difference of coherence; Turkish and Baltic text exceeds it
_WIDER: Final = {
    "gb2312": "gb18030", "gbk": "gb18030", "euc_kr": "cp949", "shift_jis": "cp932",
    "iso8859_1": "cp1252", "ascii": "cp1252",
}  # fmt: skip
"""Supersets to try, because files often use them although they state the narrower encoding."""
_HIVE_LINES: Final = 20
_HIVE_LINE: Final = 4096
_NEVER: Final = bytes((0, *range(2, 9), *range(14, 27), *range(28, 32), 127))
"""Bytes of control characters, except those of Hive text and of ISO 2022."""
_NOT_TEXT: Final = re.compile(b"[%b]" % re.escape(_NEVER))
_KOREAN: Final = b"\x1b$)C"
"""The beginning of a text in ISO-2022-KR (RFC 1557), which contains SO and SI."""
_WIDE: Final = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_RARE: Final = 200  # minimum bytes of a text per invalid byte,
_VALID: Final = 4  # or minimum characters outside of ASCII per invalid byte
_PIECES: Final = 8  # number of pieces of a text whose encodings are guessed separately
_VARIETY: Final = 3  # minimum number of distinct bytes in text
_PAIRS: Final = re.compile(rb"(?:[\x00-\x7f]|[\xa1-\xa3\xb0-\xd7][\xa1-\xfe])*")
"""ASCII and the common characters of GB 2312: level 1 and punctuation."""

_LETTERS: Final = "àâäçéèêëîïôöùûüñáíóúßÀÂÄÇÉÈÊËÎÏÔÖÙÛÜÑÁÍÓÚ".encode("cp1252")
_WESTERN: Final = re.compile(
    rb"(?:[\x00-\x7f]|[%b][\xdf\xe9]?(?![\xc0-\xff])|[%b])*+"
    % (_LETTERS, "…‘’“”–—¡«°»¿".encode("cp1252"))
)
"""ASCII, and the letters of French, German and Spanish, of which two are rarely adjacent."""
_CHINESE: Final = re.compile(
    rb"(?:[\x00-\x7f]|[\xa1-\xa3\xb0-\xc8][\xa1-\xfe])*[\xc9-\xd7][\xa1-\xfe]"
)
"""Like `_PAIRS`, but with at least one character whose bytes occur in no Korean word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """Python's name for an encoding, and whether it was guessed."""

    name: str
    guessed: bool = False


def detect(data: bytes, *, whole: bool = True, guess: bool = True) -> Encoding | None:
    """Return the encoding of ``data``, a text or its first bytes; ``None`` if it is not text.

    If ``whole`` is false, the last character may be truncated. With ``guess``, a library guesses
    the encoding if none is stated and the text is not UTF-8.
    """
    sample = data[:SAMPLE]
    complete = whole and len(sample) == len(data)
    from_bom = next((name for bom, name in _BOMS if sample.startswith(bom)), None)
    if from_bom is not None:
        is_empty = any(sample == bom for bom, _ in _BOMS)
        is_text = is_empty or _is_text(sample, from_bom, whole=complete, few=_few_of_characters)
        return Encoding(name=from_bom) if is_text else None
    stated = [] if _ESCAPES.search(sample) else [*_stated(sample), "utf-8"]
    for few in (None, _few_of_characters):
        for name in stated:
            if _is_text(sample, name, whole=complete, few=few):
                return Encoding(name=name)
        if _NOT_TEXT.search(sample):
            break  # binary: do not look for text with invalid bytes
    return guess_encoding(sample, whole=complete) if guess else None


def guess_encoding(data: bytes, *, whole: bool) -> Encoding | None:
    """Guess the encoding of up to `SAMPLE` bytes that state no encoding and are not UTF-8.

    If no usual encoding fits all bytes, guess from the pieces without invalid bytes: a rare
    encoding, or one in which all bytes are characters (ISO 8859-5), may fit only because of an
    invalid byte. If there is no guess, text is UTF-8 if all but a few bytes are ASCII.
    """
    if name := _of_pairs(data, whole=whole):
        return Encoding(name=name, guessed=True)
    first_guess = _guessed(data, whole=whole)
    if (first_guess and _USUAL.fullmatch(first_guess.name)) or _NOT_TEXT.search(data):
        return first_guess
    step = max(_RARE, len(data) // _PIECES)
    # split at blanks, which are never part of a multi-byte character
    pieces = [data[at : at + step].split()[1:-1] for at in range(0, len(data), step)]
    texts = [text for words in pieces if not (text := b" ".join(words)).isascii()]
    votes = Counter(guess.name for text in texts if (guess := _guessed(text, whole=True)))
    for name, _ in votes.most_common():
        fitting = b" ".join(text for text in texts if _is_text(text, name, whole=True))
        guess = _guessed(fitting, whole=True)
        if (
            guess
            and (not first_guess or _USUAL.fullmatch(guess.name))
            and _is_text(data, guess.name, whole=whole, few=_few_of_bytes)
        ):
            return guess
    if not first_guess and _is_text(data, "utf-8", whole=whole, few=_few_of_bytes):
        return Encoding(name="utf-8", guessed=True)
    return first_guess


def detect_after(data: bytes, start: int) -> Encoding | None:
    """Guess the encoding of a text that is ASCII before byte ``start``, and not UTF-8 from there.

    The bytes around ``start`` are inspected, because the first bytes show no difference. Return
    ``None`` if no encoding fits all of ``data``, or if it is not ASCII before ``start``.
    """
    if not data[:start].isascii():
        return None  # damaged UTF-8: another encoding would change earlier characters
    first = max(0, start - SAMPLE // 2)
    part = data[first : first + SAMPLE]
    guess = guess_encoding(part, whole=first + SAMPLE >= len(data))
    return guess if guess and _is_text(data, guess.name, whole=True, few=_few_of_bytes) else None


def decode(data: bytes, encoding: str, *, whole: bool = True, errors: str = "strict") -> str:
    """Decode text; if ``whole`` is false, drop a truncated character at the end."""
    return codecs.getincrementaldecoder(encoding)(errors).decode(data, final=whole)


def decode_detected(data: bytes, encoding: str, *, whole: bool = True) -> tuple[str, int]:
    """Decode text, with U+FFFD in place of a few invalid bytes; also return their number.

    Raises
    ------
    UnicodeDecodeError
        Too many bytes are invalid in this encoding.
    """
    text, invalid = _replaced(data, encoding, whole=whole)
    if not (_few_of_bytes(text, invalid, data) or _few_of_characters(text, invalid, data)):
        decode(data, encoding, whole=whole)  # raises the error of the first invalid byte
    return text, invalid


def _replaced(data: bytes, encoding: str, *, whole: bool) -> tuple[str, int]:
    try:
        return decode(data, encoding, whole=whole), 0
    except UnicodeDecodeError:
        text = decode(data, encoding, whole=whole, errors="replace")
    own = data.count("\ufffd".encode()) if encoding.startswith("utf-8") else 0
    return text, text.count("\ufffd") - own


_Few = Callable[[str, int, bytes], bool]


def _few_of_bytes(text: str, invalid: int, data: bytes) -> bool:
    return invalid * _RARE <= len(data)


def _few_of_characters(text: str, invalid: int, data: bytes) -> bool:
    wide = len(text) - len(text.encode("ascii", "ignore"))
    return wide - invalid >= _VALID * invalid


def _stated(sample: bytes) -> list[str]:
    matches = (pattern.search(sample[:2048]) for pattern in _STATED)
    names = [name for match in matches if match and (name := _known(match[1].decode("ascii")))]
    wider = [_WIDER[key] for name in names if (key := name.replace("-", "_")) in _WIDER]
    return [*names, *wider]


def _known(name: str) -> str | None:
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        # web pages may also state x-sjis, x-gbk or x-x-big5 (WHATWG, Encoding, "labels")
        short = re.sub("(?i)^x-", "", name)
        return _known(short) if short != name else None
    if not info._is_text_encoding or info.name in ("idna", "punycode", "undefined"):
        return None
    return info.name


def _is_text(sample: bytes, name: str, *, whole: bool, few: _Few | None = None) -> bool:
    """Return whether the bytes are text in this encoding; ``few`` says if invalid bytes are few."""
    try:
        if few is None:
            text = decode(sample, name, whole=whole)
        else:
            text, invalid = _replaced(sample, name, whole=whole)
            if not few(text, invalid, sample):
                return False
    except (UnicodeError, LookupError):
        return False
    if "\x01" in text and _is_hive(text):
        text = text.replace("\x01", "")
    return bool(text or not sample) and not CONTROLS.search(text)


def _is_hive(text: str) -> bool:
    """Whether every line has the same number of ``\\x01`` characters, Hive's field separators.

    One line is enough only for a short text.
    """
    lines = text.split("\n")
    whole = [line for line in lines[: _HIVE_LINES + 1] if line][: max(1, len(lines) - 1)]
    even = len({line.count("\x01") for line in whole}) == 1
    return even and (len(whole) > 1 or len(text) <= _HIVE_LINE)


def _of_letters(sample: bytes) -> str:
    """Return the encoding in which all bytes are common characters of one script."""
    if _PAIRS.fullmatch(sample) and _CHINESE.match(sample):
        return "gb18030"
    return "cp1252" if _WESTERN.fullmatch(sample) and not sample.isascii() else ""


def _of_pairs(data: bytes, *, whole: bool) -> str:
    """Return UTF-16 if at least half of the characters have a high byte of 0, as in ASCII text."""
    if len(set(data)) < _VARIETY or b"\x01" in data:
        return ""
    for name, high in (("utf-16-le", data[1::2]), ("utf-16-be", data[::2])):
        if high.count(0) * 2 >= len(high) and _is_text(data, name, whole=whole):
            return name
    return ""


def _is_utf_8_with_controls(data: bytes, *, whole: bool) -> bool:
    """Whether few bytes are control characters; in UTF-16 text that is valid UTF-8, many are."""
    letters = data.translate(None, b"\t\n\r")
    if len(_NOT_TEXT.findall(letters)) * 4 >= len(letters):
        return False
    try:
        return bool(decode(data, "utf-8", whole=whole))
    except UnicodeDecodeError:
        return False


def _guessed(data: bytes, *, whole: bool) -> Encoding | None:
    """Guess the encoding from the complete lines of ``data``; the result fits all of ``data``."""
    from charset_normalizer import from_bytes

    if (
        _NOT_TEXT.search(data)
        and not data.startswith(_KOREAN)
        and (
            _is_utf_8_with_controls(data, whole=whole)
            or not any(_is_text(data, name, whole=False) for name in _WIDE)
        )
    ):
        return None  # in all other encodings, these bytes are control characters
    # a truncated character would count against the right encoding
    sample = data if whole else data[: data.rfind(b"\n") + 1] or data
    if name := _of_letters(sample):
        return Encoding(name=name, guessed=True) if _is_text(data, name, whole=whole) else None
    matches = list(from_bytes(sample))
    if not matches or len(set(sample)) < _VARIETY:
        return None
    best = matches[0]
    if not _ADJACENT.search(sample):  # accented letters: prefer Western if equally likely
        western = [
            match for match in matches if "cp1252" in (match.encoding, *match.could_be_from_charset)
        ]
        is_text = _is_text(data, "cp1252", whole=whole)
        if western and western[0].coherence >= best.coherence - _ABOUT_EQUAL and is_text:
            return Encoding(name="cp1252", guessed=True)
    equal = [
        match for match in matches if (match.chaos, match.coherence) == (best.chaos, best.coherence)
    ]
    names = [name for match in equal for name in (match.encoding, *match.could_be_from_charset)]
    if len(equal) > 1:
        if not _PAIRS.fullmatch(sample):
            names = [name for name in names if _WIDER.get(name, name) != "gb18030"]
        names.sort(key=lambda name: _COMMON.index(name) if name in _COMMON else len(_COMMON))
    names += [_WIDER[name] for name in names if name in _WIDER]
    for name in names:
        if _is_text(data, name, whole=whole) and not _UNASSIGNED.search(
            decode(data, name, whole=whole)
        ):
            return Encoding(name=name, guessed=True)
    return None
