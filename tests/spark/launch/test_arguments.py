"""Arguments in each other's place are named, and the right order is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

Call = Callable[[Any, Any], object]
WRONG: dict[str, tuple[str, Call]] = {
    "a connection for a session": ("spark", lambda s, c: odps_nb.spark.read(c, s, "orders")),
    "a connection for a session of sql": (
        "spark",
        lambda s, c: odps_nb.spark.sql(c, s, "select 1"),
    ),
    "a session for a connection": ("odps", lambda s, _: odps_nb.spark.options(s)),
    "a session for a connection of read": (
        "odps",
        lambda s, _: odps_nb.spark.read(s, s, "orders"),
    ),
    "a connection for a query": ("query", lambda s, c: odps_nb.spark.sql(s, "select 1", c)),
    "a connection for a DataFrame": ("df", lambda s, c: odps_nb.spark.write(c, s.range(1), "t")),
    "a session for a DataFrame": ("df", lambda s, c: odps_nb.spark.write(s, c, "t")),
    "a connection for a master": ("master", lambda _, c: odps_nb.spark.session(c)),
}


@pytest.mark.parametrize(("argument", "call"), WRONG.values(), ids=WRONG)
def test_an_argument_of_a_wrong_kind_is_named(
    spark: SparkSession, odps: Connection, argument: str, call: Call
) -> None:
    with pytest.raises(ArgumentError, match=f"^{argument} is a ") as caught:
        call(spark, odps)
    assert caught.value.argument == argument
