"""A repr sends no request, and also works after the connection is closed."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import odps_nb
from odps_nb import Connection
from odps_nb.notebook.display.listing import MAX_ROWS, Listing
from odps_nb.notebook.gallery.page import OUTPUT_BUDGET
from odps_nb.terms import TableName, format_bytes
from tests.support.compat.recorder import Recorder

_REQUEST = re.compile("request id [0-9A-F]+")


def unused_objects(odps: Connection, token: str) -> list[Any]:
    """Return one object of each kind that has sent no request."""
    return [
        odps,
        odps.profile,
        odps._storage,
        odps.table("orders"),
        odps.table("no_such_table"),
        odps.table("orders").read(),
        odps.table("orders").read(limit=3, progress=False),
        odps.table("orders").read()._plan,
        odps.blob(token),
        odps_nb.NewBlob(b"x"),
    ]


def used_objects(odps: Connection, name: str) -> list[Any]:
    """Return one object of each kind after use."""
    table, media = odps.table(name), odps.table("media")
    scan, blobs = odps.table("orders").read(["id"], limit=3), media.blobs("content", limit=2)
    scan.to_arrow()
    blobs[0].bytes()
    result = odps.sql("select 1 as one")
    result.to_arrow()
    receipt = table.write(pa.table({"id": [1]}))
    session = table.open_write()
    stream = session.open_stream()
    table.info  # noqa: B018  asked for now
    return [
        table,
        scan,
        scan._opened(),
        blobs,
        *blobs,
        *odps.blobs([blobs[0].reference]).fetch(),
        result,
        result.first(1),
        odps.sql("select 2 as two", wait=False),
        receipt,
        session,
        session.handle,
        stream,
    ]


@pytest.fixture
def name(odps: Connection, new_name) -> str:
    made = new_name("shown")
    odps.create_table(made, "id bigint")
    return made


@pytest.mark.storage_api("blobs")
def test_a_repr_sends_no_request(watched: Connection, recorder: Recorder, name: str) -> None:
    token = watched.table("media").blobs("content", limit=1)[0].reference.token
    things = [*unused_objects(watched, token), *used_objects(watched, name)]
    assert recorder.take()  # the recorder counts this request
    for thing in things:
        assert repr(thing), type(thing)
        assert str(thing), type(thing)
        assert recorder.take() == [], type(thing)


@pytest.mark.storage_api("blobs")
def test_a_property_that_sends_a_request_says_so_in_its_docstring(
    watched: Connection, recorder: Recorder
) -> None:
    column = watched.table("media").blobs("content", limit=1)
    asking = set()
    for make in (
        lambda: watched,
        lambda: column,
        lambda: watched.blob(column[0].reference),
        lambda: watched.table("orders"),
        lambda: watched.table("orders").read(["id"], limit=3),
        lambda: watched.sql("select 1 as one"),
    ):
        kind = type(make())
        for name in (one for one in dir(kind) if not one.startswith("_")):
            found = inspect.getattr_static(kind, name)
            if not isinstance(found, property):
                continue
            thing = make()
            recorder.take()
            getattr(thing, name)
            if recorder.take():
                asking.add(name)
                first = (found.__doc__ or "").splitlines()[0]
                assert "request" in first or "waits" in first, (kind, name)
            getattr(thing, name)
            assert recorder.take() == [], (kind, name)
    assert {"schema", "info", "row_count", "splits", "size", "mime_type", "is_cut"} <= asking


def test_a_rich_display_may_send_requests(watched: Connection, recorder: Recorder) -> None:
    table = watched.table("orders")
    assert "22" not in repr(table)
    assert "8 partitions" in table._repr_mimebundle_()["text/plain"]
    assert recorder.take()


@pytest.mark.storage_api("blobs")
def test_reprs_work_after_the_connection_is_closed(odps: Connection, name: str) -> None:
    profile = odps.profile
    with odps_nb.connect(profile) as connection:
        token = connection.table("media").blobs("content", limit=1)[0].reference.token
        things = [*unused_objects(connection, token), *used_objects(connection, name)]
        before = [repr(thing) for thing in things]
        at = next(n for n, thing in enumerate(things) if thing is connection)
    after = [repr(thing) for thing in things]
    assert after[at] == before[at][:-1] + " (closed)>"
    assert all(after)


def test_partitions_and_metadata_are_shown_in_one_short_line(odps: Connection) -> None:
    orders = odps.table("orders")
    assert repr(orders.partitions()[0]) == "PartitionSpec('ds=2024-01-01')"
    size = format_bytes(orders.info.size or 0)
    assert repr(orders.info).startswith(
        f"TableInfo(local.orders, 22 columns, 2,048,000 rows, {size}, owner="
    )
    assert len(repr(orders.info)) < 120


@pytest.mark.parametrize("schema", [None, "default"])
def test_an_f_string_contains_the_full_name_of_a_table(
    odps: Connection, schema: str | None
) -> None:
    profile = replace(odps.profile, schema=schema)
    with odps_nb.connect(profile) as connection:
        unqualified = TableName(project="local", schema=None, table="types_all")
        for table in (connection.table("types_all"), connection.table(unqualified)):
            query = f"select count(*) as n from {table}"
            assert query.endswith("local.default.types_all" if schema else " local.types_all")
            assert (
                connection.sql(query).to_pandas().n[0] == odps.table("types_all").read().row_count
            )
            assert connection.table(f"{table}").schema == table.schema
            assert f"{table:>30}".strip() == f"{table}"


def displayable_objects(odps: Connection) -> list[Any]:
    """Return one object of each kind that has an HTML display."""
    orders, blobs = odps.table("orders"), odps.table("media").blobs("content", limit=2)
    return [
        orders,
        orders.read(["id"], limit=3),
        odps.sql("select 1 as one"),
        odps.sql("create table if not exists orders (id bigint)"),
        blobs,
        blobs[0],
        blobs._live_view(),
        odps.queries(mine=True),
        orders.explore(),
        orders.chart("status"),
        odps.table("no_such_table"),
        odps.table("no_such_table").read(),
        odps.blob("d3Jvbmc="),
        Listing(headers=("a",), rows=((1,),)),
    ]


@pytest.mark.storage_api("blobs")
def test_every_display_method_returns_the_same_static_page(odps: Connection) -> None:
    profile = odps.profile
    for thing in displayable_objects(odps):
        page = thing._repr_mimebundle_(include=None, exclude=None)
        assert set(page) == {"text/html", "text/plain"}, type(thing)
        assert _REQUEST.sub("", thing._repr_html_()) == _REQUEST.sub("", page["text/html"])
        assert "<script" not in page["text/html"]
        assert len(page["text/html"]) < OUTPUT_BUDGET
        for text in (repr(thing), str(thing), page["text/plain"]):
            assert 0 < len(text) < 200 * MAX_ROWS, type(thing)  # also a long list
            assert profile.access_key not in text
        assert profile.access_key not in page["text/html"]
