"""Model files: tensors or settings (GGUF), and the names that a PyTorch file imports.

The GGUF specification of ggml describes the layout: counts of tensors and settings, the settings
(key, type, value), then the tensors (name, dimensions, type, offset). Only part of a file is read.
A PyTorch file is a ZIP that begins with a pickle, whose opcodes are listed and never run.
"""

from __future__ import annotations

import math
import pickletools
import struct
import zlib
from typing import Any, Final

from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import ENDS_EARLY
from odps_nb.terms import count_of

#: Format of each type of value, for `struct`; strings and arrays have a length.
_FORMATS: Final = ("B", "b", "H", "h", "I", "i", "f", "?", "", "", "Q", "q", "d")
_STRING, _ARRAY = 8, 9
_STORED, _DEFLATED = 0, 8  # compression methods of ZIP
_UNPACKED: Final = 1 << 20  # maximum decompressed bytes of a pickle
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
    """Return the tensors as a table, or the settings if no tensor is in the part that was read.

    For a PyTorch file, return the imported names instead.
    """
    size = Size(**options["size"])
    if options["label"] == "PyTorch":
        return _torch(data, size)
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


def _torch(data: bytes, size: Size) -> tuple[dict[str, Any], bytes]:
    names, is_whole = _imports(_first_member(data))
    fact = count_of(len(names), "import") if is_whole else "first imports"
    lines = names[: size.lines] or ["no imports" if is_whole else "not known"]
    note = "never loaded here: loading it runs the code that it imports"
    return answer((fact,), note=note, heading=("imports",), lines=lines)


def _first_member(data: bytes) -> bytes:
    """Return the beginning of the first file in a ZIP; empty if it is encrypted or damaged."""
    flags, method, name, extra = struct.unpack("<6xHH16xHH", data[:30])
    member = data[30 + name + extra :]
    if flags & 1 or method not in (_STORED, _DEFLATED):
        return b""
    try:
        unpacker = zlib.decompressobj(-15)
        return unpacker.decompress(member, _UNPACKED) if method == _DEFLATED else member
    except zlib.error:
        return b""


def _imports(pickle: bytes) -> tuple[list[str], bool]:
    """Return the imported names, ``?`` for computed ones, and whether the pickle's end was found.

    STACK_GLOBAL takes a name from the stack: only strings that were pushed directly before it, or
    from the memo, are known.
    """
    names: list[str] = []
    pushed: list[str | None] = [None, None]  # the last two values; None if they are no strings
    memo: dict[Any, str | None] = {}
    try:
        for opcode, argument, _ in pickletools.genops(pickle):
            code, value = opcode.name, None
            if code in ("PROTO", "FRAME"):
                continue
            if code == "MEMOIZE" or "PUT" in code:
                memo[len(memo) if code == "MEMOIZE" else argument] = pushed[-1]
                continue
            if code in ("GLOBAL", "INST"):
                names.append(str(argument).replace(" ", ".", 1))
            elif code == "STACK_GLOBAL":
                names.append(".".join(map(str, pushed)) if all(pushed) else "?")
            elif code.startswith("EXT"):
                names.append("?")
            elif "GET" in code:
                value = memo.get(argument)
            elif "STRING" in code or "UNICODE" in code:
                value = str(argument)
            pushed = [pushed[-1], value]
    except ValueError:  # unknown or truncated
        return list(dict.fromkeys(names)), False
    return list(dict.fromkeys(names)), True
