"""Parses the options of ``format("odps")``; rejects unknown options, which are unsafe to ignore."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from odps_nb.access.checks import Overwrite, check_columns
from odps_nb.access.partitions import LATEST, parse_choices, target_partition
from odps_nb.access.reading.planning import ReadOptions
from odps_nb.client.auth.fields import FIELDS
from odps_nb.client.auth.profile import Profile
from odps_nb.client.read.increments import CHANGE
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.errors import ConfigError
from odps_nb.schema import Column, TableSchema, text_as_binary
from odps_nb.secret import hidden
from odps_nb.spark.reading.plan import plan_of
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.writing.task import MAX_PARTITIONS
from odps_nb.terms import Compression, PartitionSpec, TableName, TextMode, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from odps_nb.access.writing.replacing import Remainder
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan
    from odps_nb.spark.writing.task import WriteTask

#: Hints for options of other formats.
_INSTEAD = {
    'use .option("since", …) and .option("until", …) for the rows that were added between '
    "two versions": ("timestampasof", "versionasof"),
    "add columns with table.add_columns('name type'); a write cannot add them": (
        *("mergeschema", "overwriteschema"),
    ),
    'use mode overwrite with .option("overwrite", "partitions") to replace every partition that '
    'receives rows, or with .option("partition", "ds=x") to replace one': (
        *("partitionoverwritemode", "replacewhere"),
    ),
    "use starting_version with 'earliest', 'latest' or a version number; versions cannot be "
    "looked up by time": ("startingoffsets", "startingtimestamp", "startingversion"),
    "use max_versions_per_trigger to limit a micro-batch": (
        *("maxbytespertrigger", "maxfilespertrigger", "maxoffsetspertrigger"),
    ),
    'use spark.read with .option("since", 7).option("changes", True) to read changes': (
        *("readchangedata", "readchangefeed"),
    ),
    "use skip_overwrites to skip versions that replaced rows": (
        *("ignorechanges", "ignoredeletes", "skipchangecommits"),
    ),
    'name the table: .option("table", "project.table"), or .load("project.table")': ("dbtable",),
    "run a query with odps_nb.spark.sql(spark, odps, …), or odps.sql(…) on the service": ("query",),
    "use the 'where' option to filter rows": ("filter",),
}
INSTEAD = {name: hint for hint, names in _INSTEAD.items() for name in names}

_PROFILE = frozenset({*FIELDS, "name"})
_COMMON = frozenset({"compression", "path", "profile", "table"})
_NO_OPTION = {"params", "timestamp_unit"}
_READ = _COMMON | {one.name for one in dataclasses.fields(ReadOptions)} - _NO_OPTION
_CONVERSIONS = {"decimals", "text", "times"}
_APPEND = _COMMON | _CONVERSIONS | {"max_partitions", "overwrite", "partition"}
_WRITE = _APPEND | {"create", "partitioned_by"}
_STREAM_READ = (_READ - {"limit", "since", "until", "changes"}) | {
    *("max_versions_per_trigger", "poll_seconds", "skip_overwrites", "starting_version")
}
_WAY = 'create it with odps.create_table(…); a batch write can do it with .option("create", True)'
_CHECKPOINT = "checkpointlocation"  # a Spark option, which Spark passes to the sink
_STREAM_WRITE = _APPEND | {_CHECKPOINT}
#: Spark's catalog repeats each option of ``CREATE TABLE … USING odps`` with this prefix.
_CATALOG_PREFIX = "option."
_WHOLE = re.compile(r"-?[0-9]{1,18}")  # `int` also accepts 1_0 and digits of other scripts


def _checked(options: Mapping[str, str], known: frozenset[str], verb: str) -> dict[str, str]:
    given = {key.casefold(): value for key, value in options.items()}
    if any(key.startswith(_CATALOG_PREFIX) for key in given):
        # Spark would create the table, but read it without any of its options.
        raise ConfigError(
            "an ODPS table cannot be created in Spark's catalog, which drops its options",
            option="table",
            hint="use create temporary view … using odps options (…)",
        )
    for key in given:
        if key not in known | _PROFILE:
            meant = did_you_mean(key, known).rstrip()
            raise ConfigError(
                f"the odps format has no {verb} option {key!r}" + (meant and f" ({meant})"),
                option=key,
                hint=INSTEAD.get(key)
                or f"use one of: {', '.join(sorted(known))}, or an option of a profile",
            )
    return given


def _connection(given: Mapping[str, str]) -> tuple[Profile, TableName]:
    if name := given.get("profile"):
        profile = Profile.resolve(name, **hidden((k, given[k]) for k in FIELDS if k in given))
    elif "endpoint" in given:
        profile = Profile.from_options(given)
    else:
        profile = profile_of(None)
    names = [given[key] for key in ("table", "path") if given.get(key)]
    if len({str(profile.table(name)).casefold() for name in names}) > 1:
        raise ConfigError(
            f"the option table is {names[0]!r}, but load(), save() or start() names {names[1]!r}",
            option="table",
            hint="name the table in one of the two places",
        )
    if not names:
        raise ConfigError(
            "no table is specified",
            option="table",
            hint='add .option("table", "project.table"), or use .save("project.table") instead of '
            'saveAsTable. For SQL, call odps_nb.spark.attach(spark, odps, "orders") to use the '
            "name odps.orders. Create a new table with "
            'odps_nb.spark.write(df, odps, "name", create=True)',
        )
    return profile, profile.table(names[0])


def _listed(given: Mapping[str, str], name: str, separator: str) -> tuple[str, ...] | None:
    """Return the names in an option, or ``None`` if the option is not set."""
    if name not in given:
        return None
    return tuple(one.strip() for one in given[name].split(separator) if one.strip())


def _number(given: Mapping[str, str], name: str, *, at_least: int | None = None) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text.strip()):
        problem = f"{name} is {text!r}; it must be a whole number below 10**18"
        raise ConfigError(problem, option=name, hint=f'pass e.g. .option("{name}", 5), or omit it')
    number = int(text)
    if at_least is not None and number < at_least:
        raise ConfigError(f"{name} is {number}; it must be at least {at_least}", option=name)
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """Options of a batch read."""

    profile: Profile
    table: TableName
    options: ReadOptions

    @classmethod
    def of(cls, options: Mapping[str, str], *, any_kind: bool = False) -> ReadSettings:
        """Parse the options of a batch reader; with ``any_kind``, also those of a stream reader."""
        return cls._of(_checked(options, _READ | _STREAM_READ if any_kind else _READ, "reader"))

    @classmethod
    def _of(cls, given: Mapping[str, str]) -> ReadSettings:
        profile, table = _connection(given)
        options = ReadOptions(
            columns=_listed(given, "columns", ","),
            partitions=parse_choices(_listed(given, "partitions", ";")) or None,
            where=given.get("where"),
            limit=_number(given, "limit"),
            splits=_number(given, "splits"),
            split_bytes=_number(given, "split_bytes"),
            compression=Compression.of(given.get("compression")),
            text=TextMode.of(given.get("text")),
            char_padding=_flag(given, "char_padding"),
            since=_bound(given, "since"),
            until=_bound(given, "until"),
            changes=_flag(given, "changes"),
        )
        return cls(profile=profile, table=table, options=options)

    def chosen(self, schema: TableSchema) -> tuple[Column, ...]:
        """Return the selected columns, in the order of the option."""
        if self.options.text is TextMode.BINARY:
            schema = text_as_binary(schema)
        columns = schema.all_columns
        if self.options.columns is not None:
            names = check_columns(self.options.columns, schema, self.table)
            by_name = {column.name: column for column in columns}
            columns = tuple(by_name[name] for name in names)
        return (*columns, CHANGE) if self.options.changes else columns

    def plan(self, storage: StorageClient, columns: Sequence[str]) -> ReadPlan:
        """Return the plan that reads these columns; sends one request."""
        if self.options.changes:
            columns = [name for name in columns if name != CHANGE.name]
        if (named := self.options.columns) is not None:
            folded = {name.casefold() for name in named}
            for name in columns:
                if name.casefold() not in folded:
                    raise ConfigError(
                        f"the schema has the column {name!r}, which the option columns omits",
                        option="columns",
                        hint="name the columns in one of the two places",
                    )
        return plan_of(storage, self.table, dataclasses.replace(self.options, columns=columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """Options of a batch write."""

    profile: Profile
    table: TableName
    partition: PartitionSpec = PartitionSpec()  # noqa: RUF009  immutable
    overwrite: Literal["partitions", "all"] | None = None
    max_partitions: int = MAX_PARTITIONS
    compression: Compression = Compression.NONE
    conversions: Conversions = AS_THEY_ARE
    create: bool = False
    partitioned_by: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteSettings:
        """Parse the options of a batch writer."""
        return cls._of(_checked(options, _WRITE, "writer"))

    @classmethod
    def _of(cls, given: Mapping[str, str]) -> WriteSettings:
        profile, table = _connection(given)
        create = _flag(given, "create")
        asked: dict[str, Any] = {name: given[name] for name in _CONVERSIONS & set(given)}
        if "partitioned_by" in given and not create:
            raise ConfigError(
                "partitioned_by is set without create",
                option="partitioned_by",
                hint='add .option("create", True)',
            )
        return cls(
            profile=profile,
            table=table,
            create=create,
            partitioned_by=given.get("partitioned_by"),
            partition=target_partition(given.get("partition")),
            overwrite=_overwrite(given.get("overwrite")),
            max_partitions=_number(given, "max_partitions", at_least=1) or MAX_PARTITIONS,
            compression=Compression.of(given.get("compression")),
            conversions=Conversions(**asked),
        )

    def open(
        self, storage: StorageClient, schema: StructType, *, overwrite: bool
    ) -> tuple[WriteTask, Remainder]:
        """Check columns and open a write session; return the task and old partitions to drop."""
        from odps_nb.access.writing.replacing import Remainder
        from odps_nb.client.write.session import open_write_session
        from odps_nb.spark.writing.checks import check_frame
        from odps_nb.spark.writing.dataframe import write_target
        from odps_nb.spark.writing.task import WriteTask

        if self.overwrite and not overwrite:
            raise ConfigError(
                f"overwrite is {self.overwrite!r}, but this write adds rows",
                option="overwrite",
                hint="use mode overwrite (for a stream: output mode complete) to replace rows, or "
                "omit this option to add them",
            )
        what: Overwrite = overwrite and (self.overwrite or True)
        target, replaces = write_target(
            storage, self.table, self.partition, what, conversions=self.conversions, way=_WAY
        )
        check_frame(schema, target)
        remainder = Remainder.of(storage, target, what)
        session = open_write_session(
            storage, self.table, partition=target.fixed, overwrite=replaces, shared=True
        )
        task = WriteTask(
            profile=TaskProfile.of(storage),
            session=session.ref,
            target=target,
            compression=self.compression,
            max_partitions=self.max_partitions,
        )
        return task, remainder


def _overwrite(text: str | None) -> Literal["partitions", "all"] | None:
    match text:
        case None | "partitions" | "all":
            return text
    raise ConfigError(
        f"overwrite is {text!r}; it must be 'partitions' or 'all'",
        option="overwrite",
        hint="use 'partitions' to replace the partitions that receive rows, or 'all' to also "
        "drop all other partitions (both with mode overwrite)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReadSettings:
    """Options of a stream read; ``start`` is the version to begin after (``None``: the newest).

    With ``start`` 0, a stream begins with the existing rows.
    """

    read: ReadSettings
    start: int | None = 0
    max_versions: int | None = None
    skip_overwrites: bool = False
    poll_seconds: float = 1.0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamReadSettings:
        """Parse the options of a stream reader."""
        given = _checked(options, _STREAM_READ, "stream reader")
        read = ReadSettings._of(given)
        if LATEST in parse_choices(read.options.partitions):
            raise ConfigError(
                "partitions is 'latest', which changes while a stream runs",
                option="partitions",
                hint="pass names of partitions, or a range such as ds>=2024-01-01",
            )
        return cls(
            read=read,
            start=_start(given),
            max_versions=_number(given, "max_versions_per_trigger", at_least=1),
            skip_overwrites=_flag(given, "skip_overwrites"),
            poll_seconds=_seconds(given, "poll_seconds", 1.0),
        )

    def plan(
        self, storage: StorageClient, columns: Sequence[str], versions: tuple[int, int] | None
    ) -> ReadPlan:
        """Return the plan to read rows that ``versions`` added, or all rows; sends one request."""
        plan = self.read.plan(storage, columns)
        return dataclasses.replace(plan, versions=versions, appends_only=self.skip_overwrites)


def _bound(given: Mapping[str, str], name: str) -> int | str | None:
    text = given.get(name)
    # a longer number cannot be a version; it is rejected when it is parsed as a time
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else text


def _start(given: Mapping[str, str]) -> int | None:
    text = given.get("starting_version", "earliest").strip().casefold()
    if text in ("latest", "earliest"):
        return None if text == "latest" else 0
    if text.isdecimal() and len(text) < 20:
        return int(text)
    raise ConfigError(
        f"starting_version {text!r} is not a version",
        option="starting_version",
        hint="pass 'earliest' (begin with the existing rows), 'latest', or the number of the "
        "version to begin after; versions cannot be looked up by time",
    )


def _flag(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").strip().casefold()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}; it must be true or false", option=name)
    return text == "true"


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name)
    try:
        seconds = default if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigError(f"{name} is {text!r}; it must be a number of seconds", option=name)
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWriteSettings:
    """Options of a stream write, with the checkpoint's location."""

    write: WriteSettings
    checkpoint: str

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamWriteSettings:
        """Parse the options of a stream writer."""
        given = _checked(options, _STREAM_WRITE, "stream writer")
        checkpoint = given.get(_CHECKPOINT)
        if not checkpoint:
            raise ConfigError(
                "the stream has no checkpointLocation option",
                option="checkpointLocation",
                hint='add .option("checkpointLocation", …) to this writeStream; commits are '
                "recorded in this location",
            )
        write = WriteSettings._of(given)
        if write.overwrite == "all":  # after a crash, the other partitions would not be dropped
            raise ConfigError(
                "a stream cannot overwrite all partitions",
                option="overwrite",
                hint="use 'partitions' to replace partitions that receive rows in a micro-batch",
            )
        return cls(write=write, checkpoint=checkpoint)
