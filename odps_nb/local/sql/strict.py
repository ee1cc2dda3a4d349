"""Refuses queries as a project of the real service does unless it is set otherwise.

``docs/protocol.md`` section 8.6 has the texts and their sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odps_nb.local import faults
from odps_nb.local.sql.cost import iter_scans, partition_conditions
from odps_nb.local.sql.query import FindTable, parse_query

__all__ = ["check_query", "has_order_without_limit"]


def check_query(text: str, find: FindTable, settings: Mapping[str, str]) -> None:
    """Fail with 400 for a full scan of a partitioned table, or an ORDER BY without LIMIT."""
    query = parse_query(text)
    if settings.get("odps.sql.allow.fullscan", "").lower() != "true":
        for found, table in iter_scans(query, find):
            if table.is_partitioned and not partition_conditions(found, table):
                raise faults.invalid(
                    "ODPS-0130071:[0,0] Semantic analysis exception - physical plan generation "
                    f"failed: java.lang.RuntimeException: Table({table.name.project},"
                    f"{table.name.table}) is full scan with all partitions, please specify "
                    "partition predicates."
                )
    if settings.get(
        "odps.sql.validate.orderby.limit", ""
    ).lower() != "false" and has_order_without_limit(query):
        raise faults.invalid(
            "ODPS-0130071:[1,1] Semantic analysis exception - ORDER BY must be used with a LIMIT "
            "clause, please set odps.sql.validate.orderby.limit=false to use it."
        )


def has_order_without_limit(query: Any) -> bool:
    """Return whether a query, or one inside of it, has an ORDER BY without LIMIT."""
    from sqlglot import exp

    return any(
        one.args.get("order") is not None and one.args.get("limit") is None
        for one in query.find_all(exp.Query)
    )
