"""Read sessions and their rows as values (``docs/protocol.md`` sections 3.1 to 3.3, 4).

Each request encodes and decodes itself: the client uses one half, the embedded service the other,
so both share one format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    Split,
    SplitMode,
    TableName,
    TimeUnit,
)
from odps_nb.wire.calls.answers import parse_answer, parse_status
from odps_nb.wire.calls.core import (
    HTTP_CODINGS,
    NO_SCOPE,
    ROUTE_TOKEN,
    Params,
    Scope,
    WireRequest,
    accepted_coding,
    decode_partition,
    encode_partition,
    find_header,
    request_fields,
    storage_request,
    table_target,
)
from odps_nb.wire.json_fields import Fields, dump
from odps_nb.wire.schema_json import decode_flat, encode_flat, encode_nested

DEFAULT_SPLIT_BYTES = 256 * 2**20
NOT_INCREMENTAL: Mapping[str, object] = {
    "StartVersion": -1,
    "EndVersion": -1,
    "StartTimeStamp": "-1",
    "EndTimeStamp": "-1",
    "Mode": "append",
    "EnableIncrementalRead": False,
}
"""The answer's value for a read that is not incremental (C++ client: table_read_session)."""
DEFAULT_BATCH_ROWS = 4096
MAX_BATCH_ROWS = 20_000
"""Most rows per batch that a read may request (C++ client: TestReadOptionsMaxBatchRows)."""
MIN_BATCH_BYTES, MAX_BATCH_BYTES = 2**20, 256 * 2**20
"""Range of ``MaxBatchRawSize``; 0 is allowed, too (C++ client: TestReadOptionsMaxBatchRawSize)."""
# An expiry under this is in seconds, over it in milliseconds: no source names the unit, and
# 10^11 is the year 5138 as seconds and 1973 as milliseconds.
_MILLISECONDS_FROM = 10**11


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSessionAnswer:
    """A read session: one snapshot, cut into splits.

    ``splits_count`` counts in `SplitMode.SIZE` and kin; ``record_count`` is known in
    `SplitMode.ROW_OFFSET` and ``None`` otherwise. ``expires_at`` is in seconds of the epoch,
    ``estimated_size`` in bytes. ``schema`` lists the columns of the streams, in order.
    ``latest_version`` is the table version of the snapshot: where the next incremental read starts.
    ``incremental_options`` repeats those of the request, unchanged.
    """

    session_id: str
    status: SessionStatus = SessionStatus.NORMAL
    split_mode: SplitMode = SplitMode.SIZE
    splits_count: int = 0
    record_count: int | None = None
    schema: TableSchema = field(default_factory=TableSchema)
    expires_at: float | None = None
    estimated_size: int | None = None
    estimated_rows: int | None = None
    bucket_ids: tuple[int, ...] = ()
    message: str = ""
    latest_version: int = 0
    incremental_options: Mapping[str, object] = field(default_factory=lambda: dict(NOT_INCREMENTAL))
    route_token: str | None = None

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers; with every key, as some clients need all."""
        expires = 0 if self.expires_at is None else int(self.expires_at * 1000)
        members = {
            "SessionId": self.session_id,
            "SessionStatus": self.status.value,
            "SessionType": "BATCH_READ",
            "ExpirationTime": expires,
            "Message": self.message,
            "SplitsCount": self.splits_count,
            "RecordCount": -1 if self.record_count is None else self.record_count,
            "SplitMode": self.split_mode.value,
            "SplitBucketId": list(self.bucket_ids),
            "DataSchema": encode_flat(self.schema),
            "TableSchema": encode_nested(self.schema),
            "SupportedDataFormat": [{"Type": "ARROW", "Version": "V5"}],
            "SessionStats": {
                "EstimatedSize": self.estimated_size,
                "EstimatedRowCount": self.estimated_rows,
            },
            "LatestVersion": self.latest_version,
            "EnableLargeString": False,
            "IncrementalReadOptions": dict(self.incremental_options),
        }
        return dump(members), {ROUTE_TOKEN: self.route_token} if self.route_token else {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> ReadSessionAnswer:
        """Decode an answer.

        Raises `FramingError`: not JSON, ill-typed, or without session id or status.
        """
        fields = parse_answer(body, headers, "answer to TableCreateReadSession")
        records, stats = fields.integer("RecordCount", -1), fields.inner("SessionStats")
        return cls(
            session_id=fields.need_text("SessionId"),
            status=parse_status(fields, "SessionStatus"),
            split_mode=_split_mode(fields, "SplitMode"),
            splits_count=max(0, fields.integer("SplitsCount")),
            record_count=None if records < 0 else records,
            schema=decode_flat(fields.mapping("DataSchema") or {}),
            expires_at=_expiry(fields.integer("ExpirationTime")),
            estimated_size=stats.optional_integer("EstimatedSize"),
            estimated_rows=stats.optional_integer("EstimatedRowCount"),
            bucket_ids=fields.integers("SplitBucketId"),
            message=fields.text("Message"),
            latest_version=fields.integer("LatestVersion"),
            incremental_options=fields.mapping("IncrementalReadOptions") or dict(NOT_INCREMENTAL),
            route_token=find_header(headers, ROUTE_TOKEN),
        )


def _expiry(number: int) -> float | None:
    if number <= 0:
        return None
    return number / 1000 if number >= _MILLISECONDS_FROM else float(number)


def _split_mode(fields: Fields, key: str) -> SplitMode:
    text = fields.text(key, SplitMode.SIZE.value)
    found = next((mode for mode in SplitMode if mode.value.lower() == text.lower()), None)
    if found is None:
        raise fields.fail(key, f"{text[:40]!r} is not a split mode")
    return found


def _time_unit(fields: Fields, key: str, default: TimeUnit) -> TimeUnit:
    text = fields.text(key, default.value)
    found = next((unit for unit in TimeUnit if unit.value == text.lower()), None)
    if found is None:
        raise fields.fail(key, f"{text[:40]!r} is not a time unit")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReadSession:
    """Create a read session: a snapshot of a table, cut into splits (``TableCreateReadSession``).

    ``split_number`` counts bytes per split (Size), rows per split (RowOffset, used by the
    client alone) or splits (Parallelism). Empty tuples mean "all".
    """

    ACTION: ClassVar[str] = "TableCreateReadSession"
    idempotent: ClassVar[bool] = True  # an unused session only expires

    table: TableName
    data_columns: tuple[str, ...] = ()
    partition_columns: tuple[str, ...] = ()
    partitions: tuple[PartitionSpec, ...] = ()
    bucket_ids: tuple[int, ...] = ()
    split_mode: SplitMode = SplitMode.SIZE
    split_number: int = DEFAULT_SPLIT_BYTES
    cross_partition: bool = True
    timestamp_unit: TimeUnit = TimeUnit.NANO
    datetime_unit: TimeUnit = TimeUnit.MILLI
    filter_predicate: str = ""
    filter_fallback: bool = False
    split_max_file_num: int = 0
    incremental_read: bool = False
    incremental_options: Mapping[str, object] | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        body: dict[str, object] = {
            "RequiredDataColumns": list(self.data_columns),
            "RequiredPartitionColumns": list(self.partition_columns),
            "RequiredPartitions": [
                encode_partition(spec, separator="/") for spec in self.partitions
            ],
            "RequiredBucketIds": list(self.bucket_ids),
            "SplitOptions": {
                "SplitMode": self.split_mode.value,
                "SplitUnit": "ByteSize",
                "SplitNumber": self.split_number,
                "CrossPartition": self.cross_partition,
            },
            "ArrowOptions": {
                "TimestampUnit": self.timestamp_unit.value,
                "DatetimeUnit": self.datetime_unit.value,
            },
            "FilterPredicate": self.filter_predicate,
            "FilterPredicateFallback": self.filter_fallback,
            "SplitMaxFileNum": self.split_max_file_num,
            "IncrementalRead": self.incremental_read,
        }
        if self.incremental_options is not None:
            body["IncrementalReadOptions"] = dict(self.incremental_options)
        target = table_target(self.table)
        return storage_request(self.ACTION, target, api_version=api_version, scope=scope, body=body)

    @classmethod
    def decode(cls, wire: WireRequest) -> CreateReadSession:
        """Decode the request."""
        fields = request_fields(wire)
        splits, units = fields.inner("SplitOptions"), fields.inner("ArrowOptions")
        return cls(
            table=Params(wire).table,
            data_columns=fields.texts("RequiredDataColumns"),
            partition_columns=fields.texts("RequiredPartitionColumns"),
            partitions=tuple(decode_partition(one) for one in fields.texts("RequiredPartitions")),
            bucket_ids=fields.integers("RequiredBucketIds"),
            split_mode=_split_mode(splits, "SplitMode"),
            split_number=splits.integer("SplitNumber", DEFAULT_SPLIT_BYTES),
            cross_partition=splits.boolean("CrossPartition", default=True),
            timestamp_unit=_time_unit(units, "TimestampUnit", TimeUnit.NANO),
            datetime_unit=_time_unit(units, "DatetimeUnit", TimeUnit.MILLI),
            filter_predicate=fields.text("FilterPredicate"),
            filter_fallback=fields.boolean("FilterPredicateFallback", default=False),
            split_max_file_num=fields.integer("SplitMaxFileNum"),
            incremental_read=fields.boolean("IncrementalRead", default=False),
            incremental_options=fields.mapping("IncrementalReadOptions"),
        )

    decode_answer = staticmethod(ReadSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetReadSession:
    """Get the state of a read session; ``refresh`` extends its expiry."""

    ACTION: ClassVar[str] = "TableGetReadSession"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    refresh: bool = False

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        refresh = "true" if self.refresh else "false"
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id), ("session_refresh", refresh)),
            api_version=api_version,
            scope=scope,
            body={},
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> GetReadSession:
        """Decode the request."""
        params = Params(wire)
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            refresh=params.flag("session_refresh"),
        )

    decode_answer = staticmethod(ReadSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Open the Arrow stream of one split (``TableRead``).

    ``skip_rows`` rows are left out at the start of the split, to resume after a broken stream;
    ``max_batch_raw_size`` counts bytes, 0 is no limit. The service refuses more than
    `MAX_BATCH_ROWS`, and bytes that are not 0 or `MIN_BATCH_BYTES` to `MAX_BATCH_BYTES`.
    """

    ACTION: ClassVar[str] = "TableRead"
    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    split: Split
    max_batch_rows: int = DEFAULT_BATCH_ROWS
    skip_rows: int = 0
    max_batch_raw_size: int = 0
    data_columns: tuple[str, ...] = ()
    data_columns_unordered: bool = False
    compression: Compression = Compression.NONE
    route_token: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request."""
        if isinstance(self.split, IndexSplit):
            place: tuple[tuple[str, str], ...] = (("Index", str(self.split.index)),)
        else:
            place = (("Offset", str(self.split.offset)), ("Count", str(self.split.count)))
        return storage_request(
            self.ACTION,
            table_target(self.table),
            (("SessionId", self.session_id), *place),
            api_version=api_version,
            scope=scope,
            headers=(
                (ROUTE_TOKEN, self.route_token),
                ("ACCEPT-ENCODING", HTTP_CODINGS.get(self.compression)),
            ),
            body={
                "MaxBatchRows": self.max_batch_rows,
                "SkipRowNum": self.skip_rows,
                "MaxBatchRawSize": self.max_batch_raw_size,
                "DataFormat": {"Type": "Arrow", "Version": "V5"},
                "DataColumns": list(self.data_columns),
                "DataColumnsUnordered": self.data_columns_unordered,
            },
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> ReadRows:
        """Decode the request; 0 rows per batch means the default."""
        params, fields = Params(wire), request_fields(wire)
        _check_format(fields.inner("DataFormat"))
        if params.optional("Index") is not None:
            split: Split = IndexSplit(params.integer("Index"))
        else:
            split = RowRangeSplit(params.integer("Offset"), params.integer("Count"))
        return cls(
            table=params.table,
            session_id=params.text("SessionId"),
            split=split,
            max_batch_rows=_count(fields, "MaxBatchRows") or DEFAULT_BATCH_ROWS,
            skip_rows=_count(fields, "SkipRowNum"),
            max_batch_raw_size=_count(fields, "MaxBatchRawSize"),
            data_columns=fields.texts("DataColumns"),
            data_columns_unordered=fields.boolean("DataColumnsUnordered", default=False),
            compression=accepted_coding(wire.headers),
            route_token=find_header(wire.headers, ROUTE_TOKEN),
        )


def _check_format(fields: Fields) -> None:
    """Refuse any format but Arrow V5, as the older service did (pyodps: live tests of v1)."""
    for key, known in (("Type", "Arrow"), ("Version", "V5")):
        said = fields.text(key, known)
        if said.lower() != known.lower():
            raise fields.fail(key, f"{said[:40]!r} is not {known}, the only format of rows")


def _count(fields: Fields, key: str) -> int:
    number = fields.integer(key)
    if number < 0:
        raise fields.fail(key, "is negative")
    return number
