"""Settings of a query, from its schema and from the ``SET`` statements at its beginning.

Settings are sent separately from the text, because the service ignores ``SET`` in the text
(vendor's manual, *Set an SQL flag*). The vendor's console and DataWorks also remove ``SET``
statements.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping
from decimal import Decimal

from odps_nb.errors import ArgumentError, shown

NAMESPACE = "odps.namespace.schema"
"""Setting: whether SQL names of two parts begin with a schema (``true``) or with a project."""
BETWEEN = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*+"
"""Pattern of blanks and comments; needs ``re.DOTALL``."""
_SET = re.compile(rf"{BETWEEN}set\s+([\w.]+)\s*=([^;]*)(?:;|$)", re.IGNORECASE | re.DOTALL)
_END = re.compile(
    r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`|--[^\n]*|/\*.*?\*/"""
    r"|(?P<end>;(?:[\s;]|--[^\n]*|/\*.*?\*/)*+\Z)",
    re.DOTALL,
)
# A line of a setting's value that looks like a statement, unlike a line of JSON.
_STATEMENT = re.compile(r"\n[ \t]*@?[a-z]\w*\s", re.IGNORECASE)
_END_EACH = "end each setting with ; and write the query below"
_SURROGATE = re.compile("[\ud800-\udfff]")
_LATER = re.compile(
    r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`|--[^\n]*|/\*.*?\*/"""
    rf"|;{BETWEEN}set\s+(?P<name>[\w.]+)\s*=",
    re.IGNORECASE | re.DOTALL,
)


def split_settings(sql: str) -> tuple[dict[str, str], str]:
    """Split a query into the settings at its beginning and the remaining text.

    Examples
    --------
    >>> split_settings("set odps.sql.allow.fullscan=true; select 1")
    ({'odps.sql.allow.fullscan': 'true'}, 'select 1')
    >>> split_settings("select 'set a=b;'")
    ({}, "select 'set a=b;'")
    """
    settings, at = {}, 0
    while (match := _SET.match(sql, at)) is not None:
        settings[match[1]] = match[2].strip()
        if _STATEMENT.search(settings[match[1]]):
            raise ArgumentError(
                f"the setting {match[1]} does not end before the next line", hint=_END_EACH
            )
        at = match.end()
    later = next((name for match in _LATER.finditer(sql, at) if (name := match["name"])), None)
    if later is not None:
        raise ArgumentError(
            f"the query sets {later} after its first statement, where SET has no effect",
            hint="move it above the first statement, or pass settings={…}",
        )
    if not settings:
        return {}, sql
    rest = sql[at:].strip()
    if not rest:
        raise ArgumentError(
            "there are settings but no query",
            hint=_END_EACH,
        )
    return settings, rest


def without_end(sql: str) -> str:
    """Return a statement without the semicolon at its end, and the comments after it.

    Examples
    --------
    >>> without_end("select ';--' a; -- all")
    "select ';--' a"
    """
    end = next((match for match in _END.finditer(sql) if match["end"]), None)
    return (sql if end is None else sql[: end.start()]).strip()


def texts_of(given: object, what: str = "setting") -> dict[str, str]:
    """Return settings or properties as text, such as ``true`` for ``True``."""
    many = "properties" if what == "property" else "settings"
    hint = f"pass {many}={{'name': value}} with text, numbers, True or False"
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"{many} is of type {type(given).__name__}; it must be a dict", argument=many, hint=hint
        )
    texts = {}
    for name, value in given.items():
        text = _text_of(value)
        if not isinstance(name, str) or not name.strip():
            wrong = f"a {what} has the name {shown(name)}"
        elif text is None:
            wrong = f"the {what} {name!r} is of type {type(value).__name__}: {shown(value)}"
        else:
            texts[name] = text
            continue
        raise ArgumentError(wrong, argument=many, hint=hint)
    return texts


def _text_of(value: object) -> str | None:
    if isinstance(value, str):
        return None if _SURROGATE.search(value) else str.__str__(value)
    if isinstance(value, bool) or type(value).__name__ == "bool":  # includes NumPy 2's bool
        return str(bool(value)).lower()
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return repr(float(value))
    return None


def schema_settings(schema: str | None) -> dict[str, str]:
    """Return the settings for SQL jobs in a schema (``docs/protocol.md`` section 9.2).

    Without a schema, names of two parts begin with a project, whatever the tenant's default is.
    """
    if schema is None:
        return {NAMESPACE: "false"}
    return {
        "odps.sql.allow.namespace.schema": "true",
        NAMESPACE: "true",
        "odps.default.schema": schema,
    }
