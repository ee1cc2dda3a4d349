"""A Spark worker keeps its client from one task to the next."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odps_nb.spark.tasks.credentials import TaskProfile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

TASKS = 12


def test_tasks_of_one_worker_share_a_client(spark: SparkSession, odps: Connection) -> None:
    profile = TaskProfile.of(odps._storage)

    def work(_: Iterator[int]) -> Iterator[tuple[int, int]]:
        with profile.open() as storage:
            count = storage.__dict__["tasks"] = storage.__dict__.get("tasks", 0) + 1
            yield os.getpid(), count

    found = spark.sparkContext.parallelize(range(TASKS), TASKS).mapPartitions(work).collect()
    counts = defaultdict(list)
    for worker, count in found:
        counts[worker].append(count)
    assert len(counts) < TASKS
    assert all(sorted(one) == list(range(1, len(one) + 1)) for one in counts.values())


def test_the_client_of_a_worker_is_closed_after_an_error_or_a_change_of_profile(
    spark: SparkSession, odps: Connection
) -> None:
    profile = TaskProfile.of(odps._storage)
    other = TaskProfile((*profile.settings, ("timezone", "Asia/Shanghai")))

    def work(_: Iterator[int]) -> Iterator[bool]:
        with contextlib.suppress(ValueError), profile.open() as failed:
            raise ValueError
        with profile.open() as first:
            yield failed is not first
            with profile.open() as second:  # while the other client is in use
                yield second is not first
        yield second._closed  # only the last client is kept
        with profile.open() as third:
            yield third is first
        with other.open() as elsewhere:
            yield elsewhere is not third
        yield all(one._closed for one in (failed, third))

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(work).collect()
    assert found == [True] * 6


def test_a_client_opened_outside_of_a_task_is_closed_after_use(odps: Connection) -> None:
    with TaskProfile.of(odps._storage).open() as storage:
        assert not storage._closed
    assert storage._closed
