"""Spark's errors point into the text that the user typed, not into the text that Spark received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import NotFoundError, QueryError, explain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection


@pytest.mark.gate(1)
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
def test_errors_of_spark_quote_the_query_as_typed(
    spark: SparkSession, odps: Connection, text: str, kind: type[Exception], place: str
) -> None:
    ansi = "spark.sql.ansi.enabled"
    before = spark.conf.get(ansi)
    spark.conf.set(ansi, "true")  # the default since 4.0
    try:
        with pytest.raises(kind) as caught:
            odps_nb.spark.explain_sql(spark, odps, text).to_arrow()
    finally:
        spark.conf.set(ansi, str(before))
    assert any(place in line for line in explain(caught.value)), explain(caught.value)
    assert "_pyspark" not in "\n".join(explain(caught.value))
    assert "pos " not in str(caught.value)
