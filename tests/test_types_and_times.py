"""The tables in ``docs/types-and-times.md`` agree with the results of reads and writes.

``.venv/bin/python tests/test_types_and_times.py`` regenerates them.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import odps_nb
from odps_nb.access.binding.text import bind
from odps_nb.access.writing.blob_cells import check_leaf_types
from odps_nb.convert.arrow_schema import fit_object_column
from odps_nb.convert.blob_columns.blob_array import BlobDtype
from odps_nb.convert.fitting.nested import KindError, check_kind
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, has_blob
from odps_nb.spark.tasks.types import spark_type
from odps_nb.wire.type_text import format_type, parse_type
from tests.support.named import NewName

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

PAGE = Path(__file__).parent.parent / "docs" / "types-and-times.md"
ZONE = "Asia/Shanghai"
ZONED = ZoneInfo(ZONE)
CLOCK = dt.datetime(2024, 1, 31, 10)
AWARE = CLOCK.replace(tzinfo=ZONED)

# A type, a value to write, and its polars type (tests/versions/polars_frames.py).
TYPES: list[tuple[str, Any, str]] = [
    ("tinyint", 1, "Int8"),
    ("smallint", 1, "Int16"),
    ("int", 1, "Int32"),
    ("bigint", 1, "Int64"),
    ("float", 0.5, "Float32"),
    ("double", 0.5, "Float64"),
    ("decimal(18,2)", Decimal("1.25"), "Decimal(18, 2)"),
    ("boolean", True, "Boolean"),
    ("string", "a", "String"),
    ("char(3)", "abc", "String"),
    ("varchar(9)", "abc", "String"),
    ("json", "{}", "String"),
    ("binary", b"a", "Binary"),
    ("blob", b"a", "String"),
    ("date", dt.date(2024, 1, 31), "Date"),
    ("datetime", CLOCK, "Datetime(ms)"),
    ("timestamp", CLOCK, "Datetime(ns)"),
    ("timestamp_ntz", CLOCK, "Datetime(ns)"),
    ("interval_day_time", dt.timedelta(1), "Duration(ns)"),
    ("interval_year_month", 14, "Int64"),
    ("array<bigint>", [1, None], "List(Int64)"),
    ("map<string,bigint>", [("k", 1)], "Map"),
    ("struct<a:bigint>", {"a": 1}, "Struct"),
    ("geography", b"a", "Binary"),
    ("vector(float,2)", [0.5, 1.0], "Array(Float32, 2)"),
]
OFFERED: dict[str, list[pa.DataType]] = {
    "integers": [pa.int8(), pa.int64(), pa.uint64()],
    "floats": [pa.float16(), pa.float32(), pa.float64()],
    "decimals": [pa.decimal128(18, 2), pa.decimal256(60, 2)],
    "booleans": [pa.bool_()],
    "text": [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())],
    "bytes": [pa.binary(), pa.large_binary()],
    "dates": [pa.date32(), pa.date64()],
    "timestamps": [pa.timestamp("s"), pa.timestamp("ns")],
    "time zone-aware timestamps": [pa.timestamp("us", "UTC"), pa.timestamp("ms", ZONE)],
    "durations": [pa.duration("s"), pa.duration("ns")],
    "lists": [pa.list_(pa.int64()), pa.large_list(pa.int64())],
    "maps": [pa.map_(pa.string(), pa.int64())],
    "structs": [pa.struct({"a": pa.int64()})],
}


def tables(odps: Connection, zoned: Connection, new_name: NewName) -> dict[str, str]:
    """Return the tables of the page by name, each generated from real reads and writes."""
    return {
        "types": types_table(odps, new_name),
        "writes": writes_table(),
        "rules": rules_table(),
        "new": new_table(odps, new_name),
        "extensions": extension_table(odps, new_name),
        "times read": times_read(odps, zoned, new_name),
        "times written": times_written(odps, zoned, new_name),
        "conditions": conditions(odps, zoned, new_name),
    }


def markdown(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`"


# -- all types --------------------------------------------------------------------------------


def types_table(odps: Connection, new_name: NewName) -> str:
    columns = ", ".join(f"c{i} {kind}" for i, (kind, _, _) in enumerate(TYPES))
    table = odps.create_table(new_name("types"), columns)
    values = {f"c{i}": pd.Series([v], dtype=object) for i, (_, v, _) in enumerate(TYPES)}
    table.write(pd.DataFrame(values))
    arrow, frame = table.read().to_arrow(), table.read().to_pandas()
    exact = table.read().to_pandas(decimals="exact")
    assert arrow.schema == table.read().arrow_schema
    nothing = {name: pd.Series([None], dtype=object) for name in values}
    table.write(pd.DataFrame(nothing))
    with_null = table.read().to_pandas()

    def rows() -> Iterator[tuple[str, ...]]:
        for i, (kind, _, polars) in enumerate(TYPES):
            pandas = code(frame.dtypes.iloc[i].name)
            if with_null.dtypes.iloc[i] != frame.dtypes.iloc[i]:
                pandas += f", with nulls {code(with_null.dtypes.iloc[i].name)}"
            if exact.dtypes.iloc[i] != frame.dtypes.iloc[i]:
                pandas += f", or {code(exact.dtypes.iloc[i].name)} for exact values"
            spark = spark_type(parse_type(kind)).simpleString()
            came = str(arrow.schema.types[i])
            yield kind.upper(), code(came), pandas, code(polars), code(spark)

    return markdown(("MaxCompute", "Arrow", "pandas", "polars", "Spark"), rows())


def takes(kind: str, offered: pa.DataType) -> bool:
    column = Column(name="c", type=parse_type(kind))
    try:
        if has_blob(column.type):  # the content itself, before it has a reference
            check_leaf_types(offered, column)
        else:
            check_kind(offered, column.type)
    except (KindError, ConversionError):
        return False
    return True


def writes_table() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for kind, _, _ in TYPES:
            taken = []
            for name, offered in OFFERED.items():
                found = {takes(kind, one) for one in offered}
                assert len(found) == 1, (kind, name)
                taken += [name] * found.pop()
            yield kind.upper(), ", ".join(taken)

    return markdown(("into", "accepted, if each value fits"), rows())


# A type, values that fit it, and values that do not fit.
RULES: list[tuple[str, list[Any], list[Any]]] = [
    ("tinyint", [1, 2.0, Decimal("3.00")], [1.5, 128, True, "1"]),
    ("double", [0.1, 2**60], [2**53 + 1, Decimal("0.1")]),
    ("float", [0.1, 16777216], [1e300]),
    ("decimal(10,2)", [Decimal("1.5"), 19.99, 7], [19.999, Decimal("123456789.5"), "19.99"]),
    ("boolean", [True], [1]),
    ("string", ["a", b"a"], [1, {"a": 1}, b"\xff"]),
    ("varchar(2)", ["ab"], ["abc"]),
    ("date", [CLOCK.date(), dt.datetime(2024, 1, 31)], [CLOCK, "2024-01-31", 19753]),
    ("datetime", [CLOCK, CLOCK.date()], [pd.Timestamp("2024-01-31 10:00:00.0001")]),
    ("timestamp", [pd.Timestamp("2024-01-31 10:00:00.000000001"), CLOCK], [1706695200]),
    ("timestamp_ntz", [CLOCK], [AWARE]),
    ("interval_day_time", [dt.timedelta(hours=1)], [3600]),
    ("array<bigint>", [[1, 2.0, None], []], [[1, 1.5], 1]),
    ("map<string,bigint>", [{"a": 1}, [("a", 1)]], [{"a": "x"}, {None: 1}]),
    ("struct<a:bigint>", [{"a": 1}, {"A": 1}, {}], [{"b": 1}, {"a": 0.5}]),
    ("geography", [b"\x01"], ["POINT (1 2)"]),
    ("vector(float,2)", [[0.5, 1]], [[0.5], [0.5, None]]),
]


def rules_table() -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for kind, fitting, refused in RULES:
            column = Column(name="c", type=parse_type(kind))
            fit_object_column([*fitting, None, float("nan")], column)
            into, fits = kind.upper(), ", ".join(code(written(value)) for value in fitting)
            for value in refused:
                with pytest.raises(ConversionError) as caught:
                    fit_object_column([value], column)
                where, _, reason = str(caught.value).rpartition("): ")
                path = where.partition("c[0]")[2].partition(" = ")[0]
                shown = code(written(value)) + (f", at {code(path)}" if path else "")
                to_do, _, end = (caught.value.hint or "").rpartition("; ")
                assert end == "nothing was written"
                yield into, fits, shown, reason, to_do
                into = fits = ""

    return markdown(("into", "fits", "does not fit", "because", "what to do"), rows())


def written(value: Any) -> str:
    text = repr(value).replace("datetime.", "").replace("zoneinfo.", "")
    return text.replace("tzinfo=ZoneInfo(key='Asia/Shanghai')", "tzinfo=…")


# Kinds of columns, with examples; the test determines the types of a new table.
NEW: list[tuple[str, list[Any]]] = [
    (
        "pandas `int8` … `int64`, `Int8` … `Int64`",
        [pd.Series([1], dtype=f"int{n}") for n in (8, 16, 32, 64)] + [pd.array([None], "Int64")],
    ),
    (
        "pandas `uint8`, `uint16`, `uint32`, `uint64`",
        [pd.Series([1], dtype=f"uint{n}") for n in (8, 16, 32, 64)],
    ),
    ("pandas `float32`, `float64`", [pd.Series([1], dtype="float32"), pd.Series([1.5])]),
    ("pandas `bool`, `boolean`", [pd.Series([True]), pd.array([None], "boolean")]),
    (
        "pandas `str`, `string`; Arrow and polars text",
        [pd.Series(["a"]), pd.array(["a"], "string"), pa.array(["a"])],
    ),
    (
        "`category`, Arrow dictionaries: the type of the categories",
        [pd.Categorical(["a"]), pa.array(["a"]).dictionary_encode(), pd.Categorical([1])],
    ),
    (
        "`datetime64[s]`, `[ms]`; Arrow `timestamp` of these",
        [pd.Series([CLOCK]).astype("datetime64[ms]"), pa.array([CLOCK], pa.timestamp("s"))],
    ),
    (
        "`datetime64[us]`, `[ns]`, naive or aware",
        [pd.Series([CLOCK]), pd.Series([AWARE]), pa.array([CLOCK])],
    ),
    (
        "`timedelta64`, Arrow `duration`",
        [pd.Series([dt.timedelta(1)]), pa.array([dt.timedelta(1)])],
    ),
    (
        "Arrow `date32`; Python `date`",
        [pa.array([CLOCK.date()]), pd.Series([CLOCK.date()], dtype=object)],
    ),
    ("Arrow `decimal128(9, 2)`", [pa.array([Decimal("1.25")], pa.decimal128(9, 2))]),
    ("Python `Decimal`", [pd.Series([Decimal("1.25"), Decimal("123.5")], dtype=object)]),
    ("bytes", [pd.Series([b"a"], dtype=object), pa.array([b"a"])]),
    (
        "`Path`, `NewBlob`, files, handles of blobs; Pillow pictures, arrays of two or more "
        "dimensions",
        [
            pd.Series([None, Path(__file__)]),
            pd.Series([odps_nb.NewBlob(b"a")]),
            pd.Series([Image.new("RGB", (2, 2)), np.zeros((2, 2, 3), np.uint8)]),
        ],
    ),
    ("blobs (dtype `blob`)", [pd.Series([None], dtype=BlobDtype())]),
    ("lists; Arrow lists", [pd.Series([[1]]), pa.array([[1]])]),
    ("dicts; Arrow structs", [pd.Series([{"a": 1}]), pa.array([{"a": 1}])]),
    ("only nulls", [pd.Series([None], dtype=object), pa.array([None])]),
]


def new_table(odps: Connection, new_name: NewName) -> str:
    def generated(values: Any) -> str:
        frame = pa.table if isinstance(values, pa.Array) else pd.DataFrame
        table = odps.create_table(new_name("new"), frame({"c": values}))
        return format_type(table.schema.columns[0].type).upper().replace("`", "")

    def rows() -> Iterator[tuple[str, ...]]:
        for what, columns in NEW:
            yield what, ", ".join(dict.fromkeys(generated(one) for one in columns))

    return markdown(("data in the column", "column type"), rows())


def extended(kind: Any, *values: Any) -> pa.Table:
    storage = pa.array(values, kind.storage_type)
    return pa.table({"c": pa.ExtensionArray.from_storage(kind, storage)})


def marked(name: str, storage: pa.DataType, value: Any, details: str = "") -> pa.Table:
    """A column with the metadata of an extension type that pyarrow does not register."""
    metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": details}
    return pa.table([[value]], pa.schema([pa.field("c", storage, metadata=metadata)]))


TENSOR = ([2, 3], [1, 2, 3, 4, 5, 6])
# All canonical extension types of Arrow, and the extension dtypes of pandas.
EXTENSIONS: list[tuple[str, Any]] = [
    ("`arrow.bool8`", extended(pa.bool8(), 0, 1, 5)),
    ("`arrow.uuid`", extended(pa.uuid(), b"u" * 16)),
    ("`arrow.json`", extended(pa.json_(), "[1]")),
    ("`arrow.fixed_shape_tensor`, in row-major order",
     extended(pa.fixed_shape_tensor(pa.int32(), TENSOR[0]), TENSOR[1])),
    ("`arrow.fixed_shape_tensor`, permuted",
     extended(pa.fixed_shape_tensor(pa.int32(), TENSOR[0], permutation=[1, 0]), TENSOR[1])),
    ("`arrow.variable_shape_tensor`",
     marked("arrow.variable_shape_tensor",
            pa.struct([("data", pa.list_(pa.int32())), ("shape", pa.list_(pa.int32(), 1))]),
            {"data": [1, 2], "shape": [2]})),
    ("`arrow.timestamp_with_offset`",
     marked("arrow.timestamp_with_offset",
            pa.struct([("timestamp", pa.timestamp("us", "UTC")), ("offset_minutes", pa.int16())]),
            {"timestamp": CLOCK, "offset_minutes": 60})),
    ("`arrow.opaque`", extended(pa.opaque(pa.binary(), "bignum", "DuckDB"), b"1")),
    ("`arrow.parquet.variant`", marked("arrow.parquet.variant", pa.binary(), b"1")),
    ("`geoarrow.wkb`", marked("geoarrow.wkb", pa.binary(), b"1", "{}")),
    ("other extension types: like their storage", marked("a.type", pa.int64(), 1)),
    ("pandas `period`", pd.DataFrame({"c": pd.period_range("2024", periods=1)})),
    ("pandas `interval`", pd.DataFrame({"c": pd.interval_range(0, 1)})),
    ("pandas `Sparse[int64]`", pd.DataFrame({"c": pd.arrays.SparseArray([0, 1])})),
    ("pandas `ArrowDtype`: like the Arrow type",
     pd.DataFrame({"c": pd.array([1], pd.ArrowDtype(pa.int16()))})),
    ("polars `Int128`, `UInt128`", pl.DataFrame({"c": pl.Series([2**100], dtype=pl.Int128)})),
    ("polars `Enum`, `Categorical`", pl.DataFrame({"c": pl.Series(["a"], dtype=pl.Enum(["a"]))})),
    ("polars `Object`", pl.DataFrame({"c": pl.Series([b"a"], dtype=pl.Object)})),
    ("DuckDB `UHUGEINT`", duckdb.sql("select 1::uhugeint as c")),
    ("DuckDB `BIT`", duckdb.sql("select bit '1' as c")),
    ("`fixed_size_binary[8]`", pa.table({"c": pa.array([b"12345678"], pa.binary(8))})),
]  # fmt: skip


def extension_table(odps: Connection, new_name: NewName) -> str:
    def rows() -> Iterator[tuple[str, ...]]:
        for what, data in EXTENSIONS:
            try:
                table = odps.create_table(new_name("extended"), data)
            except ConversionError as error:
                yield what, f"refused: {error.hint}"
            else:
                yield what, format_type(table.schema.columns[0].type).upper().replace("`", "")

    return markdown(("data in the column", "column type"), rows())


# -- times ------------------------------------------------------------------------------------


def times_read(odps: Connection, zoned: Connection, new_name: NewName) -> str:
    name = new_name("times")
    odps.create_table(name, "d datetime, t timestamp, n timestamp_ntz")
    zoned.table(name).write(pa.table({key: pa.array([CLOCK]) for key in "dtn"}))

    def rows() -> Iterator[tuple[str, ...]]:
        for place, kind in enumerate(("DATETIME", "TIMESTAMP", "TIMESTAMP_NTZ")):
            for road in ("Arrow", "pandas"):
                cells = []
                for connection in (odps, zoned):
                    scan = connection.table(name).read()
                    result = connection.sql(f"select * from {name}")
                    if road == "Arrow":
                        column = scan.to_arrow().column(place)
                        assert result.to_arrow().column(place).equals(column)
                        shown, dtype = column[0].as_py(), column.type
                    else:
                        series = scan.to_pandas().iloc[:, place]
                        assert connection.table(name).head().iloc[:, place].equals(series)
                        assert result.to_pandas().iloc[:, place].equals(series)
                        shown, dtype = series[0], series.dtype
                    cells.append(f"{code(shown)}, {code(dtype)}")
                yield kind, road, *cells

    return markdown(("type", "read as", "without a time zone", f"with {code(ZONE)}"), rows())


WRITTEN: list[tuple[str, Callable[[], Any]]] = [
    ("pandas `datetime64`, `10:00`", lambda: pd.Series([CLOCK])),
    ("pandas, aware, `10:00+08:00`", lambda: pd.Series([AWARE])),
    ("Python `datetime`, `10:00`", lambda: pd.Series([CLOCK], dtype=object)),
    ("Python `datetime`, aware", lambda: pd.Series([AWARE], dtype=object)),
    ("Arrow `timestamp`, `10:00`", lambda: pa.array([CLOCK])),
    ("Arrow `timestamp`, aware", lambda: pa.array([AWARE])),
    ("a date, `2024-01-31`", lambda: pa.array([CLOCK.date()])),
]


def times_written(odps: Connection, zoned: Connection, new_name: NewName) -> str:
    def stored(connection: Connection, kind: str, values: Any) -> str:
        table = connection.create_table(new_name("written"), f"t {kind}")
        frame = pd.DataFrame if isinstance(values, pd.Series) else pa.table
        try:
            table.write(frame({"t": values}))
        except ConversionError as error:
            return code(type(error).__name__)
        (value,) = odps.table(table.name).read().to_arrow()["t"].to_pylist()
        return f"{value:%d} Jan {value:%H:%M}{'' if kind == 'timestamp_ntz' else ' UTC'}"

    def rows() -> Iterator[tuple[str, ...]]:
        for what, make in WRITTEN:
            cells = []
            for kind in ("datetime", "timestamp"):
                cells.append([stored(one, kind, make()) for one in (odps, zoned)])
            assert cells[0] == cells[1]
            walls = {stored(one, "timestamp_ntz", make()) for one in (odps, zoned)}
            assert len(walls) == 1
            yield what, *cells[0], walls.pop()

    head = ("written value", "DATETIME, TIMESTAMP", f"the same with {code(ZONE)}", "TIMESTAMP_NTZ")
    return markdown(head, rows())


CONDITIONS = [
    ("`where=\"t = '2024-01-31 10:00:00'\"`", "t = '2024-01-31 10:00:00'", {}),
    ('`where="t = :t"`, `10:00` (naive)', "t = :t", {"t": CLOCK}),
    ('`where="t = :t"`, `10:00+08:00`', "t = :t", {"t": AWARE}),
]


def conditions(odps: Connection, zoned: Connection, new_name: NewName) -> str:
    """Determine the meaning of a condition from the row that it selects."""
    name = new_name("asked")
    table = odps.create_table(name, "t timestamp")
    hours = [CLOCK - dt.timedelta(hours=8), CLOCK]
    table.write(pa.table({"t": pa.array(hours)}))

    def chosen(connection: Connection, text: str, params: dict[str, Any], *, sql: bool) -> str:
        if sql:
            try:
                bind(text, params, timezone=connection.profile.timezone)
            except ArgumentError:
                return "`ArgumentError`"
            text = f"select t from {name} where {text}".replace("= '", "= timestamp '")
            found = connection.sql(text, params=params or None).to_arrow()
        else:
            found = connection.table(name).read(where=text, params=params or None).to_arrow()
        (value,) = found["t"].cast(pa.timestamp("us")).to_pylist()
        return f"{value:%H:%M} UTC"

    def rows() -> Iterator[tuple[str, ...]]:
        for what, text, params in CONDITIONS:
            yield what, *(chosen(one, text, params, sql=False) for one in (odps, zoned))
        for what, text, params in CONDITIONS[1:]:
            what = what.replace('where="t = :t"', 'sql("… where t = :t")')
            yield what, *(chosen(one, text, params, sql=True) for one in (odps, zoned))

    return markdown(("condition", "without a time zone", f"with {code(ZONE)}"), rows())


# -- the page ---------------------------------------------------------------------------------


def between(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=\n<!-- end -->)", re.DOTALL)


@pytest.fixture(scope="module")
def zoned(profile) -> Iterator[Connection]:
    with odps_nb.connect(profile, timezone=ZONE) as connection:
        yield connection


@pytest.fixture
def generated(odps, zoned, new_name) -> dict[str, str]:
    return tables(odps, zoned, new_name)


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
def test_the_tables_of_the_page_agree_with_the_code(generated):
    page = PAGE.read_text("utf-8")
    on_page = {
        name: found[0] if (found := between(name).search(page)) else "" for name in generated
    }
    assert on_page == generated, "run .venv/bin/python tests/test_types_and_times.py"


if __name__ == "__main__":
    count = iter(range(1000))
    with odps_nb.connect("local") as plain, odps_nb.connect(plain.profile, timezone=ZONE) as other:
        text = PAGE.read_text("utf-8")
        for key, value in tables(plain, other, lambda stem: f"{stem}_{next(count)}").items():
            text, replaced = between(key).subn(lambda _, value=value: value, text, 1)
            assert replaced == 1, key
        PAGE.write_text(text, "utf-8")
    sys.stdout.write(f"{PAGE} written\n")
