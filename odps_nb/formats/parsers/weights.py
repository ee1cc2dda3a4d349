"""GGUF model files: the names, types and shapes of tensors, or the settings before them.

The GGUF specification of ggml describes the layout: counts of tensors and settings, the settings
(key, type, value), then the tensors (name, dimensions, type, offset). Only part of a file is read.
"""

from __future__ import annotations

import math
import struct
from typing import Any, Final

from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import ENDS_EARLY
from odps_nb.terms import count_of

#: Format of each type of value, for `struct`; strings and arrays have a length.
_FORMATS: Final = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
_STRING, _ARRAY = 8, 9
_SHOWN: Final = 4  # elements of an array
_NAMES: Final = """F32 F16 Q4_0 Q4_1 4 5 Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS
    IQ2_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16"""
_TYPES: Final = {**dict(enumerate(_NAMES.split())), 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"}


class _EndedError(Exception):
    """The part that was read ends here."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 8

    def number(self, form: str) -> Any:
        try:
            (value,) = struct.unpack_from(f"<{form}", self._data, self._at)
        except (struct.error, OverflowError):
            raise _EndedError from None
        self._at += struct.calcsize(form)
        return value

    def text(self) -> str:
        length = self.number("Q")
        if length > len(self._data) - self._at:
            raise _EndedError
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8", "replace")

    def value(self, kind: int) -> str:
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return str(self.number(_FORMATS[kind]))
        inner, count = self.number("I"), self.number("Q")
        first = [self.value(inner) for _ in range(min(count, _SHOWN))]
        left = count - len(first)
        if inner in (_STRING, _ARRAY):
            for _ in range(left):
                self.value(inner)
        elif left:
            self._at += left * struct.calcsize(_FORMATS[inner])
        return f"[{', '.join(first)}{', …' if left else ''}] ({count:,})"

    def tensor(self) -> tuple[str, str, list[int]]:
        name, sizes = self.text(), self.number("I")
        shape = [self.number("Q") for _ in range(sizes)][::-1]  # the innermost one is stored first
        kind = self.number("I")
        self.number("Q")
        return name, _TYPES.get(kind, str(kind)), shape


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the tensors as a table, or the settings if no tensor is in the part that was read."""
    size = Size(**options["size"])
    reader = _Reader(data)
    settings: dict[str, str] = {}
    tensors: list[tuple[str, str, list[int]]] = []
    count, note = 0, ""
    try:
        count, keys = reader.number("Q"), reader.number("Q")
        for _ in range(keys):
            key = reader.text()
            settings[key] = reader.value(reader.number("I"))
        for _ in range(count):
            tensors.append(reader.tensor())
    except _EndedError:
        note = ENDS_EARLY if options["whole"] else ""  # only the beginning was read
    facts = [count_of(count, "tensor")]
    if count and len(tensors) == count:
        parameters = sum(math.prod(shape) for _, _, shape in tensors)
        facts.append(count_of(parameters, "parameter"))
    named = [settings.get(f"general.{name}", "") for name in ("name", "architecture")]
    heading = [name for name in dict.fromkeys(named) if name]
    most = size.rows * 10
    if tensors:
        rows = [(n, kind, "×".join(map(str, shape)) or "scalar") for n, kind, shape in tensors]
        head: tuple[str, ...] = ("tensor", "type", "shape")
        return answer(facts, note=note, heading=heading, head=head, rows=rows[:most])
    pairs, head = list(settings.items()), ("setting", "value")
    return answer(facts, note=note, heading=heading, head=head, rows=pairs[:most])
