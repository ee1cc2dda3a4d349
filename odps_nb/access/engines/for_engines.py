"""Methods of `Table` and `Scan` that make their rows available to other libraries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.checks import require
from odps_nb.access.engines.split_task import SplitTask
from odps_nb.convert.frame_options import Decimals, DtypeBackend, FrameOptions
from odps_nb.explained import Instructive, explained

if TYPE_CHECKING:
    import polars as pl

    from odps_nb.access.engines.dataset import TableDataset
    from odps_nb.access.scan import Scan


@explained
class ForEngines(Instructive):
    """Base class of `Table` and `Scan` with interfaces to DuckDB, polars, Dask and Ray."""

    @abstractmethod
    def _whole(self) -> Scan:
        """Return the scan that reads the rows."""

    def dataset(self) -> TableDataset:
        """Return the rows as a pyarrow Dataset, which DuckDB, polars and others can query.

        Each query opens one session with only the columns and partitions it needs; filters are
        exact. For polars, use `scan_polars`: filters on a dataset treat NaN, ``~is_in`` and times
        with a zone differently. Columns of unknown type are omitted with a warning, but raise a
        `ConversionError` if ``columns=`` names one (also in `scan_polars`, `to_dask`, `to_ray`).

        Raises
        ------
        ArgumentError
            The scan reads changes, or was created with ``session_id``.

        Examples
        --------
        >>> import duckdb
        >>> orders = odps.table("orders").dataset()
        >>> duckdb.sql("select min(id) from orders where ds = '2024-01-02'").fetchall()
        [(1231073,)]
        """
        from odps_nb.access.engines.dataset import open_dataset  # imports pandas

        return open_dataset(self._whole())

    def scan_polars(self) -> pl.LazyFrame:
        """Return the rows as a polars LazyFrame; columns, filters and ``head`` are pushed down.

        Like `dataset`, but filters have exactly the semantics of polars.

        Raises
        ------
        MissingDependencyError
            polars is not installed: ``pip install 'odps-nb[polars]'``.

        Examples
        --------
        >>> import polars as pl
        >>> orders = odps.table("orders").scan_polars()
        >>> orders.filter(pl.col("ds") == "2024-01-02").select(pl.col("id").min()).collect().item()
        1231073
        """
        from odps_nb.access.engines.polars_frame import scan_polars

        return scan_polars(self.dataset())

    def to_dask(
        self, *, decimals: Decimals = "exact", dtype_backend: DtypeBackend = "pyarrow"
    ) -> Any:
        """Return the rows as a Dask DataFrame with one partition per split, read when computed.

        The read session is opened immediately. Access keys are not sent to workers: each worker
        uses its own environment, profile file or keyring.

        Parameters
        ----------
        decimals, dtype_backend
            As for `Scan.to_pandas`. All partitions have the same dtypes, so ``"auto"`` means
            ``"exact"``. Dask supports arithmetic on DECIMAL columns only with ``"float"``.

        Raises
        ------
        MissingDependencyError
            Dask is not installed: ``pip install 'odps-nb[dask]'``.
        ArgumentError
            The scan has a ``limit`` or ``max_bytes``, which separate tasks cannot enforce.
        """
        from odps_nb.convert.pandas_frame import to_pandas

        frames = require("dask.dataframe")
        decimals = "exact" if decimals == "auto" else decimals
        options = FrameOptions(decimals=decimals, dtype_backend=dtype_backend)
        scan = self._whole()._with_types("a Dask DataFrame")
        tasks = scan._split_tasks()
        empty = to_pandas(scan.arrow_schema.empty_table(), options=options)
        # Dask would otherwise convert object columns, such as lists, to text.
        with require("dask").config.set({"dataframe.convert-string": False}):
            if not tasks:
                return frames.from_pandas(empty, npartitions=1)
            read = partial(SplitTask.frame, options=options)
            return frames.from_map(read, tasks, meta=empty, label="odps")

    def to_ray(self) -> Any:
        """Return the rows as a lazy Ray Dataset with one read task per split.

        The session and access keys are handled as in `to_dask`.

        Raises
        ------
        MissingDependencyError
            Ray is not installed: ``pip install 'odps-nb[ray]'``.
        ArgumentError
            The scan has a ``limit`` or ``max_bytes``.
        """
        tasks = self._whole()._with_types("a Ray Dataset")._split_tasks()
        data, blocks = require("ray.data"), require("ray.data.block")
        source: Any = data.Datasource

        class OfferedRows(source):  # type: ignore[misc]
            """The splits of one read session."""

            def estimate_inmemory_data_size(self) -> int | None:
                return tasks[0].session.estimated_size if tasks else 0

            def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[Any]:
                known = blocks.BlockMetadata(
                    num_rows=None, size_bytes=None, input_files=None, exec_stats=None
                )
                return [data.ReadTask(partial(_tables, task), known) for task in tasks]

        return data.read_datasource(OfferedRows(), override_num_blocks=max(1, len(tasks)))


def _tables(task: SplitTask) -> Iterator[pa.Table]:
    has_rows = False
    for batch in task.batches():
        has_rows = True
        yield pa.Table.from_batches([batch])
    if not has_rows:
        yield task.schema.empty_table()
