"""Runs SHOW and DESC statements."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.sql.ddl import Place
from odps_nb.local.sql.parsing.statements import Name, Show
from odps_nb.local.sql.parsing.words import quoted
from odps_nb.local.sql.results import ResultRows, text_rows
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.snapshots import Snapshots
from odps_nb.local.store.tables import CLUSTERED_BY, PRIMARY_KEY, VIEW, StoredTable
from odps_nb.schema import Column
from odps_nb.terms import PartitionSpec
from odps_nb.wire.type_text import format_columns, format_text, format_type


class ShowRunner:
    """Runs SHOW and DESC statements, whose rows are text."""

    def __init__(self, catalog: Catalog, snapshots: Snapshots) -> None:
        self._catalog, self._snapshots = catalog, snapshots

    def rows(self, statement: Show, place: Place) -> ResultRows:
        """Return the result rows of a statement."""
        names: Iterable[str]
        if statement.what in ("tables", "schemas"):
            if statement.what == "tables":
                project, schema = self._scope(statement.name, place)
            else:
                project, schema = (statement.name or (place.project,))[-1], None
            place.rights.require(place.owner, project, Right.QUERY)
            if statement.what == "tables":
                names = (table.name.table for table in self._catalog.tables(project, schema))
            elif self._catalog.has_schemas(project):
                names = self._catalog.schemas(project)
            else:  # the text of the real service (aliyun/dbt-maxcompute, its README and tests)
                text = "Failed to run ddltask - Invalid database operations on two-tier model"
                raise errors.invalid(f"ODPS-0110061: {text}", code="ODPS-0110061")
            matches = [(name,) for name in names if fnmatch.fnmatch(name, statement.pattern)]
            return text_rows((f"{statement.what[:-1]}_name",), matches)
        table = place.named(self._catalog, statement.name)
        if statement.what == "create":
            return text_rows(("statement",), [(definition_of(table),)])
        if statement.what == "partitions":
            within = table.spec(statement.within or PartitionSpec())
            specs = (p.spec for p in self._catalog.partitions(table) if within.covers(p.spec))
            return text_rows(("partition",), [(str(spec).replace(",", "/"),) for spec in specs])
        return self._described(statement, table, place)

    def _described(self, statement: Show, table: StoredTable, place: Place) -> ResultRows:
        if statement.within is not None:
            facts = self._facts_of_partition(table, statement.within, place)
            return text_rows(("property", "value"), list(facts))
        rows: list[tuple[str, ...]]
        rows = [(c.name, format_type(c.type), c.comment) for c in table.schema]
        if statement.extended:
            rows += [("", "", ""), ("# table", "", "")]
            rows += [(name, value, "") for name, value in self._facts(table, place)]
        return text_rows(("name", "type", "comment"), rows)

    def _scope(self, name: Name, place: Place) -> tuple[str, str | None]:
        """Return the project and schema that ``SHOW TABLES IN …`` names."""
        if not name:
            return place.project, place.schema
        if len(name) == 2:
            return name[0], name[1]
        if len(name) > 2:
            raise errors.parse_failed(f"{'.'.join(name)} is not a valid schema name")
        is_project = not place.three_parts and name[0] in self._catalog.projects()
        if is_project or name[0] not in self._catalog.schemas(place.project):
            return name[0], None
        return place.project, name[0]

    def _facts(self, table: StoredTable, place: Place) -> Iterator[tuple[str, str]]:
        segments = self._snapshots.visible(table)
        yield "name", str(table.name)
        yield "owner", table.owner
        yield "comment", table.comment
        yield from _times(table.created, table.modified, place)
        yield "lifecycle", str(table.lifecycle) if table.lifecycle > 0 else ""
        keys = (
            f"{c.generated.text} as {c.name}" if c.generated is not None else c.name
            for c in table.schema.partition_columns
        )
        yield "partitioned by", ", ".join(keys)
        yield "primary key", ", ".join(table.key_columns)
        yield "is view", str(table.view is not None).lower()
        yield "rows", str(sum(segment.rows for segment in segments))
        yield "bytes", str(sum(segment.raw_bytes for segment in segments))
        yield "files", str(len(segments))

    def _facts_of_partition(
        self, table: StoredTable, spec: PartitionSpec, place: Place
    ) -> Iterator[tuple[str, str]]:
        partition = self._catalog.partition(table, spec)
        yield "partition", str(partition.spec).replace(",", "/")
        yield from _times(partition.created, partition.modified, place)
        yield "rows", str(partition.rows)
        yield "bytes", str(partition.raw_bytes)
        yield "files", str(partition.files)


def definition_of(table: StoredTable) -> str:
    """Return the CREATE statement of a table or view."""
    name = ".".join(
        quoted(part) for part in (table.name.project, table.name.schema, table.name.table) if part
    )
    comment = f"COMMENT {format_text(table.comment)}" if table.comment else ""
    if (view := table.view or table.materialized) is not None:
        names = view.names if table.materialized else [c.name for c in table.schema.columns]
        head = f"CREATE {table.kind.upper()} IF NOT EXISTS {name} ({', '.join(map(quoted, names))})"
        keys = ", ".join(map(quoted, table.partition_keys))
        lines = [head, comment, f"PARTITIONED ON ({keys})" if keys else ""]
        lines += ["" if view.rewrites else "DISABLE REWRITE", f"AS {view.text.strip()};"]
        return "\n".join(filter(None, lines))
    keys = ", ".join(map(quoted, table.key_columns))
    columns = [*map(_column, table.schema.columns), *([f"PRIMARY KEY ({keys})"] if keys else [])]
    lines = [
        f"CREATE TABLE IF NOT EXISTS {name} (",
        ",\n".join(f"  {column}" for column in columns),
        ")",
    ]
    lines.append(comment)
    if table.is_partitioned:
        keys = ", ".join(map(_column, table.schema.partition_columns))
        auto = "AUTO " if table.schema.partition_columns[0].generated is not None else ""
        lines.append(f"{auto}PARTITIONED BY ({keys})")
    if table.is_clustered:
        buckets = table.properties.get("buckets")
        into = f" INTO {buckets} BUCKETS" if buckets else ""
        lines.append(f"CLUSTERED BY ({table.properties[CLUSTERED_BY]}){into}")
    own = (PRIMARY_KEY, CLUSTERED_BY, VIEW, *(["buckets"] if table.is_clustered else []))
    properties = {k: v for k, v in table.properties.items() if k not in own}
    if properties:
        listed = ", ".join(f"{format_text(k)}={format_text(v)}" for k, v in properties.items())
        lines.append(f"TBLPROPERTIES ({listed})")
    if table.lifecycle > 0:
        lines.append(f"LIFECYCLE {table.lifecycle}")
    return "\n".join(filter(None, lines)) + ";"


def _column(column: Column) -> str:
    if column.generated is not None:
        return f"{column.generated.text} AS {quoted(column.name)}"
    return format_columns([column])


def _times(created: float, modified: float, place: Place) -> Iterator[tuple[str, str]]:
    for name, at in (("created", created), ("modified", modified)):
        moment = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(place.timezone))
        yield name, moment.strftime("%Y-%m-%d %H:%M:%S") if at else ""
