"""`session`: starts a Spark session configured for notebooks.

Each default setting prevents a known failure: workers that run another Python, a driver that
binds to a VPN address, secrets in the event log.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.java import find_java
from odps_nb.errors import ArgumentError, ConfigError, MissingDependencyError
from odps_nb.spark.launch._quiet import (
    be_quiet,
    without_java_notice,
    without_pandas_notice,
    without_refused_settings,
)
from odps_nb.spark.launch.connect import (
    SERVER,
    check_connect,
    check_free,
    check_server,
    is_connect,
    remote_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINIMUM_PYSPARK = (4, 0)

#: Names of settings whose values Spark hides in its UI and event log. Its own default misses
#: ``access_key``, ``access_id`` and ``bearer``.
REDACTION = r"(?i)secret|password|token|access[._-]?key|access[._-]?id|credential|bearer"

_MASTER = "ODPS_NB_SPARK_MASTER"
_GIB = 1 << 30
_LOGGING = Path(__file__).with_name("log4j2.properties")


def session(
    master: str | None = None, *, remote: str | None = None, quiet: bool = False, **conf: Any
) -> SparkSession:
    """Return the active Spark session as it is, or start one configured for notebooks.

    Parameters
    ----------
    master
        Spark master; by default that of ``ODPS_NB_SPARK_MASTER``, else ``local[*]``.
    remote
        Spark Connect instead of a master: ``"sc://host:15002"``, or ``"local[2]"`` for a server
        on this machine, which listens on loopback only. By default that of ``SPARK_REMOTE``.
        odps_nb must be installed where the server's Python workers run. A server elsewhere takes
        settings of ``spark.sql`` only.
    quiet
        Hide Java's notice about incubator modules, pyspark's notice about pandas 3, and its log of
        a failed query as JSON. ``spark.stop()`` undoes this. Default: show all three.
    conf
        Spark settings, which win over ours: ``**{"spark.executor.memory": "2g"}``, or with
        underscores, ``spark_executor_memory="2g"``. Never put keys or tokens here: settings show
        in Spark's UI, event log and process list.

    Returns
    -------
    pyspark.sql.SparkSession
        A session that is already active is returned as it is, and the arguments are ignored. You
        stop it (``spark.stop()``). On this machine its Python workers are forked from
        `odps_nb.spark.launch.worker_daemon`.

    Raises
    ------
    MissingDependencyError
        No pyspark 4.0 or newer, or no Java 17 or newer (which a server elsewhere does not need).
    ConfigError
        A setting's name is not one of Spark's, or both a master and a remote are named.
    ConnectError
        No server listens at `remote`.

    Examples
    --------
    >>> import odps_nb.spark
    >>> spark = odps_nb.spark.session("local[2]")
    >>> spark.range(3).count()
    3
    """
    pyspark_version()
    from pyspark.sql import SparkSession

    if not isinstance(master, str | None):
        raise ArgumentError(
            f"master is a {type(master).__name__}, not text",
            argument="master",
            hint="for example session('local[2]'); a connection goes to read, sql and write",
        )
    if (running := _running()) is not None:
        return running
    chosen = {_conf_name(name): _conf_text(value) for name, value in conf.items()}
    master = master or chosen.pop("spark.master", None)
    remote = remote or chosen.pop("spark.remote", None) or os.environ.get("SPARK_REMOTE")
    if master and remote:
        raise ConfigError(
            "both a master and a remote are named",
            option="remote",
            hint="a session has either a cluster of its own (master) or a server (remote); leave "
            "one out, or unset SPARK_REMOTE",
        )
    if remote:
        check_connect()
        if not remote.startswith("local"):
            check_server(remote)
            builder = SparkSession.builder.remote(remote)
            return _made(builder, remote_settings(defaults(remote)), chosen, quiet=quiet)
        check_free()
        builder, master = SparkSession.builder.remote(remote), remote
    else:
        master = master or os.environ.get(_MASTER) or "local[*]"
        builder = SparkSession.builder.master(master)
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)  # the launcher of Spark reads nothing else
    os.environ.update(_environment(master, os.environ))
    return _made(builder, defaults(master), chosen, quiet=quiet)


def _running() -> SparkSession | None:
    """Return the session of this thread, or else of this process, classic or Connect."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    kinds: list[type[SparkSession]] = [SparkSession]
    if connected := sys.modules.get("pyspark.sql.connect.session"):
        kinds.append(connected.SparkSession)  # made by its own builder, the other knows none
    for kind in kinds:
        with contextlib.suppress(PySparkRuntimeError):  # says that there is none
            found = kind.active()
            # pyspark remembers a session whose context was stopped without it
            if is_connect(found) or SparkContext._active_spark_context is not None:
                return found
    return None


def _made(
    builder: Any, ours: Mapping[str, str], chosen: Mapping[str, str], *, quiet: bool
) -> SparkSession:
    for name, value in {**ours, **chosen}.items():
        builder = builder.config(name, value)
    start = without_java_notice() if quiet else contextlib.nullcontext()
    refused = without_refused_settings(ours.keys() - chosen.keys())
    with without_pandas_notice(), refused, start:
        spark: SparkSession = builder.getOrCreate()
    if quiet:
        be_quiet(spark)
    return spark


def pyspark_version() -> tuple[int, int]:
    """Return (major, minor) of the installed pyspark."""
    hint = "pip install 'odps-nb[spark]'"
    try:
        import pyspark
    except ImportError:
        raise MissingDependencyError("pyspark is not installed", extra="spark", hint=hint) from None
    major, minor = (int(part) for part in pyspark.__version__.split(".")[:2])
    if (major, minor) < MINIMUM_PYSPARK:
        raise MissingDependencyError(
            f"pyspark {pyspark.__version__} is too old; 4.0 or newer is needed",
            extra="spark",
            hint=hint,
        )
    return major, minor


def defaults(master: str) -> dict[str, str]:
    """Return our default settings for a master.

    Reads memory, cores, time zone, and whether odps_nb is installed.
    """
    settings = {
        "spark.app.name": "odps-nb",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": REDACTION,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A task that is cancelled while it waits for the service is killed two seconds after
        # that plus this, and only then are its connections closed; Spark's own value is two more.
        "spark.python.task.killTimeout": "500ms",
    }
    zone = local_zone(os.environ)
    if zone:  # said aloud, so that executors in another zone agree with the notebook
        settings["spark.sql.session.timeZone"] = zone
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            **SERVER,
            "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"',
        }
        if _is_installed():  # else only this process finds us, and no worker would start
            settings["spark.python.daemon.module"] = "odps_nb.spark.launch.worker_daemon"
        if sys.platform == "linux":  # reads 17-20 % faster; other systems' paths may be too long
            settings["spark.python.unix.domain.socket.enabled"] = "true"
    if master.startswith("local["):
        settings["spark.driver.memory"] = _heap(machine_memory())
        # Shuffles of a notebook are small; 200 of Spark's tasks would be mostly starting up.
        settings["spark.sql.shuffle.partitions"] = str(max(8, 2 * (os.cpu_count() or 1)))
    return settings


def _is_installed() -> bool:
    try:
        metadata.distribution("odps-nb")
    except metadata.PackageNotFoundError:
        return False
    return True


def is_local(master: str) -> bool:
    """Whether driver and executors share this machine."""
    return master.startswith(("local", "spark://127.0.0.1", "spark://localhost"))


def local_zone(environ: Mapping[str, str], link: Path = Path("/etc/localtime")) -> str | None:
    """Return the IANA name of this machine's time zone; ``None`` where it cannot be told."""
    named = environ.get("TZ", "").lstrip(":")
    if "/" in named and not named.startswith("/"):
        return named
    if not named and link.is_symlink():
        parts = link.resolve().parts
        if "zoneinfo" in parts:
            zone = "/".join(parts[parts.index("zoneinfo") + 1 :])
            return zone.removeprefix("posix/").removeprefix("right/")
    return "UTC" if time.timezone == 0 and not time.daylight else None


def machine_memory(limits: tuple[str, ...] = ("/sys/fs/cgroup/memory.max",)) -> int | None:
    """Return the bytes of memory that this process may use at most, where known."""
    known = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # only POSIX systems tell
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in limits:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            known.append(int(text))
    return min(known, default=None)


def _heap(memory: int | None) -> str:
    # The rest is for the Python workers, Arrow's buffers and the notebook itself.
    share = (memory or 4 * _GIB) * 2 // 5
    return f"{min(max(share, _GIB // 2), 8 * _GIB) >> 20}m"


def _environment(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    # Workers run `python3` of PATH unless told; a kernel in a venv that is not activated would
    # get workers without pyarrow. On one machine no other Python can be right.
    if not is_local(master):
        return {"PYSPARK_PYTHON": environ.get("PYSPARK_PYTHON") or sys.executable}
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _conf_name(name: str) -> str:
    dotted = name if "." in name else name.replace("_", ".")
    if not dotted.startswith("spark."):
        raise ConfigError(
            f"{name!r} is not a Spark setting",
            option=name,
            hint="write spark_executor_memory='2g' or **{'spark.executor.memory': '2g'}",
        )
    return dotted


def _conf_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
