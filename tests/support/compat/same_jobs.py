"""The same jobs, run by the stock client and by odps_nb.

Used by ``test_same_requests.py`` (checks that they are equal) and ``record_requests.py`` (writes
``docs/results/requests.md``). Both sides of a job use the same settings where the defaults differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from odps import ODPS
from odps.maxstorage import MaxStorageClient
from odps.maxstorage.models.enums import SplitMode as TheirSplitMode
from odps.maxstorage.options import BlobWriteItem, SplitOptions

from odps_nb.client.auth.profile import Profile
from odps_nb.client.blob.many import iter_blobs
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.plan import DEFAULT_BATCH_ROWS, ReadPlan
from odps_nb.client.read.preview import fetch_preview
from odps_nb.client.read.session import DEFAULT_SPLIT_ROWS
from odps_nb.client.read.sizes import DEFAULT_BATCH_BYTES
from odps_nb.client.read.splits import iter_split
from odps_nb.client.reading import open_read_session
from odps_nb.client.write.session import open_write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.local.server.launch import LocalService
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    TableName,
)
from odps_nb.wire.calls import (
    AbortWriteSession,
    CreateInstanceReadSession,
    CreateReadSession,
    CreateWriteSession,
    CreateWriteStream,
    GetInstanceReadSession,
    GetReadSession,
    GetWriteSchema,
    GetWriteSession,
    GetWriteStream,
    Preview,
    ReadInstance,
    ReadRows,
)
from odps_nb.wire.control import BLOB_TABLE_PROPERTIES, BLOB_TABLE_SETTINGS
from odps_nb.wire.type_text import parse_columns
from tests.support.compat.comparing import Sent, comparable, without_file_names
from tests.support.compat.recorder import Recorder

DAY = "2024-01-01"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "note": pa.array(["a", None, "c"])})
UPLOAD = ("TableWriteBlob",)
PICTURES = (b"hello world", b"", b"x" * 5000)


@dataclass(kw_only=True)
class Place:
    """Both clients in front of one recorded service, and their tables."""

    recorder: Recorder
    storage: StorageClient
    theirs: MaxStorageClient
    entry: ODPS
    project: str
    plain: str
    parted: str
    media: str
    instance: str

    def name(self, table: str) -> TableName:
        """Our name for a table."""
        return TableName(project=self.project, table=table)


def open_place(service: LocalService, recorder: Recorder, api_version: int) -> Place:
    """Connect both clients through the recorder, and create the tables."""
    entry = ODPS(
        service.access_id,
        service.access_key,
        project=service.project,
        endpoint=recorder.endpoint,
        tunnel_endpoint=recorder.base,
        overwrite_global=False,  # otherwise pyodps uses this tunnel for every later entry
    )
    profile = Profile(
        endpoint=recorder.endpoint,
        tunnel_endpoint=recorder.base,
        project=service.project,
        access_id=service.access_id,
        access_key=service.access_key,
        api_version=api_version,
    )
    theirs = MaxStorageClient(odps=entry, api_version=str(api_version))
    place = Place(
        recorder=recorder,
        storage=StorageClient(profile),
        theirs=theirs,
        entry=entry,
        project=service.project,
        plain=f"plain{api_version}",
        parted=f"parted{api_version}",
        media=f"media{api_version}",
        instance="",
    )
    entry.create_table(place.plain, "id bigint, note string")
    entry.create_table(place.parted, ("id bigint, note string", "ds string"))
    entry.create_table(
        place.media,
        ("id bigint, photo blob", "ds string"),
        table_properties=dict(BLOB_TABLE_PROPERTIES),
        hints=dict(BLOB_TABLE_SETTINGS),
    )
    for table, spec in ((place.plain, None), (place.parted, f"ds={DAY}")):
        session = theirs.create_table_write_session(table, partition_spec=spec)
        _their_write(session)
        session.commit()
    place.instance = entry.execute_sql(f"select * from {place.plain}").id
    recorder.take()
    return place


def _their_write(session: Any, **options: Any) -> None:
    writer = session.open_arrow_writer(stream_id="0", **options)
    for batch in ROWS.to_batches():
        writer.write_batch(batch)
    writer.close()


def _their_rows(reader: Any) -> int:
    rows = 0
    while (batch := reader.read()) is not None:
        rows += batch.num_rows
    reader.close()
    return rows


# -- jobs -------------------------------------------------------------------------------------

Run = Callable[[Place], object]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job in both clients.

    ``only`` selects the compared actions. ``strip`` removes an explained difference from
    our request in the listed versions; everything else must be equal.
    """

    name: str
    theirs: Run
    ours: Run
    only: tuple[str, ...] = ()
    strip: dict[int, Callable[[Sent], Sent]] = field(default_factory=dict)
    explanation: str = ""


def their_defaults(place: Place) -> object:
    return place.theirs.create_table_read_session(place.plain)


def our_defaults(place: Place) -> object:
    return place.storage.call(CreateReadSession(table=place.name(place.plain)))


def their_selection(place: Place) -> object:
    return place.theirs.create_table_read_session(
        place.parted,
        columns=["note", "id"],
        partition_columns=["ds"],
        partitions=[f"ds={DAY}"],
        filter_predicate="id > 1 and note != 'ü'",
        filter_predicate_fallback=True,
        split_options=SplitOptions(split_number=64 * 2**20),
    )


SELECTED = TableSchema(
    columns=tuple(parse_columns("id bigint, note string")),
    partition_columns=tuple(parse_columns("ds string")),
)


def our_selection(place: Place) -> object:
    plan = ReadPlan(
        table=place.name(place.parted),
        columns=("note", "id", "ds"),
        partition_columns=("ds",),
        partitions=(PartitionSpec.of(f"ds={DAY}"),),
        where="id > 1 and note <> 'ü'",
        schema=SELECTED,
        split_bytes=64 * 2**20,
    )
    return open_read_session(place.storage, plan)


def their_row_ranges(place: Place) -> object:
    options = SplitOptions(split_mode=TheirSplitMode.ROW_OFFSET, split_number=DEFAULT_SPLIT_ROWS)
    session = place.theirs.create_table_read_session(place.plain, split_options=options)
    return [
        _their_rows(
            session.open_arrow_reader(
                split,
                max_batch_rows=DEFAULT_BATCH_ROWS,
                max_batch_raw_size=DEFAULT_BATCH_BYTES,
            )
        )
        for split in session.splits
    ]


def our_row_ranges(place: Place) -> object:
    session = open_read_session(place.storage, ReadPlan(table=place.name(place.plain)))
    return [
        sum(batch.num_rows for batch in iter_split(place.storage, session, split))
        for split in session.splits
    ]


def their_indexed_split(place: Place) -> object:
    session = place.theirs.create_table_read_session(place.plain)
    return _their_rows(session.open_arrow_reader(session.splits[0], compress_algo="zstd"))


def our_indexed_split(place: Place) -> object:
    table = place.name(place.plain)
    answer = place.storage.call(CreateReadSession(table=table))
    request = ReadRows(
        table=table,
        session_id=answer.session_id,
        split=IndexSplit(0),
        compression=Compression.ZSTD,
        route_token=answer.route_token,
    )
    with place.storage.open(request) as response:
        return len(response.read())


def their_reload(place: Place) -> object:
    session = place.theirs.create_table_read_session(place.plain)
    return place.theirs.create_table_read_session(place.plain, session_id=session.id)


def our_reload(place: Place) -> object:
    table = place.name(place.plain)
    answer = place.storage.call(CreateReadSession(table=table))
    return place.storage.call(GetReadSession(table=table, session_id=answer.session_id))


def their_preview(place: Place) -> object:
    return _their_rows(
        place.theirs.preview_table(
            place.parted, partition_spec=f"ds={DAY}", columns=["id"], limit=2
        )
    )


def our_preview(place: Place) -> object:
    request = Preview(
        table=place.name(place.parted),
        limit=2,
        partition=PartitionSpec.of(f"ds={DAY}"),
        columns=("id",),
    )
    return fetch_preview(place.storage, request)


def their_write(place: Place) -> object:
    session = place.theirs.create_table_write_session(
        place.parted, partition_spec="ds=w", overwrite=True
    )
    _their_write(session, exactly_once_mode=True)
    return session.commit(stream_ids=["0"], stream_versions=[1])


def our_write(place: Place) -> object:
    with open_write_session(
        place.storage,
        place.name(place.parted),
        partition=PartitionSpec.of("ds=w"),
        overwrite=True,
    ) as session:
        with session.open_stream("0") as stream:
            stream.write(ROWS.to_batches())
        session.commit()
    return None


def their_lookup(place: Place) -> object:
    session = place.theirs.create_table_write_session(place.plain)
    writer = session.open_arrow_writer(stream_id="0", exactly_once_mode=True)
    place.theirs.create_table_write_session(place.plain, session_id=session.id)
    place.theirs.stub.get_write_schema(session._table_id, session.id, session.route_token)
    offset = writer.get_row_offset()
    session.abort()
    return offset


def our_lookup(place: Place) -> object:
    table = place.name(place.plain)
    call = place.storage.call
    created = call(CreateWriteSession(table=table))
    where: dict[str, Any] = {"table": table, "session_id": created.session_id}
    route = {"route_token": created.route_token}
    call(CreateWriteStream(**where, **route, stream_id="0", exactly_once=True))
    call(GetWriteSession(**where))
    call(GetWriteSchema(**where, **route))
    stream = call(GetWriteStream(**where, **route, stream_id="0", exactly_once=True))
    call(AbortWriteSession(**where, **route))
    return stream.row_offset


def their_abort(place: Place) -> object:
    return place.theirs.create_table_write_session(place.plain).abort()


def our_abort(place: Place) -> object:
    return open_write_session(place.storage, place.name(place.plain)).abort()


def _their_media(place: Place) -> tuple[Any, Any]:
    session = place.theirs.create_table_write_session(place.media, partition_spec="ds=w")
    return session, session.open_arrow_writer(stream_id="0")


def their_single_blob(place: Place) -> object:
    session, writer = _their_media(place)
    upload = writer.write_blob_stream(column_name="photo", partition_spec="ds=w")
    upload.write(PICTURES[0])
    answer = upload.finish()
    session.abort()
    return answer


def our_single_blob(place: Place) -> object:
    return _our_blobs(place, [(PICTURES[0], None, None)])


def _our_blobs(place: Place, items: list[Any]) -> object:
    session = open_write_session(
        place.storage, place.name(place.media), partition=PartitionSpec.of("ds=w")
    )
    with session:
        stream: WriteStream = session.open_stream("0")
        return stream.upload_blobs(items, stream.schema.blob_ids["photo"])


def blob_batch_job(name: str, file_names: tuple[str | None, ...], **more: Any) -> Job:
    """Create the job that uploads blobs in one request, with these file names."""
    pairs = tuple(zip(PICTURES, file_names, strict=True))

    def theirs(place: Place) -> object:
        session, writer = _their_media(place)
        items = [
            writer.build_blob_write_item(
                data,
                column_name="photo",
                partition_spec="ds=w",
                mime_type="text/plain",
                custom_file_name=file_name,
                checksum_type=BlobWriteItem.ChecksumType.CRC32,
            )
            for data, file_name in pairs
        ]
        answer = writer.write_blob_batch(items)
        session.abort()
        return answer

    def ours(place: Place) -> object:
        return _our_blobs(place, [(data, "text/plain", name) for data, name in pairs])

    return Job(name=name, theirs=theirs, ours=ours, only=UPLOAD, **more)


def _references(place: Place) -> list[BlobReference]:
    """Upload blobs and commit rows that reference them, with our client; not part of a job."""
    with open_write_session(
        place.storage, place.name(place.media), partition=PartitionSpec.of("ds=w")
    ) as session:
        with session.open_stream("0") as stream:
            items = [(data, "text/plain", None) for data in PICTURES[:2]]
            found = stream.upload_blobs(items, stream.schema.blob_ids["photo"])
            columns = {
                "id": pa.array([1, 2], pa.int64()),
                "photo": pa.array([reference.raw for reference in found], pa.binary()),
            }
            stream.write(pa.table(columns).to_batches())
        session.commit()
    place.recorder.take()
    return found


def blob_read_job(name: str, count: int) -> Job:
    """Create the job that reads this number of blobs, the same ones with both clients."""
    kept: dict[int, list[BlobReference]] = {}

    def references(place: Place) -> list[BlobReference]:
        if id(place) not in kept:
            kept[id(place)] = _references(place)[:count]
        return kept[id(place)]

    def theirs(place: Place) -> object:
        found = references(place)
        manager = place.theirs.open_blob_manager()
        return [record.data for record in manager.read_blobs([one.token for one in found])]

    def ours(place: Place) -> object:
        return [record.data for record in iter_blobs(place.storage, references(place))]

    return Job(name=name, theirs=theirs, ours=ours)


def their_instance(place: Place) -> object:
    session = place.theirs.create_instance_read_session(place.instance)
    again = place.theirs.create_instance_read_session(place.instance, session_id=session.id)
    return _their_rows(again.open_arrow_reader(offset=0, count=3))


def our_instance(place: Place) -> object:
    where = {"project": place.project, "instance_id": place.instance}
    answer = place.storage.call(CreateInstanceReadSession(**where))
    session = answer.download_id
    place.storage.call(GetInstanceReadSession(**where, session_id=session))
    request = ReadInstance(**where, session_id=session, offset=0, count=3)
    with place.storage.open(request) as response:
        return len(response.read())


JOBS = (
    Job(name="session with defaults", theirs=their_defaults, ours=our_defaults),
    Job(
        name="session with columns, partition and filter",
        theirs=their_selection,
        ours=our_selection,
    ),
    Job(name="rows by ranges (RowOffset)", theirs=their_row_ranges, ours=our_row_ranges),
    Job(name="rows by index (Size), zstd", theirs=their_indexed_split, ours=our_indexed_split),
    Job(name="session reloaded by id", theirs=their_reload, ours=our_reload),
    Job(name="preview", theirs=their_preview, ours=our_preview),
    Job(name="write, exactly once, overwrite", theirs=their_write, ours=our_write),
    Job(name="write session and stream looked up", theirs=their_lookup, ours=our_lookup),
    Job(name="abort", theirs=their_abort, ours=our_abort),
    Job(name="upload of one blob", theirs=their_single_blob, ours=our_single_blob, only=UPLOAD),
    blob_batch_job("upload of three blobs", (None, None, None)),
    blob_batch_job(
        "upload of three blobs with file names",
        ("a.txt", "b.txt", "c.txt"),
        strip={2: without_file_names},
        explanation="in version 2, only odps_nb sends `CustomFileName`; the stock client sends it "
        "only in version 3. Servers ignore unknown members (`docs/protocol.md` section 3), and a "
        "server that supports this member should not lose the user's file name.",
    ),
    blob_read_job("download of one blob", 1),
    blob_read_job("download of two blobs", 2),
    Job(name="rows of a SQL instance", theirs=their_instance, ours=our_instance),
)


def record(place: Place, run: Run, only: tuple[str, ...]) -> list[Sent]:
    """Run a job and return its Storage API requests in comparable form."""
    place.recorder.take()
    run(place)
    return comparable(place.recorder.take(), only)
