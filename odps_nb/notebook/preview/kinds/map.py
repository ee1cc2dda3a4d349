"""GeoJSON (RFC 7946): its shapes as outlines over degrees, without a map from elsewhere."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from odps_nb.notebook.display.html import data_url
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, pictured
from odps_nb.notebook.preview.kind import MIB, TEXTS, Format, Head, Kind, text_of
from odps_nb.notebook.preview.kinds import text
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_GEOJSON = Format(
    "application/geo+json",
    "GeoJSON",
    aliases=("application/vnd.geo+json", "application/json", "text/plain"),
)
_SHAPES: Final = "Point|MultiPoint|LineString|MultiLineString|Polygon|MultiPolygon"
_TYPE = re.compile(rf'"type"\s*:\s*"(FeatureCollection|Feature|GeometryCollection|{_SHAPES})"')
_TOPOLOGY = re.compile(r'"type"\s*:\s*"Topology"')
_HOLDS: Final = {
    "FeatureCollection": '"features"',
    "Feature": '"geometry"',
    "GeometryCollection": '"geometries"',
}
_JUDGED: Final = 4096
_POINTS: Final = 20_000
_DEPTH: Final = 64
_MARGIN: Final = 8
_Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Shape:
    points: list[_Point]
    closed: bool = False


def _recognise(head: Head) -> Format | None:
    judged = head.text[:_JUDGED]
    found = _TYPE.search(judged) if judged.lstrip("\ufeff \t\r\n").startswith("{") else None
    if found is None or _HOLDS.get(found[1], '"coordinates"') not in judged:
        return None
    if _TOPOLOGY.search(judged):
        return None  # TopoJSON: its arcs are no coordinates
    return None if head.whole and _loaded(head.text) is None else _GEOJSON


def _loaded(source: str) -> dict[str, Any] | None:
    try:
        value = json.loads(source.removeprefix("\ufeff"), parse_int=_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _number(digits: str) -> float:
    return float(digits[:400])  # one of a million digits costs nothing


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if not excerpt.whole:
        return text.draw(excerpt, format, size, name=name)
    found = _loaded(text_of(excerpt, format))
    if found is None:
        return text.draw(excerpt, format, size, name=name)
    shapes: list[_Shape] = []
    count = 0
    for shape in _shapes(found, 0):
        shapes.append(shape)
        count += len(shape.points)
        if count >= _POINTS:
            break
    if not count:
        raise UnshowableError("no coordinates")
    west, south, east, north = bounds = _bounds(shapes)
    features = found.get("features")
    what = count_of(len(features), "feature") if isinstance(features, list) else "one shape"
    box = f"{_degrees(west, 'E', 'W')} to {_degrees(east, 'E', 'W')}, " + (
        f"{_degrees(south, 'N', 'S')} to {_degrees(north, 'N', 'S')}"
    )
    note = f"the first {count:,} points" if count >= _POINTS else ""
    source = data_url("image/svg+xml", _svg(shapes, bounds, size).encode())
    alt = f"outlines of {name}"
    return pictured(source, size, alt=alt, facts=(what, box), note=note, backdrop=False)


def _shapes(value: object, depth: int) -> Iterator[_Shape]:
    """Iterate over the shapes of a GeoJSON object; what is not one is passed over."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return
    for key in ("features", "geometries"):
        inner = value.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _shapes(one, depth + 1)
    yield from _shapes(value.get("geometry"), depth + 1)
    kind, coordinates = value.get("type"), value.get("coordinates")
    if kind in ("Point", "MultiPoint"):
        points = [coordinates] if kind == "Point" else coordinates
        yield from (_Shape([point]) for point in _points(points))
    elif isinstance(kind, str):
        nesting = {"LineString": 0, "MultiLineString": 1, "Polygon": 1, "MultiPolygon": 2}.get(kind)
        if nesting is not None:
            for line in _lines(coordinates, nesting):
                yield _Shape(_points(line), closed="Polygon" in kind)


def _lines(value: object, nesting: int) -> Iterator[object]:
    if not nesting:
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, nesting - 1)


def _points(value: object) -> list[_Point]:
    found = []
    for pair in value if isinstance(value, list) else ():
        if isinstance(pair, list) and len(pair) >= 2:
            x, y = pair[:2]
            if isinstance(x, float) and isinstance(y, float) and math.isfinite(x + y):
                found.append((x, y))
    return found[:_POINTS]


def _bounds(shapes: list[_Shape]) -> tuple[float, float, float, float]:
    xs = [x for shape in shapes for x, _ in shape.points]
    ys = [y for shape in shapes for _, y in shape.points]
    return min(xs), min(ys), max(xs), max(ys)


def _svg(shapes: list[_Shape], bounds: tuple[float, float, float, float], size: Size) -> str:
    west, south, east, north = bounds
    # a degree of longitude is shorter away from the equator; plane coordinates are what they are
    middle = (south + north) / 2
    narrow = math.cos(math.radians(middle)) if abs(middle) < 85 and abs(east) <= 180 else 1.0
    wide, high = size.width - 2 * _MARGIN, size.height - 2 * _MARGIN
    scale = min(wide / max((east - west) * narrow, 1e-9), high / max(north - south, 1e-9))
    scale = min(scale, 1e6)
    left = (size.width - (east - west) * narrow * scale) / 2
    top = (size.height - (north - south) * scale) / 2

    def place(point: _Point) -> str:
        x = left + (point[0] - west) * narrow * scale
        y = top + (north - point[1]) * scale
        return f"{x:.1f},{y:.1f}"

    drawn = "".join(_one(shape, place) for shape in shapes if shape.points)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size.width} {size.height}" '
        f'width="{size.width}" height="{size.height}">'
        '<g fill="#3b82f6" fill-opacity="0.18" stroke="#3b82f6" stroke-width="1.2" '
        f'fill-rule="evenodd" stroke-linejoin="round">{drawn}</g></svg>'
    )


def _one(shape: _Shape, place: Any) -> str:
    if len(shape.points) == 1:
        x, y = place(shape.points[0]).split(",")
        return f'<circle cx="{x}" cy="{y}" r="3" fill-opacity="0.8"/>'
    corners = " ".join(map(place, shape.points))
    if shape.closed:
        return f'<polygon points="{corners}"/>'
    return f'<polyline points="{corners}" fill="none"/>'


def _degrees(value: float, positive: str, negative: str) -> str:
    if abs(value) > 180:
        return f"{value:,.0f}"
    return f"{abs(value):.4g}° {positive if value >= 0 else negative}"


KIND = Kind(
    name="map",
    formats=(_GEOJSON,),
    draw=_draw,
    recognise=_recognise,
    precedence=TEXTS + 15,  # before JSON, which it is, too
    limit=2 * MIB,
)
