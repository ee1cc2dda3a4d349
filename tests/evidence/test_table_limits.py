"""Limits of a table's definition: one test per line of ``docs/protocol.md`` section 9.6.

That section names the pages of the vendor's manual. Statements are sent to the service as a user
types them, so the client's own checks do not apply.
"""

from __future__ import annotations

from decimal import Decimal

import pandas as pd
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import OdpsNbError
from odps_nb.terms import PartitionSpec
from tests.support.named import NewName

MANY = ", ".join(f"c{i} int" for i in range(1200))
LEVELS = "a string, b varchar(5), c char(2), d tinyint, e smallint, f int"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("create table {}_größe (id bigint)", "not a valid table name"),
        ("create table 1{} (id bigint)", "not a valid table name"),
        ("create table {} (größe bigint)", "'größe' is not a valid column name"),
        ("create table {} (id bigint, `" + "长" * 43 + "` int)", "not a valid column name"),
        ("create table {} (" + MANY + ", one int)", "at most 1,200 columns; this one has 1,201"),
        ("create table {} (id bigint) partitioned by (" + LEVELS + ", g string)", "at most 6"),
        ("create table {} (id bigint) partitioned by (d date)", "DATE cannot be the type"),
        ("create table {} (id bigint) partitioned by (d datetime)", "DATETIME cannot be the type"),
        ("create table {} (id bigint) comment '" + "é" * 513 + "'", "1,026 bytes"),
        ("create table {} (id bigint comment '" + "x" * 1025 + "')", "column 'id' has 1,025 bytes"),
        ("create table {} (v decimal(39,0))", "SET odps.sql.decimal256.enable=true"),
        ("create table {} (v array<decimal(38,19)>)", "SET odps.sql.decimal2.extended.scale"),
    ],
)
def test_a_table_definition_beyond_a_limit_is_refused(
    odps: Connection, new_name: NewName, statement: str, problem: str
) -> None:
    name = new_name("limits")
    with pytest.raises(OdpsNbError, match=problem):
        odps.sql(statement.format(name))
    assert not odps.tables(f"*{name}*")


@pytest.mark.parametrize(
    "statement",
    [
        "create table {} (" + MANY + ")",
        "create table {} (长度 bigint) partitioned by (" + LEVELS + ")",
        "create table {} (_c0 bigint comment '" + "x" * 1024 + "') comment '" + "é" * 512 + "'",
        "create table {} (v decimal(38,18))",
    ],
)
def test_a_table_definition_at_the_limit_is_accepted(
    odps: Connection, new_name: NewName, statement: str
) -> None:
    name = new_name("limits")
    odps.sql(statement.format(name))
    assert odps.tables(name) == [name]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        *(
            ("string", value, "contains Chinese characters")
            for value in ("中文", "a中b", "\U00020000")
        ),
        ("varchar(3)", "abcd", "(3|4) characters"),
        ("char(3)", "abcd", "(3|4) characters"),
    ],
)
def test_a_partition_value_beyond_the_limits_of_its_type_is_refused(
    odps: Connection, new_name: NewName, kind: str, value: str, said: str
) -> None:
    """evidence 225: vendor's manual, *Overview of partitioned tables*."""
    name = new_name("limits")
    table = odps.create_table(name, "id bigint", partitioned_by=f"pt {kind}")
    spec = PartitionSpec((("pt", value),))
    for attempt in (
        lambda: odps.sql(f"alter table {name} add partition (pt='{value}')"),
        lambda: odps.sql(f"insert into {name} partition (pt='{value}') values (1)"),
        lambda: odps.sql(f"insert into {name} partition (pt) values (1, '{value}')"),
        lambda: table.write({"id": [1]}, partition=spec),
        lambda: table.write({"id": [1], "pt": [value]}),
        lambda: open_write_session(odps._storage, table.name, partition=spec),
    ):
        with pytest.raises(OdpsNbError, match=said):
            attempt()
    assert table.partitions() == []
    codes = odps.create_table(f"{name}_v", "id bigint", partitioned_by="pt varchar(9)")
    codes.write({"id": [1]}, partition=spec)
    assert codes.partitions() == [spec]


def test_sql_with_wide_decimals_needs_a_setting(odps: Connection, new_name: NewName) -> None:
    name, wide = new_name("limits"), {"odps.sql.decimal256.enable": "true"}
    odps.sql(f"create table {name} (v decimal(76,30))", settings=wide)
    with pytest.raises(OdpsNbError, match=r"SET odps\.sql\.decimal256\.enable=true"):
        odps.sql(f"alter table {name} add columns (w decimal(39,0))")
    odps.sql(f"alter table {name} add columns (w decimal(39,0))", settings=wide)
    assert odps.table(name).schema.names == ("v", "w")


def test_a_frame_of_wide_decimals_can_create_a_table(odps: Connection, new_name: NewName) -> None:
    values = [Decimal(10) ** 30, Decimal("1.123456789"), None]  # 40 digits, 9 after the point
    table = odps.create_table(new_name("limits"), pd.DataFrame({"v": values}))
    assert table.read().to_arrow()["v"].to_pylist() == values


def test_a_table_cannot_be_renamed_to_an_invalid_name(odps: Connection, new_name: NewName) -> None:
    name = new_name("limits")
    odps.create_table(name, "id bigint")
    with pytest.raises(OdpsNbError, match="not a valid table name"):
        odps.sql(f"alter table {name} rename to größe")
    assert odps.table(name).exists()
