"""Options of ``format("odps")`` as values (floor 5, pure).

Spark hands options over as text, with keys in lower case. A name that is not known is refused:
a typing error in ``partition`` would otherwise read, or replace, a whole table.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.access.checks import check_columns
from odps_nb.client.profile import Profile
from odps_nb.errors import ConfigError
from odps_nb.schema import TableSchema
from odps_nb.spark.credentials import profile_of
from odps_nb.spark.read_plan import plan_read
from odps_nb.spark.uploading import MAX_PARTITIONS
from odps_nb.terms import Compression, PartitionSpec, TableName

if TYPE_CHECKING:
    from odps_nb.client.read import ReadPlan
    from odps_nb.client.storage import StorageClient

__all__ = ["ReadSettings", "WriteSettings"]

_PROFILE = frozenset(field.name for field in dataclasses.fields(Profile))
_COMMON = frozenset({"compression", "path", "profile", "table"})
_READ = _COMMON | {"columns", "limit", "partitions", "split_bytes", "splits", "where"}
_WRITE = _COMMON | {"max_partitions", "overwrite_scope", "partition"}


def _checked(options: Mapping[str, str], known: frozenset[str], verb: str) -> dict[str, str]:
    given = {key.casefold(): value for key, value in options.items()}
    for key in given:
        if key not in known | _PROFILE:
            close = difflib.get_close_matches(key, known, n=1)
            raise ConfigError(
                f"a {verb} of odps has no option {key!r}"
                + (f" (did you mean {close[0]!r}?)" if close else ""),
                option=key,
                hint=f"options are: {', '.join(sorted(known))}, and those of a profile",
            )
    return given


def _connection(given: Mapping[str, str]) -> tuple[Profile, TableName]:
    if name := given.get("profile"):
        profile = profile_of(name)
    elif "endpoint" in given:
        profile = Profile.from_options(given)
    else:
        profile = profile_of(None)
    table = given.get("table") or given.get("path")
    if not table:
        raise ConfigError(
            "no table is named", option="table", hint='add .option("table", "project.table")'
        )
    return profile, profile.table(table)


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{name} {text!r} is not a whole number", option=name) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What to read, from where."""

    profile: Profile
    table: TableName
    columns: tuple[str, ...] = ()
    partitions: tuple[PartitionSpec, ...] = ()
    where: str | None = None
    limit: int | None = None
    splits: int | None = None
    split_bytes: int | None = None
    compression: Compression = Compression.NONE

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadSettings:
        """Read the options of a reader.

        Raises
        ------
        ConfigError
            An option is unknown, missing, or not what it must be.
        """
        given = _checked(options, _READ, "reader")
        profile, table = _connection(given)
        where, limit = given.get("where") or None, _number(given, "limit")
        if where and limit is not None:
            # The service cannot count what a filter leaves, and a data source cannot stop all
            # tasks after n rows together.
            raise ConfigError(
                "limit and where do not go together here",
                option="limit",
                hint="leave the option out and write .limit(n) after load()",
            )
        names = (name.strip() for name in given.get("columns", "").split(","))
        specs = (spec.strip() for spec in given.get("partitions", "").split(";"))
        return cls(
            profile=profile,
            table=table,
            columns=tuple(name for name in names if name),
            partitions=tuple(PartitionSpec.of(spec) for spec in specs if spec),
            where=where,
            limit=limit,
            splits=_number(given, "splits"),
            split_bytes=_number(given, "split_bytes"),
            compression=Compression.of(given.get("compression")),
        )

    def chosen(self, schema: TableSchema) -> TableSchema:
        """Return the columns that are asked for, data columns first.

        Raises
        ------
        NotFoundError
            The table has no such column; close names are in the hint.
        """
        if not self.columns:
            return schema
        wanted = set(check_columns(self.columns, schema, self.table))
        return TableSchema(
            columns=tuple(c for c in schema.columns if c.name in wanted),
            partition_columns=tuple(c for c in schema.partition_columns if c.name in wanted),
        )

    def plan(self, storage: StorageClient, columns: Sequence[str]) -> ReadPlan:
        """Return the plan that reads these columns; costs one request."""
        return plan_read(
            storage,
            self.table,
            columns=columns,
            partitions=self.partitions,
            where=self.where,
            limit=self.limit,
            splits=self.splits,
            split_bytes=self.split_bytes,
            compression=self.compression,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """What to write to, and how much of it may be replaced."""

    profile: Profile
    table: TableName
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  a frozen value
    overwrite_scope: str | None = None
    max_partitions: int = MAX_PARTITIONS
    compression: Compression = Compression.NONE

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteSettings:
        """Read the options of a writer.

        Raises
        ------
        ConfigError
            An option is unknown, missing, or not what it must be.
        """
        given = _checked(options, _WRITE, "writer")
        profile, table = _connection(given)
        return cls(
            profile=profile,
            table=table,
            partition=PartitionSpec.of(given.get("partition")),
            overwrite_scope=given.get("overwrite_scope"),
            max_partitions=_number(given, "max_partitions") or MAX_PARTITIONS,
            compression=Compression.of(given.get("compression")),
        )
