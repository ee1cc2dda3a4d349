r"""The CSV form of a query's result, for projects that forbid downloads of results.

The control plane keeps at most the first 10,000 rows as text (vendor's page on the instance tunnel;
pyodps falls back to this form as well). The text has no types, so every column is a STRING. Each
cell is in double quotes; ``\N`` without quotes is null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.sql.query import SqlInstance
from odps_nb.errors import FramingError
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.wire.control import GetInstanceResult

_CELL = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\n]*))(,|\r?\n|\Z)')
_NULL = r"\N"
_TEXT = PrimitiveType(TypeCode.STRING)


@dataclass(frozen=True, slots=True)
class TextRows:
    """The rows of a result as text, in this process's memory."""

    rows: pa.Table

    @property
    def schema(self) -> TableSchema:
        """The columns, all of type STRING."""
        names = self.rows.schema.names
        return TableSchema(columns=tuple(Column(name=name, type=_TEXT) for name in names))


def fetch_text_rows(storage: StorageClient, instance: SqlInstance) -> TextRows:
    """Return the rows that the control plane keeps as text; sends one request."""
    wanted = GetInstanceResult(project=instance.project, instance_id=instance.instance_id)
    tasks = storage.control(wanted).tasks
    texts = [one.text for one in tasks if one.name == instance.task] or [t.text for t in tasks]
    return TextRows(parse_csv(texts[0] if texts else ""))


def parse_csv(text: str) -> pa.Table:
    r"""Parse a result as text; the first line has the names of the columns.

    Examples
    --------
    >>> parse_csv('"a","b"\n"1",\\N\n').to_pylist()
    [{'a': '1', 'b': None}]
    """
    lines = list(_lines(text))
    if not lines:
        return pa.table({})
    names, *rows = lines
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise FramingError(
                f"row {number} of the result has {len(row)} cells, but {len(names)} columns",
                hint="write the result to a table with SQL, and read this table",
            )
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.Table.from_arrays(arrays, names=[name or "" for name in names])


def _lines(text: str) -> Iterator[list[str | None]]:
    row: list[str | None] = []
    at = 0
    while at < len(text):
        match = _CELL.match(text, at)
        if match is None:
            raise FramingError(
                f"the result is not CSV at character {at}",
                hint="write the result to a table with SQL, and read this table",
            )
        quoted, bare, end = match.groups()
        row.append(bare if quoted is None else quoted.replace('""', '"'))
        if quoted is None and bare == _NULL:
            row[-1] = None
        at = match.end()
        if end != ",":
            yield row
            row = []
        elif at == len(text):
            yield [*row, ""]
