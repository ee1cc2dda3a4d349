"""Checks the requirements of Spark Connect, and distinguishes classic from Connect sessions."""

from __future__ import annotations

import contextlib
import importlib
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from odps_nb.errors import ArgumentError, ConfigError, ConnectError, MissingDependencyError
from odps_nb.spark.versions import require_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT = 15002
#: Settings of a local Connect server. Spark's defaults are to listen on all addresses of the
#: machine and to report task progress only every two seconds.
SERVER = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.progress.reportInterval": "500ms",
}

_REDACTION = "spark.sql.redaction.string.regex"
#: Matches options that contain keys in the text of plans, which the Connect server logs.
_KEYS = r'key: "(?i:access_id|access_key|sts_token|bearer_token|app_id|app_key)"\s+value: "[^"]*"'
_ANSWER = 10.0


def check_connect() -> None:
    """Raise unless the packages of a Spark Connect client are installed."""
    for name in ("grpc", "grpc_status", "google.rpc"):
        try:
            importlib.import_module(name)
        except ImportError:
            raise MissingDependencyError(
                f"a remote Spark session needs {name.partition('.')[0]}, which is not installed",
                extra="connect",
                hint="pip install 'odps-nb[connect]'",
            ) from None


def check_server(url: str) -> None:
    """Raise if nothing listens at the address of a remote session; pyspark would retry for minutes.

    Other errors are ignored, because with a proxy the host name may not resolve on this machine.
    """
    host, port = _address(url)
    try:
        socket.create_connection((host, port), timeout=_ANSWER).close()
    except ConnectionRefusedError:
        raise ConnectError(
            f"no Spark Connect server listens on {host}:{port}",
            hint="start one on that host (sbin/start-connect-server.sh), check the port, or omit "
            "remote= (and unset SPARK_REMOTE) to run Spark on this machine",
        ) from None
    except OSError:
        return


def _address(url: str) -> tuple[str, int]:
    # Errors do not include the URL, because its parameters may contain a token.
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not url.startswith("sc://") or not host:
        raise ConfigError(
            "remote is not the address of a Spark Connect server",
            option="remote",
            hint="pass remote='sc://host:15002', or remote='local[2]' for a server on this machine",
        )
    return host, port or PORT


def check_free(port: int = PORT) -> None:
    """Raise if the port of a local server is in use; pyspark cannot use another port."""
    with contextlib.closing(socket.socket(socket.AF_INET)) as probe:
        # Java servers set this option, too; without it, a recently used port would seem in use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise ConfigError(
                f"port {port} is in use, and pyspark starts its Connect server only on this port",
                option="remote",
                hint="stop the other session, or omit remote= to start Spark without Connect",
            ) from None


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a Spark Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def hide_keys(spark: SparkSession) -> None:
    """Make a Connect session redact keys in plans, which show the options of ``spark.read``."""
    if not is_connect(spark):
        return
    known = spark.conf.get(_REDACTION, "") or ""
    if _KEYS not in known:
        spark.conf.set(_REDACTION, f"{known}|{_KEYS}" if known else _KEYS)


SESSION_HINT = "pass a session, e.g. odps_nb.spark.session()"


def check_session(spark: object, hint: str = "") -> None:
    """Raise `ArgumentError` unless this is a classic or Connect session of Spark."""
    _check("spark", spark, "a Spark session", "createDataFrame", hint)


def check_dataframe(df: object) -> None:
    """Raise `ArgumentError` unless this is a classic or Connect DataFrame of Spark."""
    _check("df", df, "a DataFrame of Spark", "sparkSession")


def _check(argument: str, value: object, expected: str, has: str, hint: str = "") -> None:
    # Do not import the Spark Connect classes, because their dependencies may be missing.
    of_spark = any(kind.__module__.split(".")[0] == "pyspark" for kind in type(value).__mro__)
    if not (of_spark and hasattr(type(value), has)):
        raise ArgumentError(
            f"{argument} is of type {type(value).__name__}, not {expected}",
            argument=argument,
            hint=hint or f"pass the arguments in this order: ({argument}, odps, …)",
        )
    if type(value).__module__.startswith("pyspark.sql.connect."):
        require_connect()
