"""``SET`` above a query: the settings that are removed, and the text that is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.sql.query import SqlInstance, wait_sql
from odps_nb.client.sql.settings import split_settings
from odps_nb.errors import ArgumentError, QueryError
from odps_nb.wire.control import SubmitSql


@pytest.mark.parametrize(
    ("text", "settings", "rest"),
    [
        ("select 1", {}, "select 1"),
        ("  select 1\n", {}, "  select 1\n"),
        ("SET a.b=1;\nselect 1;", {"a.b": "1"}, "select 1;"),
        ("set a = x y ; set b=2;set a=3; select 1", {"a": "3", "b": "2"}, "select 1"),
        ("-- first\n\nset a=1;\n-- then\nset b=;\n-- now\nselect 1", {"a": "1", "b": ""}, None),
        ('set s={"t1": 1, "t2": 2};select 1', {"s": '{"t1": 1, "t2": 2}'}, "select 1"),
        ('set s={"t1": 1,\n  "t2": 2};select 1', {"s": '{"t1": 1,\n  "t2": 2}'}, "select 1"),
        ("/* note */ set a=1; /* then */ select 1", {"a": "1"}, "/* then */ select 1"),
        ("select 1; -- ; set a=2;", {}, "select 1; -- ; set a=2;"),
        ("select '; set a=2;' as t;", {}, "select '; set a=2;' as t;"),
        ("update t set a=1; ", {}, "update t set a=1; "),
        ("settle=1; select 1", {}, "settle=1; select 1"),
    ],
)
def test_settings_at_the_beginning_are_removed(
    text: str, settings: dict[str, str], rest: str | None
) -> None:
    assert split_settings(text) == (settings, "-- now\nselect 1" if rest is None else rest)


@pytest.mark.parametrize("above", [" " * 5000, "\t\n" * 5000, "--\n" * 5000, "-- a\n  " * 5000])
def test_a_query_may_follow_blanks_and_comments(above: str) -> None:
    """In an earlier version, each blank doubled the run time: 24 blanks took seconds."""
    assert split_settings(f"{above}select 1") == ({}, f"{above}select 1")
    assert split_settings(f"{above}set a=1;select 1") == ({"a": "1"}, "select 1")


@pytest.mark.parametrize("text", ["set a=1", " set a=1;\n"])
def test_settings_without_a_query_are_refused(odps: Connection, text: str) -> None:
    with pytest.raises(ArgumentError, match="settings but no query") as caught:
        odps.sql(text)
    assert "end each setting with ;" in str(caught.value.hint)


@pytest.mark.parametrize(
    "text",
    [
        "set a=1\nselect 1",
        "set a=1\n\n  insert into t select 2;\nselect 1;",
        "set a=1\nset b=2;select 1",
    ],
)
def test_a_setting_without_a_semicolon_does_not_contain_the_next_statement(text: str) -> None:
    with pytest.raises(ArgumentError, match="the setting a does not end") as caught:
        split_settings(text)
    assert "end each setting with ;" in str(caught.value.hint)


@pytest.mark.parametrize(
    "text",
    ["select 1; set a=2;", "set b=1; select 1;\n-- now\nSET a = 2", "select ';';/* */set a=2;"],
)
def test_settings_after_a_statement_are_refused(odps: Connection, text: str) -> None:
    """The service ignores such settings."""
    for use in (odps.sql, odps.sql_cost):
        with pytest.raises(ArgumentError, match="sets a after its first statement") as caught:
            use(text)
        assert "move it above" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (True, "true"),
        (np.bool_(False), "false"),
        (5, "5"),
        (np.int64(5), "5"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        ("True", "True"),
    ],
)
def test_a_setting_is_sent_as_text(odps: Connection, value: object, sent: str) -> None:
    assert odps.sql("select 1", settings={"my.own": value}).settings["my.own"] == sent


@pytest.mark.parametrize(
    "settings",
    ["a=b", [("a", "b")], {"a": None}, {"a": float("nan")}, {"a": [1]}, {1: "b"}, {" ": "b"}],
)
def test_values_of_other_types_are_refused_as_settings(odps: Connection, settings: Any) -> None:
    for use in (odps.sql, odps.sql_cost):
        with pytest.raises(ArgumentError, match="setting") as caught:
            use("select 1", settings=settings)
        assert caught.value.hint


def test_settings_of_the_call_override_those_in_the_text(odps: Connection) -> None:
    text = "set odps.sql.timezone=Asia/Tokyo; set my.own=1; select :at as at"
    at = {"at": datetime(2024, 1, 1, tzinfo=UTC)}
    result = odps.sql(text, params=at, settings={"my.own": "2"})
    assert result.settings == {"odps.sql.timezone": "Asia/Tokyo", "my.own": "2"}
    assert result.sql.startswith("select ")
    assert result.to_arrow()["at"].to_pylist()[0].isoformat().startswith("2024-01-01T00:00")


def test_the_service_ignores_settings_in_the_text(odps: Connection) -> None:
    """Vendor's manual, *Set an SQL flag*."""
    wide = "create table never_made (v decimal(40,0))"
    text = f"set odps.sql.decimal256.enable=true; {wide};"
    request = SubmitSql(project=odps.profile.project, sql=text, unique_id=str(uuid4()))
    sent = odps._storage.submit(request)
    instance = SqlInstance(project=odps.profile.project, instance_id=sent.instance_id)
    with pytest.raises(QueryError, match=r"odps.sql.decimal256.enable"):
        wait_sql(odps._storage, instance)
    odps.sql(f"set odps.sql.decimal256.enable=true; {wide}")
    odps.drop_table("never_made")


def test_an_error_shows_the_position_in_the_remaining_text(odps: Connection) -> None:
    with pytest.raises(QueryError, match=r"\[2,14\]") as caught:
        odps.sql("set a=1;\n\nselect id,\n  frm orders where")
    assert str(caught.value.excerpt).splitlines()[0] == "    frm orders where"
