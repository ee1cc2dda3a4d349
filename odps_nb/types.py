"""Types in public signatures, for annotations: ``from odps_nb.types import TableName``.

Classes that users construct are exported by `odps_nb` itself. Imports are lazy; ``Loader`` and
``RowDataset`` need torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odps_nb.access.checks import Overwrite, PartitionLike
    from odps_nb.access.engines.dataset import TableDataset
    from odps_nb.access.partitions import PartitionDetails
    from odps_nb.access.queries import Queries, Query
    from odps_nb.access.writing.columns import ColumnsLike
    from odps_nb.access.writing.open_write import OpenStream, OpenWrite
    from odps_nb.client.auth.accounts import CredentialFunction, CredentialsLike
    from odps_nb.client.blob.file import BlobFile
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.seekable import SeekableBlob
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.blob_cache import BlobCache
    from odps_nb.client.calls.progress import Progress, ProgressTracker
    from odps_nb.client.calls.snapshot import Phase, ProgressSnapshot
    from odps_nb.client.read.increments import Bound
    from odps_nb.client.write.operations import StreamReceipt, WriteSessionRef
    from odps_nb.convert.fitting.conversions import (
        DecimalConversion,
        TextConversion,
        TimeConversion,
    )
    from odps_nb.convert.frame_options import Decimals, DtypeBackend
    from odps_nb.notebook.explore.charts.chart import Chart
    from odps_nb.notebook.explore.charts.choice import ChartAggregate, ChartKind, ChartStep
    from odps_nb.notebook.explore.explorer import Explorer
    from odps_nb.schema import Column, OdpsType, TableSchema
    from odps_nb.spark.blobs.cells import Row
    from odps_nb.spark.pushdown.query import SparkQuery
    from odps_nb.terms import BlobReference, PartitionSpec, Split, TableName, Transfer
    from odps_nb.torch.datasets import Loader as Loader
    from odps_nb.torch.datasets import RowDataset as RowDataset
    from odps_nb.wire._frame_parts import ChecksumKind
    from odps_nb.wire.control.cost import SqlCost
    from odps_nb.wire.control.tables import TableInfo
    from odps_nb.wire.frames import BlobRecord
    from odps_nb.wire.signing import Credentials

__all__ = [
    "BlobCache",
    "BlobFile",
    "BlobHead",
    "BlobRecord",
    "BlobReference",
    "Bound",
    "Chart",
    "ChartAggregate",
    "ChartKind",
    "ChartStep",
    "ChecksumKind",
    "Column",
    "ColumnsLike",
    "CredentialFunction",
    "Credentials",
    "CredentialsLike",
    "DecimalConversion",
    "Decimals",
    "DtypeBackend",
    "Explorer",
    "OdpsType",
    "OpenStream",
    "OpenWrite",
    "Overwrite",
    "PartitionDetails",
    "PartitionLike",
    "PartitionSpec",
    "Phase",
    "Progress",
    "ProgressSnapshot",
    "ProgressTracker",
    "Queries",
    "Query",
    "Row",
    "SeekableBlob",
    "SparkQuery",
    "Split",
    "SqlCost",
    "StreamReceipt",
    "StreamedBlob",
    "TableDataset",
    "TableInfo",
    "TableName",
    "TableSchema",
    "TextConversion",
    "TimeConversion",
    "Transfer",
    "WriteSessionRef",
]

_MODULES = {
    "access.checks": ["Overwrite", "PartitionLike"],
    "access.engines.dataset": ["TableDataset"],
    "access.partitions": ["PartitionDetails"],
    "access.queries": ["Queries", "Query"],
    "access.writing.columns": ["ColumnsLike"],
    "access.writing.open_write": ["OpenStream", "OpenWrite"],
    "client.auth.accounts": ["CredentialFunction", "CredentialsLike"],
    "client.blob.file": ["BlobFile"],
    "client.blob.response": ["BlobHead"],
    "client.blob.seekable": ["SeekableBlob"],
    "client.blob.streamed": ["StreamedBlob"],
    "client.blob_cache": ["BlobCache"],
    "client.calls.progress": ["Progress", "ProgressTracker"],
    "client.calls.snapshot": ["Phase", "ProgressSnapshot"],
    "client.read.increments": ["Bound"],
    "client.write.operations": ["StreamReceipt", "WriteSessionRef"],
    "convert.fitting.conversions": ["DecimalConversion", "TextConversion", "TimeConversion"],
    "convert.frame_options": ["Decimals", "DtypeBackend"],
    "notebook.explore.charts.chart": ["Chart"],
    "notebook.explore.charts.choice": ["ChartAggregate", "ChartKind", "ChartStep"],
    "notebook.explore.explorer": ["Explorer"],
    "schema": ["Column", "OdpsType", "TableSchema"],
    "spark.blobs.cells": ["Row"],
    "spark.pushdown.query": ["SparkQuery"],
    "terms": ["BlobReference", "PartitionSpec", "Split", "TableName", "Transfer"],
    "torch.datasets": ["Loader", "RowDataset"],
    "wire._frame_parts": ["ChecksumKind"],
    "wire.control.cost": ["SqlCost"],
    "wire.control.tables": ["TableInfo"],
    "wire.frames": ["BlobRecord"],
    "wire.signing": ["Credentials"],
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'odps_nb.types' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"odps_nb.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
