"""The tables ``media`` and ``documents``: files of many kinds in BLOB columns.

``tools/sample_files`` makes the Parquet files beside this module. A few files of ``media`` are
traps: empty, corrupt, wrongly declared, too many pixels, scripts inside, a name that is markup.
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
"""Keeps a blob, given as data, media type and file name; returns the bytes of its reference."""
Batches = Iterator[tuple[PartitionSpec, pa.RecordBatch]]

MEDIA = TableSchema(
    columns=parse_columns(
        "id bigint, name string comment 'file name',"
        " declared string comment 'what the uploader says it is; not always true',"
        " content blob comment 'the file'"
    )
)
DOCUMENTS = TableSchema(
    columns=parse_columns(
        "id bigint, title string,"
        " pages array<struct<title:string,page:bigint,image:blob>> comment 'scans, in order'"
    )
)


def media(store: Store) -> Batches:
    """Yield the rows of ``media``: some forty files."""
    rows = _rows("media")
    for row in rows:
        if row["content"] is not None:
            row["content"] = store(row["content"], row["declared"] or "", row["name"])
    yield PartitionSpec(), pa.RecordBatch.from_pylist(rows, arrow_schema(MEDIA.columns))


def documents(store: Store) -> Batches:
    """Yield the rows of ``documents``: blobs inside an array of structs."""
    rows = _rows("documents")
    for row in rows:
        for page in row["pages"] or ():
            if page["image"] is not None:
                name = f"{row['title'].lower().replace(' ', '_')}_{page['page']}.png"
                page["image"] = store(page["image"], "image/png", name)
    yield PartitionSpec(), pa.RecordBatch.from_pylist(rows, arrow_schema(DOCUMENTS.columns))


def _rows(name: str) -> list[dict[str, Any]]:
    table = pq.read_table(Path(__file__).with_name(f"{name}.parquet"))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
