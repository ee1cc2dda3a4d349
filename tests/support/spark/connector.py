"""The vendor's Spark connector, as a catalog of a Spark session beside odps_nb.

Used by ``tests/versions/spark_connector.py`` and by ``benchmarks/bench_spark.py``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

_VARIABLE = "ODPS_NB_SPARK_CONNECTOR"
JAR = os.environ.get(_VARIABLE)
"""Path of the connector's jar, from the environment; read before tests clear its variables."""
MISSING = f"the vendor's Spark connector is left out: {_VARIABLE} is not the path of its jar"
_PACKAGE = "org.apache.spark.sql.execution.datasources.v2.odps"


def session_settings() -> dict[str, str]:
    """Return the settings with which a session must start to load the connector, if any."""
    if not JAR:
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
    ours = {"tableReadProvider": transfer, "tableWriteProvider": transfer}
    spark.conf.set(f"spark.sql.catalog.{name}", f"{_PACKAGE}.OdpsTableCatalog")
    for option, value in {"enableFilterPushDown": "true", **ours, **options}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{option}", str(value))
