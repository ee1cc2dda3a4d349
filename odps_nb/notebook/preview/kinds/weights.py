"""Model weights: tensor names, types and shapes (safetensors), or the producer (ONNX).

Only headers are read, so the size of a file does not matter.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, card, table_of
from odps_nb.notebook.preview.kind import BINARIES, Format, Head, Kind, load_json
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_SAFETENSORS = Format("application/x-safetensors", "safetensors")
_ONNX = Format("application/x-onnx", "ONNX", aliases=("application/onnx",))
# https://huggingface.co/docs/safetensors: u64 length of a JSON header, which begins with {
_HEADER: Final = 100_000_000
_TENSOR = re.compile(
    rb'"((?:[^"\\]|\\.){1,500})"\s*:\s*\{\s*"dtype"\s*:\s*"([A-Z0-9_]{1,12})"\s*,\s*'
    rb'"shape"\s*:\s*\[([\d,\s]{0,200})\]'
)


def _recognise(head: Head) -> Format | None:
    data = head.data
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
    length = int.from_bytes(excerpt.data[:8], "little")
    header = excerpt.data[8 : 8 + length]
    whole = len(header) == length
    found = [
        (_name(one[1]), one[2].decode(), re.findall(r"\d+", one[3].decode()))
        for one in _TENSOR.finditer(header)
    ]
    facts = ["first tensors"]
    if whole:
        if not found and not isinstance(load_json(header), dict):
            raise UnshowableError("its header is not a JSON object")
        parameters = sum(math.prod(map(int, shape)) for _, _, shape in found)
        facts = [count_of(len(found), "tensor"), count_of(parameters, "parameter")]
    shown = found[: size.rows * 10]
    rows = [(called, kind, "×".join(shape) or "scalar") for called, kind, shape in shown]
    html = table_of(("tensor", "type", "shape"), rows, size, label=f"tensors of {name}")
    return Drawing(html=html, facts=tuple(facts))


def _name(text: bytes) -> str:
    return load_json(b'"' + text + b'"') or text.decode("utf-8", "replace")


def _onnx(data: bytes) -> dict[str, Any]:
    """Return the first fields of a ModelProto (onnx.proto3); empty for other data."""
    if data[:1] != b"\x08" or data[2:3] != b"\x12" or not 3 <= data[1] <= 30:
        return {}
    found: dict[str, Any] = {"IR version": data[1]}
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
            found[what] = text.decode()
        at += 2 + length
    follows = data[at : at + 1]
    return found if follows in (b"\x28", b"\x32", b"\x3a", b"\x42") else {}


KIND = Kind(
    name="weights",
    formats=(_SAFETENSORS, _ONNX),
    draw=_draw,
    recognise=_recognise,
    precedence=BINARIES + 15,
)
