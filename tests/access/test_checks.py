"""Names of columns and partitions are checked against the schema of a table."""

import pyarrow as pa
import pytest

from odps_nb.access.checks import check_columns, check_partition
from odps_nb.access.partitions import parse_choices
from odps_nb.access.writing.columns import schema_of
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import TableSchema
from odps_nb.spark.source.options import WriteSettings
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import format_columns, parse_columns

NAME = TableName(project="p", table="orders")
SCHEMA = TableSchema(
    columns=parse_columns("id bigint, amount double"),
    partition_columns=parse_columns("ds string, hour string"),
)


def test_column_names_are_returned_in_the_case_of_the_table():
    assert check_columns(["AMOUNT", "ds"], SCHEMA, NAME) == ("amount", "ds")


def test_columns_must_be_a_list_without_duplicates():
    with pytest.raises(ArgumentError, match="twice"):
        check_columns(["id", "ID"], SCHEMA, NAME)
    with pytest.raises(ArgumentError, match="it must be a list") as caught:
        check_columns("id", SCHEMA, NAME)
    assert "columns=['id']" in caught.value.hint


def test_partitions_are_accepted_in_any_form():
    one = PartitionSpec((("ds", "x"),))
    for given in ("ds=x", ["ds='x'"], {"ds": "x"}, one, [one], ("ds=x",)):
        assert parse_choices(given) == (one,)
    assert parse_choices(None) == ()
    with pytest.raises(ArgumentError, match="the choice of partitions is empty"):
        parse_choices([])
    spec = PartitionSpec.of("hour=3,DS=x")
    assert check_partition(spec, SCHEMA, NAME) == PartitionSpec((("ds", "x"), ("hour", "3")))


@pytest.mark.parametrize("empty", ["", {}])
def test_an_empty_partition_is_not_written_to(odps, new_name, tmp_path, empty):
    """It would mean the partitions of the rows, or with overwrite=True the whole table."""
    name = new_name("parted")
    table = odps.create_table(
        name, "id bigint not null", partitioned_by="ds string", primary_key="id"
    )
    rows = {"id": [1], "ds": ["x"]}
    for write in (
        lambda: table.write(rows, partition=empty, overwrite=True),
        lambda: table.upsert(rows, partition=empty),
        lambda: table.delete(rows, partition=empty),
        lambda: table.open_write(empty),
        lambda: odps.table(new_name("files")).write_files(tmp_path, partition=empty),
        lambda: WriteSettings.of({**odps.profile.as_options(), "table": name, "partition": ""}),
    ):
        with pytest.raises(ArgumentError, match="the partition is empty"):
            write()
    assert table.partitions() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [("dt=x", "not a partition column"), ("ds=x,ds=y", "twice"), ("ds", "not a partition level")],
)
def test_a_wrong_partition_is_refused(text, said):
    with pytest.raises(ArgumentError, match=said):
        check_partition(PartitionSpec.of(text), SCHEMA, NAME)


# -- new tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "partitioned_by"),
    [
        ("id bigint, note string", "ds string"),
        (["id bigint", "note string"], ["ds string"]),
        (("id bigint, note string",), "ds string"),
        ({"id": "bigint", "note": "string"}, "ds string"),
        (pa.schema([("id", pa.int64()), ("note", pa.string()), ("ds", pa.string())]), "ds"),
        (pa.schema([("id", pa.int64()), ("note", pa.string()), ("ds", pa.string())]), ["DS"]),
        (TableSchema(columns=parse_columns("id bigint, note string, ds string")), ["ds"]),
    ],
)
def test_column_descriptions_are_accepted_in_many_forms(columns, partitioned_by):
    schema = schema_of(columns, partitioned_by)
    assert format_columns(schema.columns) == "`id` bigint, `note` string"
    assert format_columns(schema.partition_columns) == "`ds` string"


def test_a_table_schema_is_used_unchanged():
    assert schema_of(SCHEMA) is SCHEMA
    with pytest.raises(ArgumentError, match="already"):
        schema_of(SCHEMA, "x string")


def test_the_error_names_a_missing_partition_column():
    with pytest.raises(ArgumentError, match="no column 'dss'") as caught:
        schema_of("id bigint, ds string", "dss")
    assert "did you mean 'ds'?" in caught.value.hint
    assert "'dss string'" in caught.value.hint


def test_an_invalid_list_of_columns_is_refused():
    with pytest.raises(ArgumentError, match="columns is of type int"):
        schema_of(5)
    with pytest.raises(ArgumentError, match="cannot read type text"):
        schema_of("id bigimt")
    with pytest.raises(ConversionError, match="no MaxCompute type"):
        schema_of(pa.schema([("t", pa.time64("ns"))]))
