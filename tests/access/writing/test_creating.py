"""A write can create its table with the types of the data, and leaves no partial table."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.access.writing.creating import NewTable
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    ConversionError,
    NotFoundError,
    OdpsNbError,
)
from odps_nb.wire.type_text import format_type
from tests.support.named import NewName
from tests.support.spark.services import misbehaving
from tests.support.spark.watched import misbehave


def types(odps: Connection, name: str) -> dict[str, str]:
    return {column.name: format_type(column.type) for column in odps.table(name).schema}


def columns_of_all_kinds(folder: Path) -> pd.DataFrame:
    file = folder / "a.txt"
    file.write_bytes(b"hello")
    when = pd.Timestamp("2024-01-31 10:00")
    arrow = pd.ArrowDtype
    return pd.DataFrame(
        {
            "tiny": np.array([1, 2], "int8"),
            "big": pd.array([1, None], "Int64"),
            "wide": np.array([1, 2**64 - 1], "uint64"),
            "flag": pd.array([True, None], "boolean"),
            "ratio": np.array([1.5, np.nan], "float32"),
            "text": ["a", None],
            "kind": pd.Categorical(["x", "y"]),
            "coarse": pd.Series([when, None]).astype("datetime64[ms]"),
            "fine": pd.Series([when, None]).astype("datetime64[ns]"),
            "zoned": pd.Series([when, None]).dt.tz_localize("Asia/Shanghai").dt.as_unit("us"),
            "lapse": pd.Series([pd.Timedelta("1s"), None]),
            "price": [decimal.Decimal("1.50"), None],
            "exact": pd.Series([decimal.Decimal("1.50"), None], dtype=arrow(pa.decimal128(9, 2))),
            "day": [datetime.date(2024, 1, 31), None],
            "raw": [b"\x00\x01", None],
            "tags": pd.Series([["a", "b"], None]),
            "point": [{"x": 1, "y": 2.5}, None],
            "file": [None, file],
            "empty": [None, None],
        }
    )


EXPECTED = {
    "tiny": "TINYINT",
    "big": "BIGINT",
    "wide": "DECIMAL(20,0)",
    "flag": "BOOLEAN",
    "ratio": "FLOAT",
    "text": "STRING",
    "kind": "STRING",
    "coarse": "DATETIME",
    "fine": "TIMESTAMP",
    "zoned": "TIMESTAMP",
    "lapse": "INTERVAL_DAY_TIME",
    "price": "DECIMAL(38,18)",
    "exact": "DECIMAL(9,2)",
    "day": "DATE",
    "raw": "BINARY",
    "tags": "ARRAY<STRING>",
    "point": "STRUCT<x:BIGINT,y:DOUBLE>",
    "file": "BLOB",
    "empty": "STRING",
}


@pytest.mark.storage_api("blobs")
def test_a_created_table_has_the_types_and_values_of_every_kind_of_column(
    odps: Connection, new_name: NewName, tmp_path: Path
) -> None:
    name, frame = new_name("kinds"), columns_of_all_kinds(tmp_path)
    table = odps.create_table(name, frame, comment="all kinds", lifecycle=3)
    found = {key: text.replace("`", "") for key, text in types(odps, name).items()}
    assert {key: text.upper() for key, text in found.items()} == {
        key: text.upper() for key, text in EXPECTED.items()
    }
    assert (table.info.comment, table.info.lifecycle) == ("all kinds", 3)
    rows = table.read().to_arrow().to_pylist()
    assert rows[0]["price"] == decimal.Decimal("1.5")
    assert rows[0]["point"] == {"x": 1, "y": 2.5}
    assert rows[0]["zoned"] == datetime.datetime(2024, 1, 31, 2)
    assert (rows[0]["big"], rows[1]["big"], rows[1]["wide"]) == (1, None, 2**64 - 1)
    assert odps.blob(rows[1]["file"]).bytes() == b"hello"


def test_a_write_creates_a_missing_table_and_appends_to_an_existing_table(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("made")
    frame = pd.DataFrame({"id": [1, 2], "ds": ["a", "b"]})
    with pytest.raises(NotFoundError) as missing:
        odps.table(name).write(frame)
    assert "create=True" in (missing.value.hint or "")
    for _ in range(2):
        receipt = odps.table(name).write(frame, create=True, partitioned_by="ds")
        assert receipt.rows == 2
    assert [str(one) for one in odps.table(name).partitions()] == ["ds=a", "ds=b"]
    assert odps.table(name).read().row_count == 4
    with pytest.raises(ArgumentError, match="partitioned by ds"):
        odps.table(name).write(frame, create=True, partitioned_by=["id"])
    with pytest.raises(ArgumentError, match="requires create=True"):
        odps.table(name).write(frame, partitioned_by="ds")


PRICES = pa.table({"id": [1], "price": ["2.675"], "day": ["2024-01-31"], "note": pa.nulls(1)})
CHOSEN = {"PRICE": "decimal(10,2)", "day": "date", "note": "bigint"}


@pytest.mark.parametrize(
    "form",
    [
        lambda: PRICES,
        lambda: PRICES.to_reader(),
        lambda: PRICES.to_pandas(),
        lambda: pl.DataFrame(PRICES),
        lambda: PRICES.to_pylist(),
        lambda: iter(PRICES.to_pylist()),
        lambda: PRICES.to_pydict(),
    ],
)
@pytest.mark.parametrize("chosen", [CHOSEN, "price decimal(10,2), day date, note bigint"])
def test_values_are_converted_to_the_chosen_types_of_a_new_table(
    odps: Connection, new_name: NewName, form: Callable[[], object], chosen: object
) -> None:
    options = {"types": chosen, "text": "parse", "decimals": "round"}
    names = [new_name("typed"), new_name("typed")]
    odps.create_table(names[0], form(), **options)
    odps.table(names[1]).write(form(), create=True, **options)
    for name in names:
        found = types(odps, name)
        assert found == {"id": "bigint", "price": "decimal(10,2)", "day": "date", "note": "bigint"}
        assert odps.table(name).read().to_arrow().to_pylist() == [
            {
                "id": 1,
                "price": decimal.Decimal("2.68"),
                "day": datetime.date(2024, 1, 31),
                "note": None,
            }
        ]
    with pytest.raises(ConversionError, match="text does not fit"):
        odps.create_table(new_name("typed"), form(), types=chosen)


def test_types_can_be_chosen_only_for_existing_columns(odps: Connection, new_name: NewName) -> None:
    name, frame = new_name("typed"), pd.DataFrame({"id": [1], "price": [1.0]})
    for wrong, more, message in (
        ({"prise": "double"}, {}, "did you mean 'price'"),
        ({"price": "dubble"}, {}, "did you mean double"),
        ({"price": float}, {}, "type"),
        (
            {"ds": "bigint"},
            {"partitioned_by": "ds string", "partition": "ds=1"},
            "types says bigint",
        ),
    ):
        with pytest.raises(ArgumentError) as refused:
            odps.table(name).write(frame, create=True, types=wrong, **more)
        assert message in f"{refused.value} {refused.value.hint}"
        assert not odps.table(name).exists()
    table = odps.table(name)
    table.write(frame, create=True, types={"ds": "bigint"}, partition="ds=1")
    assert types(odps, name)["ds"] == "bigint"
    with pytest.raises(ArgumentError, match=r"price.* is double, but types says float"):
        table.write(frame, create=True, types={"price": "float"}, partition="ds=1")
    with pytest.raises(ArgumentError, match="requires create=True"):
        table.write(frame, types={"price": "double"}, partition="ds=1")
    with pytest.raises(ArgumentError, match="require data"):
        odps.create_table(new_name("typed"), "id bigint", types={"id": "int"})


def test_partition_columns_are_taken_from_the_partition(
    odps: Connection, new_name: NewName
) -> None:
    name, other = new_name("into"), new_name("typed")
    frame = pd.DataFrame({"id": [1]})
    odps.table(name).write(frame, partition="ds=2024-01-31,hour=3", create=True)
    assert types(odps, name) == {"id": "bigint", "ds": "string", "hour": "string"}
    odps.table(other).write(
        frame.assign(hour=[3]), create=True, partition="ds=x", partitioned_by="ds string, hour int"
    )
    assert types(odps, other) == {"id": "bigint", "ds": "string", "hour": "int"}
    assert [str(one) for one in odps.table(other).partitions()] == ["ds=x,hour=3"]
    for wrong in ("day", ["id"]):
        with pytest.raises(ArgumentError):
            odps.table(new_name("no")).write(frame, create=True, partitioned_by=wrong)


def test_arrow_data_streams_and_scans_create_tables(odps: Connection, new_name: NewName) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", None]})
    for data in (
        rows,
        rows.to_batches()[0],
        rows.to_reader(),
        pl.DataFrame(rows),
        odps.sql("select cast(1 as int) as id, 'a' as s union all select 2, null"),
    ):
        table = odps.create_table(new_name("arrow"), data)
        assert [c.type.code.name for c in table.schema] == ["INT", "STRING"]
        assert sorted(table.read().to_arrow().to_pylist(), key=str) == rows.to_pylist()
    empty = odps.create_table(new_name("empty"), rows.slice(0, 0))
    assert empty.read().to_arrow().num_rows == 0
    assert odps.create_table(new_name("schema"), rows.schema).read().row_count == 0
    scanned = odps.create_table(new_name("scan"), odps.table("orders").read(["id"], limit=7))
    assert scanned.read().row_count == 7


REPEATED = pa.struct([("x", pa.int8()), ("X", pa.int8())])


def test_data_that_cannot_be_a_table_creates_no_table(odps: Connection, new_name: NewName) -> None:
    name = new_name("refused")
    frame = pd.DataFrame({"id": [1, 1], "v": [1.0, 2.0]})
    for wrong, text in (
        (frame.groupby("id").sum(), "index=True"),
        (frame.rename(columns={"v": 7}), "not text"),
        (frame.rename(columns={"v": "a b"}), "letters"),
        (frame.rename(columns={"v": "ID"}), "more than once"),
        (frame.assign(t=datetime.time(1)), "convert it"),
        (frame.assign(p=pd.period_range("2024-01", periods=2, freq="M")), "to_timestamp"),
        (frame.assign(m=[1, "a"]), "convert them"),
        (frame.assign(m=[1, {"a": 1}]), "several types: dict, int"),
        (frame.assign(m=[1, [2]]), "several types: int, list"),
        ([{"t": "\ud800"}], "replace unpaired surrogates"),
        ([{"d": decimal.Decimal("inf")}], "is not finite"),
        ([{"i": datetime.timedelta.max}], "longer than 106751 days"),
        ([1, 2], "dicts"),
        ([{"v": {"": 1}}], "give each member its own name"),
        (pa.table({"v": pa.array([{}], pa.struct([]))}), "give each member its own name"),
        (pa.table({"v": pa.array([], pa.list_(REPEATED))}), "give each member its own name"),
        (pd.DataFrame, "pass a pandas"),
    ):
        with pytest.raises((ConversionError, ArgumentError)) as refused:
            odps.table(name).write(wrong, create=True)
        assert text in f"{refused.value} {refused.value.hint}"
        assert not odps.table(name).exists()
    with pytest.raises(ArgumentError, match="'id bigin'"):
        odps.create_table(name, {"id": "id bigin"})
    odps.create_table(name, frame)
    with pytest.raises(ConflictError):
        odps.create_table(name, frame)
    with pytest.raises(ArgumentError, match="if_not_exists"):
        odps.create_table(name, frame, if_not_exists=True)
    assert odps.table(name).read().row_count == 2


def test_a_failed_write_drops_the_new_table(
    odps: Connection, new_name: NewName, tmp_path: Path
) -> None:
    def broken() -> object:
        yield pa.record_batch({"id": [1]})
        raise OSError("the disk is gone")

    name = new_name("half")
    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), broken())
    with pytest.raises(OSError, match="disk") as failed:
        odps.table(name).write(reader, create=True)
    assert any("was dropped" in note for note in failed.value.__notes__)
    assert not odps.table(name).exists()
    gone = pd.DataFrame({"content": [tmp_path / "no such file"]})
    with pytest.raises(ConversionError, match="does not exist"):
        odps.create_table(name, gone)
    assert not odps.table(name).exists()


def test_a_new_table_stays_after_a_requested_commit(odps: Connection, new_name: NewName) -> None:
    name = new_name("kept")
    table = odps.create_table(name, "id bigint")
    NewTable(odps._storage, table.name, kept=True).drop()
    assert table.exists()
    with odps_nb.connect(odps.profile) as other:
        made, error = NewTable(other._storage, table.name), KeyboardInterrupt()
    made.drop(error)
    assert "could not be dropped" in error.__notes__[0]
    assert table.exists()


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("source", ["read", "result"])
@pytest.mark.parametrize("kind", ["blob", "struct<inner:array<blob>>"])
def test_references_to_blobs_do_not_become_text_of_a_new_table(
    odps: Connection, new_name: NewName, source: str, kind: str
) -> None:
    table = odps.create_table(new_name("media"), f"id bigint, content {kind}")
    content = b"hello" if kind == "blob" else {"inner": [b"hello"]}
    table.write([{"id": 1, "content": content}])
    rows = table.read() if source == "read" else odps.sql(f"select * from {table.name.table}")
    copied = odps.table(new_name("copied"))
    with pytest.raises(
        ConversionError, match="only references to the blobs of 'content'"
    ) as caught:
        copied.write(rows, create=True)
    assert not copied.exists()
    if kind == "blob":
        assert "pass to_pandas()" in (caught.value.hint or "")
        copied.write(rows.to_pandas(), create=True)
        assert [blob.bytes() for blob in copied.blobs()] == [b"hello"]
        odps.drop_table(copied.name)
        copied.write(rows, create=True, types={"content": "string"})
        assert copied.read().to_arrow()["content"].equals(rows.to_arrow()["content"])


@pytest.mark.storage_api("blobs")
def test_a_write_that_fails_after_its_commit_has_begun_keeps_the_new_table(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    frame = pd.DataFrame({"id": [1]})
    with misbehaving() as odps:
        refusal = {"action": "TableCommitWriteSession", "fault": "status", "status": 400}
        misbehave(odps, refusal | {"times": 0})
        for name, write in {
            "written": lambda name: odps.table(name).write(frame, create=True),
            "created": lambda name: odps.create_table(name, frame),
            "of_files": lambda name: odps.table(name).write_files(tmp_path),
        }.items():
            with pytest.raises(OdpsNbError) as failed:
                write(name)
            assert any("was kept, because the commit" in note for note in failed.value.__notes__)
            assert odps.table(name).exists()


@pytest.mark.parametrize(
    "partitioned_by",
    [
        "ds string, hour int",
        ["ds string", "hour int"],
        ("ds string comment 'a, b'", "hour int"),
        ["ds string, hour int"],
        ["ds", "hour int"],
        [" ds ", "HOUR int"],
    ],
    ids=str,
)
def test_partition_columns_may_be_given_as_names_or_text_with_types(
    odps: Connection, new_name: NewName, partitioned_by: str | list[str]
) -> None:
    frame = pd.DataFrame({"id": [1], "ds": ["x"], "hour": np.array([3], "int32")})
    name = new_name("listed")
    for _ in range(2):  # the second call compares the existing table
        odps.table(name).write(frame, create=True, partitioned_by=partitioned_by)
    found = {key.lower(): kind for key, kind in types(odps, name).items()}
    assert found == {"id": "bigint", "ds": "string", "hour": "int"}
    assert [str(p).lower() for p in odps.table(name).partitions()] == ["ds=x,hour=3"]


def test_the_error_for_a_name_without_a_type_shows_a_valid_spelling(
    odps: Connection, new_name: NewName
) -> None:
    name = new_name("advice")
    with pytest.raises(ArgumentError) as caught:
        odps.create_table(name, "id bigint", partitioned_by=["ds"])
    written = (caught.value.hint or "").split("'")[1]
    odps.create_table(name, "id bigint", partitioned_by=[written])
    assert types(odps, name) == {"id": "bigint", "ds": "string"}
    with pytest.raises(ArgumentError, match="partitioned_by is a list of int; it must be"):
        odps.create_table(new_name("no"), "id bigint", partitioned_by=[1])  # type: ignore[list-item]
    for blank in ("", " ", ["ds string", ""]):  # an empty variable must not remove the partitions
        with pytest.raises(ArgumentError, match="partitioned_by is blank"):
            odps.create_table(new_name("no"), "id bigint", partitioned_by=blank)
        with pytest.raises(ArgumentError, match="partitioned_by is blank"):
            odps.table(new_name("no")).write([{"id": 1}], create=True, partitioned_by=blank)
