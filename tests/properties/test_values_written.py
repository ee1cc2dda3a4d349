"""A value that fits a type is stored unchanged, in any form, and is equal when read back.

The rules are those of `tests.support.values.rules`: plain Python, without the library's own rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import odps_nb
from odps_nb import Connection
from odps_nb.access.table import Table
from tests.support.named import NewName
from tests.support.service.connecting import account_of
from tests.support.values.columns import Drawn, check_stored, columns, gather
from tests.support.values.rules import Kind
from tests.support.values.sources import SOURCES

EXAMPLES = int(os.environ.get("ODPS_NB_EXPLORE") or 8)
ZONE, AHEAD = "Etc/GMT-8", 28_800  # eight hours ahead of UTC, in all years


@pytest.fixture(scope="module")
def zoned(odps: Connection) -> Iterator[Connection]:
    """A connection whose naive times are in a time zone."""
    profile = odps.profile
    with odps_nb.connect(
        **account_of(profile),
        timezone=ZONE,
    ) as found:
        yield found


def text_of(drawn: dict[str, Drawn]) -> str:
    return ", ".join(f"{name} {column.kind.text}" for name, column in drawn.items())


def write_in_a_session(table: Table, data: Any) -> None:
    with table.open_write() as session:
        session.write(data)
        session.commit()


@pytest.mark.storage_api("far times")
@pytest.mark.gate(1)
@pytest.mark.parametrize("source", SOURCES)
def test_written_values_are_unchanged(odps: Connection, new_name: NewName, source: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(drawn=columns(source), write=st.sampled_from([Table.write, write_in_a_session]))
    def written_and_read(drawn: dict[str, Drawn], write: Callable[[Table, Any], None]) -> None:
        table = odps.create_table(new_name("values"), f"id bigint, {text_of(drawn)}")
        try:
            write(table, gather(source, drawn))
            check_stored(table, drawn)
        finally:
            odps.drop_table(table.name)

    written_and_read()


@pytest.mark.gate(1)
@pytest.mark.parametrize("source", ["arrow", "arrow-backed", "reader"])
def test_naive_times_are_in_the_zone_of_the_connection(
    zoned: Connection, new_name: NewName, source: str
) -> None:
    def has_times(kind: Kind) -> bool:
        return any(leaf.name in ("datetime", "timestamp", "date") for leaf in kind.leaves())

    @settings(max_examples=EXAMPLES // 2)
    @given(drawn=columns(source, accept=has_times))
    def written_and_read(drawn: dict[str, Drawn]) -> None:
        drawn = {name: column for name, column in drawn.items() if column.fits(AHEAD)}
        if not drawn:
            return
        table = zoned.create_table(new_name("values"), f"id bigint, {text_of(drawn)}")
        try:
            table.write(gather(source, drawn))
            check_stored(table, drawn, AHEAD)
        finally:
            zoned.drop_table(table.name)

    written_and_read()


@pytest.mark.gate(1)
@pytest.mark.parametrize("source", ["objects", "pandas", "arrow"])
def test_upserted_values_are_unchanged(odps: Connection, new_name: NewName, source: str) -> None:
    def has_default_precision(kind: Kind) -> bool:  # more digits require settings of the statement
        return all(leaf.numbers[:1] < (39,) and leaf.numbers[1:] < (19,) for leaf in kind.leaves())

    @settings(max_examples=EXAMPLES // 2)
    @given(drawn=columns(source, rows=4, accept=has_default_precision), again=st.booleans())
    def upserted_and_read(drawn: dict[str, Drawn], again: bool) -> None:
        name = new_name("keyed")
        odps.sql(
            f"CREATE TABLE {name} (id BIGINT NOT NULL, {text_of(drawn)}, PRIMARY KEY (id)) "
            "TBLPROPERTIES ('transactional'='true', 'table.format.version'='2')"
        )
        table = odps.table(name)
        try:
            for _ in range(1 + again):
                table.upsert(gather(source, drawn))
            check_stored(table, drawn)
        finally:
            odps.drop_table(name)

    upserted_and_read()
