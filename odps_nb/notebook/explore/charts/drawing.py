"""Draws a chart as SVG without scripts or references; each mark has its exact values as a title.

All text is escaped. The colour of text is readable on white, the background of the static page; the
live view uses the page's text colour. Marks are visible on light and on dark backgrounds.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from odps_nb.errors import visible
from odps_nb.notebook.explore.charts.all_groups import ABOVE, BELOW, NULL, OTHERS
from odps_nb.notebook.explore.charts.choice import ChartChoice
from odps_nb.notebook.explore.charts.figures import WHISKER, ChartMark, Figures, last
from odps_nb.notebook.explore.values.axis import (
    calendar_ticks,
    number_text,
    shortened,
    tick_labels,
    ticks,
)

WIDTH, HEIGHT = 720, 340
MIN_WIDTH, MAX_WIDTH = 320, 1600
_RIGHT, _TOP = 16, 16
_LEFT = 64  # minimum margin; wide labels of the y axis need more
_TEXT, _GRID = "#6b6b6b", "#808080"
_NONE = "#9a9a9a"  # colour of nulls and of other values
COLORS = ("#4c8bf5", "#e8793a", "#2fa37c", "#b45fc4", "#d4a017", "#d6556b", "#3fa7c4")
_POINTS = 80  # above this number, a line's points are small, and omitted in the static view
_LETTER = 6.2  # average width of a letter in a label
_TILTED = 14  # maximum letters of a tilted label
_LEGEND = 18  # height of one row of the legend
_LEGEND_LETTERS = 14  # maximum letters of a name in the legend
_MOST_LETTERS = 10  # maximum letters in the tick label next to the label for nulls


def svg(choice: ChartChoice, figures: Figures, *, width: int = WIDTH, tips: bool = True) -> str:
    """Return the chart as an SVG document that is `HEIGHT` pixels high.

    ``width`` is in pixels, from `MIN_WIDTH` to `MAX_WIDTH`; other values are adjusted.
    ``tips``: give each mark its values as a title, which is not shown in an ``<img>``.
    """
    width = max(MIN_WIDTH, min(width, MAX_WIDTH))
    return _Drawing(choice, figures, width=width, tips=tips).document()


class _Drawing:
    """The state of a chart that is being drawn."""

    def __init__(self, choice: ChartChoice, figures: Figures, *, width: int, tips: bool) -> None:
        self._choice, self._figures, self._tips, self._width = choice, figures, tips, width
        self._marks = figures.marks
        self._slots = _slots(self._marks, len(figures.groups))
        self._stacked = choice.is_stacked
        self._ticks = ticks(*self._range())
        self._low, self._high = self._ticks[0], self._ticks[-1]
        letters = max(map(len, tick_labels(self._ticks)))
        self._margin = max(_LEFT, math.ceil(letters * _LETTER) + 28)
        names = [self._group(group) for group in self._slots]
        self._widest = max(map(len, names), default=1) * _LETTER + 10
        is_crowded = self._widest > self._slot()
        self._times = self._calendar() if is_crowded and names and choice.is_time else []
        self._tilted = is_crowded and len(names) <= 24 and not self._times
        # labels are tilted by 30°, so half of the longest one is its height
        tall = math.ceil(min(max(map(len, names), default=1), _TILTED) * _LETTER / 2)
        self._bottom = tall + 42 if self._tilted else 46
        self._named_colors = list(self._legend_places())
        rows = self._named_colors[-1][2] + 1 if self._named_colors else 0
        self._foot = self._bottom + _LEGEND * rows + (2 if rows else 0)
        places = [mark.at for mark in self._marks]
        self._left, self._right = (min(places), max(places)) if places else (0.0, 1.0)

    def _range(self) -> tuple[float, float]:
        sums: dict[tuple[int, bool], float] = {}
        values = [0.0] if self._choice.kind not in ("scatter", "box", "line") else []
        for mark in self._marks:
            if self._stacked:
                key = (mark.group, mark.values[0] < 0)
                sums[key] = sums.get(key, 0.0) + mark.values[0]
            else:
                values += _whiskers(mark.values) if self._choice.kind == "box" else mark.values
        values += sums.values()
        return (min(values), max(values)) if values else (0.0, 1.0)

    # -- the whole ------------------------------------------------------------------------------

    def document(self) -> str:
        parts = [*self._y_axis(), *self._x_axis(), *self._drawn(), *self._legend()]
        if not self._marks:
            parts.append(_label(self._width / 2, HEIGHT / 2, "no rows", anchor="middle", size=13))
        width = self._width
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
            f'width="{width}" height="{HEIGHT}" font-family="system-ui,sans-serif" role="img">'
        )
        return "".join([head, f"<title>{_escape(title(self._choice))}</title>", *parts, "</svg>"])

    def _y(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return HEIGHT - self._foot - share * (HEIGHT - self._foot - _TOP)

    def _slot(self) -> float:
        return (self._width - self._margin - _RIGHT) / max(1, len(self._slots))

    def _x(self, group: int) -> float:
        """Return the middle of a group's slot."""
        return self._margin + (self._slots[group] + 0.5) * self._slot()

    # -- axes -----------------------------------------------------------------------------------

    def _y_axis(self) -> Iterator[str]:
        for value, text in zip(self._ticks, tick_labels(self._ticks), strict=True):
            y = self._y(value)
            strong = 0.55 if value == 0 else 0.2
            yield (
                f'<path d="M{self._margin} {y:.1f}H{self._width - _RIGHT}" stroke="{_GRID}" '
                f'stroke-opacity="{strong}"/>'
            )
            yield _label(self._margin - 6, y + 4, text, anchor="end")
        yield _label(0, 0, self._choice.measure, anchor="middle", turned=(14, HEIGHT / 2 - 20))

    def _x_axis(self) -> Iterator[str]:
        y = HEIGHT - self._foot + 16
        middle = (self._width + self._margin - _RIGHT) / 2
        below = HEIGHT - self._foot + self._bottom - 8
        yield _label(middle, below, self._choice.x.name, anchor="middle")
        if self._choice.kind == "scatter":
            labels = [(self._across(value), text) for value, text in self._positions()]
            gap = min((after - at for (at, _), (after, _) in pairwise(labels)), default=1.0)
            widest = max((len(text) for _, text in labels), default=1) * _LETTER + 10
            for x, text in labels[:: math.ceil(widest / gap)]:
                yield self._centred(x, y, text)
            return
        if self._times:
            for group, text in self._times:
                yield self._centred(self._x(group), y, text)
            return
        every = 1 if self._tilted else math.ceil(self._widest / self._slot())
        for n, group in enumerate(self._slots):
            name = self._group(group)
            if self._tilted:
                at = (self._x(group) + 4, y - 4)
                text = shortened(name, _TILTED)
                yield _label(0, 0, text, anchor="end", turned=at, angle=-30, whole=name)
            elif n % every == 0:
                yield self._centred(self._x(group), y, shortened(name, 40), whole=name)

    def _centred(self, x: float, y: float, text: str, *, whole: str = "") -> str:
        """Return a label below ``x``, moved to the left if it would leave the picture."""
        x = min(x, self._width - len(text) * _LETTER / 2)
        return _label(x, y, text, anchor="middle", whole=whole)

    def _calendar(self) -> list[tuple[int, str]]:
        """Return (group, label) for groups that begin a period, and for the group of nulls."""

        def spacing(letters: int) -> float:
            return (letters * _LETTER + 10) / self._slot()

        labels = calendar_ticks(self._figures.groups, spacing)
        if labels and NULL in self._slots:
            is_free = self._slots[NULL] - labels[-1][0] >= spacing(_MOST_LETTERS)
            labels = [*(labels if is_free else labels[:-1]), (NULL, self._group(NULL))]
        return labels

    def _positions(self) -> list[tuple[float, str]]:
        """Return the ticks of a scatter plot's x axis."""
        scale = self._figures.scale
        assert scale is not None  # every scatter plot has a scale
        if not self._choice.is_time:
            values = [value for value in ticks(self._left, self._right) if value >= self._left]
            values = list(dict.fromkeys(value for value in values if value <= self._right))
            return list(zip(values, tick_labels(values), strict=True))
        labels = scale.month_ticks(self._left, self._right, 6)
        if not labels:
            edges = scale.edges(self._left, self._right, 5)
            labels = [(scale.place(edge), scale.text(edge)) for edge in edges]
        return [(at, text) for at, text in labels if self._left <= at <= self._right]

    def _across(self, value: float) -> float:
        share = (value - self._left) / ((self._right - self._left) or 1)
        return self._margin + 8 + share * (self._width - self._margin - _RIGHT - 16)

    def _group(self, group: int) -> str:
        return group_name(group, self._figures.groups)

    def _color(self, color: int) -> str:
        return COLORS[color % len(COLORS)] if color >= 0 else _NONE

    def _legend_places(self) -> Iterator[tuple[int, float, int]]:
        """Yield each colour with the position of its name in the legend: x in pixels, and row."""
        if self._choice.color is None:
            return
        x, row = float(self._margin), 0
        for color in sorted({mark.color for mark in self._marks}, key=last):
            length = 30 + 6.5 * min(len(self._color_name(color)), _LEGEND_LETTERS)
            if x > self._margin and x + length - 16 > self._width:
                x, row = float(self._margin), row + 1
            yield color, x, row
            x += length

    def _legend(self) -> Iterator[str]:
        for color, x, row in self._named_colors:
            y = HEIGHT - self._foot + self._bottom + 12 + _LEGEND * row
            name = self._color_name(color)
            opacity = 0.5 if color == NULL else 1
            yield (
                f'<rect x="{x:.0f}" y="{y - 9}" width="10" height="10" rx="2" '
                f'fill="{self._color(color)}" fill-opacity="{opacity}"/>'
            )
            yield _label(x + 14, y, shortened(name, _LEGEND_LETTERS), whole=name)

    def _color_name(self, color: int) -> str:
        return group_name(color, self._figures.colors)

    # -- marks ----------------------------------------------------------------------------------

    def _drawn(self) -> Iterator[str]:
        kind = self._choice.kind
        if kind in ("line", "area"):
            yield from self._lines(filled=kind == "area")
        elif kind == "box":
            yield from self._boxes()
        elif kind == "scatter":
            for mark in self._marks:
                fill = self._color(mark.color)
                yield (
                    f'<circle cx="{self._across(mark.at):.1f}" cy="{self._y(mark.values[0]):.1f}" '
                    f'r="2.5" fill="{fill}" fill-opacity="0.55">{self._tip(mark)}</circle>'
                )
        else:
            yield from self._bars()

    def _bars(self) -> Iterator[str]:
        gap = 0.0 if self._choice.kind == "histogram" else 0.15
        colors = sorted({mark.color for mark in self._marks}, key=last)
        per_slot = 1 if self._stacked else max(1, len(colors))
        room = self._slot() * (1 - gap) / per_slot
        width = max(0.5, room - (1 if room > 4 else 0))
        sums: dict[tuple[int, bool], float] = {}
        for mark in self._marks:
            value = mark.values[0]
            begin = sums.get((mark.group, value < 0), 0.0) if self._stacked else 0.0
            sums[mark.group, value < 0] = begin + value
            top, bottom = sorted((self._y(begin + value), self._y(begin)))
            shift = 0.0 if per_slot == 1 else (colors.index(mark.color) - (per_slot - 1) / 2) * room
            left = self._x(mark.group) + shift - width / 2
            yield self._rect(mark, left, top, width, bottom - top)

    def _rect(self, mark: ChartMark, x: float, y: float, width: float, height: float) -> str:
        fill = self._color(mark.color if self._choice.color is not None else 0)
        if mark.group < 0:
            fill = _NONE
        return (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(height, 0.5):.1f}" '
            f'fill="{fill}">{self._tip(mark)}</rect>'
        )

    def _lines(self, *, filled: bool) -> Iterator[str]:
        """Draw areas first, so that none covers a line or a point."""
        base: dict[int, float] = {}
        areas, lines = [], []
        for color in sorted({mark.color for mark in self._marks}, key=last):
            stroke = self._color(color if self._choice.color is not None else 0)
            marks = [mark for mark in self._marks if mark.color == color and mark.group >= 0]
            low = {m.group: base.get(m.group, 0.0) if self._stacked else 0.0 for m in marks}
            tops = [(self._x(m.group), self._y(low[m.group] + m.values[0]), m) for m in marks]
            for run in _runs(tops):
                path = "L".join(f"{x:.1f} {y:.1f}" for x, y, _ in run)
                floor = "L".join(f"{x:.1f} {self._y(low[m.group]):.1f}" for x, _, m in run[::-1])
                if filled:
                    areas.append(
                        f'<path d="M{path}L{floor}Z" fill="{stroke}" fill-opacity="0.35"/>'
                    )
                lines.append(
                    f'<path d="M{path}h0" fill="none" stroke="{stroke}" stroke-width="2" '
                    'stroke-linejoin="round" stroke-linecap="round"/>'
                )
            radius = 3 if len(tops) <= _POINTS else 1.5
            for x, y, mark in tops if self._tips or len(tops) <= _POINTS else ():
                lines.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{stroke}">'
                    f"{self._tip(mark)}</circle>"
                )
            base |= {m.group: low[m.group] + m.values[0] for m in marks}
        yield from [*areas, *lines, *(self._dot(mark) for mark in self._marks if mark.group < 0)]

    def _dot(self, mark: ChartMark) -> str:
        x, y = self._x(mark.group), self._y(mark.values[0])
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_NONE}">{self._tip(mark)}</circle>'

    def _boxes(self) -> Iterator[str]:
        colors = sorted({mark.color for mark in self._marks}, key=last)
        room = self._slot() * 0.8 / max(1, len(colors))
        for mark in self._marks:
            shift = (colors.index(mark.color) - (len(colors) - 1) / 2) * room
            x, width = self._x(mark.group) + shift, min(40.0, room * 0.85)
            first, middle, third = map(self._y, mark.values[1:4])
            low, high = map(self._y, _whiskers(mark.values))
            stroke = self._color(mark.color if self._choice.color is not None else 0)
            stroke = _NONE if mark.group < 0 else stroke
            left, right = x - width / 2, x + width / 2
            path = (
                f"M{x:.1f} {low:.1f}V{first:.1f}M{x:.1f} {third:.1f}V{high:.1f}"
                f"M{left:.1f} {middle:.1f}H{right:.1f}"
                f"M{x - width / 4:.1f} {low:.1f}h{width / 2:.1f}"
                f"M{x - width / 4:.1f} {high:.1f}h{width / 2:.1f}"
            )
            yield (
                f'<g stroke="{stroke}" stroke-width="1.5">{self._tip(mark)}<rect x="{left:.1f}" '
                f'y="{third:.1f}" width="{width:.1f}" height="{max(first - third, 0.5):.1f}" '
                f'fill="{stroke}" fill-opacity="0.25"/><path d="{path}"/></g>'
            )

    def _tip(self, mark: ChartMark) -> str:
        if not self._tips:
            return ""
        scale = self._figures.scale
        if scale is not None:
            x = scale.text(scale.at(mark.at, 1.0)) if self._choice.is_time else number_text(mark.at)
        else:
            x = self._group(mark.group)
        parts = [f"{self._choice.x.name}: {x}"]
        if self._choice.color is not None:
            parts.append(f"{self._choice.color.name}: {self._color_name(mark.color)}")
        if len(mark.values) == 5:
            names = ("min", "1st quartile", "median", "3rd quartile", "max")
            parts += [f"{n}: {number_text(v)}" for n, v in zip(names, mark.values, strict=True)]
        else:
            parts.append(f"{self._choice.measure}: {number_text(mark.values[0])}")
        if self._choice.y is not None and scale is None:
            parts.append(f"rows: {mark.rows:,}")
        return f"<title>{_escape(chr(10).join(parts))}</title>"


def group_name(index: int, labels: Sequence[str]) -> str:
    """Return the label of a group or colour."""
    names = {NULL: "null", OTHERS: "others", BELOW: "below", ABOVE: "above"}
    return names.get(index) or labels[index]


def _whiskers(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a box's whiskers: the extremes, limited by `WHISKER`."""
    low, first, _, third, high = values
    reach = WHISKER * (third - first)
    return max(low, first - reach), min(high, third + reach)


def title(choice: ChartChoice) -> str:
    """Return a one-line description of the chart."""
    by = f", by {choice.color.name}" if choice.color is not None else ""
    return f"{choice.measure} by {choice.x.name}{by}"


def _slots(marks: Sequence[ChartMark], groups: int) -> dict[int, int]:
    """Return each group's slot on the x axis; a group without marks has an empty slot."""
    present = {mark.group for mark in marks}
    ordered = [BELOW] if BELOW in present else []
    ordered += range(groups)
    ordered += [group for group in (ABOVE, OTHERS, NULL) if group in present]
    return {group: n for n, group in enumerate(ordered)}


def _runs(
    tops: Sequence[tuple[float, float, ChartMark]],
) -> Iterator[Sequence[tuple[float, float, ChartMark]]]:
    """Split the points of a line at each group without a point."""
    begin = 0
    for n in range(1, len(tops) + 1):
        if n == len(tops) or tops[n][2].group > tops[n - 1][2].group + 1:
            yield tops[begin:n]
            begin = n


def _escape(text: str) -> str:
    return html.escape(visible(text), quote=True)


def _label(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 11,
    turned: tuple[float, float] | None = None,
    angle: int = -90,
    whole: str = "",
) -> str:
    position = f'x="{x:.1f}" y="{y:.1f}"'
    if turned is not None:
        position = f'transform="translate({turned[0]:.1f} {turned[1]:.1f}) rotate({angle})"'
    tip = f"<title>{_escape(whole)}</title>" if whole and whole != text else ""
    return (
        f'<text {position} text-anchor="{anchor}" font-size="{size}" fill="{_TEXT}">'
        f"{_escape(text)}{tip}</text>"
    )
