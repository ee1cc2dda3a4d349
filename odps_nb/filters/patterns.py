r"""Converts LIKE patterns to regular expressions over the whole text (pure).

``%`` is any number of characters, ``_`` one, a backslash takes the next one as it is written
(in SQL text the backslash itself is doubled: ``'50\\%'``).
"""

from __future__ import annotations

import re

from odps_nb.filters.literals import refuse

__all__ = ["regex_of"]


def regex_of(pattern: str) -> str:
    """Return the expression, in the syntax of RE2, which Arrow uses.

    Raises `ArgumentError`: a backslash stands before what needs none, or at the end.
    """
    made, rest = [], iter(pattern)
    for character in rest:
        if character == "\\":
            taken = next(rest, "")
            if taken not in ("%", "_", "\\"):
                raise refuse(
                    f"the pattern {pattern!r} has a backslash before {taken or 'its end'!r}",
                    r"escape %, _ and \ only, and double the backslash in quotes: '50\\%'",
                )
            made.append(re.escape(taken))
        else:
            made.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "(?s)^" + "".join(made) + "$"
