"""Says why a library refused bytes, in words for a person.

The words of a library are kept where they are plain. An address, the number of an error of the
system, or a Python object's repr never gets into them.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["DAMAGED", "reason_of", "refusal_of"]

#: What a refusal begins with where the decoder proved it.
DAMAGED: Final = "cut or damaged"

_LONGEST: Final = 200
# by the name of the class: this module loads none of the libraries
_OURS: Final = {
    "AssertionError": "it has a form that the decoder does not know",
    "AttributeError": "it has a form that the decoder does not know",
    "EOFError": "its bytes end early",
    "IndexError": "its bytes end early",
    "InvalidDataError": "the decoder finds invalid data in it",
    "KeyError": "it has a form that the decoder does not know",
    "OverflowError": "a number in it is out of range",
    "RecursionError": "it is nested too deeply",
    "StopIteration": "its bytes end early",
    "TypeError": "it has a form that the decoder does not know",
    "UnidentifiedImageError": "it has a form that Pillow does not know",
    "ZeroDivisionError": "a number in it is out of range",
    "error": "its bytes end early",  # of struct; zlib's has words of its own
}
_NUMBER: Final = re.compile(r"^\[Errno -?\d+\]\s*|^Error -?\d+ (?:while|during) ")
_OBJECT: Final = re.compile(r"\s*['\"]?<[A-Za-z_][\w.]*(?: object)?(?: at 0x[0-9a-fA-F]+)?>['\"]?")
_ADDRESS: Final = re.compile(
    r"0x[0-9a-fA-F]{6,}|\berrno\b|avcodec_\w+|\b[\w.]+\.(?:py|cc|cpp|c):\d+"
)
_DAMAGE: Final = re.compile(
    r"truncat|unexpected(?:ly)? end|premature|end(?:s)? early|incomplete|\bcrc\b|crc-32|checksum"
    r"|incorrect (?:header|data) check|corrupt|broken (?:data stream|png)"
    r"|does not fit the bytes|has no end",
    re.IGNORECASE,
)


def reason_of(error: BaseException) -> str:
    """Return one line that says why ``error`` was raised."""
    name = type(error).__name__
    text = getattr(error, "strerror", None) or str(error)
    if name in _OURS and not (name == "error" and type(error).__module__ == "zlib"):
        return _OURS[name]
    if isinstance(error, UnicodeDecodeError):
        return f"a text in it is not {error.encoding}"
    line = next(iter(text.strip().splitlines()), "")
    line = _OBJECT.sub("", _NUMBER.sub("", line)).strip()
    if not line or _ADDRESS.search(line):
        return "the decoder does not say why"
    return line[:_LONGEST]


def refusal_of(error: BaseException) -> str:
    """Return ``cut or damaged: …`` where the decoder proved it, else ``not decoded here: …``."""
    reason = reason_of(error)
    return f"{DAMAGED if _DAMAGE.search(reason) else 'not decoded here'}: {reason}"
