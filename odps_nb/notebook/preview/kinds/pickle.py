"""Pickles: the names that loading would import; a pickle is never loaded here.

Loading a pickle can execute arbitrary code. Names from a list of modules that access the system are
marked, but other names may also access it.
"""

from __future__ import annotations

import re

from odps_nb.notebook.display.html import MUTED, SMALL, element, scroller
from odps_nb.notebook.preview.drawing import Drawing, Excerpt
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of, shorten

_PICKLE = Format(
    "application/x-pickle",
    "pickle",
    aliases=("application/x-python-pickle", "application/python-pickle"),
)
# a protocol, then a frame or an instruction that creates an object
_START = re.compile(
    rb"\x80(?:[\x04\x05]\x95.{6}\x00\x00|[\x02-\x05][\x80-\x8fcI-NX(\[\]{}()UGKBC])", re.DOTALL
)


def _recognise(head: Head) -> Format | None:
    ends = not head.whole or head.data.endswith(b".")
    return _PICKLE if ends and _START.match(head.data) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parsed = parse("pickle", excerpt.data, size)
    imports, risky = parsed.texts("imports"), set(parsed.texts("risky"))
    rows = [
        element(
            "li",
            element("b", shorten(one, 120), " · can access the system", style="color:#dc2626")
            if one in risky
            else shorten(one, 120),
        )
        for one in imports
    ]
    head = element(
        "div",
        "Loading it would import" if rows else "Loading it would import nothing.",
        style=f"padding:8px 10px 0 10px;{MUTED};{SMALL}",
    )
    listed = element("ul", *rows, style=f"margin:0;padding:4px 10px 8px 26px;{SMALL}")
    box = scroller("div", head, listed, label=f"what {name} would import", style=size.box)
    facts = (f"protocol {excerpt.data[1]}", "never loaded here")
    more = parsed.number("more")
    note = "" if excerpt.whole and not more else "the first part"
    if risky:
        note = f"{count_of(len(risky), 'name')} with system access{'; ' + note if note else ''}"
    return Drawing(html=box, facts=facts, note=note)


KIND = Kind(name="pickle", formats=(_PICKLE,), draw=_draw, recognise=_recognise, limit=MIB)
