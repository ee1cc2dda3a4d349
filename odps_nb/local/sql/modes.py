"""Refuses queries whose result depends on a mode that the embedded service does not have.

The service has the data types and functions of the MaxCompute V2.0 data type edition. Sources: the
vendor's pages *MaxCompute V2.0 data type edition*, *SQL differences between standard mode and Hive
compatible mode*, *CAST*, *GET_JSON_OBJECT* and *SUBSTR*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import CALLED, COMPARISONS, place_of, type_name
from odps_nb.local.sql.types_of_query import TIMES

_OWN = {
    **{"odps.sql.type.system.odps2": "true", "odps.sql.hive.compatible": "false"},
    **{"odps.sql.bigquery.compatible": "false", "odps.sql.udf.getjsonobj.new": "true"},
    **{"odps.sql.decimal.tostring.trimzero": "true"},
    **{"odps.sql.executionengine.enable.string.to.date.full.format": "false"},
}
"""The settings that change the results of functions and operators, with the values supported."""
_PASSING = (
    *(*COMPARISONS, exp.Connector, exp.Dot, exp.Exists, exp.Is, exp.In, exp.Case, exp.If),
    *(exp.Array, exp.VarMap, exp.Struct, exp.Coalesce, exp.CurrentTimestamp),
    *(exp.Avg, exp.Count, exp.Max, exp.Min, exp.Sum),
)
"""Functions and operators that clients often use in these modes; their usual results are the same.

In Hive-compatible mode, comparisons may differ in edge cases, which the service does not imitate.
"""
# also for tables with generated partitions, into which pyodps' tests insert in Hive mode
_PASSING_NAMES = ("trunc_time", "nvl", "current_timestamp_ntz", "getdate", "now")


def check_modes(query: Any, settings: Mapping[str, str]) -> None:
    """Raise 400 if a query computes and its settings turn on another mode."""
    other = [
        f"{key}={settings[key]}"
        for key, value in _OWN.items()
        if str(settings.get(key, value)).lower() != value
    ]
    node = next(filter(_computes, query.walk()), None) if other else None
    if node is not None:
        raise errors.lacks(
            f"functions and operators with SET {other[0]}",
            is_sure=True,
            at=place_of(node),
            advice="run the query without this setting, or run it in MaxCompute",
        )


def _computes(node: Any) -> bool:
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return type_name(node.to) not in TIMES  # a constant such as DATE '2024-01-31'
    if isinstance(node, _PASSING) or node.meta.get(CALLED) in _PASSING_NAMES:
        return False
    return isinstance(node, (exp.Func, exp.Binary, exp.Window))
