"""No form of a read has CHAR values with trailing blanks, whether or not the service sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.local.server import launch
from odps_nb.local.server.launch import LocalService
from tests.support.service.connecting import connected
from tests.support.service.services import by_storage_api

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table

TYPES = {
    "c": "char(5)",
    "v": "varchar(5)",
    "a": "array<char(4)>",
    "m": "map<char(3),char(4)>",
    "s": "struct<x:char(4),y:string>",
    "d": "array<struct<z:char(2)>>",
}
STRIPPED: dict[str, list[Any]] = {
    "id": [1, 2, 3, 4, 5],
    "c": ["ab", "", None, " é\t", "abcde"],
    "v": ["ab ", "", None, " ", "abcde"],
    "a": [["x", None, ""], [], None, ["中"], ["abcd"]],
    "m": [[("k", "v")], [], None, [("", None)], [("kkk", "𝄞")]],
    "s": [{"x": "q", "y": "q "}, {"x": None, "y": ""}, None, {"x": "", "y": " "}, None],
    "d": [[{"z": "1"}, None], [], None, [{"z": None}], [{"z": "22"}]],
}
PADDED = STRIPPED | {
    "c": ["ab   ", "     ", None, " é\t  ", "abcde"],
    "a": [["x   ", None, "    "], [], None, ["中   "], ["abcd"]],
    "m": [[("k  ", "v   ")], [], None, [("   ", None)], [("kkk", "𝄞   ")]],
    "s": [{"x": "q   ", "y": "q "}, {"x": None, "y": ""}, None, {"x": "    ", "y": " "}, None],
    "d": [[{"z": "1 "}, None], [], None, [{"z": None}], [{"z": "22"}]],
}


def as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (list, tuple)):
        return type(value)(map(as_bytes, value))
    return {key: as_bytes(one) for key, one in value.items()} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def unpadded_service() -> Iterator[LocalService]:
    """A service that sends CHAR values without trailing blanks."""
    with launch.start(samples=False, options=("--form", "char=stripped")) as running:
        yield running


@pytest.fixture(scope="module", params=["padded", "stripped"])
def padding(request: pytest.FixtureRequest) -> str:
    """Whether the service sends CHAR values with or without trailing blanks."""
    return str(request.param)


@pytest.fixture(scope="module")
def odps(padding: str, request: pytest.FixtureRequest) -> Iterator[Connection]:
    name = "empty_service" if padding == "padded" else "unpadded_service"
    with connected(request.getfixturevalue(name)) as connection:
        yield connection


@pytest.fixture(scope="module")
def table(odps: Connection) -> Iterator[Table]:
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    made = odps.create_table("chars", f"id bigint, {columns}", partitioned_by="p char(4)")
    made.write(pd.DataFrame(STRIPPED), partition="p=x")
    yield made
    odps.drop_table("chars")


Cells = dict[str, list[Any]]


def forms(table: Table, **options: Any) -> dict[str, Callable[[], Cells]]:
    """Return functions that read rows in every form, as Python values in row order."""
    columns = ["id", *TYPES]

    def scan(**more: Any) -> Any:
        return table.read(columns, **options, **more)

    def sql(query: str = f"select {', '.join(columns)} from chars") -> Any:
        return table.connection.sql(query, **options)

    def arrow(rows: Any) -> Cells:
        return pa.table(rows).sort_by("id").select(columns).to_pydict()

    def frame(rows: pd.DataFrame) -> Cells:
        found = rows.sort_values("id")
        cells = {name: [None if c != c else c for c in found[name].tolist()] for name in columns}
        return cells | {"m": [None if one is None else list(one.items()) for one in cells["m"]]}

    def tasks(**more: Any) -> list[pa.RecordBatch]:
        return [batch for task in scan(**more)._split_tasks() for batch in task.batches()]

    since = {"since": lambda: arrow(scan(since=0).to_arrow())} if by_storage_api() else {}
    return {
        "to_arrow": lambda: arrow(scan().to_arrow()),
        "splits": lambda: arrow(scan(splits=3).to_arrow()),
        "batches": lambda: arrow(pa.Table.from_batches(list(scan().batches()))),
        "stream": lambda: arrow(pa.table(scan())),
        "pandas": lambda: frame(scan().to_pandas()),
        "dataset": lambda: arrow(scan().dataset().to_table()),
        "tasks": lambda: arrow(pa.Table.from_batches(tasks())),
        "preview": lambda: frame(table.head(5, **options)),
        "preview of columns": lambda: frame(table.head(5, columns=columns, **options)),
        "head": lambda: frame(table.head(5, columns=[*columns, "p"], **options)),
        "where": lambda: arrow(scan(where="id > 0").to_arrow()),
        **since,
        "sql": lambda: arrow(sql().to_arrow()),
        "sql in pandas": lambda: frame(sql().to_pandas()),
    }


@pytest.mark.gate(1)
def test_no_form_of_a_read_has_trailing_blanks(table: Table) -> None:
    """Evidence 153: CHAR(n) may arrive padded to n characters; users get it without padding."""
    for name, shown in forms(table).items():
        assert shown() == STRIPPED, name


@pytest.mark.gate(1)
def test_an_option_keeps_the_blanks_that_the_service_sends(table: Table, padding: str) -> None:
    sent = PADDED if padding == "padded" else STRIPPED
    for name, shown in forms(table, char_padding=True).items():
        assert shown() == sent, name


@pytest.mark.gate(1)
def test_bytes_have_trailing_blanks_only_with_the_option(table: Table, padding: str) -> None:
    sent = PADDED if padding == "padded" else STRIPPED
    for name, shown in forms(table, text="binary").items():
        assert shown() == as_bytes(STRIPPED), name
    for name, shown in forms(table, text="binary", char_padding=True).items():
        assert shown() == as_bytes(sent), name


def test_rows_are_selected_by_the_displayed_value(table: Table) -> None:
    """Evidence 153: ``df[df.c == 'ab']`` would be empty if values were padded."""
    frame = table.read(["id", "c"]).to_pandas()
    assert frame[frame.c == "ab"].id.tolist() == [1]
    arrow_backed = table.read(["id", "c"]).to_pandas(dtype_backend="pyarrow")
    assert arrow_backed[arrow_backed.c == "ab"].id.tolist() == [1]
    assert table.read().to_polars().filter(pl.col("c") == "ab")["id"].to_list() == [1]
    lazy = table.scan_polars().filter(pl.col("c").is_in(["ab", ""])).select("id")
    assert sorted(lazy.collect()["id"].to_list()) == [1, 2]
    rows = table.dataset()  # noqa: F841  # DuckDB finds it by its variable name
    assert duckdb.sql("select id from rows where c = 'ab'").fetchall() == [(1,)]
    assert duckdb.sql("select id from rows where c <> 'ab ' order by id").fetchall() == [
        *[(1,), (2,), (4,), (5,)]
    ]


CONDITIONS = {
    "c = 'ab'": [1],
    "c = 'ab  '": [1],
    "'ab ' = c": [1],
    "c = ''": [2],
    "c in ('ab ', 'abcde')": [1, 5],
    "c not in ('ab ', 'abcde')": [2, 4],
    "c <> 'ab'": [2, 4, 5],
    "c < 'ab '": [2, 4],
    "c between 'ab ' and 'abcde '": [1, 5],
    "c is null": [3],
}


@pytest.mark.gate(6)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_client_and_service_ignore_trailing_blanks_in_conditions(
    table: Table, condition: str
) -> None:
    """Evidence 153; "Data types" of the manual: trailing blanks are ignored in comparisons."""
    for options in ({}, {"char_padding": True}, {"text": "binary"}):
        found = table.read(["id"], where=condition, **options).to_arrow()
        assert sorted(found["id"].to_pylist()) == CONDITIONS[condition], options
    query = f"select id from chars where {condition} order by id"
    assert table.connection.sql(query).to_arrow()["id"].to_pylist() == CONDITIONS[condition]


def test_sql_groups_and_joins_without_blanks(odps: Connection, table: Table) -> None:
    odps.create_table("more_chars", "k char(9), n bigint")
    odps.sql("insert into more_chars values ('ab ', 1), ('ab', 2), ('abcde    ', 3)")
    grouped = odps.sql("select k, sum(n) as n from more_chars group by k order by k").to_arrow()
    assert grouped.to_pylist() == [{"k": "ab", "n": 3}, {"k": "abcde", "n": 3}]
    joined = "select m.n from more_chars m join chars t on m.k = t.c order by m.n"
    assert odps.sql(joined).to_arrow()["n"].to_pylist() == [1, 2, 3]
    used = odps.sql("select concat(c, '|') as t, length(c) as n from chars where id = 1")
    assert used.to_arrow().to_pylist() == [{"t": "ab|", "n": 2}]
    odps.drop_table("more_chars")


@pytest.mark.gate(1)
@pytest.mark.parametrize("char_padding", [False, True])
def test_values_that_were_read_can_be_written_unchanged(
    odps: Connection, table: Table, *, char_padding: bool
) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    again = odps.create_table("chars_again", f"id bigint, {columns}")
    before = table.read(["id", *TYPES], char_padding=char_padding)
    for rows in (before.to_arrow(), before.to_pandas(), before.to_polars()):
        again.write(rows, overwrite=True)
        for options in ({"char_padding": True}, {}):
            after = again.read(**options).to_arrow().sort_by("id")
            wanted = table.read(["id", *TYPES], **options).to_arrow().sort_by("id")
            assert after.to_pylist() == wanted.to_pylist()
    odps.drop_table("chars_again")


@pytest.mark.parametrize(
    "data",
    [["abcdef"], ["ab    "], pa.array(["      "]), [b"ab    "]],
    ids=["letters", "blanks behind", "blanks", "bytes"],
)
def test_the_length_of_a_char_value_includes_its_blanks(odps: Connection, data: Any) -> None:
    """Stock pyodps also counts blanks; a value that was read always fits."""
    made = odps.create_table("too_long", "c char(5)")
    with pytest.raises(ConversionError, match="more than 5 characters"):
        made.write(pa.table({"c": data}))
    odps.drop_table("too_long")


def test_char_keys_that_differ_in_trailing_blanks_are_equal(odps: Connection) -> None:
    made = odps.create_table(
        "char_keys",
        "k char(4), v bigint",
        primary_key="k",
        properties={"acid.cdc.mode.enable": True},
    )
    made.upsert(pd.DataFrame({"k": ["ab", "cd  ", "ef"], "v": [1, 2, 3]}))
    made.upsert(pd.DataFrame({"k": ["ab  ", "cd"], "v": [10, 20]}))
    made.delete(["ef "])
    assert made.read().to_arrow().sort_by("k").to_pylist() == [
        {"k": "ab", "v": 10},
        {"k": "cd", "v": 20},
    ]
    if by_storage_api():
        changes = made.read(since=1, changes=True).to_pandas()
        assert set(changes.k) == {"ab", "cd", "ef"}
    odps.drop_table("char_keys")


@pytest.mark.parametrize("bound", ["p>='x '", {"p >=": "x "}, {"p <=": "x"}, {"p <=": "x  "}])
def test_blanks_after_a_bound_on_a_char_partition_are_ignored(table: Table, bound: Any) -> None:
    assert sorted(table.read(["id"], partitions=bound).to_arrow()["id"].to_pylist()) == [
        *range(1, 6)
    ]


def test_the_repr_of_a_scan_shows_the_option(table: Table) -> None:
    assert "char_padding=True" in repr(table.read(char_padding=True))
    assert "char_padding" not in repr(table.read())
    with pytest.raises(ArgumentError, match="char_padding is 'yes'; it must be True or False"):
        table.read(char_padding="yes")  # type: ignore[arg-type]
