"""The methods of `Table` and `Scan` that give their rows to other libraries."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.access.engines.dataset import TableDataset
    from odps_nb.access.scan import Scan

__all__ = ["ForEngines"]


class ForEngines:
    """Base class of `Table` and `Scan`: the rows for DuckDB, polars, Dask and Ray."""

    @abstractmethod
    def _whole(self) -> Scan:
        """Return the rows that are meant."""

    def dataset(self) -> TableDataset:
        """Return the rows as a pyarrow Dataset, which DuckDB, polars and others query.

        Each query opens one session, of the columns and partitions that it needs; filters are
        exact. Asks for the table's columns if they are not known yet.

        Raises
        ------
        ArgumentError
            The scan is of changes, or of a session that was opened elsewhere.

        Examples
        --------
        >>> import duckdb
        >>> orders = odps.table("orders").dataset()
        >>> duckdb.sql("select min(id) from orders where ds = '2024-01-02'").fetchall()
        [(1231073,)]
        """
        return self._whole()._dataset()
