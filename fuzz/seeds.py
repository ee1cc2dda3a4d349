"""The seeds of the corpus: small valid inputs from which fuzzing starts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from unittest import mock
from urllib.parse import urlencode

import pyarrow as pa

from odps_nb.local.routes import tunnel_rows
from odps_nb.local.routes.tunnel_rows import encode_rows
from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    TableName,
)
from odps_nb.wire import calls, control
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.codings import encoder
from odps_nb.wire.frames import ChecksumKind, FrameHeader, encode_frame
from odps_nb.wire.schema_json import encode_flat, encode_nested
from odps_nb.wire.type_text import parse_columns

DOCUMENTS = 24
ROWS = (
    "i bigint, b boolean, f float, d double, s string, raw binary, day date, dt datetime, "
    "ts timestamp, ntz timestamp_ntz, dec decimal(10,2), tags array<string>, "
    "m map<string,bigint>, r struct<a:bigint,b:array<double>>"
)
TYPES = "map<string, array<struct<f1: decimal(10,2), `odd name`: varchar(7)>>>"
COLUMNS = "id bigint not null, note string comment 'it\\'s', photo blob, deep " + TYPES


def _coded(name: str, data: bytes) -> bytes:
    coder = encoder(name)
    return coder.feed(data) + coder.finish()


def _ipc() -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": [1, 2, 3]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
        writer.write(batch.slice(1))
    return sink.getvalue().to_pybytes()


def seeds() -> Iterator[tuple[str, str, bytes]]:
    """Yield target, name and bytes of each seed."""
    cuts = b"\x20\x80\xc0"
    header = FrameHeader(content_type="a/b", custom_file_name="n")
    upload = FrameHeader(partition_values=("ds=x",), column_index=1, distribution_key=b"key")
    one = encode_frame(b"hello", header)
    two = one + encode_frame(b"", upload, checksum=ChecksumKind.MD5)
    for mode in (0, 1, 3):
        yield "blocks", f"mode{mode}", bytes([mode]) + cuts + bytes(range(200))
    yield "blocks", "stored", b"\0" + cuts + encode_blocks(b"hello")
    yield "blocks", "long", b"\0" + cuts + encode_blocks(bytes(4100))
    for mode, name in ((0, "zstd"), (1, "lz4")):
        yield "codings", name, bytes([mode]) + cuts + _coded(name, b"hello hello hello") * 2
        yield "codings", f"{name}-plain", bytes([mode | 2]) + cuts + b"hello hello hello"
        yield "codings", f"{name}-cut", bytes([mode | 6 | 128]) + cuts + b"hello hello hello"
    yield "frames", "one", b"\x01" + cuts + one
    yield "frames", "two", b"\x02" + cuts + two
    yield "frames", "any", b"\x08" + cuts + two + one
    yield "frames", "empty", b"\x01" + cuts + bytes(24)
    yield "layers", "raw", b"\x04" + cuts + encode_blocks(b"hello")
    yield "layers", "frames", b"\x08" + cuts + encode_blocks(two)
    yield "layers", "zstd-outermost", b"\x05" + cuts + encode_blocks(_coded("zstd", b"hello"))
    yield "layers", "zstd-innermost", b"\x05" + cuts + _coded("zstd", encode_blocks(b"hello"))
    yield "layers", "lz4-made", bytes([2 | 8 | 32 | 64]) + cuts + two
    yield "layers", "zstd-made", bytes([1 | 8 | 16 | 32]) + cuts + two
    yield "arrow_stream", "batches", b"\0" + cuts + _ipc()
    yield "type_text", "type", TYPES.encode()
    yield "type_text", "columns", COLUMNS.encode()
    schema = TableSchema(
        columns=parse_columns(COLUMNS), partition_columns=parse_columns("ds string")
    )
    yield "schema_json", "flat", json.dumps(encode_flat(schema)).encode()
    yield "schema_json", "nested", json.dumps(encode_nested(schema)).encode()
    yield from _messages()
    yield from _texts()
    yield from _rows()
    for name, data in (
        *(("png", b"\x89PNG\r\n\x1a\n" + bytes(24)), ("ico", b"\0\0\1\0\1\0" + bytes(16))),
        *(("onnx", b"\x08\x07\x12\x02pt\x1a\x011:"), ("zip", b"PK\3\4" + bytes(26))),
        *(("mp4", b"\0\0\0\x18ftypisom" + bytes(12)), ("json", b'{"a": [1, "b"]}')),
        *(("csv", b"a,b\n1,2\n3,4\n"), ("svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>")),
        *(("tar", bytes(257) + b"ustar\x0000" + bytes(247)), ("riff", b"RIFF\x10\0\0\0WEBPVP8 ")),
    ):
        yield "kinds", name, data


def _written(wire: calls.WireRequest) -> bytes:
    """Return a request in the form that ``fuzz/targets/requests.py`` parses."""
    head = [f"{wire.method} {wire.path}?{urlencode(wire.params)}"]
    head += [f"{name}: {value}" for name, value in wire.headers]
    return "\n".join(head).encode() + b"\n\n" + (wire.body or b"")


def _messages() -> Iterator[tuple[str, str, bytes]]:
    table, ds = TableName(project="p", schema="s", table="t"), PartitionSpec.of("ds=x")
    session = {"table": table, "session_id": "s-1"}
    stream = {**session, "stream_id": "0", "stream_version": 1}
    storage = (
        calls.CreateReadSession(table=table, data_columns=("id",), partitions=(ds,)),
        calls.ReadRows(**session, split=IndexSplit(0), compression=Compression.ZSTD),
        calls.ReadRows(**session, split=RowRangeSplit(2, 3), data_columns=("id",)),
        calls.Preview(table=table, limit=3, partition=ds),
        calls.CreateWriteSession(table=table, partition=ds, overwrite=True),
        calls.CommitWriteSession(**session, streams=(("0", 1),)),
        calls.CreateWriteStream(**stream, exactly_once=True),
        calls.WriteRows(**stream, count=3, row_offset=0),
        calls.ReadBlobs(references=(BlobReference.from_raw(b"ref"),)),
        calls.CreateInstanceReadSession(project="p", instance_id="i", enable_limit=True),
    )
    for call in storage:
        yield "storage_requests", _name(call), _written(call.encode())
    controls = (
        control.GetProject(project="p"),
        control.GetTable(table=table, extended=True),
        control.ListTables(project="p", prefix="a", marker="m"),
        control.GetPartition(table=table, partition=ds),
        control.ListPartitions(table=table),
        control.SubmitSql(project="p", sql="select 1", settings={"a.b": "1"}),
        control.GetTaskStatus(project="p", instance_id="i"),
        control.CancelInstance(project="p", instance_id="i"),
    )
    for call in controls:
        yield "control_requests", _name(call), _written(call.encode())
    signed = "GET /api/projects/p?curr_project=p\nDate: Thu, 20 Nov 2025 00:00:00 GMT\n"
    yield "signatures", "v2", f"{signed}Authorization: ODPS id:c2lnbmF0dXJl".encode()
    v4 = "ODPS id/20251120/region/odps/aliyun_v4_request:c2lnbmF0dXJl"
    yield "signatures", "v4", f"{signed}Authorization: {v4}".encode()
    for number in range(DOCUMENTS):
        yield "documents", f"empty-{number}", bytes([number])
    for number, text in enumerate(_ANSWERS):
        for kind in _ANSWERS[text]:
            yield "documents", f"{number}-{kind}", bytes([kind]) + text.encode()
    error = calls.encode_error_json("NoSuchTable", "ODPS-0130131:[1,1] x", "id")
    yield "errors", "json", b"\0\xcc" + error
    yield "errors", "xml", b"\1\x2c" + calls.encode_error_xml("NoPermission", "no", "id")
    head = b"HTTP/1.1 200 OK\r\n"
    yield "http_answer", "length", head + b"Content-Length: 3\r\n\r\nabc"
    yield "http_answer", "close", head + b"\r\nabc"
    chunks = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n"
    yield "http_answer", "chunked", head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    yield "http_answer", "continue", b"HTTP/1.1 100 Continue\r\n\r\n" + head + b"\r\n"


def _name(call: object) -> str:
    return type(call).__name__


# response bodies, with the indexes of their decoders in ``fuzz/targets/answers.py``
_ANSWERS = {
    '{"SessionId": "s", "SessionStatus": "NORMAL", "SplitMode": "Size", "SplitsCount": 2, '
    '"RecordCount": 5, "ExpirationTime": 1763676245000, "DataSchema": {"DataColumns": '
    '[{"Name": "id", "Type": "bigint", "ColumnId": "1"}], "PartitionColumns": []}}': (0, 1, 2, 9),
    '{"DataSchema": {"DataColumns": [{"Name": "id", "Type": "map<string,blob>", "ColumnId": "1", '
    '"Children": []}]}, "StreamId": "0", "AccessToken": "t", "RowOffset": "3"}': (3, 4),
    '{"CommitMessage": "m", "RecordCount": 3, "StagingId": "7", "RowOffset": 1}': (5, 10),
    '{"BlobReferences": ["cmVm"], "BlobSize": 3, "BlobMd5": "5eb63bbbe01eeed093cb22bb8f5acdc3"}': (
        6,
    ),
    '{"DownloadID": "d", "Status": "normal", "RecordCount": 1, "DataSchema": {}}': (7,),
    "<Project><Name>p</Name><Comment>c</Comment><Properties><Property><Name>a</Name><Value>b"
    "</Value></Property></Properties></Project>": (11,),
    '{"Tenant": {"Name": "n", "TenantId": "1", "Parameters": {"a": "b"}}}': (12,),
    "127.0.0.1:80": (13, 23),
    '<Table><Name>t</Name><Schema format="Json">{"columns": [{"name": "id", "type": "bigint"}], '
    '"partitionKeys": [{"name": "ds", "type": "string"}], "Reserved": "{}"}</Schema></Table>': (
        14,
    ),
    "<Tables><Marker>m</Marker><MaxItems>1</MaxItems><Table><Name>t</Name></Table></Tables>": (15,),
    '<Partition><Schema>{"createTime": 1}</Schema></Partition>': (16,),
    '<Partitions><Marker/><Partition><Column Name="ds" Value="x"/></Partition></Partitions>': (17,),
    "<Projects><Marker/><Project><Name>p</Name></Project></Projects>": (18,),
    "<Schemas><Marker/><Schema><Name>s</Name></Schema></Schemas>": (19,),
    '<Instance><Status>Terminated</Status><Tasks><Task Type="SQL"><Name>a</Name><Status>Success'
    '</Status><Result Format="csv" Transform="Base64">YQ==</Result></Task></Tasks></Instance>': (
        20,
        21,
    ),
    '{"Cost": {"SQL": {"Input": 1, "Complexity": 1.5, "UDF": 0}}}': (22,),
}


def _texts() -> Iterator[tuple[str, str, bytes]]:
    scripts = (
        "set a.b=1; select * from t where a = 'x;y' -- note",
        "create table if not exists t (id bigint not null, s string comment 'c', primary key (id)) "
        "partitioned by (ds string) lifecycle 3 tblproperties ('a'='b')",
        "create or replace view v (a comment 'x') comment 'c' as select 1 a",
        "insert overwrite table p.t partition (ds='x', h) (a, b) select 1, 2",
        "alter table t add if not exists partition (ds='a') partition (ds='b')",
        "alter table t add columns (x map<string,array<bigint>>)",
        "alter table t set tblproperties ('k'='v'); alter view v rename to w",
        "drop table if exists t; truncate table t partition (ds='x')",
        "update t set a = a + 1, b = 'x' where id in (1, 2); delete from t where id = 3",
        "show tables in s like 'a*'; show partitions t; desc extended t",
    )
    for number, text in enumerate(scripts):
        yield "sql_script", str(number), text.encode()
    queries = (
        "select i, count(*) c from t where s like 'a%' group by i with rollup having count(*) > 1",
        "select wm_concat(distinct ',', s), to_char(t, 'yyyy-mm-dd'), datediff(t, d, 'dd') from u",
        "with a as (select 1 i), b (j) as (select i from a) select * from a join b on a.i = b.j",
        "select v.i, p.u.n from v left outer join p.u on v.i = u.i order by 1 desc limit 3",
        "select * from t lateral view explode(array(1, 2)) w as z",
        "select row_number() over (partition by s order by i rows between 1 preceding and "
        "current row) from t",
        "select case when b then 1 else null end, cast('2024-01-31 10:00:00' as datetime), f is "
        "nan from t union all select 1, datetime '2024-01-31 10:00:00', not b from u",
        "select i from t where i in (select n from u) and exists (select 1 from v where v.s = t.s)",
        "select map('a', 1)['a'], named_struct('x', 1).x, split(s, ',')[0], keyvalue(s) from t",
        "select /*+ mapjoin(u) */ t.`i`, sum(distinct p) from t group by grouping sets ((s), ())",
        "values (1, 'a'), (2, null)",
        "insert into t (i, s) select i, s from u tablesample (10 percent)",
        "update t x set n = n + 1 where x.i = 2; delete from t where b",
        "create view w (a) as (select i from (select * from t) q)",
        "select * from t pivot (sum(i) for s in ('a', 'b'))",
        "select 1 $$(i) from t",
        "select regexp_replace(s, 'a') from t where year() = 1",
    )
    for number, text in enumerate(queries):
        yield "sql_query", str(number), text.encode()
    conditions = (
        "i > 1 and n is not null or not b",
        "s like 'a\\_%' or s in ('a', '12') and length(s) between 1 and 3",
        "d >= '2024-01-31' and t < '2024-02-29 13:00:00' and p = 1.10",
        "coalesce(s, 'x') = 'x' and f + i * 2 - 1 > 0.5e3",
        "lower(s) = 'a' and substr(s, 1, 2) <> concat(s, 'b')",
        "map('a') = 1 or date_add(t, 'b', i) = 2",
        "year(d) = 1 or regexp_replace(s, 'a') = 'b'",
        "cast(i as string) = '1' or cast(s as bigint) > 1 or cast(d as string) > '2024-01-31'",
        "p > cast('1.5' as decimal(10, 2)) or cast(i as decimal(20, 3)) = p",
        "t > cast('2024-01-31 10:00:00' as datetime) or d = cast('2024-01-31' as date)",
        "abs(i) = 1 or trim(s) = 'a' or ltrim(s) = chr(97) or month(d) + day(d) < 3",
        "i not between -1 and 1 or s not in ('a') or n is null and i % 2 = 1 and i / 2 > -(0.5)",
    )
    for number, text in enumerate(conditions):
        yield "where", str(number), text.encode()
        yield "filter_predicate", str(number), text.encode()


def _rows() -> Iterator[tuple[str, str, bytes]]:
    columns = tuple(parse_columns(ROWS))
    schema = arrow_schema(columns)
    moment = dt.datetime(2024, 2, 29, 12, 30, 1, 5)
    row = {
        **{"i": -5, "b": True, "f": 0.5, "d": -0.0, "s": "ü", "raw": b"\0", "day": moment.date()},
        **{"dt": moment, "ts": moment, "ntz": moment, "dec": Decimal("1.10"), "tags": ["a", None]},
        **{"m": [("k", 1), ("l", None)], "r": {"a": 1, "b": [0.5, None]}},
    }
    for name, rows in (("none", []), ("one", [row]), ("nulls", [row, {}, row])):
        batches = [pa.RecordBatch.from_pylist(rows, schema)]
        yield "tunnel_upload", name, b"".join(encode_rows(columns, iter(batches)))
        with mock.patch.object(tunnel_rows, "crc32c", return_value=0):
            yield "tunnel_upload", f"{name}-0", b"".join(encode_rows(columns, iter(batches)))
