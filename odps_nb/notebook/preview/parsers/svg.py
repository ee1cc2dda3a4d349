"""SVG: an upper bound on the number of shapes that a browser would draw.

``<use>``, patterns, markers, masks and clip paths draw the elements that they refer to, and may be
nested. So 2 kB can expand to 10^8 shapes, and a notebook with such an SVG cannot be opened again.
Therefore, the shapes that each reference draws are counted, and unsupported features are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers import expat

from odps_nb.notebook.preview.shared import words
from odps_nb.parsing.values import UnshowableError

#: Maximum shapes to draw; twenty points, letters or dashes count as one shape.
MAX_DRAWN: Final = 10_000
_DEPTH: Final = 100
_PER_SHAPE: Final = 20
_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_SHAPES: Final = words("path rect circle ellipse line polyline polygon text tspan image")
_GROUPS: Final = words(
    "svg g a defs switch symbol use clipPath mask pattern marker linearGradient "
    "radialGradient stop style"
)
_SILENT: Final = words("title desc metadata script view")
# attributes that are not styles: text, names, handlers (which never run in a picture), geometry
_NO_CSS: Final = ("on", "aria-", "data-", "id", "class", "d", "points", "href", "role", "lang")
# maximum ratio of a curve's length to the sum of its coordinates, reached by long arcs
_BENT: Final = 8
# styles: only plain declarations are supported
_FUNCTION: Final = re.compile(r"([\w-]*)\s*\(")
_REFERENCE: Final = re.compile(r"url\(\s*(['\"]?)#([^'\"()\s]+)\1\s*\)")
_HARMLESS: Final = words(
    "rgb rgba hsl hsla matrix translate translatex translatey scale scalex scaley rotate "
    "skewx skewy"
)
_COMMENT: Final = re.compile(r"/\*.*?\*/|<!--|-->", re.DOTALL)
_RULES: Final = re.compile(r"(?:[^{}@\\:()\[\]]*\{[^{}@\\]*\})*[^{}@\\:()\[\]]*")
_RULE: Final = re.compile(r"([^{}]*)\{([^{}]*)\}")
_WORK: Final = 1_000_000
_ONCE: Final = frozenset({"clip-path", "mask"})
_MOVING: Final = ("animation", "transition", "will-change", "filter", "backdrop-filter")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SIDES: Final = words("x y x1 y1 x2 y2 width height r rx ry cx cy")
_PLAIN: Final = re.compile(r"[-+0-9.eE]*(?:px)?")
_DASHES: Final = re.compile(r"stroke-dasharray\s*:([^;}]*)")
_SIZED: Final = re.compile(r"(?:^|[;{\s])(?:x|y|width|height|r|rx|ry|cx|cy|d)\s*:")

# pairs of a property and the id of the element that it refers to
_Links = frozenset[tuple[str, str]]


@dataclass(slots=True)
class _Node:
    """An element: the shapes it draws, and the elements it refers to."""

    tag: str
    inherited: _Links
    children: list[_Node] = field(default_factory=list)
    uses: str = ""
    once: tuple[str, ...] = ()
    points: float = 0
    reach: float = 0


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return an upper bound on the number of shapes that an SVG draws."""
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UnshowableError(f"not XML: {error}") from None
    drawn = _Count(reader).of_document()
    if drawn > MAX_DRAWN:
        raise UnshowableError(f"shown as source, because it draws more than {MAX_DRAWN:,} shapes")
    return {"drawn": drawn}, b""


def _refusal(what: str) -> UnshowableError:
    """Return the error for an unsupported feature."""
    return UnshowableError(f"shown as source, because it contains {what}")


class _Reader:
    """An XML parser that builds nodes, and never expands entities or loads other documents."""

    def __init__(self) -> None:
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._doctype
        parser.SkippedEntityHandler = self._entity
        parser.ProcessingInstructionHandler = self._entity
        self.root: _Node | None = None
        self.ids: dict[str, _Node] = {}
        self.sheet: list[str] = []
        self.count = 0
        self.dash, self.odd = math.inf, False
        self._open: list[_Node] = []
        self._depth = self._silent = 0

    def _doctype(self, name: str, system: str | None, public: str | None, internal: object) -> None:
        if internal:
            raise _refusal("an internal DTD")

    def _entity(self, *_: object) -> None:
        raise _refusal("entities or processing instructions")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _refusal("elements nested too deeply")
        space, _, tag = name.rpartition(" ")
        if self._silent or space != _SVG or tag in _SILENT:
            self._silent += 1  # elements of other namespaces are not drawn
            return
        if tag not in _SHAPES and tag not in _GROUPS:
            raise _refusal(f"<{tag[:40]}>")
        node = _node(tag, attributes, self._open[-1].inherited if self._open else frozenset())
        self.count += 1
        self.dash = min(self.dash, _dash_of(attributes))
        self.odd = self.odd or (tag in _SHAPES and _has_odd_lengths(attributes))
        if self._open:
            self._open[-1].children.append(node)
        self.root = self.root or node
        if "id" in attributes:
            if attributes["id"] in self.ids:
                raise _refusal("a duplicate id")
            self.ids[attributes["id"]] = node
        self._open.append(node)

    def _end(self, name: str) -> None:
        self._depth -= 1
        if self._silent:
            self._silent -= 1
        else:
            self._open.pop()

    def _text(self, text: str) -> None:
        if self._silent or not self._open:
            return
        if self._open[-1].tag == "style":
            self.sheet.append(text)
        else:
            self._open[-1].points += len(text)


def _node(tag: str, attributes: dict[str, str], inherited: _Links) -> _Node:
    own = {name: text for name, text in attributes.items() if _is_css(name)}
    links, once = _links_of(own)
    node = _Node(tag=tag, inherited=inherited | links, once=once)
    href = attributes.get("href", attributes.get(f"{_XLINK} href", "")).strip()
    if tag == "image":
        if href.lower().startswith("data:"):
            raise _refusal("an embedded picture")  # in an <img>, browsers load no other pictures
    elif href and tag != "a":
        if not href.startswith("#"):
            raise _refusal("a link to another document")
        node.uses = href[1:]
    for name in ("d", "points", "x", "y", "dx", "dy", "rotate"):
        node.points += len(_NUMBER.findall(attributes.get(name, "")))
    for name in ("d", "points", *_SIDES):
        node.reach += sum(abs(float(n)) for n in _NUMBER.findall(attributes.get(name, "")))
    return node


def _is_css(name: str) -> bool:
    return " " not in name and not name.startswith(_NO_CSS)


class _Count:
    """A counter of shapes that follows references."""

    def __init__(self, reader: _Reader) -> None:
        if reader.root is None or reader.root.tag != "svg":
            raise _refusal("no <svg> of the SVG namespace")
        self._root, self._ids = reader.root, reader.ids
        sheet = "".join(reader.sheet)
        self._sheet, self._once = _sheet_links(sheet, elements=reader.count)
        self._dash = min(reader.dash, _dash_of({}, sheet))
        if self._dash < math.inf and (reader.odd or _has_odd_lengths({}, sheet)):
            raise _refusal("dashes that cannot be counted")
        self._known: dict[int, tuple[float, float]] = {}
        self._under_way: set[int] = set()

    def of_document(self) -> int:
        drawn, _ = self._of(self._root)
        return int(min(drawn, 1e15))

    def _of(self, node: _Node) -> tuple[float, float]:
        """Count the shapes and points of a node, including its references."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        if id(node) in self._under_way:
            raise _refusal("a reference to itself")
        if len(self._under_way) > 3 * _DEPTH:
            raise _refusal("references nested too deeply")
        self._under_way.add(id(node))
        found = self._counted(node)
        self._under_way.discard(id(node))
        self._known[id(node)] = found
        return found

    def _counted(self, node: _Node) -> tuple[float, float]:
        drawn, points = float(node.tag not in _SHAPES), 0.0
        for child in node.children:
            more, there = self._of(child)
            drawn, points = drawn + more, points + there
        if node.uses:
            more, there = self._target(node.uses)
            drawn, points = drawn + more, points + there
            if node.tag == "use":  # the referenced elements inherit its styles
                drawn += more * (self._each(node) - 1) + there * self._markers(node)
        if node.tag in _SHAPES:
            marks = node.points + _BENT * node.reach / self._dash
            drawn += (1 + marks / _PER_SHAPE) * self._each(node)
            drawn += (1 + node.points) * self._markers(node)
            points += 1 + node.points
        for name in (*node.once, *self._once):
            drawn += self._target(name)[0]
        return drawn, points

    def _target(self, name: str) -> tuple[float, float]:
        node = self._ids.get(name)
        return (0.0, 0.0) if node is None else self._of(node)

    def _each(self, node: _Node) -> float:
        """Return the number of shapes that one shape draws, including fill and stroke patterns."""
        return 1 + self._most(node, markers=False)

    def _markers(self, node: _Node) -> float:
        return self._most(node, markers=True)

    def _most(self, node: _Node, *, markers: bool) -> float:
        """Return the maximum number of shapes that the properties of a node draw.

        Each property refers to one target, so this is their number times the largest target.
        """
        links = node.inherited | self._sheet
        found = [link for link in links if link[0].startswith("marker") == markers]
        most = max((self._target(name)[0] for _, name in found), default=0.0)
        return len({name for name, _ in found}) * most


# -- styles ----------------------------------------------------------------------------------------


def _links_of(attributes: Mapping[str, str]) -> tuple[_Links, tuple[str, ...]]:
    """Return the references in the attributes of an element, including ``style``."""
    declared = [(name.lower(), value) for name, value in attributes.items() if name != "style"]
    return _style([*declared, *_declarations(attributes.get("style", ""))])


def _sheet_links(text: str, *, elements: int) -> tuple[_Links, tuple[str, ...]]:
    """Return the references in a style sheet; assumes that each rule applies to every element."""
    text = _COMMENT.sub(" ", text)
    if not _RULES.fullmatch(text):
        raise _refusal("an unsupported style sheet")
    rules = _RULE.findall(text)
    steps = sum(len(re.split(r"[\s,>+~]+", selector)) for selector, _ in rules)
    if steps * elements > _WORK:
        raise _refusal("too many styles")
    return _style([pair for _, body in rules for pair in _declarations(body)])


def _declarations(text: str) -> Iterable[tuple[str, str]]:
    for declaration in _COMMENT.sub(" ", text).split(";"):
        name, _, value = declaration.partition(":")
        yield name.strip().lower(), value


def _style(declared: Iterable[tuple[str, str]]) -> tuple[_Links, tuple[str, ...]]:
    """Return the references that are inherited, and those that are not."""
    links: set[tuple[str, str]] = set()
    for name, value in declared:
        if name.startswith(("--", *_MOVING)) and value.strip() != "none":
            raise _refusal(name[:40])
        functions = {found.lower() for found in _FUNCTION.findall(_REFERENCE.sub("", value))}
        if "\\" in value or ("var" in value and "--" in value) or not functions <= _HARMLESS:
            raise _refusal("an unsupported style")
        links |= {(name, found) for _, found in _REFERENCE.findall(value)}
    inherited = frozenset(link for link in links if link[0] not in _ONCE)
    return inherited, tuple(name for _, name in links - inherited)


def _dash_of(attributes: Mapping[str, str], sheet: str = "") -> float:
    """Return the shortest dash period in the styles; infinite if there are no dashes."""
    styles = f"{attributes.get('style', '')};{sheet}"
    found = [*_DASHES.findall(styles.lower()), attributes.get("stroke-dasharray", "")]
    periods = [sum(map(float, _NUMBER.findall(value))) for value in found]
    if any("%" in value for value in found) or min(periods) < 0:
        raise _refusal("dashes of unknown length")
    return min((period for period in periods if period), default=math.inf)


def _has_odd_lengths(attributes: Mapping[str, str], sheet: str = "") -> bool:
    """Whether a shape's attributes have lengths other than plain numbers."""
    plain = all(_PLAIN.fullmatch(attributes.get(name, "")) for name in _SIDES)
    styles = f"{attributes.get('style', '')};{sheet}"
    return not plain or "pathLength" in attributes or bool(_SIZED.search(styles.lower()))
