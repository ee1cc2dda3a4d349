"""Shared parts of the tests of read plans: three tables, and the conditions sent for them."""

from __future__ import annotations

from odps_nb.filters.tree import text_of
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import parse_query
from odps_nb.spark.pushdown.plan import TableRead, plan_reads
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_columns

A = TableSchema(
    columns=parse_columns(
        "id bigint, n int, status string, amount decimal(10,2), due date, gift boolean, "
        "weight double, code char(3), made timestamp, st struct<x:int,y:string>, tags array<string>"
    ),
    partition_columns=parse_columns("ds string, hour int"),
)

B = TableSchema(columns=parse_columns("id bigint, name string, x int"))
C = TableSchema(columns=parse_columns("id bigint, price double, y int"))
SCHEMAS = {"a": A, "b": B, "c": C}


def reads(text: str, limit: int | None = None) -> list[TableRead]:
    query = parse_query(text)
    tables = {
        ref: (TableName(project="p", table=ref.alias), SCHEMAS[ref.alias.casefold()])
        for ref in query.references
    }
    return list(plan_reads(query, tables, limit=limit).values())


def sent(text: str) -> list[str]:
    """The conditions sent for each reference; those on partitions are marked."""
    return [
        "; ".join(
            [
                *map(text_of, one.conditions),
                *(f"[{text_of(c)}]" for c in one.partition_conditions),
            ]
        )
        for one in reads(text)
    ]


def only(text: str) -> str:
    (one,) = sent(text)
    return one


ALL = A.names
DAYS = ("20240101", "20240102", "20240103")
KNOWN = [PartitionSpec.of(f"ds={day},hour={hour}") for day in DAYS for hour in (1, 22)]
