"""`session`: starts a Spark session configured for notebooks.

The default settings prevent known failures, such as workers that run a different Python, a driver
that binds to a VPN address, or secrets in the event log.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.java import find_java
from odps_nb.access.progress import in_kernel, listener_of
from odps_nb.client.calls.progress import Progress, ProgressTracker
from odps_nb.convert.loaded import loaded
from odps_nb.errors import ArgumentError, ConfigError
from odps_nb.explained import explained
from odps_nb.spark.launch._quiet import (
    be_quiet,
    without_harmless_lines,
    without_pandas_notice,
    without_refused_settings,
)
from odps_nb.spark.launch.connect import (
    SERVER,
    check_connect,
    check_free,
    check_server,
    is_connect,
)
from odps_nb.spark.versions import pyspark_version, require_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Pattern of settings whose values Spark hides in its UI and event log. Spark's default misses
#: ``access_key``, ``access_id`` and ``bearer``.
REDACTION = r"(?i)secret|password|token|access[._-]?key|access[._-]?id|credential|bearer"

_MASTER = "ODPS_NB_SPARK_MASTER"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set by spark-submit, which has started the JVM
_LOCAL = re.compile(r"local($|[\[-])")  # not localhost:15002
_GIB = 1 << 30
_LOGGING = Path(__file__).with_name("log4j2.properties")


@explained
def session(
    master: str | None = None,
    *,
    remote: str | None = None,
    quiet: bool = False,
    progress: Progress = None,
    **conf: Any,
) -> SparkSession:
    """Return the active Spark session unchanged, or start one configured for notebooks.

    Parameters
    ----------
    master
        Spark master. Default: the value of ``ODPS_NB_SPARK_MASTER``, else ``local[*]``. A job of
        ``spark-submit`` uses its own master and settings by default, without our defaults.
    remote
        Address of a Spark Connect server, instead of a master: ``"sc://host:15002"``, or
        ``"local[2]"`` to start a server on this machine that listens on loopback only. Default: the
        value of ``SPARK_REMOTE``. odps_nb must be installed where the server's Python workers run.
        A server on another machine accepts only ``spark.sql`` settings.
    quiet
        Hide pyspark's notice about pandas 3 and its JSON log of failed queries until
        ``spark.stop()``. Until the JVM ends, also hide Java's notice about incubator modules and
        the errors of idle Python processes that Spark ends. Default: show all four; notebooks,
        which would show them as errors, hide the last two.
    progress
        As for `Table.read`: by default, a card shows that Spark is starting.
    conf
        Spark settings, which override our defaults: ``**{"spark.executor.memory": "2g"}``, or with
        underscores: ``spark_executor_memory="2g"``. Never pass keys or tokens here: settings appear
        in Spark's UI, its event log and the process list. With a ``local`` master, the Spark UI is
        off (``spark_ui_enabled=True`` enables it), and Spark stores its own tables in a temporary
        folder (``spark.sql.warehouse.dir`` sets another folder).

    Returns
    -------
    pyspark.sql.SparkSession
        If a session is already active, it is returned unchanged and the arguments are ignored. The
        caller stops the session (``spark.stop()``). With a local master, the session's Python
        workers are forked from `odps_nb.spark.launch.worker_daemon`.

    Raises
    ------
    MissingDependencyError
        pyspark >= 3.5 or Java >= 17 (not needed with a remote server) is not installed.
    ConfigError
        A name is not a Spark setting, or both `master` and `remote` are passed.
    ConnectError
        No server listens at `remote`.

    Examples
    --------
    >>> import odps_nb.spark
    >>> spark = odps_nb.spark.session("local[2]")
    >>> spark.range(3).count()
    3
    """
    if not isinstance(master, str | None):
        raise ArgumentError(
            f"master is of type {type(master).__name__}, not text",
            argument="master",
            hint="pass text, e.g. session('local[2]'); pass a connection to read, sql or write",
        )
    if "pyspark" in sys.modules:
        pyspark_version()
        if (running := _running()) is not None:
            return running
    with ProgressTracker("start", "Spark", listener=listener_of(progress)):
        return _started(master, remote, conf, quiet=quiet)


def _started(
    master: str | None, remote: str | None, conf: Mapping[str, Any], *, quiet: bool
) -> SparkSession:
    pyspark_version()
    from pyspark.sql import SparkSession

    chosen = {
        _conf_name(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in conf.items()
    }
    master = master or chosen.pop("spark.master", None)
    remote = remote or chosen.pop("spark.remote", None) or os.environ.get("SPARK_REMOTE")
    if master and remote:
        raise ConfigError(
            "both master and remote are set",
            option="remote",
            hint="pass only one of them, or unset SPARK_REMOTE; a session uses either a cluster "
            "(master) or a Spark Connect server (remote)",
        )
    if remote:
        require_connect()
        check_connect()
        if not _LOCAL.match(remote):
            check_server(remote)
            builder = SparkSession.builder.remote(remote)
            ours = {k: v for k, v in defaults(remote).items() if k.startswith("spark.sql.")}
            return _made(builder, ours, chosen, quiet=quiet)
        check_free()
        builder, master = SparkSession.builder.remote(remote), remote
    elif not master and _SUBMITTED in os.environ:
        return _made(SparkSession.builder, {}, chosen, quiet=quiet)
    else:
        master = master or os.environ.get(_MASTER) or "local[*]"
        if master.startswith("sc://"):  # do not show it, because it may contain a token
            raise ConfigError(
                "master is the address of a Spark Connect server",
                option="master",
                hint="pass the address as remote=",
            )
        builder = SparkSession.builder.master(master)
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)  # Spark's launcher reads only this variable
    os.environ.update(_environment(master, os.environ))
    ours = defaults(master)
    if is_local(master) and (warehouse := "spark.sql.warehouse.dir") not in chosen:
        with _warehouse() as ours[warehouse]:
            return _made(builder, ours, chosen, quiet=quiet)
    return _made(builder, ours, chosen, quiet=quiet)


def _running() -> SparkSession | None:
    """Return the active session, classic or Connect, of this thread or else of this process."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    kinds: list[type[SparkSession]] = [SparkSession]
    if connected := loaded("pyspark.sql.connect.session"):
        kinds.append(connected.SparkSession)  # the classic class does not know Connect sessions
    for kind in kinds:
        with contextlib.suppress(PySparkRuntimeError):  # raised if no session is active
            active = kind.active()
            # pyspark keeps a session active after its context was stopped, so check the context
            if is_connect(active) or SparkContext._active_spark_context is not None:
                return active
    return None


def _made(
    builder: Any, ours: Mapping[str, str], chosen: Mapping[str, str], *, quiet: bool
) -> SparkSession:
    for name, value in {**ours, **chosen}.items():
        builder = builder.config(name, value)
    start = without_harmless_lines() if quiet or in_kernel() else contextlib.nullcontext()
    refused = without_refused_settings(ours.keys() - chosen.keys())
    with without_pandas_notice(), refused, start:
        spark: SparkSession = builder.getOrCreate()
    if quiet:
        be_quiet(spark)
    return spark


def defaults(master: str) -> dict[str, str]:
    """Return our default settings for a master.

    They depend on the machine's memory, cores and time zone, and on whether odps_nb is installed.
    """
    settings = {
        "spark.app.name": "odps-nb",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": REDACTION,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A task cancelled while it waits for the service is killed after two seconds plus this
        # value, and its connections stay open until then. Spark's default is 2 s.
        "spark.python.task.killTimeout": "500ms",
    }
    zone = local_zone(os.environ)
    if zone:  # so that executors in other time zones use this zone, too
        settings["spark.sql.session.timeZone"] = zone
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            **SERVER,
            "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"',
        }
        with contextlib.suppress(metadata.PackageNotFoundError):
            metadata.distribution("odps-nb")  # raises if not installed; workers import the module
            settings["spark.python.daemon.module"] = "odps_nb.spark.launch.worker_daemon"
        if sys.platform == "linux":  # 17-20 % faster; socket paths may be too long on other systems
            settings["spark.python.unix.domain.socket.enabled"] = "true"
    if master.startswith("local"):
        settings["spark.ui.enabled"] = "false"  # a notebook shows progress itself
    if master.startswith("local["):
        settings["spark.driver.memory"] = _heap(machine_memory())
        # Shuffles in notebooks are small; Spark's default of 200 tasks would mostly be overhead.
        settings["spark.sql.shuffle.partitions"] = str(max(8, 2 * (os.cpu_count() or 1)))
    return settings


def is_local(master: str) -> bool:
    """Whether the driver and the executors run on this machine."""
    return master.startswith(("local", "spark://127.0.0.1", "spark://localhost"))


def local_zone(environ: Mapping[str, str], link: Path = Path("/etc/localtime")) -> str | None:
    """Return the IANA name of this machine's time zone; ``None`` if it cannot be determined."""
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
    """Return the maximum bytes of memory that this process may use; ``None`` if unknown."""
    known = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # POSIX only
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in limits:
        with contextlib.suppress(ValueError, OSError):  # "max": no limit
            known.append(int(Path(path).read_text(encoding="ascii")))
    return min(known, default=None)


def _heap(memory: int | None) -> str:
    # The JVM gets 2/5; the rest is for the Python workers, Arrow's buffers and the notebook itself.
    share = (memory or 4 * _GIB) * 2 // 5
    return f"{min(max(share, _GIB // 2), 8 * _GIB) >> 20}m"


@contextlib.contextmanager
def _warehouse() -> Iterator[str]:
    """Yield a new folder for Spark's own tables; the JVM removes it at its end if it is empty.

    Spark's default, ``spark-warehouse`` in the current folder, would appear next to the notebook.
    """
    from pyspark import SparkContext

    folder = tempfile.mkdtemp(prefix="odps-nb-spark-")
    try:
        yield folder
    except BaseException:
        with contextlib.suppress(OSError):  # not empty: keep the tables
            Path(folder).rmdir()
        raise
    # `atexit` would not do: ipykernel waits for the JVM, so Jupyter kills the kernel
    if SparkContext._jvm is not None:
        SparkContext._jvm.java.io.File(folder).deleteOnExit()


def _environment(master: str, environ: Mapping[str, str]) -> dict[str, str]:
    # By default, workers run `python3` from PATH, which may lack pyarrow if the kernel's venv is
    # not activated. With a local master, the driver's Python is always the right one.
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
