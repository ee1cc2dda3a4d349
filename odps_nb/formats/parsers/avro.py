"""Avro object container files: field names, types and first rows."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any, Final

import fastavro

from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.reasons import refusal_of
from odps_nb.terms import count_of

_LONGEST: Final = 200
_VALUE: Final = "(value)"  # cannot clash with a field, because it is not a valid field name


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return field names, types and first rows of the records."""
    size = Size(**options["size"])
    reader: Any = fastavro.reader(io.BytesIO(data))
    schema = reader.writer_schema
    fields = schema["fields"] if isinstance(schema, dict) and "fields" in schema else None
    names = [_VALUE] if fields is None else [field["name"] for field in fields]
    kinds = [schema] if fields is None else [field["type"] for field in fields]
    head = [f"{name[:_LONGEST]} · {_kind(kind)}" for name, kind in zip(names, kinds, strict=True)]
    records: list[Any] = []
    note = ""
    try:
        records.extend(islice(reader, size.rows))
    except Exception as error:  # noqa: BLE001 - block decoders may raise anything
        note = f"rows {refusal_of(error)}"
        if not options["whole"] and isinstance(error, EOFError):
            note = "its first block ends after the part that was read"
    shown = names[: size.columns + 1]
    rows = [[row] if fields is None else [row.get(name) for name in shown] for row in records]
    return answer(
        (f"{count_of(len(names), 'column')}, {reader.codec}",), note=note, head=head, rows=rows
    )


def _kind(schema: object) -> str:
    if isinstance(schema, list):
        return " or ".join(map(_kind, schema[:4]))
    if isinstance(schema, dict):
        return str(schema.get("logicalType") or schema.get("name") or schema.get("type"))
    return str(schema)
