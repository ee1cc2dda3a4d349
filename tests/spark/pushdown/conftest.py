"""A Spark session for many small queries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def _few_tasks(spark: SparkSession) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="module")
def few_tasks(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session with settings that make small queries fast, for all tests of a file."""
    with _few_tasks(spark_session) as spark:
        yield spark


@pytest.fixture
def few_tasks_here(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The same settings for one test, because with them Spark cannot list its views."""
    with _few_tasks(spark_session) as spark:
        yield spark
