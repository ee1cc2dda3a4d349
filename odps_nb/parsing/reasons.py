"""Describes in plain words why a library rejected bytes.

A library's message is kept if users can understand it; system error numbers and reprs of Python
objects are removed. Messages that contain memory addresses or names from the library's code are
dropped.
"""

from __future__ import annotations

import re
import struct
from typing import Final

#: Prefix of the reason if the data is certainly truncated or damaged.
DAMAGED: Final = "truncated or damaged"
ENDS_EARLY: Final = f"{DAMAGED}: its data ends early"
NOT_UTF8: Final = "it contains text that is not valid UTF-8"

_LONGEST: Final = 200
_FORM: Final = "its format is unknown to the decoder"
_RANGE: Final = "it contains a number that is out of range"
_NUMERAL: Final = "it contains a number that cannot be parsed"
# reasons by the name of the error's class, so that this module need not import the libraries
_OURS: Final = {
    **dict.fromkeys(("AssertionError", "AttributeError", "IndexError", "KeyError"), _FORM),
    **dict.fromkeys(("StopIteration", "TypeError", "struct.error"), _FORM),
    **dict.fromkeys(("OverflowError", "ZeroDivisionError"), _RANGE),
    "EOFError": "its data ends early",
    "InvalidDataError": "the decoder found invalid data in it",
    "PanicException": "the decoder found invalid data in it",  # of libraries in Rust
    "MemoryError": "it needs more memory than a preview may use",
    "RecursionError": "it is nested too deeply",
    "UnidentifiedImageError": "its format is unknown to Pillow",
}
# patterns of the libraries' messages, and the reason to show for each
_SAID: Final = (
    (re.compile(r".*\(truncated file: eof"), "its data ends early"),  # HDF5
    # PDFium and zipfile
    (re.compile(r".*Incorrect password|.*password required"), "it is password-protected"),
    (re.compile(r"Failed to load document"), "the decoder found invalid data in it"),  # PDFium
    (
        re.compile(
            r"(?i)image file is truncated|truncated file read|not enough image data"
            r"|expected to (?:be able to )?read \d+ (?:metadata )?bytes"
        ),
        "its data ends early",
    ),
    (re.compile(r"Cannot detect file format"), _FORM),
    (re.compile(r".*Invalid UTF8 sequence"), NOT_UTF8),  # Arrow
    (re.compile(r"invalid literal for \w+\(\)|could not convert string to"), _NUMERAL),
    (re.compile(r"Image size \(\d+ pixels\) exceeds limit"), "it has too many pixels"),
    # a truncated ZIP or ORC file: the directory at its end is missing
    (re.compile(r"File is not a zip file|Failed to parse the postscript"), "its data ends early"),
    (
        re.compile(r"(?:de|en)coder error -?\d+|could not create decoder object"),
        "the decoder found invalid data in it",
    ),
)
_NUMBER: Final = re.compile(r"^\[Errno -?\d+\]\s*|^Error -?\d+ (?:while|during) ")
_OBJECT: Final = re.compile(r"\s*['\"]?<[A-Za-z_][\w.]*(?: object)?(?: at 0x[0-9a-fA-F]+)?>['\"]?")
_ADDRESS: Final = re.compile(
    r"0x[0-9a-fA-F]{6,}|\berrno\b|\w+_\w+\(\)|avcodec_\w+|\b[\w.]+\.(?:py|cc|cpp|c):\d+"
)
_DAMAGE: Final = re.compile(
    r"truncate|truncation|unexpected(?:ly)? end|premature|end(?:s)? early|incomplete"
    r"|\bcrc\b|crc-32|checksum|incorrect (?:header|data) check|corrupt|broken (?:data stream|png)"
    r"|does not fit the bytes|has no end|malformed",
    re.IGNORECASE,
)


def reason_of(error: BaseException) -> str:
    """Return one line that states why ``error`` was raised."""
    name = type(error).__name__
    name = "struct.error" if isinstance(error, struct.error) else name
    if name in _OURS:
        return _OURS[name]
    if isinstance(error, UnicodeDecodeError):
        return f"it contains text that is not valid {error.encoding}"
    text = getattr(error, "strerror", None) or str(error)
    lines = [line.strip() for line in text.strip().splitlines()]
    line = " ".join(lines) if lines and lines[0].endswith(":") else next(iter(lines), "")
    ours = next((words for pattern, words in _SAID if pattern.match(line)), None)
    if ours is not None:
        return ours
    line = _OBJECT.sub("", _NUMBER.sub("", line)).strip()
    if not line or _ADDRESS.search(line):
        return "the decoder gave no reason"
    return line[:_LONGEST]


def is_failure(error: BaseException) -> bool:
    """Whether a library failed; false for Ctrl-C and exits. A panic in Rust is no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def refusal_of(error: BaseException) -> str:
    """Return ``truncated or damaged: …`` if damage is certain, else ``not decoded here: …``."""
    reason = reason_of(error)
    damaged = type(error).__name__ == "BadZipFile" or _DAMAGE.search(reason)
    return f"{DAMAGED if damaged else 'not decoded here'}: {reason}"
