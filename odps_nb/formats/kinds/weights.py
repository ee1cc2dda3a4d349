"""Model weights: tensor names, types and shapes (safetensors, GGUF), producer (ONNX), or imports.

Only headers are read, so the size of a file does not matter. A PyTorch file is a ZIP that begins
with a pickle, which is never loaded; the names that it imports show which code it would run.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from odps_nb.formats.drawing import Drawing, Excerpt, card, table_of
from odps_nb.formats.kind import BINARIES, MIB, Format, Head, Kind, load_json
from odps_nb.formats.parsing import draw_parsed
from odps_nb.formats.shared import Size
from odps_nb.parsing.reasons import ENDS_EARLY
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_SAFETENSORS = Format("application/x-safetensors", "safetensors")
_ONNX = Format("application/x-onnx", "ONNX", aliases=("application/onnx",))
_GGUF = Format("application/x-gguf", "GGUF", starts=(b"GGUF\x02\0\0\0", b"GGUF\x03\0\0\0"))
_TORCH = Format("application/x-pytorch", "PyTorch", aliases=("application/zip",))
# https://huggingface.co/docs/safetensors: u64 length of a JSON header, which begins with {
_HEADER: Final = 100_000_000
# a string and, if it names a tensor, its type and shape; a string that does not end is skipped, too
_STRING = re.compile(
    rb'"((?:[^"\\]|\\.)*+)(?:"|\\?\Z)(?:\s*+:\s*+\{\s*+"dtype"\s*+:\s*+"([A-Z0-9_]{1,12})"\s*+,\s*+'
    rb'"shape"\s*+:\s*+\[([\d,\s]{0,200}+)\])?+',
    re.DOTALL,
)


_END: Final = re.compile(rb'"data_offsets"\s*:\s*\[\s*\d+\s*,\s*(\d{1,18})\s*\]')


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(b"PK\x03\x04"):
        name = data[30 : 30 + int.from_bytes(data[26:28], "little")]
        return _TORCH if name.endswith(b"/data.pkl") else None
    length = int.from_bytes(data[:8], "little")
    if data[8:10] in (b'{"', b"{}", b"{ ") and 2 <= length <= _HEADER:
        return _SAFETENSORS
    return _ONNX if _onnx(data) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if format.label == _ONNX.label:
        fields = _onnx(excerpt.data)
        lines = (f"{key}: {shorten(str(value), 80)}" for key, value in fields.items())
        version = f"IR version {fields['IR version']}"
        return Drawing(html=card("ONNX", lines, size), facts=(version,))
    if format.label in (_GGUF.label, _TORCH.label):
        return draw_parsed(excerpt, format, size, name=name)
    length = int.from_bytes(excerpt.data[:8], "little")
    header = excerpt.data[8 : 8 + length]
    whole = len(header) == length
    tensors = [
        (_name(match[1]), match[2].decode(), re.findall(r"\d+", match[3].decode()))
        for match in _STRING.finditer(header)
        if match[2]
    ]
    facts = ["first tensors"]
    if whole:
        if not tensors and not isinstance(load_json(header), dict):
            raise UnshowableError("its header is not a JSON object")
        parameters = sum(math.prod(map(int, shape)) for _, _, shape in tensors)
        facts = [count_of(len(tensors), "tensor"), count_of(parameters, "parameter")]
    shown = tensors[: size.rows * 10]
    rows = [(called, kind, "×".join(shape) or "scalar") for called, kind, shape in shown]
    html = table_of(("tensor", "type", "shape"), rows, size, label=f"tensors of {name}")
    end = 8 + length + max(map(int, _END.findall(header)), default=0)
    is_cut = excerpt.size is not None and end > excerpt.size
    return Drawing(html=html, facts=tuple(facts), note=ENDS_EARLY if is_cut else "")


def _name(text: bytes) -> str:
    return load_json(b'"' + text + b'"') or text.decode("utf-8", "replace")


def _onnx(data: bytes) -> dict[str, Any]:
    """Return the first fields of a ModelProto (onnx.proto3); empty for other data."""
    if data[:1] != b"\x08" or data[2:3] != b"\x12" or not 3 <= data[1] <= 30:
        return {}
    fields: dict[str, Any] = {"IR version": data[1]}
    at = 2
    for mark, what in ((0x12, "producer"), (0x1A, "producer version"), (0x22, "domain")):
        if data[at : at + 1] != bytes([mark]):
            continue
        length = int.from_bytes(data[at + 1 : at + 2])
        text = data[at + 2 : at + 2 + length]
        is_text = text.isascii() and text.decode("latin-1").isprintable()
        if length > 127 or len(text) < length or not is_text:
            return {}
        if text:
            fields[what] = text.decode()
        at += 2 + length
    follows = data[at : at + 1]
    return fields if follows in (b"\x28", b"\x32", b"\x3a", b"\x42") else {}


KIND = Kind(
    name="weights",
    formats=(_SAFETENSORS, _ONNX, _GGUF, _TORCH),
    draw=_draw,
    recognise=_recognise,
    precedence=BINARIES + 15,
    limit=MIB,
    head=MIB,
)
