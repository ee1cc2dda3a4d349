"""Rows of every type, as a client of another language writes and reads them in JSON."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

import odps_nb
from tests.versions.worker import Worker

DAY, AT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 23, 59, 58, 123000)
FINE = dt.datetime(2024, 2, 29, 23, 59, 58, 123456)
KNOWN: dict[str, list[Any]] = {
    "bigint": [1, -(2**63) + 1, 2**63 - 1],
    "int": [0, -(2**31), 2**31 - 1],
    "smallint": [0, -(2**15), 2**15 - 1],
    "tinyint": [0, -128, 127],
    "float": [1.5, -0.25, math.inf],
    "double": [0.1, -1e300, math.nan],
    "boolean": [True, False, True],
    "string": ["", "日本語 \U0001f600", "a\tb\n\"c'"],
    "char(4)": ["abcd", "ab", "äöüß"],
    "varchar(8)": ["", "abc", "äöü"],
    "binary": [b"", b"\x00\xff\x80", b"abc"],
    "decimal(38,18)": [Decimal("0.1"), Decimal("-12345678901234567890.5"), Decimal(0)],
    "decimal(10,2)": [Decimal("0.01"), Decimal("-99999999.99"), Decimal(100)],
    "decimal": [Decimal("5.5"), Decimal("-7.25"), Decimal(100)],
    "date": [DAY, dt.date(1970, 1, 1), dt.date(1850, 1, 1)],
    "datetime": [AT, dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1)],
    "timestamp": [FINE, dt.datetime(1970, 1, 1), dt.datetime(2030, 1, 1)],
    "timestamp_ntz": [FINE, dt.datetime(1970, 1, 1), dt.datetime(2030, 1, 1)],
    "array<bigint>": [[1, None, 3], [], [2**62]],
    "array<string>": [["a", None, ""], [], ["é"]],
    "array<datetime>": [[AT, None], [], [AT]],
    "map<string,bigint>": [[("a", 1), ("b", None)], [], [("", 2)]],
    "map<bigint,decimal(10,2)>": [[(1, Decimal("1.5"))], [], [(2, None)]],
    "struct<a:bigint,b:string>": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2, "b": ""}],
    "array<struct<k:map<string,array<decimal(10,2)>>,t:timestamp>>": [
        [{"k": [("a", [Decimal("1.25"), None])], "t": FINE}, {"k": None, "t": None}, None],
        [],
        [{"k": [], "t": FINE}],
    ],
    "struct<p:struct<q:array<array<int>>>,v:varchar(8)>": [
        {"p": {"q": [[1], [], None]}, "v": "x"},
        {"p": None, "v": None},
        {"p": {"q": None}, "v": ""},
    ],
}
#: The Storage API does not read JSON columns (``docs/protocol.md`` section 5.1).
JSON = {"json": ['{"a":[1,null,"x"]}', "[]", '"text"']}


def columns(types: dict[str, list[Any]]) -> dict[str, str]:
    return {"id": "bigint", **{f"c{n}": one for n, one in enumerate(types)}}


def declared(types: dict[str, list[Any]]) -> str:
    return ", ".join(f"{key} {value}" for key, value in columns(types).items())


def rows_of(odps: odps_nb.Connection, name: str, types: dict[str, list[Any]]) -> pa.Table:
    """Return the rows of `types`, and a row of nulls, in the types of a table."""
    schema = odps.table(name).read().reader(progress=False).schema
    cells = {"id": range(4)} | {f"c{n}": [*of, None] for n, of in enumerate(types.values())}
    return pa.table({f.name: pa.array(cells[f.name], f.type) for f in schema})


def cell(value: pa.Scalar) -> Any:
    """Return a cell as the client jobs write it."""
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        seconds, rest = divmod(value.cast(pa.timestamp("ns", value.type.tz)).value, 10**9)
        return f"{dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)}.{rest:09}"
    if pa.types.is_map(value.type):
        return sorted(([cell(one[k]) for k in ("key", "value")] for one in value.values), key=str)
    if pa.types.is_list(value.type):
        return [cell(one) for one in value.values]
    if pa.types.is_struct(value.type):
        return {key: cell(one) for key, one in value.items()}
    found = value.as_py()
    if isinstance(found, bytes):
        return found.hex()
    if isinstance(found, Decimal):
        return f"{found.normalize():f}"
    if isinstance(found, float) and not math.isfinite(found):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(found, "NaN")
    return str(found) if isinstance(found, dt.date) else found


def as_rows(table: pa.Table) -> list[list[Any]]:
    """Return the rows of a table as the client jobs write them, by id."""
    table = table.sort_by("id")
    return [[cell(column[n]) for column in table.columns] for n in range(table.num_rows)]


def unpadded(rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows without the blanks that pad a CHAR, by id."""
    bare = [[one.rstrip(" ") if isinstance(one, str) else one for one in row] for row in rows]
    return sorted(bare, key=lambda row: row[0])


def expect_written(
    write: Worker, odps: odps_nb.Connection, name: str, types: dict[str, list[Any]], **how: Any
) -> None:
    """Let the client write `types` into a new table, and compare the rows that odps_nb reads."""
    odps.create_table(name, declared(types))
    expected = as_rows(rows_of(odps, name, types))
    write("write", table=name, rows=expected, **how)
    read = odps.table(name).read().to_arrow(progress=False)
    assert unpadded(as_rows(read)) == unpadded(expected)


def expect_read(
    read: Worker, odps: odps_nb.Connection, name: str, types: dict[str, list[Any]], **how: Any
) -> None:
    """Write `types` into a new table by odps_nb, and compare the rows that the client reads."""
    odps.create_table(name, declared(types))
    rows = rows_of(odps, name, types)
    odps.table(name).write(rows, progress=False)
    assert unpadded(read("read", table=name, **how)) == unpadded(as_rows(rows))
