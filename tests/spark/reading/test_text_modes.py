"""Text that is not UTF-8 in Spark: an error that names the cell, text with U+FFFD, or binary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.errors import ConversionError
from odps_nb.spark.tasks.errors import from_spark
from tests.support.any_bytes import send, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark


@pytest.mark.nightly
def test_both_ways_to_read_with_spark_have_the_text_option(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    name = new_name("bytes")
    odps.create_table(name, "id bigint, s string, a array<string>")
    texts = [b"a", b"caf\xe9"]
    lists = text_of([[b"x"], [b"\xff"]], pa.list_(pa.field("element", pa.string())))
    send(odps, name, {"id": pa.array([1, 2]), "s": text_of(texts), "a": lists})

    def by_read(text: str) -> DataFrame:
        return odps_nb.spark.read(spark, odps, name, text=text)

    odps_nb.spark.register(spark)

    def by_format(text: str) -> DataFrame:
        reader = spark.read.format("odps").options(**odps_nb.spark.options(odps))
        return reader.option("text", text).load(name)

    for read in (by_read, by_format):
        shown = read("replace").orderBy("id").collect()
        assert [(row.s, row.a) for row in shown] == [("a", ["x"]), ("caf\ufffd", ["\ufffd"])]
        frame = read("binary")
        assert dict(frame.dtypes)["s"] == "binary"
        assert dict(frame.dtypes)["a"] == "array<binary>"
        found = [(bytes(row.s), [bytes(one) for one in row.a]) for row in frame.collect()]
        assert sorted(found) == [(b"a", [b"x"]), (b"caf\xe9", [b"\xff"])]
        with pytest.raises(Exception, match="not UTF-8") as caught:
            read("strict").collect()
        error = from_spark(caught.value)
        assert isinstance(error, ConversionError)
        assert "column 's' in row 1" in str(error)
        assert 'text="replace"' in str(error.hint)
    first = odps_nb.spark.read(spark, odps, name, where="id = 1").collect()
    assert [row.s for row in first] == ["a"]
    scan = odps.table(name).read(text="replace").to_spark(spark)
    assert scan.filter("id = 2").first().s == "caf\ufffd"
    result = odps.sql(f"select s from {name} where id = 2", text="binary").to_spark(spark)
    assert bytes(result.first().s) == b"caf\xe9"
