"""Says what a read could have left out, in the words of `odps_nb.spark.read`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odps_nb.errors import ArgumentError
from odps_nb.schema import TableSchema, TypeCode
from odps_nb.spark.advice.optimized import PlanUse, use_of
from odps_nb.spark.pushdown.columns import cheapest
from odps_nb.spark.pushdown.conditions import Compare, Condition
from odps_nb.terms import PartitionSpec

__all__ = ["Asked", "advice_on", "advised"]

#: Characters of one argument; all of them have to find room on a card.
_MAX_SHOWN = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a read asked for, as far as advice depends on it.

    ``name`` is that of its function in plans, ``schema`` the columns that it brings. It
    ``filters`` if it has a condition, ``chooses`` if it names partitions, and ``limits`` if it
    stops after some rows: a condition would choose among other rows then.
    """

    name: str
    schema: TableSchema
    filters: bool = False
    chooses: bool = False
    limits: bool = False


def advised(asked: Asked, use: PlanUse) -> dict[str, object]:
    """Return the arguments of `odps_nb.spark.read` by which it would bring less.

    Their values are as `read` takes them, and the query gives the same rows with them:
    ``where`` is to be added to a condition that there is already.
    """
    found: dict[str, object] = {}
    schema = asked.schema
    if use.columns is not None:
        wanted = set(use.columns)
        if schema.columns and wanted.isdisjoint(column.name for column in schema.columns):
            wanted.add(cheapest(schema).name)  # there are no rows without a data column
        if len(wanted) < len(schema):
            found["columns"] = [name for name in schema.names if name in wanted]
    if asked.limits:
        return found
    rest = list(use.conditions)
    if not asked.chooses and (chosen := _partition(use.conditions, asked.schema)):
        values = [(one.column, one.value) for one in chosen]
        found["partitions"] = ",".join(f"{key}={value}" for key, value in values)
        rest = [one for one in rest if one not in chosen]
    if rest:
        fenced = [str(one) if len(rest) == 1 else f"({one})" for one in rest]
        found["where"] = " and ".join(fenced)
    return found


def advice_on(plan: str, asked: Asked) -> str:
    """Return one sentence on what a read could have left out; empty if it is nothing known.

    Parameters
    ----------
    plan
        The optimized plan of the query, as Spark writes it in JSON.
    """
    use = use_of(plan, asked.name, asked.schema)
    found = advised(asked, use)
    told, total = [], len(asked.schema)
    if "columns" in found and use.columns is not None:
        told.append(f"{len(use.columns)} of the {total} columns that came were used")
    if "where" in found or "partitions" in found:
        told.append("a filter was applied after the rows had come")
    if not told:
        return ""
    shown = ", ".join(_argument(asked, name, value) for name, value in found.items())
    if use.columns is not None and not use.columns and not use.conditions and not asked.filters:
        shown = f"facts(frame).row_count tells the rows without a read; else {shown}"
    return f"{'; '.join(told)}. Less comes with {shown}"


def _argument(asked: Asked, name: str, value: object) -> str:
    said = repr(value)
    if len(said) > _MAX_SHOWN:
        return f"{name}=[…] of those {len(value)}" if isinstance(value, list) else f"it as {name}="
    return f"and {said} in where=" if name == "where" and asked.filters else f"{name}={said}"


def _partition(conditions: Sequence[Condition], schema: TableSchema) -> list[Compare]:
    """Return the conditions that name one value of a partition column each, if a request can."""
    found: dict[str, Compare] = {}
    for column in schema.partition_columns:
        for one in conditions:
            if (
                isinstance(one, Compare)
                and one.column == column.name
                and one.sign == "="
                and column.type.code is TypeCode.STRING
            ):
                found.setdefault(column.name, one)
    try:
        PartitionSpec.of({name: one.value for name, one in found.items()})
    except ArgumentError:
        return []
    return list(found.values())
