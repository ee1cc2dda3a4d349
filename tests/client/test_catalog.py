"""DDL text: nothing that a person types becomes SQL unchecked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.catalog import create_table_sql, drop_table_sql, quoted
from odps_nb.errors import InvalidRequestError
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import TableName
from odps_nb.wire.type_text import parse_columns

TABLE = TableName(project="p", table="t")
STRING = PrimitiveType(TypeCode.STRING)


def schema(columns: str, partitions: str = "") -> TableSchema:
    return TableSchema(
        columns=parse_columns(columns),
        partition_columns=parse_columns(partitions) if partitions else (),
    )


def test_a_table_with_everything():
    made = create_table_sql(
        TableName(project="p", schema="s", table="t"),
        schema("id bigint not null comment 'it\\'s', tags array<struct<a:string>>", "ds string"),
        if_not_exists=True,
        lifecycle=7,
    )
    assert made.startswith("create table if not exists `p`.`s`.`t` (`id` bigint not null comment ")
    assert made.endswith(
        "`tags` array<struct<a:string>>) partitioned by (`ds` string) lifecycle 7;"
    )


def test_dropping():
    assert drop_table_sql(TABLE) == "drop table `p`.`t`;"
    assert drop_table_sql(TABLE, if_exists=True) == "drop table if exists `p`.`t`;"
    assert quoted(TABLE) == "`p`.`t`"


@pytest.mark.parametrize(
    "name", ["", "a b", "a`b", "a;drop table x", "1a", "a-b", "x" * 129, "a\nb", "a'b", "ä b"]
)
def test_a_name_that_could_be_more_than_a_name_is_refused(name):
    with pytest.raises(InvalidRequestError, match="not a valid column name"):
        create_table_sql(TABLE, TableSchema(columns=(Column(name=name, type=STRING),)))
    with pytest.raises(InvalidRequestError, match="not a valid table name"):
        TableName(project="p", table=name)


def test_repeated_and_missing_columns_are_refused():
    twice = TableSchema(columns=(Column(name="a", type=STRING), Column(name="A", type=STRING)))
    with pytest.raises(InvalidRequestError, match="'A' is there twice"):
        create_table_sql(TABLE, twice)
    both = TableSchema(
        columns=(Column(name="a", type=STRING),), partition_columns=(Column(name="a", type=STRING),)
    )
    with pytest.raises(InvalidRequestError, match="twice"):
        create_table_sql(TABLE, both)
    with pytest.raises(InvalidRequestError, match="at least one column"):
        create_table_sql(TABLE, TableSchema())


@pytest.mark.parametrize("days", [0, -1, True, "7; drop table x", 1.5])
def test_a_lifecycle_is_a_number_of_days(days):
    with pytest.raises(InvalidRequestError, match="lifecycle"):
        create_table_sql(TABLE, schema("a string"), lifecycle=days)


@given(st.text(max_size=40))
def test_no_comment_leaves_its_quotes(comment):
    made = create_table_sql(
        TABLE, TableSchema(columns=(Column(name="a", type=STRING, comment=comment),))
    )
    inside = made[len("create table `p`.`t` (") : -len(");")]
    assert parse_columns(inside)[0].comment == comment
