"""GeoJSON (RFC 7946): outlines of the shapes, without a background map."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from odps_nb.notebook.display.html import data_url
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, pictured
from odps_nb.notebook.preview.kind import MIB, TEXTS, Format, Head, Kind, load_json, text_of
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
        return None  # TopoJSON: its arcs are not coordinates
    return None if head.whole and _loaded(head.text) is None else _GEOJSON


def _loaded(source: str) -> dict[str, Any] | None:
    value = load_json(source.removeprefix("\ufeff"), _number)
    return value if isinstance(value, dict) and isinstance(value.get("type"), str) else None


def _number(digits: str) -> float:
    return float(digits[:400])  # limits the cost of numbers with many digits


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    found = _loaded(text_of(excerpt, format))
    if found is None:
        raise UnshowableError("not JSON")
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
    """Iterate over the shapes of a GeoJSON object, skipping anything else."""
    if not isinstance(value, dict) or depth > _DEPTH:
        return
    for key in ("features", "geometries"):
        inner = value.get(key)
        for one in inner if isinstance(inner, list) else ():
            yield from _shapes(one, depth + 1)
    yield from _shapes(value.get("geometry"), depth + 1)
    kind, lines = value.get("type"), _lines([value.get("coordinates")])
    if kind in ("Point", "MultiPoint"):
        yield from (_Shape([point]) for line in lines for point in line)
    else:
        yield from (_Shape(line, closed="Polygon" in str(kind)) for line in lines)


def _lines(value: object) -> Iterator[list[_Point]]:
    """Iterate over the lists of positions in nested lists."""
    if not isinstance(value, list):
        return
    points = [(pair[0], pair[1]) for pair in value if _is_position(pair)]
    if points:
        yield points[:_POINTS]
        return
    for inner in value:
        yield from _lines(inner)


def _is_position(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= 2
        and all(isinstance(one, float) and math.isfinite(one) for one in value[:2])
    )


def _bounds(shapes: list[_Shape]) -> tuple[float, float, float, float]:
    xs = [x for shape in shapes for x, _ in shape.points]
    ys = [y for shape in shapes for _, y in shape.points]
    return min(xs), min(ys), max(xs), max(ys)


def _svg(shapes: list[_Shape], bounds: tuple[float, float, float, float], size: Size) -> str:
    west, south, east, north = bounds
    # degrees of longitude get shorter towards the poles; plane coordinates are not scaled
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
    fallback=text.draw,
    recognise=_recognise,
    whole=True,
    precedence=TEXTS + 15,  # tried before JSON, which would also match
    limit=2 * MIB,
)
