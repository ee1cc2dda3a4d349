"""Shows the place in a query that an error of the service names."""

from __future__ import annotations

import re

__all__ = ["excerpt"]

MOST = 100
"""Characters of the line that are shown."""

_PLACE = re.compile(r"ODPS-\d{7}:\s*\[(\d{1,6}),(\d{1,6})\]")


def excerpt(sql: str, message: str) -> str | None:
    """Return the line that an error names, and a caret below the place; ``None`` if it names none.

    The service counts lines and columns from 1. ``[1,1]`` is what it says when it knows no place.

    Examples
    --------
    >>> print(excerpt("select id frm orders", "ODPS-0130161:[1,11] Parse exception"))
      select id frm orders
                ^
    """
    match = _PLACE.search(message)
    if match is None or match.groups() == ("1", "1"):
        return None
    line, column = (int(part) - 1 for part in match.groups())
    lines = sql.strip().split("\n")
    if not 0 <= line < len(lines) or not 0 <= column <= len(lines[line]):
        return None
    start = max(0, column - MOST * 3 // 4)
    shown = "".join(c if c.isprintable() else " " for c in lines[line][start : start + MOST])
    return f"  {shown.rstrip()}\n  {' ' * (column - start)}^"
