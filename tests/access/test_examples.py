"""The examples in the docstrings run as they are written, against the embedded service."""

import doctest
import importlib

import pandas as pd
import pytest

MODULES = [
    "odps_nb._faces",
    "odps_nb.access.blob",
    "odps_nb.access.connection",
    "odps_nb.access.receipt",
    "odps_nb.access.scan",
    "odps_nb.access.sql",
    "odps_nb.access.table",
    "odps_nb.client.profile",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_show_what_happens(name, odps):
    with pd.option_context("display.width", 200, "display.max_columns", 20):
        result = doctest.testmod(importlib.import_module(name), extraglobs={"odps": odps})
    assert result.attempted > 0
    assert result.failed == 0


def test_statements_without_rows_have_no_columns(odps, new_name):
    name = new_name("empty")
    result = odps.sql(f"create table {name} (id bigint)")
    assert result.row_count == 0
    assert result.to_arrow().num_columns == len(result.schema) == 0
    assert len(result.to_pandas()) == 0
    odps.drop_table(name)
