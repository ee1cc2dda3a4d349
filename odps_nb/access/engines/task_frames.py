"""A table as a Dask DataFrame or a Ray Dataset: each task reads its own split."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.engines.missing import require
from odps_nb.access.engines.split_task import SplitTask

if TYPE_CHECKING:
    from odps_nb.convert.frame_options import FrameOptions

__all__ = ["to_dask", "to_ray"]


def to_dask(tasks: list[SplitTask], schema: pa.Schema, options: FrameOptions) -> Any:
    """Return a Dask DataFrame with one partition per task."""
    from odps_nb.convert.pandas_frame import to_pandas

    frames = require("dask.dataframe")
    empty = to_pandas(schema.empty_table(), options=options)
    # Dask would make text of columns of objects, such as lists.
    with require("dask").config.set({"dataframe.convert-string": False}):
        if not tasks:
            return frames.from_pandas(empty, npartitions=1)
        return frames.from_map(partial(_frame, options=options), tasks, meta=empty, label="odps")


def to_ray(tasks: list[SplitTask]) -> Any:
    """Return a Ray Dataset with one read task per split."""
    data = require("ray.data")
    source: Any = data.Datasource
    blocks = require("ray.data.block")

    class Rows(source):  # type: ignore[misc]
        """The splits of one read session."""

        def estimate_inmemory_data_size(self) -> int | None:
            return tasks[0].session.estimated_size if tasks else 0

        def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
            known = blocks.BlockMetadata(
                num_rows=None, size_bytes=None, input_files=None, exec_stats=None
            )
            return [data.ReadTask(partial(_tables, task), known) for task in tasks]

    return data.read_datasource(Rows(), override_num_blocks=max(1, len(tasks)))


def _frame(task: SplitTask, options: FrameOptions) -> Any:
    return task.frame(options)


def _tables(task: SplitTask) -> Iterator[pa.Table]:
    some = False
    for batch in task.batches():
        some = True
        yield pa.Table.from_batches([batch])
    if not some:
        yield task.schema.empty_table()
