"""The vendor's Spark connector, as a catalog of a Spark session beside odps_nb.

Used by ``tests/versions/spark_connector.py`` and by ``benchmarks/bench_spark.py``.
"""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

_VARIABLE = "ODPS_NB_SPARK_CONNECTOR"
JAR = os.environ.get(_VARIABLE, "")
"""Path of the connector's jar, from the environment; read before tests clear its variables."""
_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.odps"


def missing() -> str:
    """Return why the connector cannot run; empty if it can."""
    reason = f"{_VARIABLE} is not the path of its jar"
    if JAR:
        spark = ".".join(metadata.version("pyspark").split(".")[:2])
        if f"-{spark}." in Path(JAR).name:
            return ""
        reason = f"{Path(JAR).name} is not built for Spark {spark}, which is installed"
    return f"the vendor's Spark connector is left out: {reason}"


def session_settings() -> dict[str, Any]:
    """Return the settings with which a session must start to load the connector, if any."""
    if missing():
        return {}
    return {
        "spark.jars": JAR,
        "spark.sql.extensions": f"{_PACKAGE}.extension.OdpsExtensions",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    }


def catalog(
    spark: SparkSession, odps: Connection, name: str, transfer: str, **options: object
) -> None:
    """Add a catalog that reads and writes by ``transfer``: ``v1`` or ``tunnel``.

    All catalogs of a session share one connection, because the connector keeps one for each JVM.
    """
    profile = odps.profile
    keys = {
        "access.id": profile.access_id,
        "access.key": profile.access_key,
        "end.point": profile.endpoint,
        "tunnel.end.point": profile.tunnel_endpoint,
        "project.name": profile.project,
    }
    for key, value in keys.items():
        if value is not None:  # without its address, the connector asks the service for the tunnel
            spark.conf.set(f"odps.{key}", str(value))
    settings = {
        "enableFilterPushDown": "true",
        "tableReadProvider": transfer,
        "tableWriteProvider": transfer,
        **options,
    }
    spark.conf.set(f"spark.sql.catalog.{name}", f"{_PACKAGE}.OdpsTableCatalog")
    for option, chosen in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{option}", str(chosen))
