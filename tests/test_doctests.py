"""Every example in every docstring of the package runs unchanged.

Examples that need a service can use a connection called ``odps``; Spark examples can use ``spark``.
"""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pandas as pd
import pytest

import odps_nb

PACKAGE = Path(odps_nb.__file__).parent


def _modules_with_examples() -> list[str]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>>" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            found.append(".".join(part for part in parts if part != "__init__"))
    return found


MODULES = _modules_with_examples()
ON_SPARK = [name for name in MODULES if name.startswith("odps_nb.spark.")]


def run(name: str, **given: object) -> None:
    with pd.option_context("display.width", 200, "display.max_columns", 20):
        result = doctest.testmod(importlib.import_module(name), extraglobs=given)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ON_SPARK])
def test_examples_show_their_actual_output(name, odps):
    run(name, odps=odps)


@pytest.mark.gate(2)
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("name", ON_SPARK)
def test_examples_of_spark_show_their_actual_output(name, odps, spark_session):
    run(name, odps=odps, spark=spark_session)
    for view in spark_session.catalog.listTables():
        spark_session.catalog.dropTempView(view.name)


def test_no_example_is_skipped():
    skipping = "# doctest: +" + "SKIP"
    assert not [
        path for path in PACKAGE.rglob("*.py") if skipping in path.read_text(encoding="utf-8")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "odps_nb.access.connection.Connection",
        "odps_nb.access.table.Table",
        "odps_nb.access.scan.Scan",
        "odps_nb.access.sql.Result",
        "odps_nb.access.connection.Connection.create_table",
        "odps_nb.access.connection.Connection.blobs",
        "odps_nb.access.blobs.column.BlobColumn.save",
        "odps_nb.access.blobs.column.BlobColumn.stream",
        "odps_nb.access.blobs.column.BlobColumn.fetch",
        "odps_nb.access.table.Table.blobs",
        "odps_nb.access.table.Table.read",
        "odps_nb.access.table.Table.write",
        "odps_nb.access.table.Table.open_write",
        "odps_nb.access.table.Table.upsert",
        "odps_nb.access.table.Table.delete",
        "odps_nb.access.blob.Blob",
        "odps_nb.access.blobs.column.BlobColumn",
        "odps_nb.access.blob.NewBlob",
        "odps_nb.spark.reading.dataframe.read",
        "odps_nb.spark.writing.dataframe.write",
        "odps_nb.spark.blobs.api.blob_map",
        "odps_nb.spark.blobs.api.with_blobs",
        "odps_nb.spark.pushdown.query.sql",
        "odps_nb.spark.pushdown.query.explain_sql",
        "odps_nb.spark.launch.session_factory.session",
        "odps_nb.access.receipt.Receipt",
        "odps_nb.access.connect.connect",
        *(f"odps_nb.stream_io.{name}" for name in odps_nb.stream_io.__all__ if "Stream" in name),
        "odps_nb.stream_io.ArrowReader",
        "odps_nb.stream_io.ArrowWriter",
        "odps_nb.stream_io.BlobDataIterator",
    ],
)
def test_public_classes_and_functions_have_examples(name):
    assert ">>>" in (pkgutil.resolve_name(name).__doc__ or "")
