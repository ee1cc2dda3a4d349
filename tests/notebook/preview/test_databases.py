"""A tile lists the tables of a SQLite database and executes no SQL of the file."""

import contextlib
import sqlite3

import pytest

from fuzz.office_files import sqlite
from odps_nb.formats.parsers import database
from odps_nb.formats.shared import SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Seen, Value

# a query that never ends
ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) AS x FROM n"
)


def drawn(data):
    made = tile(Value(data), size=SINGLE)
    return made, Seen(made.html).text


def test_views_virtual_tables_and_generated_columns_are_not_run():
    data = sqlite(
        "CREATE TABLE t (a, b GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL)",
        "INSERT INTO t (a) VALUES (1), (2)",
        f"CREATE VIEW endless AS {ENDLESS}",
        "CREATE VIRTUAL TABLE words USING fts4(x)",
        "CREATE TRIGGER changed AFTER INSERT ON t BEGIN SELECT load_extension('x'); END",
    )
    made, text = drawn(data)
    assert made.notes == ()
    assert "t2a, b" in text
    assert "endless" not in text
    assert "words_content" in text  # the shadow table, not the virtual table


def test_a_table_name_is_not_run_as_sql():
    name = "x\"'; DROP TABLE t; --"
    quoted = name.replace('"', '""')
    _, text = drawn(sqlite(f'CREATE TABLE "{quoted}" (a)', "CREATE TABLE t (a)"))
    assert f"{name}0a" in text
    assert "t0a" in text


def test_a_view_that_the_schema_declares_as_a_table_is_not_run():
    made, _ = drawn(
        sqlite(
            "CREATE TABLE t (a)",
            f"CREATE VIEW endless AS {ENDLESS}",
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET type = 'table', rootpage = 2 WHERE name = 'endless'",
        )
    )
    assert made.notes == ("truncated or damaged: malformed database schema (endless)",)


def test_rows_are_counted_up_to_a_bound():
    rows = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT {}) SELECT x FROM n"
    )
    _, text = drawn(
        sqlite(
            "CREATE TABLE a (x)",
            "CREATE TABLE b (x)",
            "INSERT INTO a " + rows.format(database._ROWS + 1),
            "INSERT INTO b " + rows.format(2000),
        )
    )
    assert "over 100,000" in text
    assert "2,000" in text


def test_the_first_of_many_tables_are_shown_and_all_are_counted():
    made, text = drawn(sqlite(*(f"CREATE TABLE t{at} (a)" for at in range(1500))))
    assert "1,500 tables" in made.text
    assert "t59" in text
    assert "t61" not in text


def test_a_database_with_a_write_ahead_log_is_opened(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE kept (a)")
    data = path.read_bytes()
    assert data[18:20] == b"\2\2"
    assert "kept0a" in drawn(data)[1]


@pytest.mark.parametrize("cut", [100, 600, 5000])
def test_a_truncated_database_is_reported_as_truncated(cut):
    data = sqlite("CREATE TABLE t (a)", *(f"INSERT INTO t VALUES ({at})" for at in range(2000)))
    made, text = drawn(data[:cut])
    assert ("?" in text) or made.notes[0].startswith("truncated or damaged")
    assert "0x" not in text


def test_a_loop_in_the_pages_of_a_table_does_not_block_its_tile():
    data = bytearray(
        sqlite("CREATE TABLE t (a)", *["INSERT INTO t VALUES (randomblob(900))"] * 500)
    )
    page = int.from_bytes(data[16:18], "big")
    root = page  # the root of the only table is the second page
    assert data[root] == 5  # the type of an inner page
    data[root + 8 : root + 12] = (2).to_bytes(4, "big")  # its last child is the page itself
    made, text = drawn(bytes(data))
    assert "t?a" in text or made.notes
