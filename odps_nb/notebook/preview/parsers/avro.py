"""Avro object container files: the schema in the header, and rows if fastavro is installed."""

from __future__ import annotations

import io
import json
import re
from itertools import islice
from typing import Any, Final

from odps_nb.notebook.preview.shared import Size, answer
from odps_nb.parsing.reasons import DAMAGED, refusal_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_LONGEST: Final = 200
_VALUE: Final = "(value)"  # cannot clash with a field, because it is not a valid field name
# fastavro's message for a missing codec library; the error has no class of its own
_NEEDS: Final = re.compile(r"need to install one of the following libraries: \W*([\w.-]+)")

try:
    import fastavro
except ImportError:
    fastavro = None  # type: ignore[assignment]


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return field names, types and first rows of the records."""
    size = Size(**options["size"])
    codec, fields = _header(data)
    names = [str(field.get("name")) for field in fields]
    head = [
        f"{name[:_LONGEST]} · {_kind(field.get('type'))}"
        for name, field in zip(names, fields, strict=True)
    ]
    rows, note = _rows(data, names, size, whole=options["whole"])
    facts = (f"{count_of(len(names), 'column')}, {codec}",)
    return answer(facts, note=note, head=head, rows=rows)


def _rows(data: bytes, names: list[str], size: Size, *, whole: bool) -> tuple[list[list[Any]], str]:
    if fastavro is None:
        return [], "showing rows needs fastavro: pip install 'odps-nb[previews]'"
    try:
        reader: Any = fastavro.reader(io.BytesIO(data))
        found = list(islice(reader, size.rows))
    except Exception as error:  # noqa: BLE001 - block decoders may raise anything
        if missing := _NEEDS.search(str(error)):
            return [], f"showing rows needs {missing[1]}: pip install 'odps-nb[previews]'"
        if not whole and isinstance(error, EOFError):
            return [], "its first block ends after the part that was read"
        return [], f"rows {refusal_of(error)}"
    rows = [row if isinstance(row, dict) and names != [_VALUE] else {_VALUE: row} for row in found]
    return [[row.get(name) for name in names[: size.columns + 1]] for row in rows], ""


def _kind(schema: object) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_kind, schema[:4]))
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return str(schema)


# -- header: magic, a map of bytes, a sync marker of 16 bytes (Avro 1.12, Object Container Files) --


def _header(data: bytes) -> tuple[str, list[dict[str, Any]]]:
    file = io.BytesIO(data)
    file.seek(4)
    meta: dict[str, bytes] = {}
    while count := _long(file):
        if count < 0:  # a negative count is followed by the block size
            count = -count
            _long(file)
        for _ in range(count):
            key = _bytes(file).decode("utf-8", "replace")
            meta[key] = _bytes(file)
    try:
        schema = json.loads(meta.get("avro.schema", b""))
    except (ValueError, RecursionError):
        raise UnshowableError("its header has no Avro schema") from None
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        fields = [{"name": _VALUE, "type": schema}]  # the values are not records
    return meta.get("avro.codec", b"null").decode("utf-8", "replace"), fields


def _long(file: io.BytesIO) -> int:
    """Read a variable-length zigzag integer."""
    value = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return value >> 1 ^ -(value & 1)
    raise UnshowableError(f"{DAMAGED}: its header ends early")


def _bytes(file: io.BytesIO) -> bytes:
    length = _long(file)
    found = file.read(length) if length >= 0 else b""
    if len(found) != length:
        raise UnshowableError(f"{DAMAGED}: its header ends early")
    return found
