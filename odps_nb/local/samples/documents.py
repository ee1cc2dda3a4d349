"""The ``documents`` table: BLOBs inside an array of structs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from odps_nb.local.samples import pictures
from odps_nb.local.samples.values import SampleBatch, SampleBlob
from odps_nb.schema import (
    ArrayType,
    Column,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
)
from odps_nb.terms import PartitionSpec

__all__ = ["ARROW_SCHEMA", "SCHEMA", "rows"]

_PAGE = StructType(
    (
        StructField("title", PrimitiveType(TypeCode.STRING)),
        StructField("page", PrimitiveType(TypeCode.BIGINT)),
        StructField("image", PrimitiveType(TypeCode.BLOB)),
    )
)
SCHEMA = TableSchema(
    columns=(
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="title", type=PrimitiveType(TypeCode.STRING)),
        Column(name="pages", type=ArrayType(_PAGE), comment="scans, in order"),
    )
)
_ARROW_PAGE = pa.struct([("title", pa.utf8()), ("page", pa.int64()), ("image", pa.binary())])
ARROW_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.utf8()),
        ("pages", pa.list_(pa.field("element", _ARROW_PAGE))),
    ]
)

# title, number of pages; None: no list at all
_DOCUMENTS = (
    ("Annual report", 4),
    ("Lease", 2),
    ("Recipe book", 3),
    ("Lab notes", 3),
    ("Lost", 0),
    ("Never scanned", None),
)


def _pages(title: str, count: int) -> list[dict[str, Any]]:
    pages: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        name = f"{title.lower().replace(' ', '_')}_{number}.png"
        image = SampleBlob(
            data=pictures.page(title, number, count), mime_type="image/png", file_name=name
        )
        # the second page of the lease was lost: a null BLOB inside a struct
        lost = title == "Lease" and number == 2
        pages.append(
            {"title": f"{title}, page {number}", "page": number, "image": None if lost else image}
        )
    return pages


def rows() -> Iterator[SampleBatch]:
    """Make the rows: one batch."""
    titles = [title for title, _ in _DOCUMENTS]
    pages = [None if count is None else _pages(title, count) for title, count in _DOCUMENTS]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(range(1, len(titles) + 1), pa.int64()),
            pa.array(titles, pa.utf8()),
            pa.array(
                [p if p is None else [{**page, "image": None} for page in p] for p in pages],
                ARROW_SCHEMA.field("pages").type,
            ),
        ],
        schema=ARROW_SCHEMA,
    )
    yield SampleBatch(partition=PartitionSpec(), batch=batch, blobs={"pages": pages})
