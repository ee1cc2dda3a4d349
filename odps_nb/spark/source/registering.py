"""`register` and `options`: add ``format("odps")`` to a session, and configure its connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import Phase
from odps_nb.explained import explained
from odps_nb.secret import Hidden
from odps_nb.spark.launch.connect import hide_keys
from odps_nb.spark.progress.counting import Activity, TaskCounter
from odps_nb.spark.reading.plan import cores_of
from odps_nb.spark.tasks.credentials import profile_of
from odps_nb.spark.versions import require_data_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile
    from odps_nb.client.calls.progress import Progress


@explained
def options(odps: Connection | Profile | str | None = None) -> dict[str, str]:
    """Return the options, including credentials, for ``spark.read.format("odps").options(**…)``.

    If `register` has received a connection, no options are needed. Options of a reader or writer
    do not appear in plans, event logs or the UI. With Spark Connect, call `register` first, so that
    keys in plans are redacted. Never set credentials in ``spark.conf`` or in ``OPTIONS (…)`` in SQL
    text, which do appear in plans and logs; pass the name of a profile instead.

    Examples
    --------
    >>> import odps_nb.spark
    >>> odps_nb.spark.register(spark)
    >>> connected = odps_nb.spark.options(odps)
    >>> spark.read.format("odps").options(**connected, columns="id").load("orders").columns
    ['id']
    """
    require_data_sources("options")
    return Hidden(profile_of(odps).as_options())


@explained
def register(
    spark: SparkSession,
    odps: Connection | Profile | str | None = None,
    *,
    progress: Progress = None,
) -> None:
    """Register ``format("odps")`` in a session.

    With `odps`, readers and writers use the settings of that connection, so that no option has to
    contain a key. Options override these settings. With Spark Connect, always pass `odps`: the
    server logs plans with their options, and redacts access keys only in sessions for which
    `register` was called.

    Reader options are ``table``, ``columns`` (comma-separated), ``partitions`` (as in `Table.read`,
    separated by ``;``), ``where``, ``limit``, ``splits``, ``split_bytes``, ``compression``,
    ``text``, ``char_padding``, ``since``, ``until`` and ``changes``. Writer options are ``table``,
    ``partition``, ``overwrite``, ``max_partitions``, ``compression``, ``decimals``, ``text``,
    ``times``, ``create`` and ``partitioned_by`` (as in `odps_nb.spark.write`). Readers and writers
    also accept the options that `options` returns, or ``profile`` with a profile's name. ``limit``
    is refused if the rows cannot be counted before they are read, as with ``where``.

    ``readStream`` accepts the reader options except ``limit``, ``since``, ``until``, ``changes``
    and the partition ``latest``. It has four other options:

    - ``starting_version``: ``"earliest"`` (default: existing rows first), ``"latest"`` (only new
      rows), or the number of the version to begin after
    - ``max_versions_per_trigger``: maximum versions in a micro-batch; requires PySpark 4.2
    - ``skip_overwrites``: ``true`` skips versions that replaced rows; by default, they cause errors
    - ``poll_seconds``: maximum age of the cached newest version; default 1

    ``writeStream`` accepts the writer options except ``create`` and ``partitioned_by``;
    ``checkpointLocation`` is required. Each micro-batch is committed once, even across restarts
    from the checkpoint. Output mode ``complete`` replaces the table.

    `progress` works as in `odps_nb.spark.read`. Streams and Spark Connect do not show progress.

    Examples
    --------
    >>> import odps_nb.spark
    >>> odps_nb.spark.register(spark, odps)
    >>> spark.read.format("odps").load("media").createOrReplaceTempView("media")
    >>> spark.sql("select count(*) > 0 as some from media").first().some
    True
    """
    require_data_sources("register")
    from odps_nb.spark.source.data_source import connected

    hide_keys(spark)
    profile = None if odps is None else profile_of(odps)
    spark.dataSource.register(connected(profile, source_counter(spark, progress), cores_of(spark)))


def source_counter(spark: SparkSession, progress: Progress) -> TaskCounter | None:
    """Return the counter from which each reader and writer derives its own counter."""
    from odps_nb.spark.progress.actions import counter_of

    unknown = Activity(operation="read", title="", phase=Phase.CREATING)
    return counter_of(spark, unknown, progress)
