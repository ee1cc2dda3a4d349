"""The responses of a stream reader to Spark's calls, with requests to the embedded service."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import LongType, StructType

import odps_nb.spark
from odps_nb.errors import (
    ConfigError,
    ConflictError,
    NoStorageApiError,
    NotFoundError,
    ProtocolError,
    SessionExpiredError,
    StateError,
)
from odps_nb.spark.source.data_source import OdpsDataSource
from odps_nb.spark.source.options import StreamReadSettings
from odps_nb.spark.source.stream_reader import OdpsStreamReader, Offset, TableVersions
from tests.support.spark.altering import Altering

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.client.auth.profile import Profile

pytestmark = pytest.mark.storage_api("versions")

CREATE = "TableCreateReadSession"
SCHEMA = StructType().add("id", LongType())
Offsets = dict[str, Any]
Open = Callable[..., OdpsStreamReader]


def add(table: Table, *ids: int, overwrite: bool = False) -> None:
    table.write(pa.table({"id": pa.array(ids, pa.int64())}), overwrite=overwrite)


@pytest.fixture
def table(odps: Connection, new_name: Callable[[str], str]) -> Table:
    """A table at version 2 with the rows 1, 2 and 3."""
    made = odps.create_table(new_name("followed"), "id bigint")
    add(made, 1, 2)
    add(made, 3)
    return made


@pytest.fixture
def follow(odps: Connection, table: Table) -> Iterator[Open]:
    """Create readers as Spark does; each represents a separate process."""
    opened: list[OdpsStreamReader] = []

    def make(**options: object) -> OdpsStreamReader:
        given = {"table": str(table.name), "poll_seconds": "0"}
        given |= {key: str(value) for key, value in options.items()}
        source = OdpsDataSource({**odps_nb.spark.options(odps), **given})
        reader = source.streamReader(SCHEMA)
        assert isinstance(reader, OdpsStreamReader)
        opened.append(reader)
        return reader

    yield make
    for reader in opened:
        reader.stop()


def next_batch(reader: OdpsStreamReader, start: Offsets) -> tuple[list[int], Offsets]:
    end = reader.latestOffset(start)
    return rows(reader, start, end), end


def rows(reader: OdpsStreamReader, start: Offsets, end: Offsets) -> list[int]:
    """Read a micro-batch as tasks do, with the data pickled for them."""
    task = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    batches = [batch for part in parts for batch in task.read(part)]
    return [value for batch in batches for value in batch.column("id").to_pylist()]


def test_existing_rows_precede_added_ones(table: Table, follow: Open) -> None:
    reader = follow()
    found, end = next_batch(reader, reader.initialOffset())
    assert (found, end["version"]) == ([1, 2, 3], 2)
    assert reader.latestOffset(end) == end
    add(table, 4)
    add(table, 5)
    found, end = next_batch(reader, end)
    assert (found, end) == ([4, 5], {"table": end["table"], "version": 4})


def test_a_first_batch_is_the_same_in_another_process(table: Table, follow: Open) -> None:
    for start in ("earliest", "latest", "1"):
        first = follow(starting_version=start)
        first.initialOffset()
        add(table, 10)
        found, end = next_batch(first, first.initialOffset())
        add(table, 11)
        again = follow(starting_version=start)
        assert rows(again, again.initialOffset(), end) == found != []


def test_a_table_whose_rows_were_replaced_earlier_is_read_from_the_start(
    table: Table, follow: Open
) -> None:
    add(table, 7, overwrite=True)
    reader = follow()
    found, end = next_batch(reader, reader.initialOffset())
    assert found == [7]
    add(table, 8)
    assert next_batch(reader, end)[0] == [8]


def test_latest_begins_at_the_newest_version(table: Table, follow: Open) -> None:
    reader = follow(starting_version="latest")
    start = reader.initialOffset()
    add(table, 4)
    assert reader.initialOffset() == start
    found, end = next_batch(reader, start)
    assert found == [4]
    assert reader.reportLatestOffset() == {"table": end["table"], "version": 3}


def test_a_stream_waits_for_rows_of_an_empty_table(
    odps: Connection, new_name: Callable[[str], str], follow: Open
) -> None:
    empty = odps.create_table(new_name("empty"), "id bigint")
    reader = follow(table=empty.name)
    found, end = next_batch(reader, reader.initialOffset())
    assert (found, end["version"]) == ([], 0)
    add(empty, 1)
    assert next_batch(reader, end)[0] == [1]


def test_a_stream_begins_after_the_given_version(follow: Open) -> None:
    reader = follow(starting_version=1)
    assert next_batch(reader, reader.initialOffset())[0] == [3]
    with pytest.raises(ConfigError, match=r"starting_version is 9, but .* is at version 2"):
        follow(starting_version=9).initialOffset()


def test_the_reader_works_with_spark_before_4_2(table: Table, follow: Open) -> None:
    reader = follow()
    end = reader.latestOffset()
    assert reader.latestOffset() == end
    assert rows(reader, reader.initialOffset(), end) == [1, 2, 3]
    add(table, 4)
    later = reader.latestOffset()
    assert rows(reader, end, later) == [4]
    restarted = follow()
    add(table, 5)
    assert rows(restarted, later, restarted.latestOffset()) == [5]


def test_a_batch_has_at_most_the_configured_number_of_versions(table: Table, follow: Open) -> None:
    limits = pytest.importorskip("pyspark.sql.streaming.datasource")  # PySpark 4.2
    for number in range(3, 7):
        add(table, *[number] * 2)
    for option, batches in (
        ({"max_versions_per_trigger": 2}, [2, 4, 6]),
        ({}, [6]),
    ):
        reader = follow(starting_version=0, **option)
        start = {"table": reader.initialOffset()["table"], "version": 0}
        limit, found = reader.getDefaultReadLimit(), []
        while (end := reader.latestOffset(start, limit)) != start:
            found.append(end["version"])
            start = end
        assert found == batches
        first = {**start, "version": 0}
        assert reader.latestOffset(first, limits.ReadAllAvailable())["version"] == 6


def test_a_query_with_available_now_ignores_later_versions(table: Table, follow: Open) -> None:
    reader = follow()
    reader.prepareForTriggerAvailableNow()
    add(table, 4)
    found, end = next_batch(reader, reader.initialOffset())
    assert found == [1, 2, 3]
    assert reader.latestOffset(end) == end


def test_an_overwritten_version_raises_an_error_or_is_skipped(table: Table, follow: Open) -> None:
    reader, lenient = follow(), follow(skip_overwrites=True)
    end = reader.latestOffset(reader.initialOffset())
    add(table, 4)
    add(table, 5, overwrite=True)
    add(table, 6)
    with pytest.raises(ConflictError, match=r"version 4 of .* replaced rows") as caught:
        next_batch(reader, end)
    assert "skip_overwrites" in str(caught.value.hint)
    assert "empty checkpointLocation" in str(caught.value)
    found, _ = next_batch(lenient, {"table": end["table"], "version": 4})
    assert found == [6]


def test_a_first_batch_with_an_expired_snapshot_raises_an_error(follow: Open) -> None:
    reader = follow()
    offset = Offset(table=reader.initialOffset()["table"], version=0).as_json()
    end = {**offset, "version": 1, "snapshot": "never-was"}
    with pytest.raises(SessionExpiredError) as caught:
        reader.partitions({**offset, "initial": True}, end)
    assert "restart with an empty checkpointLocation" in str(caught.value.hint)


def test_a_re_created_table_raises_an_error(odps: Connection, table: Table, follow: Open) -> None:
    reader = follow()
    end = reader.latestOffset(reader.initialOffset())
    odps.drop_table(table.name)
    with pytest.raises(NotFoundError):
        reader.latestOffset(end)
    again = odps.create_table(table.name, "id bigint")
    for number in range(3):
        add(again, number)
    with pytest.raises(ConflictError, match="dropped and re-created"):
        reader.latestOffset(end)
    restarted = follow()
    with pytest.raises(ConflictError, match="dropped and re-created"):
        restarted.latestOffset(end)
    with pytest.raises(ConflictError, match="dropped and re-created"):
        restarted.partitions(end, {**end, "version": 3})
    current = restarted.latestOffset(restarted.initialOffset())
    with pytest.raises(ConflictError, match="dropped and re-created"):
        restarted.partitions(end, {**current, "version": 3})


def test_a_version_that_has_decreased_raises_an_error(follow: Open) -> None:
    reader = follow()
    end = reader.latestOffset(reader.initialOffset())
    with pytest.raises(ConflictError, match="was at version 9 but is now at version 2") as caught:
        follow().latestOffset({**end, "version": 9})
    assert "restart with an empty checkpointLocation" in str(caught.value.hint)


def test_the_newest_version_is_polled_at_intervals(odps: Connection, table: Table) -> None:
    now = [0.0]
    given = {**odps_nb.spark.options(odps), "table": str(table.name), "poll_seconds": "5"}
    versions = TableVersions(StreamReadSettings.of(given), ["id"], clock=lambda: now[0])
    assert versions.seen().version == 2
    add(table, 4)
    now[0] = 4.9
    assert versions.seen().version == 2
    now[0] = 5.0
    assert versions.seen().version == 3
    versions.close()
    versions.close()


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("limit", "3", "no stream reader option 'limit'"),
        ("starting_version", "2024-01-01", "is not a version"),
        ("starting_version", "-3", "is not a version"),
        ("max_versions_per_trigger", "0", "at least 1"),
        ("max_rows_per_trigger", "5", "no stream reader option 'max_rows_per_trigger'"),
        ("skip_overwrites", "yes", "it must be true or false"),
        ("poll_seconds", "nan", "must be a number of seconds"),
    ],
)
def test_contradictory_options_are_refused(
    follow: Open, option: str, value: str, told: str
) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        follow(**{option: value})
    assert option in str(caught.value)


def test_limits_are_refused_if_spark_does_not_support_them(
    follow: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(DataSourceStreamReader, "getDefaultReadLimit", raising=False)
    with pytest.raises(ConfigError, match="cannot limit the size of a micro-batch") as caught:
        follow(max_versions_per_trigger=1)
    assert "4.2" in str(caught.value)


def test_a_filter_applies_to_every_batch(table: Table, follow: Open) -> None:
    reader = follow(where="id > 1")
    found, end = next_batch(reader, reader.initialOffset())
    assert found == [2, 3]
    add(table, 0, 4)
    assert next_batch(reader, end)[0] == [4]


def test_an_offset_of_another_source_is_refused(follow: Open) -> None:
    with pytest.raises(StateError, match="not an offset of an odps stream"):
        follow().latestOffset({"partition-0": 7})


def test_offsets_partitions_and_reprs_contain_no_key(odps: Connection, follow: Open) -> None:
    reader = follow()
    end = reader.latestOffset(reader.initialOffset())
    parts = reader.partitions(reader.initialOffset(), end)
    assert str(odps.profile.access_key) not in repr((end, parts, reader, reader._settings))


# -- other services ---------------------------------------------------------------------------


def test_a_service_without_versions_is_reported(profile: Profile, follow: Open) -> None:
    def silent(action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if action != CREATE:
            return status, body
        return status, json.dumps({**json.loads(body), "LatestVersion": 0}).encode()

    with Altering(profile.tunnel_endpoint or "", silent) as service:
        reader = follow(tunnel_endpoint=service.url)
        with pytest.raises(ConfigError, match="reports no version of") as caught:
            reader.initialOffset()
    assert "spark.read" in str(caught.value.hint)


def test_a_stream_without_the_storage_api_fails_before_its_first_batch_and_says_why(
    profile: Profile, follow: Open
) -> None:
    with pytest.raises(NoStorageApiError, match=r"streaming .* uses only the tunnel"):
        follow(transfer="tunnel").initialOffset()

    def refusing(action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if action != CREATE:
            return status, body
        return 403, b'{"Code": "Forbidden", "Message": "open storage is not enabled"}'

    with (
        Altering(profile.tunnel_endpoint or "", refusing) as service,
        pytest.raises(NoStorageApiError, match=r"^streaming .* open storage is not enabled"),
    ):
        follow(tunnel_endpoint=service.url).initialOffset()


def test_a_service_that_returns_the_start_version_is_refused(
    profile: Profile, follow: Open
) -> None:
    def inclusive(action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if action != CREATE:
            return status, body
        answer = json.loads(body)
        return status, json.dumps({**answer, "RecordCount": answer["RecordCount"] + 1}).encode()

    with Altering(profile.tunnel_endpoint or "", inclusive) as service:
        reader = follow(tunnel_endpoint=service.url)
        start = reader.initialOffset()
        with pytest.raises(ProtocolError, match="the service includes the start version"):
            reader.latestOffset({**start, "version": 2})


def test_expired_versions_raise_an_error(profile: Profile, follow: Open) -> None:
    def forgetful(action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if action != CREATE:
            return status, body
        return 404, json.dumps({"Code": "NoSuchVersion", "Message": "version 1 is gone"}).encode()

    offset = follow().latestOffset({**follow().initialOffset(), "initial": False})
    with Altering(profile.tunnel_endpoint or "", forgetful) as service:
        reader = follow(tunnel_endpoint=service.url)
        with pytest.raises(NotFoundError, match="version 1 is gone") as caught:
            reader.partitions({**offset, "version": 0}, offset)
    assert "restart with an empty checkpointLocation" in str(caught.value.hint)


def test_partitions_latest_is_refused_for_a_stream(odps: Connection) -> None:
    given = {**odps.profile.as_options(), "table": "orders", "partitions": "ds>=2024-01-01; latest"}
    with pytest.raises(ConfigError, match="changes while a stream runs"):
        StreamReadSettings.of(given)
    given["partitions"] = "ds>=2024-01-01"
    assert StreamReadSettings.of(given).read.options.partitions
