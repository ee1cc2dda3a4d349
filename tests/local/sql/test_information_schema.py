"""The views of SYSTEM_CATALOG.INFORMATION_SCHEMA in SQL."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import OdpsNbError

THREE_PARTS = {"odps.namespace.schema": "true"}


def view(odps: Connection, columns: str, rest: str) -> list[tuple[object, ...]]:
    """Return rows of a view of the information schema; ``{}`` in ``rest`` is its prefix."""
    text = f"select {columns} from " + rest.format("SYSTEM_CATALOG.Information_Schema")
    rows = odps.sql(text, settings=THREE_PARTS).to_arrow().to_pylist()
    return [tuple(row.values()) for row in rows]


def test_views_of_the_information_schema_describe_tables_and_columns(
    odps: Connection, new_name: Callable[[str], str]
) -> None:
    name, keyed = new_name("information"), new_name("information")
    odps.sql(
        f"create table {name} (a bigint not null comment 'x', b array<string>)"
        " comment 'told' partitioned by (ds string) lifecycle 3"
    )
    odps.sql(f"insert into {name} partition (ds='1') values (7, null)")
    odps.sql(
        f"create table {keyed} (k bigint not null primary key, v string)"
        " tblproperties ('transactional'='true')"
    )
    odps.sql(f"create view {name}_v as select a from {name}")
    facts = "table_type, is_partitioned, table_comment, lifecycle, data_length is null"
    assert view(odps, facts, f"{{}}.TABLES where table_name = '{name}'") == [
        ("MANAGED_TABLE", True, "told", 3, True)
    ]
    assert view(odps, facts, f"{{}}.tables where table_name = '{keyed}'") == [
        ("MANAGED_TABLE", False, "", None, False)
    ]
    assert view(odps, "view_original_text", f"{{}}.tables where table_name = '{name}_v'") == [
        (f"select a from {name}",)
    ]
    columns = "ordinal_position, column_name, data_type, column_comment, is_nullable"
    assert view(
        odps,
        f"{columns}, is_partition_key, is_primary_key",
        f"{{}}.columns where table_name in ('{name}', '{keyed}') order by table_name, 1 limit 9",
    ) == [
        (1, "a", "bigint", "x", False, False, False),
        (2, "b", "array<string>", "", True, False, False),
        (3, "ds", "string", "", True, True, False),
        (1, "k", "bigint", "", False, False, True),
        (2, "v", "string", "", True, False, False),
    ]
    joined = (
        "{0}.partitions p join {0}.tables t on p.table_catalog = t.table_catalog"
        f" and p.table_name = t.table_name where t.table_name = '{name}'"
    )
    assert view(odps, "partition_name, p.data_length > 0", joined) == [("ds=1", True)]
    assert view(odps, "catalog_name, status", "{}.catalogs") == [("local", "Allowed")]
    task = f"{{}}.tasks_history where operation_text like 'create view {name}%'"
    assert view(odps, "status, task_type, length(ds), cost_cpu", task) == [
        ("Terminated", "SQL", 8, None)
    ]


@pytest.mark.parametrize(
    ("name", "settings", "problem"),
    [
        ("system_catalog.information_schema.tables", {}, "set odps.namespace.schema=true"),
        ("information_schema.tables", {}, "write SYSTEM_CATALOG.INFORMATION_SCHEMA.TABLES"),
        ("information_schema.tables", THREE_PARTS, "write SYSTEM_CATALOG.INFORMATION_SCHEMA"),
        ("system_catalog.information_schema.users", THREE_PARTS, "does not support .*USERS"),
        ("system_catalog.information_schema.nope", THREE_PARTS, "Table not found"),
        (
            "system_catalog.information_schema.tables version as of 1",
            THREE_PARTS,
            "AS OF a view",
        ),
    ],
)
def test_other_views_of_the_information_schema_are_refused(
    odps: Connection, name: str, settings: dict[str, str], problem: str
) -> None:
    with pytest.raises(OdpsNbError, match=problem):
        odps.sql(f"select * from {name}", settings=settings)
    assert "system_catalog" not in str(odps.tables())
