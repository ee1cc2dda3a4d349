"""What pyspark says and the person has been told already, or need not know, is left out."""

from __future__ import annotations

import io
import logging
import warnings
from typing import TYPE_CHECKING

import pytest

from odps_nb.spark.launch._quiet import leave_out_query_log, without_refused_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _refused(name: str, code: str = "CANNOT_MODIFY_CONFIG") -> str:
    """As `pyspark.sql.connect.conf` of 4.3 says it."""
    return (
        f"Failed to set {name} to Some(some\n(?i)value) due to [{code}] Cannot modify the value of "
        f"the Spark config: \"{name}\".\nSee also 'https://spark.apache.org'. SQLSTATE: 46110"
    )


def test_only_settings_of_ours_are_refused_in_silence() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with without_refused_settings(["spark.ui.enabled", "spark.driver.host"]):
            warnings.warn(_refused("spark.ui.enabled"), stacklevel=1)
            warnings.warn(
                _refused("spark.driver.host", "CANNOT_MODIFY_STATIC_CONFIG"), stacklevel=1
            )
            warnings.warn(_refused("spark.eventLog.dir"), stacklevel=1)
            warnings.warn(_refused("spark.ui.enabled", "INVALID_CONF_VALUE"), stacklevel=1)
            warnings.warn("Failed to set spark.ui.enabled", stacklevel=1)
        warnings.warn(_refused("spark.ui.enabled"), stacklevel=1)
    assert [str(one.message).partition("]")[0].partition(" due")[0] for one in seen] == [
        "Failed to set spark.eventLog.dir to Some(some\n(?i)value)",
        "Failed to set spark.ui.enabled to Some(some\n(?i)value)",
        "Failed to set spark.ui.enabled",
        "Failed to set spark.ui.enabled to Some(some\n(?i)value)",
    ]


@pytest.mark.spark
def test_a_failed_query_is_an_exception_and_no_json_beside_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions as F

    leave_out_query_log()
    printed, asked = io.StringIO(), io.StringIO()
    own = logging.StreamHandler(asked)
    logs = [
        PySparkLogger.getLogger(name)
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    for log in logs:
        monkeypatch.setattr(log.handlers[0], "stream", printed)
        log.addHandler(own)
    try:
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.sql("select 1 / 0 as x").collect()
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.range(1).select(F.lit(1) / F.col("id")).collect()
    finally:
        for log in logs:
            log.removeHandler(own)
    assert printed.getvalue() == ""
    assert asked.getvalue().count('"DIVIDE_BY_ZERO"') == 2  # who asks for it has it
