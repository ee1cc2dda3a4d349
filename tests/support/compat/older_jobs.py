"""Jobs for the SDK's older module, `odps.apis.storage_api_v2` of pyodps 0.13.1.

A script, because a process can load only one pyodps:

    python -m tests.support.compat.older_jobs FOLDER_OF_PYODPS ENDPOINT PROJECT ACCESS_ID ACCESS_KEY

runs every job in both versions of the API, and writes a line of JSON for each: its name and
version, and the traceback if it failed. It does not import odps_nb; ``prepare`` of `main` may
replace streams of the module (``jobs_on_our_streams.py``).
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

JOBS: dict[tuple[str, str], Callable[[Any], None]] = {}  # jobs by name and API version
ROWS = pa.table({"id": pa.array(range(1000)), "note": pa.array([f"n{n}" for n in range(1000)])})
CONTENTS = [b"x", b"\x05" + bytes(7) + b"tail", bytes(4096), b"payload " * 20_000]
BLOBS = {"table_properties": {"table.format.version": "2"}, "transactional": True}
ODPS2 = {"odps.sql.type.system.odps2": "true", "odps.table.append2.enable": "true"}

_numbers = itertools.count()


def job(step: Callable[[Any], None]) -> Callable[[Any], None]:
    JOBS.update({(step.__name__, version): step for version in ("2", "3")})
    return step


def job_of_version_3(step: Callable[[Any], None]) -> Callable[[Any], None]:
    JOBS[step.__name__, "3"] = step
    return step


class Place:
    """The context of a job: the module, an entry object, and the version of the API."""

    def __init__(self, entry: Any, version: str) -> None:
        from odps.apis import storage_api_v2

        self.sdk, self.entry, self.version = storage_api_v2, entry, version

    def table(self, columns: str, partitions: str | None = None, **options: Any) -> Any:
        name = f"older_{next(_numbers)}_{os.getpid()}"
        schema = (columns, partitions) if partitions else columns
        return self.entry.create_table(name, schema, **options)

    def blob_table(self, columns: str) -> Any:
        return self.table(columns, hints=ODPS2, **BLOBS)

    def client(self, table: Any) -> Any:
        return self.sdk.StorageApiArrowClient(self.entry, table, api_version=self.version)


# -- code as users of the SDK write it ------------------------------------------------------------


def write(place: Place, client: Any, tables: list[pa.Table], spec: str | None = None) -> str:
    """Write one stream for each table, then commit once."""
    session = client.create_write_session(partial_partition_spec=spec).session_id
    for number, rows in enumerate(tables):
        client.create_write_stream(session, str(number), 1)
        writer = client.write_rows_arrow(session, str(number), 1, record_count=rows.num_rows)
        for batch in rows.to_batches():
            assert writer.write(batch)
        _, success = writer.finish()
        assert success
        assert writer.get_status() == place.sdk.Status.OK
        assert writer.get_request_id()
        client.close_write_stream(session, str(number), 1)
    client.commit_write_session(session)
    return session


def options(place: Place, mode: str) -> Any:
    if mode == "Size":
        return place.sdk.SplitOptions(split_mode="Size", split_number=10 << 20)
    return place.sdk.SplitOptions(split_mode="RowOffset", split_unit="RowCount", split_number=0)


def batches(reader: Any) -> list[pa.RecordBatch]:
    found = []
    while (batch := reader.read()) is not None:
        found.append(batch)
    return found


def read(place: Place, client: Any, mode: str = "Size", **narrowed: Any) -> list[dict[str, Any]]:
    compression = narrowed.pop("compression", None)
    session = client.create_read_session(split_options=options(place, mode), **narrowed)
    assert session.session_status == place.sdk.SessionStatus.NORMAL
    ways: list[dict[str, int]] = [{"split_index": n} for n in range(session.splits_count or 0)]
    if mode == "RowOffset":
        ends = [0, session.record_count // 2, session.record_count]
        pairs = itertools.pairwise(ends)
        ways = [{"row_offset": low, "row_count": high - low} for low, high in pairs if high > low]
    found = []
    for way in ways:
        reader = client.read_rows_arrow(session.session_id, compression=compression, **way)
        found += batches(reader)
        assert reader.get_status() == place.sdk.Status.OK
        assert reader.get_request_id()
    return [row for batch in found for row in batch.to_pylist()]


def open_blobs(place: Place, columns: str) -> tuple[Any, str, dict[str, int]]:
    """A client, a new table with blobs, a write session, and the ids of its columns."""
    from odps.apis.storage_api_v2.models import parse_write_schema

    client = place.client(place.blob_table(columns))
    session = client.create_write_session().session_id
    stream = client.create_write_stream(session, "0", 1)
    return client, session, parse_write_schema(stream.data_schema).find_all_blob_column_ids()


def commit(client: Any, session: str, rows: pa.Table) -> None:
    writer = client.write_rows_arrow(session, "0", 1, record_count=rows.num_rows)
    for batch in rows.to_batches():
        writer.write(batch)
    assert writer.finish()[1]
    client.close_write_stream(session, "0", 1)
    client.commit_write_session(session)


def raw(reference: str) -> bytes:
    return base64.b64decode(reference)


# -- the jobs -----------------------------------------------------------------------------------


@job
def rows_of_two_streams_are_read_by_size(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS.slice(0, 400), ROWS.slice(400)])
    assert sorted(read(place, client), key=lambda row: row["id"]) == ROWS.to_pylist()


@job
def rows_are_read_by_row_ranges(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    assert read(place, client, "RowOffset") == ROWS.to_pylist()
    session = client.create_read_session(split_options=options(place, "RowOffset"))
    assert session.record_count == 1000
    reader = client.read_rows_arrow(
        session.session_id, row_offset=200, row_count=50, max_batch_rows=20
    )
    found = batches(reader)
    assert max(batch.num_rows for batch in found) <= 20
    assert [n for batch in found for n in batch.column("id").to_pylist()] == list(range(200, 250))


@job
def compressed_rows_are_read(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    for compression in place.sdk.Compression:
        assert read(place, client, compression=compression) == ROWS.to_pylist()


@job
def compressed_rows_are_written(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    for compression in place.sdk.Compression:
        session = client.create_write_session().session_id
        client.create_write_stream(session, "0", 1)
        stream = client.write_rows_stream(session, "0", 1, record_count=1000)
        writer = place.sdk.ArrowWriter(stream, compression)
        for batch in ROWS.to_batches():
            assert writer.write(batch)
        assert writer.finish()[1]
        client.close_write_stream(session, "0", 1)
        client.commit_write_session(session)
    assert len(read(place, client)) == 3000


@job
def selected_columns_are_read_and_a_filter_loses_no_row(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    assert read(place, client, required_data_columns=["note"])[7] == {"note": "n7"}
    found = read(place, client, filter_predicate="id >= 990")
    wanted = ROWS.slice(990).to_pylist()
    # the service may return whole blocks, so a filter only guarantees that no matching row is
    # missing
    assert [row for row in found if row["id"] >= 990] == wanted


@job
def a_raw_stream_is_read(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    session = client.create_read_session(split_options=options(place, "RowOffset"))
    reader = client.read_rows_stream(session.session_id, row_offset=0, row_count=10)
    assert reader.readable()
    assert reader.get_status() == place.sdk.Status.RUNNING
    assert pa.ipc.open_stream(reader).read_all().equals(ROWS.slice(0, 10))
    assert reader.read(nbytes=100) == b""
    reader.close()
    assert reader.get_status() == place.sdk.Status.OK
    assert reader.get_request_id()


@job
def a_read_session_is_found_by_its_id(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    made = client.create_read_session(split_options=options(place, "Size"))
    found = client.get_read_session(made.session_id)
    assert found.session_status == place.sdk.SessionStatus.NORMAL
    assert (found.splits_count, found.session_id) == (made.splits_count, made.session_id)


@job
def a_write_session_lists_closed_streams(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    session = client.create_write_session().session_id
    client.create_write_stream(session, "0", 1)
    writer = client.write_rows_arrow(session, "0", 1, record_count=1000)
    for batch in ROWS.to_batches():
        writer.write(batch)
    writer.finish()
    assert client.get_write_stream(session, "0", 1).status
    client.close_write_stream(session, "0", 1)
    assert "0" in client.get_write_session(session).streams
    client.commit_write_session(session, stream_ids=["0"], stream_versions=[1])
    assert len(read(place, client)) == 1000


@job
def an_aborted_session_leaves_nothing(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    session = client.create_write_session().session_id
    client.create_write_stream(session, "0", 1)
    writer = client.write_rows_arrow(session, "0", 1, record_count=1000)
    for batch in ROWS.to_batches():
        writer.write(batch)
    writer.finish()
    client.abort_write_session(session)
    assert read(place, client) == []


@job
def rows_of_one_partition_are_written(place: Place) -> None:
    client = place.client(place.table("id bigint, note string", "ds string"))
    for day in ("a", "b"):
        write(place, client, [ROWS.slice(0, 10)], f"ds={day}")
    assert len(read(place, client)) == 20
    found = read(place, client, required_partitions=["ds=b"])
    assert [row["ds"] for row in found] == ["b"] * 10


@job
def a_preview_shows_first_rows(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    write(place, client, [ROWS])
    reader = client.preview_table_arrow(limit=3, columns=["note"])
    assert [row for batch in batches(reader) for row in batch.to_pylist()] == [
        {"note": f"n{n}"} for n in range(3)
    ]


@job
def the_result_of_a_query_is_read(place: Place) -> None:
    instance = place.entry.execute_sql("select 1 as a, 'x' as b union all select 2, 'y'")
    client = place.client(instance)
    session = client.create_read_session()
    assert session.session_id
    assert session.record_count == 2
    reader = client.read_rows_arrow(session.session_id, row_offset=0, row_count=2)
    rows = [row for batch in batches(reader) for row in batch.to_pylist()]
    assert sorted(rows, key=lambda row: row["a"]) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@job_of_version_3
def streamed_rows_need_no_commit(place: Place) -> None:
    client = place.client(place.table("id bigint, note string"))
    made = client.create_write_session(write_mode=place.sdk.WriteMode.STREAMING)
    client.create_write_stream(made.session_id, "0", 1)
    writer = client.write_rows_arrow(made.session_id, "0", 1, record_count=1000)
    for batch in ROWS.to_batches():
        writer.write(batch)
    assert writer.finish()[1]
    assert writer.get_write_stream_response() is not None
    assert len(read(place, client)) == 1000


@job
def blobs_are_uploaded_one_by_one_and_read(place: Place) -> None:
    client, session, ids = open_blobs(place, "id bigint, b blob")
    references = []
    for content, compression in itertools.product(CONTENTS, place.sdk.Compression):
        writer = client.write_blob_stream(
            session, "0", 1, column_index=ids["b"], compression=compression
        )
        for at in range(0, len(content), 50_000):
            assert writer.write(content[at : at + 50_000])
        response = writer.finish()
        assert response.size in (None, len(content))
        assert writer.get_request_id()
        references.append(response.blob_reference)
    rows = pa.table({"id": range(12), "b": pa.array([raw(one) for one in references])})
    commit(client, session, rows)
    stored = [row["b"] for row in read(place, client, "RowOffset")]
    wanted = [content for content in CONTENTS for _ in range(3)]
    for compression in place.sdk.Compression:
        found = [data for data, mime_type in client.read_blobs(stored, compression=compression)]
        assert found == wanted
        # a single blob has no frames; the client guesses, so its content must not look like a frame
        for one, content in zip(stored, wanted, strict=True):
            if content in (CONTENTS[0], CONTENTS[3]):
                (record,) = client.read_blobs([one], compression=compression)
                assert record.data == content


@job
def blobs_are_uploaded_in_a_batch_and_streamed(place: Place) -> None:
    client, session, ids = open_blobs(place, "id bigint, b blob")
    items = [
        place.sdk.BlobWriteItem(
            content,
            column_index=ids["b"],
            mime_type=f"image/x{n}",
            custom_file_name=f"{n}.bin",
            checksum_type=kind,
            api_version=place.version,
        )
        for (n, content), kind in zip(
            enumerate(CONTENTS[:3]), place.sdk.models.ChecksumType, strict=True
        )
    ]
    response = client.write_blob_batch(items, session, "0", 1, column_index=ids["b"])
    assert len(response.blob_references) == 3
    rows = pa.table({"id": range(3), "b": pa.array([raw(one) for one in response.blob_references])})
    commit(client, session, rows)
    stored = [row["b"] for row in read(place, client, "RowOffset")]
    reader = client.read_blobs(stored, stream=True)
    found = []
    while reader is not None:
        head = (reader.mime_type, reader.custom_file_name)
        data = b""
        while chunk := reader.read(1000):
            data += chunk
        found.append((data, *head))
        reader = reader.next()
    names = [f"{n}.bin" if place.version == "3" else None for n in range(3)]
    assert found == [
        (content, f"image/x{n}", name)
        for (n, content), name in zip(enumerate(CONTENTS[:3]), names, strict=True)
    ]


@job
def blobs_in_arrays_have_separate_column_ids(place: Place) -> None:
    client, session, ids = open_blobs(place, "id bigint, pages array<blob>")
    items = [
        place.sdk.BlobWriteItem(one, column_index=ids["pages.element"], api_version=place.version)
        for one in (b"one", b"two")
    ]
    response = client.write_blob_batch(items, session, "0", 1, column_index=ids["pages.element"])
    pages = [[raw(one) for one in response.blob_references]]
    commit(client, session, pa.table({"id": [1], "pages": pa.array(pages, pa.list_(pa.binary()))}))
    (row,) = read(place, client, "RowOffset")
    assert [record.data for record in client.read_blobs(row["pages"])] == [b"one", b"two"]


def main(
    folder: str, *where: str, prepare: Callable[[], None] = lambda: None, versions: str = "23"
) -> None:
    endpoint, project, access_id, access_key = where
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore")
    import odps
    from odps.apis import storage_api_v2  # noqa: F401  # the newer pyodps does not have it

    if not odps.__file__.startswith(folder):
        raise RuntimeError(f"this is another pyodps: {odps.__file__}")
    prepare()
    entry = odps.ODPS(access_id, access_key, project=project, endpoint=endpoint)
    print(json.dumps({"pyodps": odps.__version__}), flush=True)
    for (name, version), step in JOBS.items():
        if version not in versions:
            continue
        try:
            step(Place(entry, version))
        except Exception:  # noqa: BLE001  told to the test
            trouble = traceback.format_exc()
        else:
            trouble = None
        print(json.dumps({"job": name, "version": version, "trouble": trouble}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
