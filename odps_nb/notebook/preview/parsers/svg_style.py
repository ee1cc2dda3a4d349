"""Styles of an SVG: which paints, markers, clip paths and masks they refer to.

Only plain declarations are understood: no functions but colours, transforms and references to
elements of the same file, no at-rules, no variables, no escapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from odps_nb.notebook.preview.shared import words
from odps_nb.parsing.values import UnshowableError

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
NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
GEOMETRY: Final = words("x y x1 y1 x2 y2 width height r rx ry cx cy")
_PLAIN: Final = re.compile(r"[-+0-9.eE]*(?:px)?")
_DASHES: Final = re.compile(r"stroke-dasharray\s*:([^;}]*)")
_GEOMETRY: Final = re.compile(r"(?:^|[;{\s])(?:x|y|width|height|r|rx|ry|cx|cy|d)\s*:")


@dataclass(frozen=True, slots=True)
class Links:
    """Names of elements that a style may refer to, by property."""

    by_property: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __or__(self, other: Links) -> Links:
        if not other.by_property:
            return self
        both = dict(self.by_property)
        for name, found in other.by_property.items():
            both[name] = both.get(name, frozenset()) | found
        return Links(both)

    @property
    def paints(self) -> list[frozenset[str]]:
        """For each property that paints a shape, the names that it may refer to."""
        return [v for n, v in self.by_property.items() if not n.startswith("marker")]

    @property
    def markers(self) -> list[frozenset[str]]:
        """For each property that draws markers, the names that it may refer to."""
        return [v for n, v in self.by_property.items() if n.startswith("marker")]


@dataclass(frozen=True, slots=True)
class Style:
    """References of an element or style sheet; those in ``once`` are not inherited."""

    inherited: Links
    once: tuple[str, ...]


def links_of(attributes: Mapping[str, str]) -> Style:
    """Return what the attributes of an element refer to, ``style`` among them."""
    declared = [(name.lower(), value) for name, value in attributes.items() if name != "style"]
    return _style([*declared, *_declarations(attributes.get("style", ""))])


def sheet_links(text: str, *, elements: int) -> Style:
    """Return what a style sheet refers to; each rule is taken to apply to every element."""
    text = _COMMENT.sub(" ", text)
    if not _RULES.fullmatch(text):
        raise UnshowableError("has an unsupported style sheet: shown as source")
    rules = _RULE.findall(text)
    steps = sum(len(re.split(r"[\s,>+~]+", selector)) for selector, _ in rules)
    if steps * elements > _WORK:
        raise UnshowableError("has too many styles: shown as source")
    return _style([pair for _, body in rules for pair in _declarations(body)])


def _declarations(text: str) -> Iterable[tuple[str, str]]:
    for declaration in _COMMENT.sub(" ", text).split(";"):
        name, _, value = declaration.partition(":")
        yield name.strip().lower(), value


def _style(declared: Iterable[tuple[str, str]]) -> Style:
    inherited: dict[str, frozenset[str]] = {}
    once: list[str] = []
    for name, value in declared:
        _check(name, value)
        names = frozenset(found for _, found in _REFERENCE.findall(value))
        if not names:
            continue
        if name in _ONCE:
            once += names
        else:
            inherited[name] = inherited.get(name, frozenset()) | names
    return Style(Links(inherited), tuple(once))


def _check(name: str, value: str) -> None:
    if name.startswith(("--", *_MOVING)) and value.strip() != "none":
        raise UnshowableError(f"has {name[:40]}: shown as source")
    if "\\" in value or ("var" in value and "--" in value):
        raise UnshowableError("has an unsupported style: shown as source")
    functions = {found.lower() for found in _FUNCTION.findall(_REFERENCE.sub("", value))}
    if not functions <= _HARMLESS:
        raise UnshowableError("has an unsupported style: shown as source")


def dash_of(attributes: Mapping[str, str], sheet: str = "") -> float:
    """Return the shortest dash period in the styles; infinite when there are no dashes."""
    styles = f"{attributes.get('style', '')};{sheet}"
    found = [*_DASHES.findall(styles.lower()), attributes.get("stroke-dasharray", "")]
    periods = [sum(map(float, NUMBER.findall(value))) for value in found]
    if any("%" in value for value in found) or min(periods) < 0:
        raise UnshowableError("has dashes of unknown length: shown as source")
    return min((period for period in periods if period), default=math.inf)


def has_odd_lengths(attributes: Mapping[str, str], sheet: str = "") -> bool:
    """Whether a shape has lengths other than plain numbers in its attributes."""
    plain = all(_PLAIN.fullmatch(attributes.get(name, "")) for name in GEOMETRY)
    styles = f"{attributes.get('style', '')};{sheet}"
    return not plain or "pathLength" in attributes or bool(_GEOMETRY.search(styles.lower()))
