"""A real project accepts the SQL in tutorials and how-to pages (``docs/protocol.md`` 8.6)."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot import exp

from odps_nb.client.sql.settings import split_settings
from odps_nb.local.sql.cost import has_order_without_limit
from odps_nb.local.sql.query import parse_query
from tests.support.pages import blocks

ROOT = Path(__file__).parents[2]
FAILS = "## What can go wrong"


def _cells() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
            if cell["cell_type"] == "code":
                yield f"{path.stem}[{number}]", "".join(cell["source"])


def _blocks() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "docs" / "howto").glob("*.md")):
        fails = path.read_text("utf-8").partition(FAILS)[0].count("\n") + 1
        for block in blocks(path, "python"):
            if block.line < fails:
                yield block.place, block.text


def _queries() -> Iterator[tuple[str, str]]:
    for place, text in (*_cells(), *_blocks()):
        if text.startswith("%%odps sql"):
            yield place, text.partition("\n")[2]
        if text.startswith("%"):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "odps.sql":
                (query, *_) = node.args
                if isinstance(query, ast.Constant):
                    yield place, query.value


_BRACES = re.compile(r"\{(\w+)\}")  # the name of a table or column
_VALUE = re.compile(r"(?<![:\w]):\w+")  # a value


def _bound(sql: str) -> str:
    return _VALUE.sub("'x'", _BRACES.sub(r"\1", sql))


QUERIES = [pytest.param(_bound(sql), id=place.rpartition("/")[2]) for place, sql in _queries()]


def test_pages_contain_sql_statements() -> None:
    assert len(QUERIES) > 15


@pytest.mark.parametrize("sql", QUERIES)
def test_a_project_accepts_the_sql_of_pages(sql: str) -> None:
    settings, text = split_settings(sql)
    if not text.lstrip().lower().startswith(("select", "with")):
        return
    query = parse_query(text)
    assert settings.get("odps.sql.validate.orderby.limit") == "false" or not (
        has_order_without_limit(query)
    )
    tables = {table.name for table in query.find_all(exp.Table)}
    if "orders" in tables and settings.get("odps.sql.allow.fullscan") != "true":
        assert any(column.name == "ds" for column in query.find_all(exp.Column))
