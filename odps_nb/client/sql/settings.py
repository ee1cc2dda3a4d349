"""Settings of a query, from its schema and from the ``SET`` statements at its beginning.

Settings are sent separately from the text, because the service ignores ``SET`` in the text
(vendor's manual, *Set an SQL flag*). The vendor's console and DataWorks also remove ``SET``
statements.
"""

from __future__ import annotations

import re

from odps_nb.errors import ArgumentError

_SET = re.compile(r"(?:\s|--[^\n]*\n)*+set\s+([\w.]+)\s*=([^;]*)(?:;|$)", re.IGNORECASE)


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
    while (found := _SET.match(sql, at)) is not None:
        settings[found[1]] = found[2].strip()
        at = found.end()
    if not settings:
        return {}, sql
    rest = sql[at:].strip()
    if not rest:
        raise ArgumentError(
            "there are settings but no query",
            hint="end each setting with ; and write the query below",
        )
    return settings, rest


def schema_settings(schema: str) -> dict[str, str]:
    """Return the settings for SQL jobs in a schema (``docs/protocol.md`` section 9.2)."""
    return {
        "odps.sql.allow.namespace.schema": "true",
        "odps.namespace.schema": "true",
        "odps.default.schema": schema,
    }
