"""The tables ``types_all``, ``media`` and ``documents``, from Parquet files in this folder.

``tools/sample_files`` generates these files. A few blobs of ``media`` are deliberately problematic:
they are empty or corrupt, declare a wrong type, contain scripts or too many pixels, or have HTML in
their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odps_nb.local.store.arrow_types import arrow_schema
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import parse_columns

Store = Callable[[bytes, str, str], bytes]
"""Stores a blob (data, media type, file name) and returns the bytes of its reference."""
Batches = Iterator[tuple[PartitionSpec, pa.RecordBatch]]

# JSON is in this table and not in `orders`, because the real Storage API cannot read JSON columns.
# The two INTERVAL types are omitted, because reads and writes use different forms of them.
TYPES_ALL = TableSchema(
    columns=parse_columns(
        "row_name string, c_tinyint tinyint, c_smallint smallint, c_int int, c_bigint bigint,"
        " c_float float, c_double double, c_boolean boolean, c_decimal decimal,"
        " c_decimal_38_0 decimal(38,0), c_decimal_10_4 decimal(10,4), c_string string,"
        " c_char char(5), c_varchar varchar(20), c_binary binary, c_date date,"
        " c_datetime datetime, c_timestamp timestamp, c_timestamp_ntz timestamp_ntz, c_json json"
    )
)
MEDIA = TableSchema(
    columns=parse_columns(
        "id bigint, name string comment 'file name',"
        " declared string comment 'media type declared by the uploader; not always true',"
        " content blob comment 'the file'"
    )
)
DOCUMENTS = TableSchema(
    columns=parse_columns(
        "id bigint, title string,"
        " pages array<struct<title:string,page:bigint,image:blob>> comment 'scans, in order'"
    )
)


def types_all() -> Batches:
    """Yield the rows of ``types_all``: each scalar type with its extreme values."""
    (batch,) = _read("types_all").to_batches()
    yield PartitionSpec(), batch.cast(arrow_schema(TYPES_ALL.columns))


def media(store: Store) -> Batches:
    """Yield the rows of ``media``: about fifty files."""
    rows: list[dict[str, Any]] = _read("media").to_pylist()
    for row in rows:
        if row["content"] is not None:
            row["content"] = store(row["content"], row["declared"] or "", row["name"])
    yield PartitionSpec(), pa.RecordBatch.from_pylist(rows, arrow_schema(MEDIA.columns))


def documents(store: Store) -> Batches:
    """Yield the rows of ``documents``: blobs inside an array of structs."""
    rows: list[dict[str, Any]] = _read("documents").to_pylist()
    for row in rows:
        for page in row["pages"] or ():
            if page["image"] is not None:
                name = f"{row['title'].lower().replace(' ', '_')}_{page['page']}.png"
                page["image"] = store(page["image"], "image/png", name)
    yield PartitionSpec(), pa.RecordBatch.from_pylist(rows, arrow_schema(DOCUMENTS.columns))


def _read(name: str) -> pa.Table:
    return pq.read_table(Path(__file__).with_name(f"{name}.parquet"))
