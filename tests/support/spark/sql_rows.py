"""Three small tables for random queries, and the rows that a plan keeps."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import AllOf
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference, parse_query
from odps_nb.spark.pushdown.plan import TableRead, plan_reads, with_partitions
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_columns

TABLES: dict[str, tuple[str, str]] = {  # columns, partition columns
    "q1": (
        "id bigint, a int, s string, k decimal(10,2), d date, g boolean",
        "ds string, h int",
    ),
    "q2": ("id bigint, a int, s string, d date, k int", ""),
    "q3": ("id bigint, x int, tags array<string>, st struct<x:int,y:string>", ""),
}
TEXTS = ("", "a", "A", "a ", " a", "it's", "ü", "b\\c", "null")


def rows(table: str) -> list[dict[str, Any]]:
    """All rows of a table, with many nulls."""
    made: list[dict[str, Any]] = []
    for n in range({"q1": 14, "q2": 11, "q3": 5}[table]):
        day = None if n % 6 == 5 else datetime.date(2024, 1, 1 + n % 4)
        text = None if n % 7 == 6 else TEXTS[n % len(TEXTS)]
        number = None if n % 5 == 4 else n % 4
        if table == "q1":
            amount = None if n % 8 == 3 else Decimal(n % 5).scaleb(-1).quantize(Decimal("0.01"))
            made.append({"id": n, "a": number, "s": text, "k": amount, "d": day})
            made[-1] |= {"g": (None, True, False)[n % 3], "ds": f"2024010{n % 3 + 1}", "h": n % 2}
        elif table == "q2":
            made.append({"id": n * 2, "a": number, "s": text, "d": day, "k": n % 3})
        else:
            tags = [None, [], ["a"], ["a", "b"]][n % 4]
            inner = None if n % 3 == 2 else {"x": n % 2, "y": str(n)}
            made.append({"id": n, "x": number, "tags": tags, "st": inner})
    return made


SCHEMAS = {
    name: TableSchema(
        columns=parse_columns(columns), partition_columns=parse_columns(keys) if keys else ()
    )
    for name, (columns, keys) in TABLES.items()
}
ROWS = {name: rows(name) for name in TABLES}
PARTITIONS = [PartitionSpec.of(f"ds=2024010{day},h={hour}") for day in (1, 2, 3) for hour in (0, 1)]
_ARROW = {
    "q1": pa.schema(
        [
            *(("id", pa.int64()), ("a", pa.int32()), ("s", pa.utf8())),
            *(("k", pa.decimal128(10, 2)), ("d", pa.date32()), ("g", pa.bool_())),
            *(("ds", pa.utf8()), ("h", pa.int32())),
        ]
    ),
    "q2": pa.schema(
        [
            *(("id", pa.int64()), ("a", pa.int32()), ("s", pa.utf8())),
            *(("d", pa.date32()), ("k", pa.int32())),
        ]
    ),
    "q3": pa.schema(
        [
            *(("id", pa.int64()), ("x", pa.int32()), ("tags", pa.list_(pa.utf8()))),
            ("st", pa.struct([("x", pa.int32()), ("y", pa.utf8())])),
        ]
    ),
}


def plan(text: str) -> tuple[ParsedQuery, dict[Reference, TableRead]]:
    """The data that is read from each table in a query."""
    query = parse_query(text)
    tables = {
        ref: (TableName(project="p", table=ref.alias), SCHEMAS[ref.alias.casefold()])
        for ref in query.references
    }
    return query, {
        ref: with_partitions(read, PARTITIONS) if read.partition_conditions else read
        for ref, read in plan_reads(query, tables).items()
    }


def reads_less(reads: Iterable[TableRead]) -> bool:
    """Whether anything in the tables is omitted."""
    return any(
        read.conditions
        or read.limit is not None
        or read.partitions is not None
        or read.columns != read.schema.names
        for read in reads
    )


def left(read: TableRead) -> tuple[int, ...]:
    """The numbers of the rows that are read; with a limit, the last rows (any are allowed)."""
    table, names = read.table.table, SCHEMAS[read.table.table].names
    whole = arrow(table, names, range(len(ROWS[table]))).combine_chunks().to_batches()[0]
    held = range(whole.num_rows)
    if read.conditions:
        held = RowFilter.of(AllOf(read.conditions), SCHEMAS[table]).rows(whole)
    kept = [number for number in held if _is_read(read, ROWS[table][number])]
    if read.limit is not None:
        kept = kept[max(0, len(kept) - read.limit) :]
    return tuple(kept)


def _is_read(read: TableRead, row: dict[str, Any]) -> bool:
    if read.partitions is None:
        return True
    values = {(key, str(row[key])) for key in ("ds", "h")}
    return any(set(spec) == values for spec in read.partitions)


def arrow(name: str, columns: Iterable[str], numbers: Iterable[int]) -> pa.Table:
    """Some columns of some rows."""
    schema = pa.schema([_ARROW[name].field(one) for one in columns])
    return pa.Table.from_pylist([ROWS[name][number] for number in numbers], schema=schema)
