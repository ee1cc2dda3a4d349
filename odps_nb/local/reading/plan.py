"""Plans read sessions: computes row ranges from a request and a table.

The functions are pure, except that they evaluate predicates on partition values in DuckDB. See
``docs/protocol.md`` sections 3.1, 4, 5.6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.local.duck import Duck
from odps_nb.local.forms import Forms
from odps_nb.local.reading.scans import ScanFile, ScanPlan
from odps_nb.local.store.snapshots import Segment
from odps_nb.local.store.tables import StoredTable
from odps_nb.schema import Column, TableSchema, has_blob
from odps_nb.terms import SplitMode, TableName, TimeUnit
from odps_nb.wire.calls import MAX_BATCH_BYTES, MAX_BATCH_ROWS, MIN_BATCH_BYTES, ReadRows
from odps_nb.wire.calls.read import NOT_INCREMENTAL, CreateReadSession
from odps_nb.wire.schema_json import decode_flat, encode_flat

if TYPE_CHECKING:  # `predicates` imports sqlglot, which only filters need
    from odps_nb.local.reading.predicates import Predicate

MAX_SPLITS = 50_000

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenReadSession:
    """An open read session; ``ranges`` are its splits, as row ranges of the snapshot."""

    session_id: str
    table: TableName
    schema: TableSchema
    plan: ScanPlan
    mode: SplitMode
    ranges: tuple[Range, ...]
    rows: int
    size: int
    expires: float
    predicate_text: str = ""
    version: int = 0
    increment: Mapping[str, object] = field(default_factory=lambda: dict(NOT_INCREMENTAL))
    buckets: tuple[int, ...] = ()

    @property
    def counts_kept(self) -> bool:
        """Whether row ranges number the rows that the filter keeps instead of all stored rows."""
        return any(file.kept is not None for file in self.plan.files)

    @property
    def record_count(self) -> int | None:
        """The number of rows that row ranges can select; ``None`` in modes without row ranges."""
        if self.mode is not SplitMode.ROW_OFFSET:
            return None
        if self.counts_kept:
            return sum(file.kept or 0 for file in self.plan.files)
        return self.rows


# Sources of the limits: live tests of the vendor's clients aliyun-odps-sdk-cpp
# (test/max_storage_api/table_read_test.cpp) and, for the older protocol, aliyun-odps-python-sdk
# (odps/apis/storage_api/tests). docs/open-questions.md lists the open questions.
CLUSTERED_BLOCK_ROWS = 1_000
"""With this block size, a filter with one match returns fewer than 2,000 rows, as in the C++
client's test TestPredicate…ClusterTable."""

_KEY_SPLITS = {
    "both": (SplitMode.ROW_OFFSET, SplitMode.SIZE),
    "RowOffset": (SplitMode.ROW_OFFSET,),
    "Size": (SplitMode.SIZE,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRules:
    """Read limits, set when a service is started; the defaults are those of the real service.

    ``min_split_bytes`` is the minimum split size in bytes. A filter skips whole blocks of
    ``filter_block_rows`` rows of a file; with 1, it skips single rows. In a session with a filter,
    row ranges number the stored rows or, with ``kept_ranges``, the rows that the filter keeps. It
    is not known which of the two the real service uses.
    """

    min_split_bytes: int = 10 * 2**20
    filter_block_rows: int = 10_000
    kept_ranges: bool = False

    def block_rows(self, table: StoredTable) -> int:
        """Return the number of rows per block of a table; filters keep or skip whole blocks."""
        if table.is_clustered:
            return min(CLUSTERED_BLOCK_ROWS, self.filter_block_rows)
        return self.filter_block_rows

    def check_split(self, table: StoredTable, request: CreateReadSession, forms: Forms) -> None:
        """Raise 400 if the splits are too small, or the table or service does not support them."""
        mode, name = request.split_mode, table.name.table
        keyed, supported = bool(table.key_columns), tuple(SplitMode)
        if keyed and request.incremental_read:
            supported = (SplitMode.ROW_OFFSET, SplitMode.BUCKET)
        elif any(has_blob(c.type) for c in table.schema.columns):
            supported = (SplitMode.ROW_OFFSET,)
        elif keyed:
            supported = _KEY_SPLITS[forms.key_splits]
        elif table.is_append2:
            supported = (SplitMode.ROW_OFFSET,)
        if mode not in supported:
            modes = " or ".join(choice.value for choice in supported)
            raise errors.invalid(
                f"{name} is a transactional table: it requires SplitMode {modes}, not {mode.value}"
            )
        if mode is SplitMode.BUCKET and not keyed and not table.is_clustered:
            raise errors.invalid(f"{name} has no buckets because it is not clustered")
        if request.bucket_ids:
            raise errors.invalid("the embedded service does not support RequiredBucketIds")
        if mode is SplitMode.SIZE and request.split_number < self.min_split_bytes:
            raise errors.invalid(
                f"SplitNumber is {request.split_number}; with SplitMode Size, it must be at least"
                f" {self.min_split_bytes} bytes"
            )


def check_batch(request: ReadRows) -> None:
    """Raise 400 if a batch size is outside the limits of the service."""
    if request.max_batch_rows > MAX_BATCH_ROWS:
        raise errors.invalid(
            f"MaxBatchRows is {request.max_batch_rows}; the maximum is {MAX_BATCH_ROWS}"
        )
    size = request.max_batch_raw_size
    if size and not MIN_BATCH_BYTES <= size <= MAX_BATCH_BYTES:
        raise errors.invalid(
            f"MaxBatchRawSize is {size}; it must be 0, or {MIN_BATCH_BYTES} to {MAX_BATCH_BYTES}"
        )


def echoed(request: CreateReadSession) -> dict[str, object]:
    """Return an incremental read's options for the response, parsed and completed with defaults."""
    requested: Mapping[str, object] = request.incremental_options or {}
    aliases = {"StartVersion": "From", "EndVersion": "To"}
    options = dict(NOT_INCREMENTAL) | {"EnableIncrementalRead": request.incremental_read}
    for key in ("StartVersion", "EndVersion", "StartTimeStamp", "EndTimeStamp", "Mode"):
        value = requested.get(key, requested.get(aliases.get(key, key)))
        if value in (None, ""):
            continue
        if key in aliases:
            whole = str(value).lstrip("-").isdecimal()
            options[key] = int(str(value)) if whole else options[key]
        else:
            options[key] = str(value)
    return options


def output_schema(table: StoredTable, request: CreateReadSession) -> TableSchema:
    """Return the columns of the stream (``docs/protocol.md`` section 5.6).

    If the request names columns, the stream has exactly these columns, even if all of them are
    partition columns (C++ client: TestFilterOptionsRequiredPartitionColumns).
    """
    schema, keys = table.schema, set(table.partition_keys)
    data = [find_column(schema, name) for name in request.data_columns]
    parts = [find_column(schema, name) for name in request.partition_columns]
    # also return the partition keys that are requested as data columns
    parts += [c for c in data if c.name in keys and c not in parts]
    data = [c for c in data if c.name not in keys]
    if unknown := [c.name for c in parts if c.name not in keys]:
        raise errors.invalid(f"{unknown[0]!r} is not a partition column")
    if not request.data_columns and not request.partition_columns:
        return schema
    return TableSchema(columns=tuple(data), partition_columns=tuple(parts))


def find_column(schema: TableSchema, name: str) -> Column:
    """Return a column by name, or raise 400 if it does not exist."""
    column = schema.find(name)
    if column is None:
        raise errors.invalid(f"there is no column {name!r}")
    return column


def parse_filter(
    text: str, schema: TableSchema, duck: Duck, *, fallback: bool = False
) -> Predicate | None:
    """Parse a filter; with ``fallback``, return ``None`` if it cannot be applied."""
    if not text.strip():
        return None
    from odps_nb.local.reading.predicates import Predicate

    try:
        return Predicate.parse(text, schema, duck)
    except InvalidRequestError:
        if fallback:
            return None
        raise


def prune(
    table: StoredTable, segments: tuple[Segment, ...], predicate: Predicate | None
) -> tuple[Segment, ...]:
    """Return the files of the partitions that the filter does not exclude."""
    part = None if predicate is None else predicate.partition_part(table.partition_keys)
    if part is None:
        return segments
    specs = list(dict.fromkeys(s.spec for s in segments))
    is_kept = dict(zip(specs, part.keeps(specs, table.schema), strict=True))
    return tuple(s for s in segments if is_kept[s.spec])


def scan_plan(
    table: StoredTable, segments: Sequence[Segment], columns: tuple[Column, ...]
) -> ScanPlan:
    """Plan a scan of whole files."""
    return ScanPlan(
        files=tuple(ScanFile(name=s.name, rows=s.rows, values=s.spec.items) for s in segments),
        columns=columns,
        table_columns=table.schema.all_columns,
        partition_keys=frozenset(table.partition_keys),
        stored=table.stored,
    )


def cut_ranges(segments: Sequence[Segment], request: CreateReadSession) -> list[Range]:
    """Split the snapshot into row ranges as the request specifies."""
    mode, number, cross = request.split_mode, request.split_number, request.cross_partition
    if mode is SplitMode.ROW_OFFSET:
        return []
    if mode is SplitMode.PARALLELISM:
        return by_count(segments, number, cross_partition=cross)
    if mode is SplitMode.BUCKET:
        return by_count(segments, 1)
    limit = request.split_max_file_num
    return by_size(segments, number, cross_partition=cross, max_files=limit)


def seek(files: Sequence[ScanFile], offset: int) -> tuple[int, int]:
    """Return how many stored and kept rows precede the file that contains kept row ``offset``."""
    start = before = 0
    for file in files:
        if before + (file.kept or 0) > offset:
            break
        start, before = start + file.rows, before + (file.kept or 0)
    return start, before


_FACTS = ("rows", "size", "version", "predicate_text", "increment")


def session_text(session: OpenReadSession) -> str:
    """Serialise a session for the catalog."""
    plan = session.plan
    return json.dumps(
        {
            "table": [session.table.project, session.table.schema, session.table.table],
            "output": encode_flat(session.schema),
            "columns": encode_flat(TableSchema(columns=plan.table_columns)),
            "keys": sorted(plan.partition_keys),
            "stored": dict(plan.stored),
            "files": [[f.name, f.rows, f.values, f.kept] for f in plan.files],
            "units": [plan.timestamp_unit.value, plan.datetime_unit.value],
            "mode": session.mode.value,
            "ranges": session.ranges,
            "block": plan.block_rows,
            "buckets": session.buckets,
            "facts": {name: getattr(session, name) for name in _FACTS},
        }
    )


def session_of_text(session_id: str, text: str, expires: float, duck: Duck) -> OpenReadSession:
    """Parse a session from the catalog."""
    saved = json.loads(text)
    project, schema, table = saved["table"]
    output, stored = decode_flat(saved["output"]), decode_flat(saved["columns"])
    plan = ScanPlan(
        files=tuple(
            ScanFile(name=n, rows=r, values=tuple((k, v) for k, v in values), kept=kept)
            for n, r, values, kept in saved["files"]
        ),
        columns=output.all_columns,
        table_columns=stored.columns,
        partition_keys=frozenset(saved["keys"]),
        stored=saved.get("stored", {}),
        timestamp_unit=TimeUnit(saved["units"][0]),
        datetime_unit=TimeUnit(saved["units"][1]),
        predicate=parse_filter(saved["facts"]["predicate_text"], stored, duck),
        block_rows=saved["block"],
    )
    return OpenReadSession(
        session_id=session_id,
        table=TableName(project=project, schema=schema, table=table),
        schema=output,
        plan=plan,
        mode=SplitMode(saved["mode"]),
        ranges=tuple((a, b) for a, b in saved["ranges"]),
        expires=expires,
        buckets=tuple(saved["buckets"]),
        **saved["facts"],
    )


def by_size(
    segments: Sequence[Segment], size: int, *, cross_partition: bool = True, max_files: int = 0
) -> list[Range]:
    """Return splits of about ``size`` bytes and at most ``max_files`` files (0: unlimited)."""
    total = sum(s.raw_bytes for s in segments)
    size = max(size, 1, -(-total // MAX_SPLITS))
    ranges: list[Range] = []
    start = end = files = 0
    filled = 0.0
    previous = None
    for segment in segments:
        apart = not cross_partition and previous is not None and previous.spec != segment.spec
        if end > start and (apart or (max_files > 0 and files >= max_files)):
            ranges.append((start, end))
            start, files, filled = end, 0, 0.0
        files, previous = files + 1, segment
        weight = max(segment.raw_bytes, 1) / segment.rows
        left = segment.rows
        while left:
            room = max(1, int((size - filled) / weight))
            count = min(left, room)
            left, end, filled = left - count, end + count, filled + count * weight
            if left or filled + weight > size:
                ranges.append((start, end))
                start, files, filled = end, 1 if left else 0, 0.0
    if end > start:
        ranges.append((start, end))
    return ranges


def by_count(
    segments: Sequence[Segment], count: int, *, cross_partition: bool = True
) -> list[Range]:
    """Return up to ``count`` splits of similar row counts, or one per group if that is more.

    All rows form one group. With ``cross_partition=False``, each partition forms a group.
    """
    key = (lambda _segment: None) if cross_partition else (lambda segment: segment.spec)
    groups = [sum(segment.rows for segment in group) for _, group in groupby(segments, key)]
    count = min(max(1, count), MAX_SPLITS)
    ranges: list[Range] = []
    start = 0
    for rows in filter(None, groups):
        parts = min(rows, max(1, count * rows // sum(groups)))
        cuts = [start + rows * index // parts for index in range(parts + 1)]
        ranges += pairwise(cuts)
        start += rows
    return ranges
