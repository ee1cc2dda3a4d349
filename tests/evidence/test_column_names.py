"""Evidence 156: columns named ``44``, ``5列`` and ``'列七'``, with the quotes.

The live test ``filterPushDownColumnNames`` of the vendor's Spark connector creates, writes, reads
and filters a table with these names.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError, OdpsNbError
from tests.support.named import NewName

NAMES = ("c0", "44", "5列", "列六", "'列七'")
WHERE = "c0 = 0 and `44` = 1 and `5列` in (2) and `列六` = 3 and `'列七'` = 4"
ROWS = pd.DataFrame({name: [i, i + 1, i + 2] for i, name in enumerate(NAMES)})
LISTED = ", ".join(f"`{name}` bigint" for name in NAMES)

MAKERS: dict[str, Callable[[Connection, str], object]] = {
    "frame": lambda odps, name: odps.create_table(name, ROWS.head(0)),
    "text": lambda odps, name: odps.create_table(name, LISTED),
    "arrow": lambda odps, name: odps.create_table(name, pa.schema({n: pa.int64() for n in NAMES})),
    "sql": lambda odps, name: odps.sql(f"create table {name} ({LISTED})"),
    "added": lambda odps, name: [
        odps.sql(f"create table {name} (c0 bigint)"),
        odps.sql(f"alter table {name} add columns (`44` bigint, `5列` bigint, `列六` bigint)"),
        odps.sql(f"alter table {name} add column `'列七'` bigint"),
    ],
}


@pytest.mark.parametrize("way", MAKERS)
def test_columns_with_unusual_names_are_created_written_read_and_filtered(
    odps: Connection, new_name: NewName, way: str
) -> None:
    name = new_name("names")
    MAKERS[way](odps, name)
    table = odps.table(name)
    assert table.schema.names == NAMES
    assert table.write(ROWS).rows == 3
    odps.sql(f"insert into {name} ({', '.join(f'`{n}`' for n in NAMES)}) values (9, 8, 7, 6, 5)")
    found = table.read(where=WHERE).to_pandas()
    assert found.values.tolist() == [[0, 1, 2, 3, 4]]
    assert table.read(["'列七'", "44"]).to_pandas().columns.tolist() == ["'列七'", "44"]
    assert odps.sql(f"select * from {name} where {WHERE}").to_pandas().shape == (1, 5)
    described = odps.sql(f"desc {name}").to_pandas()
    assert tuple(described["name"]) == NAMES
    (made,) = odps.sql(f"show create table {name}").to_pandas()["statement"]
    odps.drop_table(name)
    odps.sql(made)
    assert odps.table(name).schema.names == NAMES


def test_names_are_bound_in_back_quotes(odps: Connection, new_name: NewName) -> None:
    table = new_name("names")
    odps.create_table(table, ROWS)
    given = {"t": table, "some": ["44", "'列七'"], "one": "5列", "v": 2}
    found = odps.sql("select {some} from {t} where {one} = :v", params=given).to_pandas()
    assert found.values.tolist() == [[1, 4]]
    assert odps.table(table).read(where="{one} = :v", params=given).to_pandas().shape == (1, 5)


def test_engines_and_the_explorer_filter_and_sort_columns_with_unusual_names(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("names"), ROWS)
    dataset = table.dataset()
    shown = duckdb.query("""select "44" from dataset where "'列七'" = 4""").fetchall()
    assert (shown, dataset.count_rows()) == ([(1,)], 3)
    lazy = table.scan_polars().filter((pl.col("44") == 1) & (pl.col("'列七'") == 4))
    assert lazy.collect().shape == (1, 5)
    rows = rows_of(table.read())
    for name in NAMES:
        ordered = rows.ordered(((name, True),), "`44` > 1")
        assert [row["c0"] for batch in ordered.every() for row in batch.to_pylist()] == [2, 1]


def test_names_of_partition_columns_may_begin_with_a_digit_and_contain_no_quote(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("names")
    table = odps.create_table(name, "`44` bigint", partitioned_by="`5p` string, 列 int")
    table.write(pd.DataFrame({"44": [1]}), partition={"5p": "a", "列": 1})
    table.write(pd.DataFrame({"44": [2, 3], "5p": ["b", "c"]}), partition="列=2")
    odps.sql(f"insert into {name} partition (`5p`='d', 列=4) values (4)")
    odps.sql(f"alter table {name} add partition (`5p`='e', 列=5)")
    assert [str(one) for one in table.partitions()] == [
        "5p=a,列=1", "5p=b,列=2", "5p=c,列=2", "5p=d,列=4", "5p=e,列=5",
    ]  # fmt: skip
    for chosen in ("5p=b,列=2", {"5p": "b"}, "5p<=b,列>1"):
        assert table.read(partitions=chosen).to_pandas()["44"].tolist() == [2]
    assert table.read(where="`5p` = 'd'").to_pandas()["44"].tolist() == [4]
    assert table.drop_partition("5p=a,列=1") is None
    for make in (
        lambda: odps.create_table(new_name("bad"), "a bigint", partitioned_by="`'p'` string"),
        lambda: odps.sql(f"create table {new_name('bad')} (a int) partitioned by (`'p'` string)"),
    ):
        with pytest.raises(OdpsNbError, match="a partition column cannot be named"):
            make()


def test_key_columns_changed_columns_and_blob_columns_may_have_unusual_names(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("names")
    table = odps.create_table(name, "`44` bigint, `'列七'` string", primary_key="44")
    table.upsert(pd.DataFrame({"44": [1, 2, 3], "'列七'": ["a", "b", "c"]}))
    table.delete([1])
    odps.sql(f"update {name} set `'列七'` = 'u' where `44` = 3")
    odps.sql(
        f"merge into {name} t using (select 2 as `44`, 'm' as `'列七'`) s on t.`44` = s.`44` "
        "when matched then update set t.`'列七'` = s.`'列七'`"
    )
    assert sorted(table.read().to_pandas().values.tolist()) == [[2, "m"], [3, "u"]]
    blobs = odps.create_table(new_name("names"), "`44` bigint, `5'b` blob")
    blobs.write(pd.DataFrame({"44": [1], "5'b": [b"bytes"]}))
    assert [one.bytes() for one in blobs.blobs("5'b")] == [b"bytes"]


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a.b", "a`b", 'a"b', "a,b", "a-b", "a\nb", "\u200b", "größe", "列" * 43],
)
def test_other_names_are_refused_by_client_and_service(
    odps: Connection, new_name: NewName, name: str
) -> None:
    with pytest.raises(ArgumentError, match="is not a valid column name"):
        odps.create_table(new_name("bad"), pd.DataFrame({name: [1]}))
    written = name.replace("`", "``")
    with pytest.raises(OdpsNbError, match=r"is not a valid column name|expected a name"):
        odps.sql(f"create table {new_name('bad')} (`{written}` bigint)")


@pytest.mark.parametrize("name", ["44", "5列", "'列七'"])
def test_without_back_quotes_an_unusual_name_is_invalid(
    odps: Connection, new_name: NewName, name: str
) -> None:
    with pytest.raises(OdpsNbError, match="name"):
        odps.sql(f"create table {new_name('bad')} ({name} bigint)")
