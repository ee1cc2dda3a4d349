"""`Chart`: the result of ``chart()``, shown in a notebook as a picture with tooltips."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.paging.browsing import Rows, rows_of
from odps_nb.access.paging.ordering import name_in_sql
from odps_nb.access.saving import save_stream
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.convert.warning import warn
from odps_nb.errors import visible
from odps_nb.explained import expanded, explained
from odps_nb.html import MUTED, Html, bundle, data_url, element
from odps_nb.notebook.explore.charts.choice import ChartChoice, choose
from odps_nb.notebook.explore.charts.drawing import HEIGHT, WIDTH, group_name, svg, title
from odps_nb.notebook.explore.charts.figures import FigureQuery, Figures
from odps_nb.notebook.explore.charts.read_figures import ReadFigures, why_not_read
from odps_nb.notebook.explore.exports import named, opened
from odps_nb.notebook.explore.values.axis import number_text
from odps_nb.notebook.explore.values.cells import kind_of
from odps_nb.notebook.live.live_view import LiveView
from odps_nb.terms import format_bytes
from odps_nb.wire.control import SQL_ZONE

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.connection import Connection
    from odps_nb.access.row_forms import RowForms

_TEXT_ROWS = 20
_TEXT_WIDTH = 40  # characters of a group's name


def draw(source: RowForms, x: str, y: str | None = None, **options: Any) -> Chart:
    """Return the chart of a read or a SQL result."""
    rows = rows_of(source, opens=False)
    choice, by_query, token = choose(rows.columns, x, y, **options), True, CancelToken()
    if rows.is_result:
        cost, reason = chart_cost(rows, choice, None, token)
        by_query = cost is not None
        if cost is not None:
            warn(f"the chart {cost_text(cost, reason)}")
    return chart_of(rows, choice, None, token, by_query=by_query)


def chart_cost(
    rows: Rows, choice: ChartChoice, where: str | None, cancel: CancelToken
) -> tuple[int | None, str]:
    """Return a chart's estimated input bytes per SQL job, and why it must run a query again.

    The byte count is ``None`` if the chart reads the stored rows of a result instead.
    """
    reason = ""
    if rows.is_result:
        reason = why_not_read(rows, cancel)
        if not reason:
            return None, ""
    names = [column.name for column in (choice.x, choice.y, choice.color) if column is not None]
    text = f"select {', '.join(map(name_in_sql, names))} {rows.relation(where)}"
    return rows.connection.sql_cost(text, settings=rows.job_settings).input_bytes or 0, reason


def cost_text(cost: int, reason: str = "") -> str:
    """Describe the cost of a job, and the ``reason`` if the job runs a query again."""
    reads = f"reads {format_bytes(cost)}"
    return f"runs the query again and {reads}, because {reason}" if reason else reads


def chart_of(
    rows: Rows, choice: ChartChoice, where: str | None, cancel: CancelToken, *, by_query: bool
) -> Chart:
    """Return a chart of the rows that match a condition.

    Runs SQL jobs, usually one or two, if ``by_query``; otherwise, reads the stored rows of a
    result.
    """
    zone = rows.connection.profile.timezone
    by_time = any(column and kind_of(column) == "INSTANT" for column in (choice.x, choice.color))
    if by_query:
        if by_time:
            rows.check_zone()
        cancel.watch(rows)
        query = FigureQuery(rows, choice, where, zone)
    else:
        query = ReadFigures(rows, choice, where, zone, cancel)
    figures = query.figures()
    settings = rows.required_settings
    if not (by_time or "TIMESTAMP" in figures.sql):
        settings.pop(SQL_ZONE, None)
    prefix = "".join(f"set {name}={value};\n" for name, value in settings.items())
    figures = replace(figures, sql=prefix + figures.sql)
    return Chart(rows.title, choice, figures, rows.code(where), rows.connection)


class Chart(LiveView):
    """A chart of grouped rows, shown in a notebook as a picture.

    ``sql`` is a query that returns the chart's values, including those that the chart omits
    (see ``note``); it begins with the settings that it needs. ``code`` is Python code that draws
    the chart again.
    """

    _script = Path(__file__).with_name("chart.js")
    _task = "chart"
    _no_widget = "run the cell again to see exact values on hover"

    def __init__(
        self,
        source: str,
        choice: ChartChoice,
        figures: Figures,
        read: str,
        connection: Connection,
    ) -> None:
        self._source, self._choice, self._figures = source, choice, figures
        self._read, self._connection = read, connection  # `read`: expression that reads the rows
        self._picture = svg(choice, figures)
        super().__init__()

    @property
    def sql(self) -> str:
        """A SQL query that returns the chart's values."""
        return self._figures.sql

    @property
    def title(self) -> str:
        """A one-line description of the chart."""
        return f"{self._source}: {title(self._choice)}"

    @property
    def note(self) -> str:
        """The rows shown: ``all rows`` or the size of the sample."""
        return self._figures.note

    @property
    def code(self) -> str:
        """Python code that draws the chart again."""
        return f"{named(self._read, self._connection)}.chart({self._choice.arguments})"

    def to_pandas(self) -> pd.DataFrame:
        """Return the displayed values, with one row per bar, point or box."""
        choice, figures = self._choice, self._figures
        columns: dict[str, Any] = {choice.x.name: self._xs()}
        if choice.color is not None:
            columns[choice.color.name] = [
                group_name(m.color, figures.colors) for m in figures.marks
            ]
        names = ("min", "q1", "median", "q3", "max") if choice.kind == "box" else (choice.measure,)
        for n, name in enumerate(names):
            while name in columns:
                name += "_"  # a user's column may already have this name
            columns[name] = [mark.values[n] for mark in figures.marks]
        frame: pd.DataFrame = pa.table(columns).to_pandas(date_as_object=False)
        return frame

    def _xs(self) -> list[Any]:
        figures, scale = self._figures, self._figures.scale
        if self._choice.kind != "scatter":
            return [group_name(mark.group, figures.groups) for mark in figures.marks]
        if scale is None or not self._choice.is_time:
            return [point.at for point in figures.marks]
        moments = [scale.at(point.at, 0.0) for point in figures.marks]
        if scale.zone is not None:
            with suppress(OverflowError):  # local times after the year 9999 are shown in UTC
                return [moment.astimezone(scale.zone) for moment in moments]
        return moments

    def to_svg(self) -> str:
        """Return the picture as an SVG document without scripts or references."""
        return self._picture

    @explained
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to an ``.svg`` file, replacing an old one, and return its path."""
        return save_stream([self._picture.encode()], expanded(path), overwrite=True)

    def __repr__(self) -> str:
        return f"<Chart of {visible(self.title)}>"[:300]

    # -- in a notebook --------------------------------------------------------------------------

    def image(self) -> Html:
        """Return the picture for the static view: an image element without tooltips."""
        picture = svg(self._choice, self._figures, tips=False)
        source = data_url("image/svg+xml", picture.encode())
        alt = title(self._choice)
        return element(
            "img",
            attributes={"src": source, "alt": alt, "width": WIDTH, "height": HEIGHT},
            style="max-width:100%;height:auto;background:#fff;border-radius:4px",
        )

    def _static_page(self) -> dict[str, str]:
        head = element("b", self.title[:200])
        foot = element("div", self.note, style=f"font-size:12px;{MUTED}")
        rows = self.to_pandas().head(_TEXT_ROWS)
        shown = element("div", head, element("div", self.image()), foot)
        text = "no values"
        if len(rows):
            text = rows.to_string(index=False, float_format=number_text, max_colwidth=_TEXT_WIDTH)
        return bundle(shown, f"{self.title}\n{text}")

    def message(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message that shows the chart in the browser."""
        code = visible("".join(opened(self.code, self._connection)))
        words = {"title": visible(self.title)[:200], "note": self.note, "code": code}
        return {"kind": "chart", "svg": self.picture(request), **words}

    def picture(self, request: Mapping[str, Any]) -> str:
        """Return the picture as an SVG document of the width that a browser requests."""
        return svg(self._choice, self._figures, width=int(request.get("width") or WIDTH))

    def _on_ready(self, content: Mapping[str, Any], _: object) -> None:
        self._send(self.message(content))
