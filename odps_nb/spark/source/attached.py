"""`attach`: adds ODPS tables to Spark's catalog, so that plain Spark SQL reads and writes them.

Spark's catalog drops the options of tables with a Python source. So each table gets a separate data
source class, and a catalog entry that names the class. The catalog stores no rows and no keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from odps_nb.access.checks import iterator_of
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Progress
from odps_nb.errors import ArgumentError, ConfigError
from odps_nb.explained import explained
from odps_nb.schema import TableSchema
from odps_nb.spark.launch.connect import hide_keys
from odps_nb.spark.progress.counting import TaskCounter
from odps_nb.spark.reading.plan import cores_of
from odps_nb.spark.source.registering import source_counter
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.spark.versions import require_data_sources
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType

    from odps_nb.access.connection import Connection
    from odps_nb.spark.source.data_source import OdpsDataSource

#: Comment that marks a database as created by `attach`.
_COMMENT = "ODPS tables of odps_nb.spark.attach"
_DATABASE = re.compile(r"[A-Za-z_]\w*")
# Write options that an attached table accepts; the entry already names the table.
_WRITER = frozenset({"overwrite", "max_partitions", "compression"})


@explained
def attach(
    spark: SparkSession,
    odps: Connection | Profile | str | None,
    tables: str | TableName | Iterable[str | TableName],
    *,
    database: str = "odps",
    progress: Progress = None,
) -> tuple[str, ...]:
    """Add tables to Spark's catalog, for ``spark.sql("select … from odps.orders")``.

    ``docs/spark-sql.md`` lists the supported statements. Each query reads all columns and rows of
    the current table; `odps_nb.spark.sql` reads only what a query needs. The entries are in memory
    and disappear with the session; dropping an entry does not drop the table.

    Parameters
    ----------
    tables
        One name or several: ``table``, ``project.table`` or ``project.schema.table``; the last part
        is the name of the entry. Attach a table again after its columns have changed.
    database
        Database of the entries; created if missing.
    progress
        As in `odps_nb.spark.register`.

    Returns
    -------
    tuple of str
        The names to use in SQL, e.g. ``("odps.orders",)``.

    Raises
    ------
    NotFoundError
        A table does not exist.
    ArgumentError
        Two entries would have the same name, or Spark already has this table or database.
    ConfigError
        The session keeps its catalog in a Hive metastore, where entries would outlive the session.

    Examples
    --------
    >>> import odps_nb.spark
    >>> odps_nb.spark.attach(spark, odps, ["media", "orders"])
    ('odps.media', 'odps.orders')
    >>> spark.sql("select count(*) > 0 as some from odps.media").first().some
    True
    >>> _ = spark.sql("drop database odps cascade")
    """
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.catalog import fetch_table

    require_data_sources("attach")
    hide_keys(spark)
    _check_catalog(spark)
    profile = profile_of(odps)
    requested = None if isinstance(tables, (str, TableName)) else iterator_of(tables)
    many: Iterable[Any] = (tables,) if requested is None else requested
    names = _by_entry([profile.table(table) for table in many], database)
    with StorageClient(profile) as storage:
        schemas = {entry: fetch_table(storage, name).schema for entry, name in names.items()}
    counter = source_counter(spark, progress)
    _make_database(spark, database)
    for entry, name in names.items():
        source = _source_of(name, database, profile, counter, cores_of(spark))
        spark.dataSource.register(source)
        _make_entry(spark, entry, name, source.name(), schemas[entry])
    return tuple(names)


def _source_of(
    table: TableName, database: str, profile: Profile, counts: TaskCounter | None, parallel: int
) -> type[OdpsDataSource]:
    """Return a data source class for one entry; it is pickled with the profile."""
    from odps_nb.spark.source.data_source import OdpsDataSource

    known = TaskProfile(tuple(profile.as_options().items()))

    class Attached(OdpsDataSource):
        registered: ClassVar[TaskProfile | None] = known
        counter: ClassVar[TaskCounter | None] = counts
        cores: ClassVar[int] = parallel

        @classmethod
        def name(cls) -> str:
            # another database may have an entry for a table of this name in another service
            return f"odps:{table}@{database}".lower()

        def _given(self) -> Mapping[str, str]:
            options = {key: text for key, text in super()._given().items() if key != "path"}
            return {**options, "table": str(table)}

        def reader(self, schema: StructType) -> DataSourceReader:
            with task_errors(str(table)):
                _check_options(self.options, frozenset(), "read")
            return super().reader(schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001
            with task_errors(str(table)):
                _check_options(self.options, _WRITER, "write")
            return super().writer(schema, overwrite)

    return Attached


def _check_options(options: Mapping[str, str], known: frozenset[str], verb: str) -> None:
    for key in options:
        if key.casefold() not in known:
            # Spark would apply the options of one reference to all references in the query.
            raise ConfigError(
                f"a {verb} of an attached table does not accept the option {key!r}",
                option=key,
                hint=f"use odps_nb.spark.{verb}, which accepts it as an argument",
            )


def _check_catalog(spark: SparkSession) -> None:
    if spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory":
        raise ConfigError(
            "this session keeps its catalog in a Hive metastore, where entries would outlive the "
            "session, and other sessions could not read them",
            option="spark.sql.catalogImplementation",
            hint="use odps_nb.spark.sql(spark, odps, …), which needs no catalog entry",
        )


def _by_entry(names: Iterable[TableName], database: str) -> dict[str, TableName]:
    if not _DATABASE.fullmatch(database):
        problem = f"{database!r} is not a valid database name; use letters, digits and underscores"
        raise ArgumentError(problem, argument="database")
    tables: dict[str, TableName] = {}
    for name in names:
        entry = f"{database}.{name.table}"
        if tables.setdefault(entry, name) != name:
            raise ArgumentError(
                f"{tables[entry]} and {name} would both be named {entry}",
                argument="tables",
                hint="attach one of them to another database with database=",
            )
    return tables


def _make_database(spark: SparkSession, database: str) -> None:
    if not spark.catalog.databaseExists(database):
        spark.sql(f"create database `{database}` comment '{_COMMENT}'")
    elif spark.catalog.getDatabase(database).description != _COMMENT:
        raise ArgumentError(
            f"Spark already has a database {database!r} that attach did not create",
            argument="database",
            hint=f"pass another name, e.g. database='{database}_odps'",
        )


def _make_entry(
    spark: SparkSession, entry: str, name: TableName, source: str, schema: TableSchema
) -> None:
    from odps_nb.spark.tasks.types import columns_for_spark, spark_schema

    columns = spark_schema(columns_for_spark(schema))
    quoted = ".".join(f"`{part}`" for part in entry.split("."))
    if spark.catalog.tableExists(quoted):
        rows = spark.sql(f"describe table extended {quoted}").collect()
        if any(row.col_name == "Provider" for row in rows):  # an entry of `attach` has none
            raise ArgumentError(
                f"Spark already has a table {entry}",
                argument="tables",
                hint="drop it, or attach to another database with database=",
            )
        spark.sql(f"drop table {quoted}")
    # The path is never read; without it Spark would create a folder for the table.
    spark.catalog.createTable(quoted, path=f"/odps/{name}", source=source, schema=columns)
