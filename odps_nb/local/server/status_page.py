"""The status page at ``/``: the content of the service as plain HTML without script.

``app`` decides who may see it.
"""

from __future__ import annotations

import time
from html import escape

from odps_nb.local.service import Service
from odps_nb.terms import format_bytes

__all__ = ["status_page"]

_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2rem auto;max-width:52rem;padding:0 1rem;"
    "color-scheme:light dark}table{border-collapse:collapse;width:100%}"
    "td,th{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid #8884}"
)


def status_page(service: Service) -> str:
    """Return the page; it shows no rows, no keys and no file names."""
    rows = []
    for project in service.catalog.projects():
        for schema in service.catalog.schemas(project):
            for table in service.catalog.tables(project, schema):
                segments = service.snapshots.visible(table)
                cells = (
                    f"{project}.{table.name.table}" if schema == "default" else str(table.name),
                    f"{sum(s.rows for s in segments):,}",
                    format_bytes(sum(s.raw_bytes for s in segments)),
                    table.comment,
                )
                rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    sessions = _count(service, "read_sessions"), _count(service, "write_sessions")
    up = int(service.clock() - service.started)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>odps_nb service</title>"
        f"<style>{_STYLE}</style><h1>odps_nb embedded service</h1>"
        f"<p>Up {up // 3600} h {up // 60 % 60} min, since"
        f" {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(service.started))} UTC ·"
        f" {sessions[0]} read sessions · {sessions[1]} write sessions</p>"
        f"<table><tr><th>table<th>rows<th>size<th>comment</tr>{body}</table></html>"
    )


def _count(service: Service, table: str) -> int:
    row = service.database.row(f"SELECT COUNT(*) AS n FROM {table}")
    return int(row["n"]) if row is not None else 0
