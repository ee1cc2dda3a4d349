"""Text that is not UTF-8 raises an error that names the cell, is replaced, or is read as bytes."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import odps_nb
from odps_nb.client.calls.attempts import Attempts
from odps_nb.errors import ArgumentError, ConversionError
from tests.support.any_bytes import replaced, send, text_of
from tests.support.named import NewName

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table

CAFE = b"caf\xe9"
NESTED = "a array<string>, m map<string,bigint>, r struct<x:string>, d array<struct<y:string>>"
COLUMNS = {
    "id": pa.array([1, 2, 3, 4]),
    "s": text_of([b"a", CAFE, b"\x00\x01\x02", None]),
    "a": text_of([[b"x"], [b"y", b"\xff"], None, []], pa.list_(pa.field("element", pa.string()))),
    "m": text_of([[(b"k", 1)], [], [(b"\xfe", 2)], None], pa.map_(pa.string(), pa.int64())),
    "r": text_of([{"x": b"1"}, None, {"x": CAFE}, {"x": None}], pa.struct([("x", pa.string())])),
    "d": text_of(
        [[], [{"y": b"z"}], [{"y": None}, {"y": b"\xe2\x82"}], None],
        pa.list_(pa.field("element", pa.struct([("y", pa.string())]))),
    ),
}
BYTES = {
    "s": [b"a", CAFE, b"\x00\x01\x02", None],
    "a": [[b"x"], [b"y", b"\xff"], None, []],
    "m": [[(b"k", 1)], [], [(b"\xfe", 2)], None],
    "r": [{"x": b"1"}, None, {"x": CAFE}, {"x": None}],
    "d": [[], [{"y": b"z"}], [{"y": None}, {"y": b"\xe2\x82"}], None],
}
PLACES = {
    "s": ("s", 1, "63 61 66 e9"),
    "a": ("a.element", 1, "ff"),
    "m": ("m.key", 2, "fe"),
    "r": ("r.x", 2, "63 61 66 e9"),
    "d": ("d.element.y", 2, "e2 82"),
}


SHOWN = {"binary": BYTES, "replace": {name: replaced(cells) for name, cells in BYTES.items()}}


@pytest.fixture(scope="module")
def table(odps: Connection) -> Iterator[Table]:
    name = "any_bytes"
    odps.create_table(name, f"id bigint, s string, {NESTED}", partitioned_by="ds string")
    rows = {**COLUMNS, "ds": pa.array(["x"] * 4)}
    send(odps, name, rows)
    yield odps.table(name)
    odps.drop_table(name)


@pytest.mark.parametrize("source", ["scan", "result"])
def test_a_write_of_rows_that_cannot_be_read_raises_the_error_of_the_read(
    odps: Connection, table: Table, new_name: NewName, source: str
) -> None:
    query = f"select id, s from {table.name} where ds = 'x'"
    rows: Any = table.read(["id", "s"]) if source == "scan" else odps.sql(query)
    copy = odps.create_table(new_name("copy"), "id bigint, s string")
    with pytest.raises(ConversionError, match="the text of column 's'") as caught:
        copy.write(rows)
    assert "Traceback" not in caught.value.message
    assert 'text="replace"' in str(caught.value.hint)


def no_pause(self: Attempts, seconds: float) -> None:
    raise AssertionError("text that is not UTF-8 was read again")


def forms(table: Table, column: str, mode: str) -> dict[str, Callable[[], list[Any]]]:
    """Return functions that read a column in every form, as Python values in row order."""

    def scan() -> Any:
        return table.read(["id", column], text=mode)

    def arrow(rows: Any) -> list[Any]:
        return pa.table(rows).sort_by("id").column(column).to_pylist()

    def frame(rows: Any) -> list[Any]:
        """Return the cells of a DataFrame, in which a MAP is a dict and a null may be NaN."""
        cells = rows.sort_values("id")[column].tolist()
        cells = [None if cell != cell else cell for cell in cells]
        return [
            list(cell.items()) if column == "m" and cell is not None else cell for cell in cells
        ]

    return {
        "to_arrow": lambda: arrow(scan().to_arrow()),
        "batches": lambda: arrow(pa.Table.from_batches(list(scan().batches()))),
        "reader": lambda: arrow(scan().reader().read_all()),
        "stream": lambda: arrow(pa.table(scan())),
        "dataset": lambda: arrow(scan().dataset().to_table()),
        "pandas": lambda: frame(scan().to_pandas()),
        "preview": lambda: frame(table.head(4, text=mode)),
        "head": lambda: frame(table.head(4, columns=["id", column, "ds"], text=mode)),
        "tasks": lambda: arrow(
            pa.Table.from_batches([b for task in scan()._split_tasks() for b in task.batches()])
        ),
        "where": lambda: arrow(table.read(["id", column], where="id > 0", text=mode).to_arrow()),
    }


@pytest.mark.gate(3)
@pytest.mark.parametrize("mode", ["replace", "binary"])
@pytest.mark.parametrize("column", BYTES)
def test_every_form_of_a_read_gives_the_same_cells(table: Table, column: str, mode: str) -> None:
    for name, form in forms(table, column, mode).items():
        assert form() == SHOWN[mode][column], name


@pytest.mark.parametrize("column", BYTES)
def test_the_default_error_names_the_first_cell_with_invalid_text(
    table: Table, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Attempts, "pause", no_pause)
    path, row, shown = PLACES[column]
    for name, form in forms(table, column, "strict").items():
        if name in ("preview", "stream"):
            continue  # names the first column with invalid text; Arrow raises its own errors
        with pytest.raises(ConversionError) as caught:
            form()
        error = caught.value
        assert (error.column, error.row) == (path, row), name
        assert shown in str(error), name
        assert 'text="replace"' in str(error.hint), name
        assert 'text="binary"' in str(error.hint), name


@pytest.mark.storage_api("its requests")
def test_reads_by_arrow_and_previews_raise_the_same_error(table: Table) -> None:
    with pytest.raises(
        pa.ArrowInvalid, match=r"column 's' in row 1 of .* is not UTF-8: 63 61 66 e9"
    ):
        pa.table(table.read(["s"]))
    with pytest.raises(ConversionError, match="column 's' in row 1 of the preview of") as caught:
        table.head(4)
    assert (caught.value.column, caught.value.row) == ("s", 1)


def test_invalid_text_can_be_read_as_the_hint_says(table: Table) -> None:
    assert table.read(["s"], text="replace").to_pandas()["s"][1] == "caf\ufffd"
    assert table.read(["s"], text="binary").to_pandas()["s"][1] == CAFE


def test_types_show_whether_text_is_read_as_bytes(table: Table) -> None:
    for mode, leaf in (("replace", pa.string()), ("binary", pa.binary())):
        scan = table.read(text=mode)
        assert scan.arrow_schema == scan.to_arrow().schema == scan.dataset().schema
        assert scan.arrow_schema.field("s").type == leaf
        assert scan.arrow_schema.field("a").type.value_type == leaf
        assert scan.arrow_schema.field("ds").type == pa.string()  # the partition value
    assert str(table.read(["s"], text="binary").to_pandas().dtypes["s"]) == "object"


def test_polars_and_duckdb_read_text_and_bytes(table: Table) -> None:
    import duckdb

    for mode in ("replace", "binary"):
        scan = table.read(["id", "s"], text=mode)
        assert pl.DataFrame(scan)["s"].to_list() == SHOWN[mode]["s"]
        assert (
            scan.scan_polars().filter(pl.col("id") == 2).collect()["s"].item()
            == (SHOWN[mode]["s"][1])
        )
        cells = scan.dataset()  # noqa: F841  named in the query
        found = duckdb.sql("select s from cells where id = 2").fetchall()
        assert found == [(SHOWN[mode]["s"][1],)]


def test_a_condition_on_another_column_can_exclude_invalid_text(table: Table) -> None:
    assert table.read(["s"], where="id = 1").to_arrow().column("s").to_pylist() == ["a"]
    assert table.read(["id"], where="s <> 'a'").to_arrow().column("id").to_pylist() == [2, 3]
    kept = table.read(["id", "s"]).dataset().to_table(filter=pc.field("id") == 1)
    assert kept.column("s").to_pylist() == ["a"]


@pytest.mark.parametrize("mode", ["replace", "binary"])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("s = 'a'", [1]),
        ("s <> 'a'", [2, 3]),
        ("s > 'caf'", [2]),
        ("s < 'caf\u00e9'", [1, 3]),  # in UTF-8, é begins with the byte c3, which is less than e9
        ("s in ('a', 'caf\ufffd')", [1]),  # bytes are compared, not the displayed text
        ("s = 'caf\ufffd'", []),
        ("s is null", [4]),
        ("s like 'caf_'", [2]),
        ("s like '%\ufffd'", [2]),
        ("length(s) = 4", [2]),
        ("substr(s, 1, 3) = 'caf'", [2]),
        ("trim(s) = 'a'", [1]),
        ("concat(s, '!') = 'caf\ufffd!'", [2]),
        ("coalesce(s, 'z') = 'z'", [4]),
        ("id > 1 and not s like 'c%'", [3]),
    ],
)
def test_conditions_compare_bytes_and_functions_use_replaced_text(
    table: Table, mode: str, where: str, ids: list[int]
) -> None:
    found = table.read(["id", "s"], where=where, text=mode).to_arrow()
    assert found.column("id").to_pylist() == ids
    assert found.column("s").to_pylist() == [SHOWN[mode]["s"][one - 1] for one in ids]


def test_the_row_number_in_an_error_of_a_filtered_read_counts_unfiltered_rows(table: Table) -> None:
    with pytest.raises(ConversionError) as caught:
        table.read(["id", "s"], where="id = 2").to_arrow()
    assert caught.value.row == 1


def test_rows_in_errors_are_numbered_across_splits(odps: Connection, new_name: NewName) -> None:
    name = new_name("bytes")
    odps.create_table(name, "id bigint, s string")
    texts = [b"x"] * 50
    texts[37] = b"\xff"
    send(odps, name, {"id": pa.array(range(50)), "s": text_of(texts)})
    for splits in (1, 7):
        with pytest.raises(ConversionError, match="row 37 of") as caught:
            odps.table(name).read(splits=splits).to_arrow()
        assert caught.value.row == 37


@pytest.mark.parametrize("mode", ["replace", "binary"])
def test_query_results_handle_invalid_text_in_the_same_way(
    table: Table, odps: Connection, mode: str
) -> None:
    result = odps.sql(f"select id, s, a, r from {table.name} order by id", text=mode)
    assert result.schema.names == ("id", "s", "a", "r")
    rows = result.to_arrow()
    assert rows.schema == result.arrow_schema == pa.table(result).schema
    for column in ("s", "a", "r"):
        assert rows.column(column).to_pylist() == SHOWN[mode][column]
    assert result.first(2).to_pandas()["s"].tolist() == SHOWN[mode]["s"][:2]


def test_a_query_result_names_the_invalid_cell(
    table: Table, odps: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = odps.sql(f"select id, s from {table.name} order by id")
    monkeypatch.setattr(Attempts, "pause", no_pause)
    with pytest.raises(ConversionError, match="row 1 of the result") as caught:
        result.to_pandas()
    assert (caught.value.column, caught.value.row) == ("s", 1)


def test_a_notebook_shows_replaced_text_with_a_note(table: Table, odps: Connection) -> None:
    for source in (table.read(["id", "s"]), odps.sql(f"select id, s from {table.name}")):
        shown = source._repr_mimebundle_()
        assert "caf\ufffd" in shown["text/plain"]
        assert "replaces bytes that are not UTF-8" in shown["text/plain"]
        assert "replaces bytes that are not UTF-8" in shown["text/html"]
    plain = table.read(["id", "s"], where="id = 1")._repr_mimebundle_()["text/plain"]
    assert "UTF-8" not in plain


def test_a_mode_that_does_not_exist_is_refused_before_a_request(
    table: Table, odps: Connection
) -> None:
    for call in (
        lambda: table.read(text="ignore"),
        lambda: table.head(text="ignore"),
        lambda: odps.sql("select 1", text="ignore"),
    ):
        with pytest.raises(ArgumentError, match="unknown text mode 'ignore'") as caught:
            call()
        assert "'replace'" in str(caught.value.hint)


@pytest.mark.storage_api("blobs")
def test_text_modes_also_apply_to_tables_with_times_and_blobs(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("bytes")
    odps.create_table(name, "s string, b blob, t timestamp, v varchar(3), y binary")
    rows = pd.DataFrame(
        {
            "s": ["a"],
            "b": [b"content"],
            "t": [datetime.datetime(2024, 1, 1)],
            "v": ["xyz"],
            "y": [b"\xff"],
        }
    )
    odps.table(name).write(rows)
    with odps_nb.connect(
        endpoint=odps.profile.endpoint,
        tunnel_endpoint=odps.profile.tunnel_endpoint,
        project=odps.profile.project,
        access_id=odps.profile.access_id,
        access_key=odps.profile.access_key,
        timezone="Asia/Shanghai",
    ) as zoned:
        found = zoned.table(name).read(text="binary").to_arrow()
    assert found.column("s").to_pylist() == [b"a"]
    assert found.column("v").to_pylist() == [b"xyz"]
    assert found.column("y").to_pylist() == [b"\xff"]
    assert pa.types.is_string(found.schema.field("b").type)  # a reference is not user text
    assert found.schema.field("t").type.tz == "Asia/Shanghai"
