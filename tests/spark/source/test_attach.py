"""`odps_nb.spark.attach`: names in Spark's catalog, and rejected calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError, ConfigError, NotFoundError
from odps_nb.spark.source.attached import _check_catalog
from odps_nb.spark.source.options import _READ, _STREAM_READ, _STREAM_WRITE, _WRITE, INSTEAD
from odps_nb.terms import TableName
from tests.support.service.connecting import connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

Names = Callable[[str], str]


@pytest.fixture
def database(spark: SparkSession, new_name: Names) -> Iterator[str]:
    """The name of a database that is dropped after the test."""
    name = new_name("attached")
    yield name
    spark.sql(f"drop database if exists {name} cascade")


@pytest.mark.spark
def test_attaching_a_table_again_updates_its_columns_and_rows(
    spark: SparkSession, odps: Connection, database: str, new_name: Names
) -> None:
    name = new_name("grows")
    odps.create_table(name, "id bigint")
    assert odps_nb.spark.attach(spark, odps, name, database=database) == (f"{database}.{name}",)
    odps.sql(f"alter table {name} add columns (more string)")
    given = TableName.parse(f"{odps.profile.project}.{name}", project="")
    odps_nb.spark.attach(spark, odps, given, database=database)
    assert spark.table(f"{database}.{name}").columns == ["id", "more"]
    spark.sql(f"insert into {database}.{name} values (1, 'x')")
    assert odps.table(name).read().row_count == 1
    odps.drop_table(name)


@pytest.mark.spark
def test_tables_of_the_same_name_in_two_services_keep_their_own_connection(
    spark: SparkSession,
    odps: Connection,
    empty_service: LocalService,
    database: str,
    new_name: Names,
) -> None:
    name = new_name("twice")
    with connected(empty_service) as other:
        databases = {database: odps, f"{database}_other": other}
        for at, connection in databases.items():
            connection.create_table(name, "place string").write({"place": [at]})
            odps_nb.spark.attach(spark, connection, name, database=at)
        for at, connection in databases.items():
            assert spark.table(f"{at}.{name}").first() == (at,)
            spark.sql(f"insert into {at}.{name} values ('more')")
            assert connection.table(name).read().row_count == 2
            connection.drop_table(name)
    spark.sql(f"drop database {database}_other cascade")


@pytest.mark.spark
def test_existing_names_in_the_catalog_are_not_changed(
    spark: SparkSession, odps: Connection, database: str
) -> None:
    spark.sql(f"create database {database}")
    with pytest.raises(ArgumentError, match="has a database"):
        odps_nb.spark.attach(spark, odps, "orders", database=database)
    spark.sql(f"drop database {database}")
    odps_nb.spark.attach(spark, odps, "media", database=database)
    spark.sql(f"create table {database}.orders (id bigint) using parquet")
    with pytest.raises(ArgumentError, match="already has a table"):
        odps_nb.spark.attach(spark, odps, "orders", database=database)
    assert spark.table(f"{database}.orders").columns == ["id"]


@pytest.mark.spark
def test_invalid_attachments_are_refused_before_anything_is_created(
    spark: SparkSession, odps: Connection, database: str
) -> None:
    with pytest.raises(NotFoundError, match="no_such_table"):
        odps_nb.spark.attach(spark, odps, ["media", "no_such_table"], database=database)
    with pytest.raises(ArgumentError, match="would both be"):
        odps_nb.spark.attach(spark, odps, ["media", "other.media"], database=database)
    with pytest.raises(ArgumentError, match="not a valid database name"):
        odps_nb.spark.attach(spark, odps, "media", database="a b")
    assert not spark.catalog.databaseExists(database)


@pytest.mark.spark
def test_no_key_is_in_the_catalog_or_in_a_plan(
    spark: SparkSession, odps: Connection, database: str
) -> None:
    (name,) = odps_nb.spark.attach(spark, odps, "media", database=database)
    told = [
        spark.sql(f"{what} {name}").collect() for what in ("describe extended", "show create table")
    ]
    told.append(spark.sql(f"explain extended select * from {name}").collect())
    assert str(odps.profile.access_key) not in str(told)
    assert database in str(told)


def test_a_catalog_that_outlives_the_session_is_refused() -> None:
    class Hive:
        """The settings of a session with a metastore."""

        class conf:
            @staticmethod
            def get(name: str, default: str) -> str:
                return "hive" if name == "spark.sql.catalogImplementation" else default

    with pytest.raises(ConfigError, match="Hive metastore"):
        _check_catalog(Hive)  # type: ignore[arg-type]


def test_names_of_options_of_other_data_sources_are_not_options_of_odps_nb() -> None:
    assert not set(INSTEAD) & (_READ | _WRITE | _STREAM_READ | _STREAM_WRITE)
