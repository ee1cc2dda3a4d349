"""Errors of Spark point into the text that was typed, not into the one that Spark was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import odps_nb.spark
from odps_nb.errors import NotFoundError, QueryError, explain
from odps_nb.spark.pushdown.errors import span_of
from odps_nb.spark.pushdown.parse import fill, parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

TEXT = (
    "select a.id, '{x}' as `\\0`, local.orders.amount from local.orders\n"
    "  join media as a on a.id = local.orders.id where a.id > 1/0"
)


@given(st.integers(0, len(TEXT) - 1), st.integers(1, 40), st.integers(1, 70))
def test_a_fragment_of_the_text_is_found_where_it_was_typed(
    start: int, length: int, width: int
) -> None:
    query = parse_query(TEXT)
    assert [str(one) for one in query.references] == ["local.orders", "media"]
    name = "v" * width
    given_to_spark = fill(query, dict.fromkeys(query.references, "view")).format(view=name)
    at = _moved(start, width)
    if at is None:
        return
    fragment = given_to_spark[at : at + length]
    found = span_of(query, query.references, at, fragment, width)
    assert found is not None
    assert found[0] == start
    assert TEXT[start : start + 1] == fragment[:1]
    assert span_of(query, query.references, at, "~" + fragment, width) is None
    assert span_of(query, query.references, at, fragment + "~" * 200, width) is None


def _moved(place: int, width: int) -> int | None:
    """Where a character of the text is in Spark's; ``None`` for those that it does not have."""
    cuts = [("local.", 0), ("local.orders\n", width), ("media", width), ("local.", 0)]
    moved, done = place, 0
    for text, wide in cuts:
        begin = TEXT.index(text, done)
        end = begin + len(text.rstrip("\n"))
        if place < begin:
            break
        if place < end:
            return None
        alias = text.rstrip("\n").rpartition(".")[2]
        moved += (len(f"({'v' * wide} as `{alias}`)") if wide else 0) - (end - begin)
        done = end
    return moved


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "kind", "place"),
    [
        (
            "select\n  o.id\nfrom media m join media o on m.id = o.id where 1/(o.id - m.id) > 0",
            QueryError,
            "line 3 of the query: 1/(o.id - m.id)",
        ),
        (
            "select count(*) from media, media as other\nwhere other.nome = 'x'",
            NotFoundError,
            "line 2 of the query: other.nome",
        ),
        (
            "select id\nfrom media m join media o using (id) where id = interval 3 frogs",
            QueryError,
            "line 2 of the query: frogs",
        ),
    ],
)
def test_an_error_of_spark_quotes_the_query_as_it_was_typed(
    spark: SparkSession, odps: Connection, text: str, kind: type[Exception], place: str
) -> None:
    with pytest.raises(kind) as caught:
        odps_nb.spark.explain_sql(spark, odps, text).to_arrow()
    assert any(place in line for line in explain(caught.value)), explain(caught.value)
    assert "_pyspark" not in "\n".join(explain(caught.value))
    assert "pos " not in str(caught.value)
