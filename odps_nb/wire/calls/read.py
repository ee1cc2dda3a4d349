"""Requests for read sessions, rows and previews (``docs/protocol.md`` sections 3, 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    Split,
    SplitMode,
    TimeUnit,
)
from odps_nb.wire.calls.answers import (
    FlatSchema,
    Status,
    StorageAnswer,
    optional_record_count,
)
from odps_nb.wire.calls.core import Params, decode_partition, encode_partition
from odps_nb.wire.calls.spelling import (
    Accepted,
    Draft,
    FieldPlace,
    Received,
    RouteToken,
    SessionId,
    StorageCall,
    Table,
    fixed_member,
    member,
    no,
    param,
    partition_param,
)
from odps_nb.wire.json_fields import Fields
from odps_nb.wire.schema_json import encode_nested

DEFAULT_SPLIT_BYTES = 256 * 2**20
NOT_INCREMENTAL: Mapping[str, object] = {
    "StartVersion": -1,
    "EndVersion": -1,
    "StartTimeStamp": "-1",
    "EndTimeStamp": "-1",
    "Mode": "append",
    "EnableIncrementalRead": False,
}
"""Options in the response to a non-incremental read (C++ client: table_read_session)."""
DEFAULT_BATCH_ROWS = 4096
MAX_BATCH_ROWS = 20_000
"""Maximum rows per batch that a read may request (C++ client: TestReadOptionsMaxBatchRows)."""
MIN_BATCH_BYTES, MAX_BATCH_BYTES = 2**20, 256 * 2**20
"""Range of ``MaxBatchRawSize``; 0 is also allowed (C++ client: TestReadOptionsMaxBatchRawSize)."""
# An expiry below this value is in seconds, a larger one in milliseconds. No source states the unit;
# 10^11 is in the year 5138 if read as seconds, and in 1973 if read as milliseconds.
_MILLISECONDS_FROM = 10**11


def parse_expiry(fields: Fields, key: str) -> float | None:
    """Return a session's expiry in epoch seconds; ``None`` if the response has none."""
    number = fields.integer(key)
    if number <= 0:
        return None
    return number / 1000 if number >= _MILLISECONDS_FROM else float(number)


def _split_mode(fields: Fields, key: str) -> SplitMode:
    text = fields.text(key, SplitMode.SIZE.value)
    found = next((mode for mode in SplitMode if mode.value.lower() == text.lower()), None)
    if found is None:
        raise fields.fail(key, f"{text[:40]!r} is not a split mode")
    return found


def _unit(name: str, default: TimeUnit) -> FieldPlace:
    def read(fields: Fields, key: str) -> TimeUnit:
        text = fields.text(key, default.value)
        found = next((unit for unit in TimeUnit if unit.value == text.lower()), None)
        if found is None:
            raise fields.fail(key, f"{text[:40]!r} is not a time unit")
        return found

    return member(f"ArrowOptions.{name}", read, lambda unit: unit.value)


def _count(fields: Fields, key: str) -> int:
    number = fields.integer(key)
    if number < 0:
        raise fields.fail(key, "is negative")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSessionAnswer(StorageAnswer):
    """A read session: one snapshot, divided into splits.

    `SplitMode.ROW_OFFSET` sets ``record_count``; the other modes set ``splits_count`` instead.
    ``expires_at`` is in epoch seconds, ``estimated_size`` in bytes. ``schema`` lists the columns of
    the streams, in order. ``latest_version`` is the snapshot's table version, from which the next
    incremental read starts. ``incremental_options`` repeats the options in the request. The
    embedded service always sends every member, because some clients require them all.
    """

    WHAT: ClassVar[str] = "response to TableCreateReadSession"

    session_id: Annotated[str, member("SessionId", Fields.need_text)]
    status: Annotated[Status, fixed_member("SessionType", "BATCH_READ")] = SessionStatus.NORMAL
    expires_at: Annotated[
        float | None,
        member("ExpirationTime", parse_expiry, lambda at: 0 if at is None else int(at * 1000)),
    ] = None
    message: Annotated[str, member("Message", Fields.text)] = ""
    splits_count: Annotated[
        int, member("SplitsCount", lambda fields, key: max(0, fields.integer(key)))
    ] = 0
    record_count: Annotated[int | None, optional_record_count()] = None
    split_mode: Annotated[SplitMode, member("SplitMode", _split_mode, lambda mode: mode.value)] = (
        SplitMode.SIZE
    )
    bucket_ids: Annotated[tuple[int, ...], member("SplitBucketId", Fields.integers)] = ()
    schema: Annotated[FlatSchema, member("TableSchema", Fields.mapping, encode_nested)] = field(
        default_factory=TableSchema
    )
    estimated_size: Annotated[
        int | None,
        fixed_member("SupportedDataFormat", [{"Type": "ARROW", "Version": "V5"}]),
        member("SessionStats.EstimatedSize", Fields.optional_integer),
    ] = None
    estimated_rows: Annotated[
        int | None, member("SessionStats.EstimatedRowCount", Fields.optional_integer)
    ] = None
    latest_version: Annotated[
        int,
        member("LatestVersion", Fields.integer),
        fixed_member("EnableLargeString", False),
    ] = 0
    incremental_options: Annotated[
        Mapping[str, object],
        member(
            "IncrementalReadOptions",
            lambda fields, key: fields.mapping(key) or dict(NOT_INCREMENTAL),
            dict,
        ),
    ] = field(default_factory=lambda: dict(NOT_INCREMENTAL))
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReadSession(StorageCall):
    """Request to create a read session on a table snapshot (``TableCreateReadSession``).

    ``split_number`` is bytes per split (Size), rows per split (RowOffset, used only by the client)
    or the number of splits (Parallelism). An empty tuple of columns, partitions or bucket ids means
    all of them.
    """

    ACTION: ClassVar[str] = "TableCreateReadSession"
    idempotent: ClassVar[bool] = True  # an unused session expires without effect

    table: Table
    data_columns: Annotated[tuple[str, ...], member("RequiredDataColumns", Fields.texts)] = ()
    partition_columns: Annotated[
        tuple[str, ...], member("RequiredPartitionColumns", Fields.texts)
    ] = ()
    partitions: Annotated[
        tuple[PartitionSpec, ...],
        member(
            "RequiredPartitions",
            lambda fields, key: tuple(map(decode_partition, fields.texts(key))),
            lambda specs: [encode_partition(spec, separator="/") for spec in specs],
        ),
    ] = ()
    bucket_ids: Annotated[tuple[int, ...], member("RequiredBucketIds", Fields.integers)] = ()
    split_mode: Annotated[
        SplitMode,
        member("SplitOptions.SplitMode", _split_mode, lambda mode: mode.value),
        fixed_member("SplitOptions.SplitUnit", "ByteSize"),
    ] = SplitMode.SIZE
    split_number: Annotated[
        int,
        member("SplitOptions.SplitNumber", lambda one, key: one.integer(key, DEFAULT_SPLIT_BYTES)),
    ] = DEFAULT_SPLIT_BYTES
    cross_partition: Annotated[
        bool,
        member("SplitOptions.CrossPartition", lambda one, key: one.boolean(key, default=True)),
    ] = True
    timestamp_unit: Annotated[TimeUnit, _unit("TimestampUnit", TimeUnit.NANO)] = TimeUnit.NANO
    datetime_unit: Annotated[TimeUnit, _unit("DatetimeUnit", TimeUnit.MILLI)] = TimeUnit.MILLI
    filter_predicate: Annotated[str, member("FilterPredicate", Fields.text)] = ""
    filter_fallback: Annotated[bool, member("FilterPredicateFallback", no)] = False
    split_max_file_num: Annotated[int, member("SplitMaxFileNum", Fields.integer)] = 0
    incremental_read: Annotated[bool, member("IncrementalRead", no)] = False
    incremental_options: Annotated[
        Mapping[str, object] | None,
        member("IncrementalReadOptions", Fields.mapping, optional=True),
    ] = None

    decode_answer = staticmethod(ReadSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReadSession(StorageCall):
    """Request for the state of a read session; ``refresh`` extends its expiry."""

    ACTION: ClassVar[str] = "TableGetReadSession"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    refresh: Annotated[
        bool, param("session_refresh", Params.flag, lambda value: str(value).lower())
    ] = False

    decode_answer = staticmethod(ReadSessionAnswer.decode)


def _put_split(draft: Draft, value: Split) -> None:
    if isinstance(value, IndexSplit):
        draft.params.append(("Index", str(value.index)))
    else:
        draft.params += (("Offset", str(value.offset)), ("Count", str(value.count)))


def _take_split(received: Received) -> Split:
    params = received.params
    if params.optional("Index") is not None:
        return IndexSplit(params.integer("Index"))
    return RowRangeSplit(params.integer("Offset"), params.integer("Count"))


def _check_format(received: Received) -> None:
    """Raise for any format except Arrow V5, as the older service does (pyodps: v1 live tests)."""
    asked = received.fields.inner("DataFormat")
    for key, known in _FORMAT.items():
        value = asked.text(key, known)
        if value.lower() != known.lower():
            raise asked.fail(key, f"{value[:40]!r} is not {known}, the only supported row format")


_FORMAT = {"Type": "Arrow", "Version": "V5"}
_ARROW = FieldPlace(lambda draft, _: draft.add("DataFormat", _FORMAT), _check_format)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows(StorageCall):
    """Request to open the Arrow stream of one split (``TableRead``).

    ``skip_rows``: rows to skip at the start of the split when resuming after a broken stream.
    ``max_batch_rows`` must not exceed `MAX_BATCH_ROWS`. ``max_batch_raw_size`` (bytes) must be 0
    (no limit) or between `MIN_BATCH_BYTES` and `MAX_BATCH_BYTES`.
    """

    ACTION: ClassVar[str] = "TableRead"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    split: Annotated[Split, FieldPlace(_put_split, _take_split)]
    max_batch_rows: Annotated[
        int, member("MaxBatchRows", lambda one, key: _count(one, key) or DEFAULT_BATCH_ROWS)
    ] = DEFAULT_BATCH_ROWS
    skip_rows: Annotated[int, member("SkipRowNum", _count)] = 0
    max_batch_raw_size: Annotated[int, member("MaxBatchRawSize", _count)] = 0
    data_columns: Annotated[tuple[str, ...], _ARROW, member("DataColumns", Fields.texts)] = ()
    data_columns_unordered: Annotated[bool, member("DataColumnsUnordered", no)] = False
    route_token: RouteToken = None
    compression: Accepted = Compression.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(StorageCall):
    """Request for the first rows of a table, without a session (``TablePreview``).

    A ``limit`` of 0 means all rows; with ``None`` the service uses its undocumented default. Empty
    ``columns`` means all columns, partition columns last. For a missing partition, the service
    returns no rows and no error (C++ client: preview tests). The body repeats the parameters.
    """

    ACTION: ClassVar[str] = "TablePreview"
    idempotent: ClassVar[bool] = True

    table: Table
    limit: Annotated[
        int | None,
        param("Limit", Params.optional_integer),
        member("Limit", Fields.optional_integer, optional=True),
    ] = None
    partition: Annotated[
        PartitionSpec | None,
        partition_param("Partition"),
        member(
            "Partition",
            lambda fields, key: decode_partition(fields.text(key)) or None,
            lambda spec: None if spec is None else encode_partition(spec, separator=","),
            optional=True,
        ),
    ] = None
    columns: Annotated[
        tuple[str, ...],
        member("Columns", Fields.texts, lambda names: list(names) or None, optional=True),
    ] = ()
