"""Targets for the parsers of SQL: statements, settings, queries, ``where=`` and filters."""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from functools import cache

import duckdb
import pyarrow as pa

from odps_nb.client.sql.settings import split_settings
from odps_nb.errors import ArgumentError, InvalidRequestError, OdpsNbError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.local.duck import Duck, looks_outside
from odps_nb.local.reading.predicates import Predicate
from odps_nb.local.sql.parsing.changes import rows_of, rows_of_merge
from odps_nb.local.sql.parsing.statements import (
    ChangeRows,
    CreateTable,
    CreateView,
    Insert,
    Merge,
    SelectStatement,
)
from odps_nb.local.sql.parsing.text import parse_job
from odps_nb.local.sql.query import translate
from odps_nb.local.store.tables import PRIMARY_KEY, VIEW, StoredTable
from odps_nb.schema import TableSchema
from odps_nb.terms import TableName
from odps_nb.wire.type_text import parse_columns

_SCHEMA = TableSchema(
    columns=tuple(
        parse_columns(
            "i bigint, n int, s string, f double, b boolean, d date, t datetime, p decimal(10,2)"
        )
    )
)
_TIME = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
_ROWS = pa.record_batch(
    {
        "i": pa.array([0, 1, -5, None, 2**62], pa.int64()),
        "n": pa.array([0, None, 7, -1, 2**31 - 1], pa.int32()),
        "s": pa.array(["a", "", None, "12", "ü%_"], pa.string()),
        "f": pa.array([0.5, float("nan"), None, -0.0, 1e300], pa.float64()),
        "b": pa.array([True, False, None, True, False]),
        "d": pa.array([_TIME.date(), None, dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
        "t": pa.array([_TIME, None, _TIME, None, _TIME], pa.timestamp("ms", "UTC")),
        "p": pa.array([Decimal("1.10"), None, Decimal(-3), Decimal(0), None], pa.decimal128(10, 2)),
    }
)


def sql_script(data: bytes) -> None:
    """Any text is a job or is rejected; removing its settings does not change the query."""
    text = data.decode("utf-8", "replace")
    try:
        settings, rest = split_settings(text)
    except ArgumentError:
        return
    assert rest == text if not settings else rest in text
    try:
        parse_job(rest, {})
        parse_job(rest, {"odps.sql.submit.mode": "script"})
    except InvalidRequestError as error:
        assert error.status == 400


def _table(name: str, table_id: int, **properties: str) -> StoredTable:
    whole = TableName(project="p", table=name)
    return StoredTable(table_id=table_id, name=whole, schema=_SCHEMA, properties=properties)


_PLACE = {"project": "p", "schema": None, "three_parts": False}
_VIEW = {"text": "select * from t where n > 0", "names": _SCHEMA.names, **_PLACE}
_TABLES = {
    "t": _table("t", 1, **{PRIMARY_KEY: "i"}),
    "u": _table("u", 2),
    "v": _table("v", 3, **{VIEW: json.dumps(_VIEW)}),
}


def _find(name: tuple[str, ...], _view: StoredTable | None) -> StoredTable:
    if name[-1].casefold() not in _TABLES:
        raise InvalidRequestError("no such table", status=400, code="C")
    return _TABLES[name[-1].casefold()]


def sql_query(data: bytes) -> None:
    """Any text is rejected, or reads only registered tables according to DuckDB's own parser."""
    text = data.decode("utf-8", "replace")
    try:
        statements = parse_job(text, {})
        if not statements:
            return
        (statement,) = statements
        if isinstance(statement, ChangeRows):
            statement = rows_of(statement, _TABLES["t"])
        if isinstance(statement, Merge):
            statement = rows_of_merge(statement, _TABLES["t"])
        if isinstance(statement, SelectStatement):
            asked: str | None = statement.text
        elif isinstance(statement, CreateTable | CreateView | Insert):
            asked = statement.query
        else:
            return
        if asked is None:
            return
        query = translate(
            asked, find=_find, latest=lambda _: "1", timezone="Asia/Shanghai", inside=(9,)
        )
        _check_names(query.sql, set(query.tables))
    except InvalidRequestError as error:
        assert error.status == 400


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def _check_names(sql: str, registered: set[str]) -> None:
    try:
        found = _parser().get_table_names(sql)
    except duckdb.Error:
        return  # running the query would fail
    assert found <= registered, found - registered
    parsed = _parser().execute("select json_serialize_sql(?::varchar)", [sql]).fetchall()[0][0]
    outside = set(filter(looks_outside, re.findall(r'"function_name":"([^"]*)"', parsed)))
    assert not outside, outside


def where(data: bytes) -> None:
    """Any text is rejected, or is a condition that tests each row independently of the others."""
    try:
        found = RowFilter.parse(data.decode("utf-8", "replace"), _SCHEMA)
        kept = found.apply(_ROWS)
    except OdpsNbError:
        return
    alone = [found.apply(_ROWS.slice(n, 1)) for n in range(_ROWS.num_rows)]
    rows = pa.Table.from_batches(alone, _ROWS.schema).to_pylist()
    assert str(rows) == str(kept.to_pylist())  # as text, because NaN does not equal itself


@cache
def _duck() -> Duck:
    return Duck(memory="200MB")


def filter_predicate(data: bytes) -> None:
    """Any predicate in a request gives one value per row, or is rejected."""
    text = data.decode("utf-8", "replace")
    try:
        found = Predicate.parse(text, _SCHEMA, _duck())
        if found is None:
            assert not text.strip()
            return
        columns = {name: _ROWS.column(name) for name in found.columns}
        with found.evaluator() as evaluator:
            assert len(evaluator.mask(columns, _ROWS.num_rows)) == _ROWS.num_rows
    except InvalidRequestError as error:
        assert error.status == 400


TARGETS = (sql_script, sql_query, where, filter_predicate)
