r"""The CSV form of a query's result, for projects that forbid downloads of results.

The control plane keeps at most the first 10,000 rows as text (vendor's page on the instance tunnel;
pyodps falls back to this form as well). The text has no types, so every column is a STRING. Each
cell is in double quotes; ``\N`` without quotes is null. The result of a statement such as SHOW or
DESC is plain text, which no service transfers as rows (pyodps).
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import pyarrow as pa
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.sql.query import SqlInstance
from odps_nb.errors import FramingError
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.wire.control import GetInstanceResult

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


def fetch_text_rows(
    storage: StorageClient, instance: SqlInstance, *, of_query: bool = True
) -> TextRows:
    """Return the rows that the control plane keeps as text; sends one request.

    Unless ``of_query``, plain text is returned as lines in a column ``result``.
    """
    request = GetInstanceResult(project=instance.project, instance_id=instance.instance_id)
    tasks = storage.control(request).tasks
    task = next((one for one in tasks if one.name == instance.task), next(iter(tasks), None))
    if task is not None and task.text and not of_query and task.format != "csv":
        # unlike `splitlines`, keeps other separators, which comments may contain
        lines = [line.removesuffix("\r") for line in task.text.removesuffix("\n").split("\n")]
        return TextRows(pa.table({"result": lines}))
    return TextRows(parse_csv("" if task is None else task.text))


def parse_csv(text: str) -> pa.Table:
    r"""Parse a result as text; the first line has the names of the columns.

    Examples
    --------
    >>> parse_csv('"a","b"\n"1",\\N\n').to_pylist()
    [{'a': '1', 'b': None}]
    """
    if not text:
        return pa.table({})
    names = next(csv.reader(io.StringIO(text, newline="")))
    labels = [str(index) for index in range(len(names))]  # names may repeat
    data = (text if text.endswith("\n") else text + "\n").encode()
    try:
        if text.count('"') % 2:
            raise pa.ArrowInvalid("the last cell has no end")
        rows = read_csv(
            pa.py_buffer(data),
            ReadOptions(column_names=labels, skip_rows_after_names=1, block_size=len(data) + 1),
            ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            ConvertOptions(
                column_types=dict.fromkeys(labels, pa.string()),
                null_values=[_NULL],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise FramingError(
            f"the result is not CSV: {error}",
            hint="write the result to a table with SQL, and read this table",
        ) from error
    return rows.rename_columns(names)
