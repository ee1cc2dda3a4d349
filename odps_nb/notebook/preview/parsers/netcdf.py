"""netCDF-3: names, shapes, types and attributes of the variables (Classic Format Specification).

Only the header is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from odps_nb.notebook.preview.shared import answer
from odps_nb.terms import count_of

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12  # list tags
_CHAR: Final = 2
_TYPES: Final = {
    1: "i1", _CHAR: "S1", 3: ">i2", 4: ">i4", 5: ">f4", 6: ">f8",
    7: "u1", 8: ">u2", 9: ">u4", 10: ">i8", 11: ">u8",
}  # fmt: skip
_NAMES: Final = {"S1": "char"}
_MANY: Final = 4_096  # maximum entries of a list, and dimensions of a variable
_SHOWN: Final = 60
_LONGEST: Final = 200  # maximum characters of a name; a shape contains a name for each dimension


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return a row for each variable, and the attributes of the file."""
    dimensions, attributes, variables = _Header(data).read()
    rows = []
    for name, places, about, kind in variables[:_SHOWN]:
        shape = " × ".join("{} {:,}".format(*dimensions[place]) for place in places)
        rows.append((name, shape or "scalar", kind, "; ".join(about)))
    facts = [count_of(len(variables), "variable"), count_of(len(dimensions), "dimension")]
    return described(facts, attributes[:8], rows)


def described(
    facts: list[str], attributes: list[str], rows: Iterable[Iterable[str]]
) -> tuple[dict[str, Any], bytes]:
    """Return the parser's result: the attributes of the file, and a row for each dataset."""
    heading = [attributes[0], " · ".join(("", *attributes[1:]))] if attributes else []
    return answer(facts, heading=heading, head=("name", "shape", "type", "attributes"), rows=rows)


class _Header:
    """A reader of the header. Numbers have 8 bytes in the 64-bit variant (CDF-5), else 4."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 4
        version = data[3]
        self._wide = 8 if version == 5 else 4
        self._offset = 4 if version == 1 else 8

    def read(self) -> tuple[list[tuple[str, int]], list[str], list[Any]]:
        """Return the dimensions with lengths, the attributes of the file, and the variables."""
        records = self._number(self._wide)
        unknown = (1 << 8 * self._wide) - 1  # record count of a file still being written
        found = [(self._text(), self._number()) for _ in range(self._list(_DIMENSIONS))]
        rows = 0 if records == unknown else records
        dimensions = [(name, length or rows) for name, length in found]  # 0: the record dimension
        attributes = self._attributes()
        variables = [self._variable(len(dimensions)) for _ in range(self._list(_VARIABLES))]
        return dimensions, attributes, variables

    def _variable(self, dimensions: int) -> tuple[str, list[int], list[str], str]:
        name = self._text()
        places = [self._number() for _ in range(self._bounded())]
        if any(place >= dimensions for place in places):
            raise ValueError("its header is not valid netCDF")
        about = self._attributes()
        kind = np.dtype(_TYPES[self._number(4)])
        self._number(), self._number(self._offset)  # size and offset of the values
        return name, places, about, _NAMES.get(kind.str[1:], kind.name)

    def _attributes(self) -> list[str]:
        found = []
        for _ in range(self._list(_ATTRIBUTES)):
            name = self._text()
            kind = self._number(4)
            count, item = self._number(), np.dtype(_TYPES[kind])
            raw = self._padded(count * item.itemsize)
            if kind == _CHAR:
                value = raw.rstrip(b"\0").decode("utf-8", "replace")
            else:
                value = ", ".join(str(one) for one in np.frombuffer(raw, item)[:8])
            found.append(f"{name}: {value}")
        return found

    def _list(self, tag: int) -> int:
        """Return the number of entries of a tagged list; an absent list is encoded as ``0 0``."""
        stated, count = self._number(4), self._bounded()
        if stated != tag and (stated or count):
            raise ValueError("its header is not valid netCDF")
        return count

    def _bounded(self) -> int:
        count = self._number()
        if count > _MANY:
            raise ValueError("its header is not valid netCDF")
        return count

    def _text(self) -> str:
        return self._padded(self._number()).decode("utf-8", "replace")[:_LONGEST]

    def _padded(self, length: int) -> bytes:
        raw = self._take(length)
        self._take(-length % 4)
        return raw

    def _number(self, size: int = 0) -> int:
        return int.from_bytes(self._take(size or self._wide), "big")

    def _take(self, length: int) -> bytes:
        raw = self._data[self._at : self._at + length]
        if len(raw) < length:
            raise EOFError
        self._at += length
        return raw
