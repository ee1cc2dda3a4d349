"""`Viewed`: the views of the rows of a `Table`, `Scan` or `Result` in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from odps_nb.explained import explained

if TYPE_CHECKING:
    from odps_nb.access.row_forms import RowForms
    from odps_nb.notebook.explore.charts.chart import Chart
    from odps_nb.notebook.explore.charts.choice import ChartAggregate, ChartKind, ChartStep
    from odps_nb.notebook.explore.explorer import Explorer


@explained
class Viewed:
    """Base class of `Table`, `Scan` and `Result` with the methods that show all rows."""

    __slots__ = ()

    @abstractmethod
    def _viewed(self, *, opens: bool) -> RowForms:
        """Return the rows to show; with ``opens``, their read session is needed at once."""

    def explore(
        self, *, rows: int = 100, sample: int = 64_000, seed: int | None = None
    ) -> Explorer:
        """Return a view of the rows to page through, filter, sort and search in a notebook.

        Pages are fetched when shown; at most 1 MiB of pages is cached. Without the ``notebook``
        extra, only the first page is shown.

        Parameters
        ----------
        rows
            Number of rows per page.
        sample, seed
            Number of sampled rows for column statistics (nulls, distinct values, minimum, maximum,
            distribution), and the seed of the sample.
        """
        from odps_nb.notebook.explore.explorer import explore

        return explore(self._viewed(opens=True), rows=rows, sample=sample, seed=seed)

    def chart(
        self,
        x: str,
        y: str | None = None,
        *,
        kind: ChartKind | None = None,
        agg: ChartAggregate | None = None,
        color: str | None = None,
        bins: int | None = None,
        step: ChartStep | None = None,
        top: int | None = None,
    ) -> Chart:
        """Return a chart of all rows. The service groups and aggregates them with SQL.

        Runs one SQL job, which scans the rows. Histograms, scatter plots and times without ``step``
        need two jobs; many groups need more. For a query result of up to 64 MB, the rows are read
        instead; for a larger one, the query runs again, after a warning with the cost.
        ``kind="scatter"`` shows a random sample of rows. Outlying times and points are omitted;
        ``chart.note`` states how many.

        Parameters
        ----------
        x
            The column to group by; its values are on the x axis.
        y
            The column to aggregate. Default: count rows.
        kind
            ``"bar"``, ``"line"``, ``"area"``, ``"scatter"``, ``"histogram"`` or ``"box"``.
            Default: a line for times, a histogram for numbers without ``y``, otherwise bars.
        agg
            ``"count"``, ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, ``"median"`` or
            ``"distinct"``. Default: ``"sum"`` of ``y``.
        color
            A column whose seven most frequent values each get a colour.
        bins, step, top
            How ``x`` is grouped. ``bins``: number of ranges of a numeric column. ``step``:
            ``"hour"``, ``"day"``, ``"week"``, ``"month"`` or ``"year"`` (default: the shortest one
            with few enough groups). ``top``: number of largest groups to keep; the others are
            combined (default: 20, or 21 if there are no more).

        Raises
        ------
        ArgumentError
            A column does not exist or cannot be plotted, or arguments contradict each other.

        Examples
        --------
        >>> chart = odps.table("orders").chart("status", kind="bar", top=3)
        >>> chart.to_pandas()["status"].tolist()
        ['shipped', 'paid', 'new', 'others']
        """
        from odps_nb.notebook.explore.charts.chart import draw

        options = {"kind": kind, "agg": agg, "color": color, "bins": bins, "step": step, "top": top}
        return draw(self._viewed(opens=False), x, y, **options)
