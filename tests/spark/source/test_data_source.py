"""``format("odps")``: reads, views and writes by options."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader

import odps_nb.spark
from odps_nb import ClientOptions
from odps_nb.access.partitions import Bound, PartitionRange
from odps_nb.client.auth.fields import TEXT_CREDENTIALS
from odps_nb.client.write.session import commit_write
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import ArgumentError, ConfigError, ConflictError, NotFoundError
from odps_nb.spark.source.data_source import OdpsDataSource, OdpsReader, OdpsWriter, connected
from odps_nb.spark.source.options import ReadSettings, WriteSettings
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.spark.tasks.types import spark_schema
from odps_nb.terms import PartitionSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile

Names = Callable[[str], str]
DAY = "ds=2024-01-03"


@pytest.fixture
def reader(spark: SparkSession, odps: Connection) -> DataFrameReader:
    """A reader that can connect."""
    odps_nb.spark.register(spark)
    return spark.read.format("odps").options(**odps_nb.spark.options(odps))


@pytest.mark.spark
def test_a_table_is_loaded_by_option_or_by_path(reader: DataFrameReader) -> None:
    whole = reader.option("table", "types_all").load()
    assert whole.columns[:2] == ["row_name", "c_tinyint"]
    assert whole.count() == reader.load("types_all").count()


@pytest.mark.spark
def test_columns_are_selected_by_option_or_schema(
    reader: DataFrameReader, odps: Connection
) -> None:
    reader = reader.option("table", "orders").option("partitions", DAY).option("limit", 10)
    expected = odps.table("orders").read(columns=["id"], partitions=DAY, limit=10).to_arrow()
    ids = expected.column("id").to_pylist()
    assert [row.id for row in reader.option("columns", "id").load().collect()] == ids
    ordered = reader.option("columns", "DS, status, id").load()
    assert ordered.columns == ["ds", "status", "id"]
    assert [row.id for row in ordered.collect()] == ids
    assert [row.id for row in reader.schema("id bigint").load().collect()] == ids


@pytest.mark.nightly
@pytest.mark.spark
def test_partitions_are_selected_by_ranges_and_by_latest(
    reader: DataFrameReader, odps: Connection, spark: SparkSession
) -> None:
    days = [str(spec).removeprefix("ds=") for spec in odps.table("orders").partitions()]
    chosen = reader.option("partitions", f"ds<{days[1]}; latest").option("columns", "ds")
    found = {row.ds for row in chosen.load("orders").distinct().collect()}
    assert found == {days[0], days[-1]}
    frame = odps_nb.spark.read(
        spark, odps, "orders", columns=["ds"], partitions={"ds >=": days[-2], "ds <": days[-1]}
    )
    assert [row.ds for row in frame.distinct().collect()] == [days[-2]]


@pytest.mark.spark
def test_a_schema_with_other_types_is_refused(reader: DataFrameReader) -> None:
    frame = reader.schema("id string").load("orders")
    with pytest.raises(Exception, match="id is bigint, not string"):
        frame.count()


@pytest.mark.nightly
@pytest.mark.spark
def test_filters_of_different_queries_of_one_dataframe_are_independent(
    reader: DataFrameReader,
) -> None:
    frame = reader.load("types_all")
    one, other = frame.filter("row_name = 'least'"), frame.filter("row_name = 'most'")
    assert one.count() == 1
    total = frame.count()
    assert total > 2
    both = one.select("row_name").union(other.select("row_name"))
    assert sorted(row[0] for row in both.collect()) == ["least", "most"]
    assert frame.count() == total


@pytest.mark.spark
def test_filters_of_different_queries_of_one_view_are_independent(
    spark: SparkSession, reader: DataFrameReader
) -> None:
    reader.load("types_all").createOrReplaceTempView("types_view")
    count = "select count(*) from types_view"
    total = spark.sql(count).collect()[0][0]
    assert spark.sql(f"{count} where row_name = 'least'").collect()[0][0] == 1
    assert spark.sql(count).collect()[0][0] == total
    both = (
        "select row_name from types_view where row_name = 'least' "
        "union all select row_name from types_view where row_name = 'most'"
    )
    assert sorted(row[0] for row in spark.sql(both).collect()) == ["least", "most"]
    spark.catalog.dropTempView("types_view")


def test_the_data_source_pushes_down_no_filters() -> None:
    # pyspark 4.0 does not have it
    inherited = getattr(DataSourceReader, "pushFilters", None)
    assert getattr(OdpsReader, "pushFilters", None) is inherited


@pytest.mark.spark
def test_a_partition_without_rows_returns_no_rows(reader: DataFrameReader) -> None:
    empty = reader.option("where", "id < 0").option("partitions", DAY).load("orders")
    assert empty.select("id").collect() == []


@pytest.mark.spark
def test_rows_are_appended_and_replaced(
    spark: SparkSession, odps: Connection, reader: DataFrameReader, new_name: Names
) -> None:
    name = new_name("saved")
    odps.create_table(name, "id bigint", partitioned_by="ds string")
    given = odps_nb.spark.options(odps)
    frame = spark.range(6).selectExpr("id", "cast(id % 2 as string) ds")
    writer = frame.write.format("odps").options(**given).option("table", name)
    writer.mode("append").save()
    writer.mode("append").save()
    assert odps.table(name).read().row_count == 12
    with pytest.raises(Exception, match="needs a complete partition=") as caught:
        writer.mode("overwrite").save()
    assert isinstance(from_spark(caught.value), ArgumentError)
    writer.mode("overwrite").option("overwrite", "partitions").save()
    assert odps.table(name).read().row_count == 6
    empty = frame.filter("id < 0").write.format("odps").options(**given)
    empty.option("partition", "ds=1").mode("overwrite").save(name)
    assert odps.table(name).read().row_count == 3


@pytest.mark.spark
def test_errors_for_unknown_tables_or_options_have_no_java_frames(reader: DataFrameReader) -> None:
    with pytest.raises(Exception, match="no_such_table") as caught:
        reader.load("no_such_table")
    assert isinstance(from_spark(caught.value), NotFoundError)
    with pytest.raises(Exception, match="tabel") as caught:
        reader.option("tabel", "orders").load("orders")
    assert isinstance(from_spark(caught.value), ConfigError)
    assert "java" not in str(caught.value).lower()


# -- commit and abort, as Spark calls them ------------------------------------------------------


def _writer(profile: Profile, odps: Connection, name: str) -> OdpsWriter:
    odps.create_table(name, "id bigint")
    settings = WriteSettings.of({**profile.as_options(), "table": name})
    return OdpsWriter(settings, spark_schema(odps.table(name).schema), overwrite=False)


def _batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())})


def test_a_write_to_too_many_partitions_is_dropped(
    profile: Profile, odps: Connection, new_name: Names
) -> None:
    name = new_name("many")
    writer = _writer(profile, odps, name)
    message = writer.write(iter([_batch()]))
    many = tuple(f"ds={day}" for day in range(513))
    message = dataclasses.replace(
        message, written=dataclasses.replace(message.written, partitions=many)
    )
    with pytest.raises(ArgumentError, match="more than 512 partitions"):
        writer.commit([message])
    with pytest.raises((ConflictError, NotFoundError)):  # the session is aborted
        commit_write(odps._storage, writer._task.session, [message.written.stream])
    assert odps.table(name).read().row_count == 0


@pytest.mark.storage_api("its requests")
def test_a_commit_includes_only_the_streams_of_the_messages(
    profile: Profile, odps: Connection, new_name: Names
) -> None:
    name = new_name("commit")
    writer = _writer(profile, odps, name)
    message = writer.write(iter([_batch()]))
    with WriteStream(odps._storage, writer._task.session, "someone-else").start() as stream:
        stream.write([_batch()])
    writer.commit([message, writer.write(iter([]))])
    writer.commit([message])  # a commit that is requested twice is the same commit
    assert odps.table(name).read().row_count == 10


def test_an_abort_after_a_failed_task_drops_all_rows(
    profile: Profile, odps: Connection, new_name: Names
) -> None:
    name = new_name("abort")
    writer = _writer(profile, odps, name)
    message = writer.write(iter([_batch()]))
    writer.abort([message, None])
    with pytest.raises(ConflictError, match="aborted"):
        writer.commit([message])
    assert odps.table(name).read().row_count == 0


def test_an_abort_after_a_failed_commit_deletes_no_rows(
    profile: Profile, odps: Connection, new_name: Names
) -> None:
    name = new_name("doubt")
    writer = _writer(profile, odps, name)
    message = writer.write(iter([_batch()]))
    writer.abort([message])  # Spark calls this after commit raised an error, whatever the outcome
    commit_write(odps._storage, writer._task.session, [message.written.stream])
    assert odps.table(name).read().row_count == 10


# -- options ------------------------------------------------------------------------------------


def test_options_contain_keys_and_their_repr_shows_none(profile: Profile) -> None:
    given = odps_nb.spark.options(profile)
    assert given["access_key"] == profile.access_key
    assert str(profile.access_key) not in repr(given) + str(given)
    assert ReadSettings.of({**given, "table": "orders"}).profile == profile


def test_option_names_are_accepted_in_any_letter_case(profile: Profile) -> None:
    settings = ReadSettings.of(
        {
            **{key.upper(): value for key, value in profile.as_options().items()},
            "TABLE": "orders",
            "path": "ORDERS",  # of load(); the same table
            "Columns": "id, amount,",
            "partitions": "ds=2024-01-01,hour=1; ds>=2024-01-02; latest",
            "limit": "5",
            "split_bytes": "1000",
        }
    )
    assert settings.options.columns == ("id", "amount")
    assert settings.options.partitions == (
        PartitionSpec.of("ds=2024-01-01,hour=1"),
        PartitionRange(exact=PartitionSpec(), bounds=(Bound("ds", ">=", "2024-01-02"),)),
        "latest",
    )
    assert (settings.options.limit, settings.options.split_bytes) == (5, 1000)


def test_client_options_can_be_passed_with_keys_or_a_profile(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = {"table": "orders", "read_timeout": "7.5", "retries": "1"}
    made = ClientOptions(read_timeout=7.5, retries=1)
    assert ReadSettings.of({**profile.as_options(), **asked}).profile.client_options == made
    known = profile.as_options().items()
    lines = "".join(f'{key} = "{value}"\n' for key, value in known if key != "api_version")
    (tmp_path / "profiles.toml").write_text(f"[work]\n{lines}")
    (tmp_path / "profiles.toml").chmod(0o600)
    monkeypatch.setenv("ODPS_NB_PROFILES", str(tmp_path / "profiles.toml"))
    assert ReadSettings.of({"profile": "work", **asked}).profile.client_options == made
    assert ReadSettings.of({"profile": "work", "table": "orders"}).profile.endpoint


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no table"),
        ({"table": "t", "retries": "-1"}, "retries is -1"),
        ({"table": "t", "limit": "many"}, "must be a whole number"),
        ({"table": "t", "limit": "1_0"}, "must be a whole number"),
        ({"table": "t", "splits": "9" * 19}, r"whole number below 10\*\*18"),
        ({"table": "t", "path": "u"}, "table is 't', but load.* names 'u'"),
        ({"table": "t", "partition": "ds=1"}, "did you mean 'partitions'"),
        ({"table": "t", "option.table": "t", "provider": "odps"}, "drops its options"),
        ({"table": "t", "replaceWhere": "ds = 1"}, "no reader option 'replacewhere'"),
    ],
)
def test_invalid_options_are_refused(profile: Profile, given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ReadSettings.of({**profile.as_options(), **given})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"where": ""}, "where is blank"),
        ({"columns": ""}, "columns is empty"),
        ({"limit": "1", "where": "id > 0"}, "limit has no effect"),
        pytest.param(
            {"limit": "1", "since": "0"},
            "limit has no effect",
            marks=pytest.mark.storage_api("versions"),
        ),
    ],
)
def test_an_option_is_refused_if_it_would_have_no_effect(
    profile: Profile, odps: Connection, new_name: Names, given: dict[str, str], told: str
) -> None:
    name = new_name("keyed")
    odps.create_table(name, "id bigint not null", primary_key="id")
    settings = ReadSettings.of({**profile.as_options(), "table": name, **given})
    columns = spark_schema(settings.chosen(odps.table(name).schema))
    with pytest.raises((ArgumentError, ConfigError), match=told):
        OdpsReader(settings, columns)


def test_a_schema_must_not_add_columns_to_the_option_columns(
    profile: Profile, odps: Connection
) -> None:
    asked = {**profile.as_options(), "table": "orders", "columns": "ID, amount"}
    settings = ReadSettings.of(asked)
    columns = spark_schema(settings.chosen(odps.table("orders").schema))
    assert OdpsReader(settings, columns).partitions()
    told = "the column 'amount', which the option columns omits"
    with pytest.raises(ConfigError, match=told):
        OdpsReader(ReadSettings.of({**asked, "columns": "id"}), columns)


@pytest.mark.parametrize("registered", ["sts_token", "bearer_token", "app_id"])
@pytest.mark.parametrize(
    "given", [{"ACCESS_ID": "other", "access_key": "key"}, {"bearer_token": "token"}]
)
def test_credentials_in_options_are_not_mixed_with_registered_ones(
    profile: Profile, registered: str, given: dict[str, str]
) -> None:
    more = {registered: "registered"} | ({"app_key": "k"} if registered == "app_id" else {})
    source = connected(dataclasses.replace(profile, **more), None, 1)
    settings = ReadSettings.of(source({"table": "t", **given})._given())
    used = {key: getattr(settings.profile, key) for key in TEXT_CREDENTIALS}
    assert {key: value for key, value in used.items() if value} == {
        key.lower(): value for key, value in given.items()
    }
    assert settings.profile.endpoint == profile.endpoint


@pytest.mark.parametrize("most", ["0", "-1"])
def test_a_write_must_allow_at_least_one_partition(profile: Profile, most: str) -> None:
    with pytest.raises(ConfigError, match=f"max_partitions is {most}; it must be at least 1"):
        WriteSettings.of({**profile.as_options(), "table": "t", "max_partitions": most})


def test_the_error_for_an_unknown_profile_names_it_without_settings() -> None:
    with pytest.raises(ConfigError, match="nobody"):
        ReadSettings.of({"profile": "nobody", "table": str(uuid.uuid4())})


def test_the_data_source_is_named_odps() -> None:
    assert OdpsDataSource.name() == "odps"
