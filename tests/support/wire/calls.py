"""Shared parts of tests of the Storage API's requests and responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SplitMode,
    TableName,
    TimeUnit,
)
from odps_nb.wire.calls import (
    AbortWriteSession,
    CloseWriteStream,
    CommitWriteSession,
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
    ReadBlobs,
    ReadInstance,
    ReadRows,
    StorageRequest,
    WireRequest,
    WriteBlob,
    WriteBlobBatch,
    WriteRows,
)
from odps_nb.wire.calls.core import JSON_TYPE

TABLE = TableName(project="p1", table="t")
REF = BlobReference("/wByZWYw")
SESSION = ("SessionId", "s-1")

READ_BODY = (
    '{"RequiredDataColumns": [], "RequiredPartitionColumns": [], "RequiredPartitions": [], '
    '"RequiredBucketIds": [], "SplitOptions": {"SplitMode": "Size", "SplitUnit": "ByteSize", '
    '"SplitNumber": 268435456, "CrossPartition": true}, "ArrowOptions": {"TimestampUnit": "nano", '
    '"DatetimeUnit": "milli"}, "FilterPredicate": "", "FilterPredicateFallback": false, '
    '"SplitMaxFileNum": 0, "IncrementalRead": false}'
)

ROWS_BODY = (
    '{"MaxBatchRows": 4096, "SkipRowNum": 0, "MaxBatchRawSize": 0, "DataFormat": {"Type": "Arrow",'
    ' "Version": "V5"}, "DataColumns": [], "DataColumnsUnordered": false}'
)

Pairs = tuple[tuple[str, str], ...]


def spelled(
    request: StorageRequest, *params: tuple[str, str], body: str | None, headers: Pairs = ()
) -> Any:
    """Return a row of the table below: parameters after Action and Target, body and headers."""
    return pytest.param(
        request, params, body, headers or (("Content-Type", JSON_TYPE),), id=type(request).__name__
    )


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
ids = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
table_names = st.builds(TableName, project=ids, schema=st.none() | ids, table=ids)
values = words.filter(lambda value: PartitionSpec((("key", value),)).has_name)
specs = st.dictionaries(ids, values, max_size=3).map(PartitionSpec.of)
counts = st.integers(0, 10**15)
tokens = st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)
references = st.binary(min_size=1, max_size=12).map(BlobReference.from_raw)
compressions = st.sampled_from(Compression)
word_lists = st.lists(words, max_size=3).map(tuple)
splits = st.one_of(st.builds(IndexSplit, counts), st.builds(RowRangeSplit, counts, counts))
stream = {"table": table_names, "session_id": words, "stream_id": words}
versioned = {**stream, "stream_version": counts, "route_token": tokens}
session = {"table": table_names, "session_id": words, "route_token": tokens}
instance = {"project": ids, "instance_id": ids}

REQUEST_STRATEGIES: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    CreateReadSession: {
        "table": table_names,
        "data_columns": word_lists,
        "partition_columns": word_lists,
        "partitions": st.lists(specs.filter(len), max_size=2).map(tuple),
        "bucket_ids": st.lists(counts, max_size=3).map(tuple),
        "split_mode": st.sampled_from(SplitMode),
        "split_number": counts,
        "cross_partition": st.booleans(),
        "timestamp_unit": st.sampled_from(TimeUnit),
        "datetime_unit": st.sampled_from(TimeUnit),
        "filter_predicate": words,
        "filter_fallback": st.booleans(),
        "split_max_file_num": counts,
        "incremental_read": st.booleans(),
    },
    GetReadSession: {"table": table_names, "session_id": words, "refresh": st.booleans()},
    ReadRows: {
        **session,
        "split": splits,
        "max_batch_rows": st.integers(1, 10**9),
        "skip_rows": counts,
        "max_batch_raw_size": counts,
        "data_columns": word_lists,
        "data_columns_unordered": st.booleans(),
        "compression": compressions,
    },
    Preview: {
        "table": table_names,
        "limit": st.none() | counts,
        "partition": st.none() | specs.filter(len),
        "columns": word_lists,
    },
    CreateWriteSession: {
        "table": table_names,
        "partition": specs,
        "overwrite": st.booleans(),
    },
    GetWriteSession: {"table": table_names, "session_id": words},
    CommitWriteSession: {
        **session,
        "streams": st.lists(st.tuples(words, counts), max_size=3).map(tuple),
    },
    AbortWriteSession: session,
    GetWriteSchema: session,
    CreateWriteStream: {**versioned, "exactly_once": st.booleans()},
    GetWriteStream: {**versioned, "exactly_once": st.booleans()},
    CloseWriteStream: versioned,
    WriteRows: {
        **versioned,
        "count": counts,
        "row_offset": st.none() | counts,
        "access_token": tokens,
        "table_id": st.none() | words,
        "schema_version": st.none() | words,
    },
    WriteBlob: {
        **versioned,
        "partition": specs,
        "column_id": counts,
        "compression": compressions,
    },
    WriteBlobBatch: {**versioned, "compression": compressions},
    ReadBlobs: {
        "references": st.lists(references, max_size=3).map(tuple),
        "compression": compressions,
    },
    CreateInstanceReadSession: {**instance, "enable_limit": st.booleans()},
    GetInstanceReadSession: {**instance, "session_id": words},
    ReadInstance: {
        **instance,
        "session_id": words,
        "offset": counts,
        "count": counts,
        "columns": word_lists,
        "task_name": words,
        "enable_limit": st.booleans(),
        "compression": compressions,
    },
}


def wire(action: str, *params: tuple[str, str], body: object = None, **headers: str) -> WireRequest:
    return WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", action), ("Target", "projects.p1.tables.t"), *params),
        headers=tuple((name.replace("_", "-"), value) for name, value in headers.items()),
        body=None if body is None else json.dumps(body).encode(),
    )
