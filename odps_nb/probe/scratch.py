"""Makes and drops the tables of ``--write``.

Their names begin with the one that the user gave, their comment marks them as made by the probe,
and their lifecycle is a day: what a killed run leaves behind is dropped by the next run, or by the
service.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from odps_nb.errors import ConfigError, NotFoundError, OdpsNbError
from odps_nb.probe.asking import Asker
from odps_nb.probe.steps import load
from odps_nb.terms import TableName
from odps_nb.wire.control import GetTable

MARK = "made by odps-nb probe"
PLAIN_ROWS = 30_000
TYPES: Mapping[str, str] = {"odps.sql.type.system.odps2": "true"}
BLOBS: Mapping[str, str] = {**TYPES, "odps.table.append2.enable": "true"}
_BLOBS = "TBLPROPERTIES ('table.format.version'='2', 'transactional'='true')"
_KEYS = (
    "TBLPROPERTIES ('transactional'='true', 'acid.cdc.mode.enable'='true',"
    " 'acid.cdc.build.async'='false', 'cdc.insert.into.passthrough.enable'='true',"
    " 'write.bucket.num'='16')"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    columns: str
    after: str = ""
    properties: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    fill: Callable[[Asker, TableName], object] | None = None


def plain_rows() -> pa.Table:
    """Return rows in which each block of 10,000 has its own range of ``c1`` and ``c2``."""
    numbers = pa.array(range(PLAIN_ROWS), pa.int64())
    doubled = pa.array(range(0, 2 * PLAIN_ROWS, 2), pa.int64())
    return pa.table({"c1": numbers, "c2": doubled, "c3": [f"t{i}" for i in range(PLAIN_ROWS)]})


def text_row(cell: pa.Array) -> pa.Table:
    """Return one row of the table ``texts``, with this text in its last column."""
    return pa.table({"c1": pa.array([1], pa.int64()), "c": ["ab"], "v": ["ab"], "s": cell})


def moment_rows() -> pa.Table:
    """Return rows of the table ``moments``: within the bounds of nanoseconds, before and after."""
    days = [datetime.datetime(year, 1, 2, 3, 4, 5) for year in (2024, 1960, 2040)]
    units = {"dt": "ms", "ts": "us", "ntz": "us"}
    times = {name: pa.array(days, pa.timestamp(unit)) for name, unit in units.items()}
    return pa.table({"c1": pa.array(range(3), pa.int64()), **times})


def map_rows() -> pa.Table:
    """Return a row of the table ``maps`` whose map has a key twice."""
    kind = pa.map_(pa.string(), pa.int64())
    return pa.table({"c1": pa.array([1], pa.int64()), "m": pa.array([[("a", 1), ("a", 2)]], kind)})


def _fill_plain(asker: Asker, table: TableName) -> None:
    load(asker, table, plain_rows())


def _fill_parts(asker: Asker, table: TableName) -> None:
    for place in (1, 2):
        rows = pa.table({"c1": pa.array([place], pa.int64()), "c2": ["t"]})
        load(asker, table, rows, f"p1=x{place}/p2=y{place}")


def _fill_moments(asker: Asker, table: TableName) -> None:
    load(asker, table, moment_rows())


def _fill_texts(asker: Asker, table: TableName) -> None:
    load(asker, table, text_row(pa.array(["t"])))


def _fill_maps(asker: Asker, table: TableName) -> None:
    load(asker, table, map_rows())


def _fill_appended(asker: Asker, table: TableName) -> None:
    asker.run(f"INSERT INTO TABLE {table} VALUES (1, 'a');")


def _fill_keys(asker: Asker, table: TableName) -> None:
    asker.run(f"INSERT INTO TABLE {table} VALUES (1, 'a');")
    asker.run(f"INSERT INTO TABLE {table} VALUES (1, 'b');")


KINDS: Mapping[str, _Kind] = {
    "plain": _Kind(columns="c1 bigint, c2 bigint, c3 string", fill=_fill_plain),
    "empty": _Kind(columns="c1 bigint"),
    "parts": _Kind(
        columns="c1 bigint, c2 string",
        after="PARTITIONED BY (p1 string, p2 string)",
        fill=_fill_parts,
    ),
    "typed": _Kind(columns="c1 bigint, d date, ts timestamp, s string", settings=TYPES),
    "into": _Kind(columns="c1 bigint, c2 string"),
    "changed": _Kind(columns="c1 bigint, c2 string"),
    "into_parts": _Kind(columns="c1 bigint", after="PARTITIONED BY (p string)"),
    "keys": _Kind(
        columns="id bigint PRIMARY KEY NOT NULL, val string",
        properties=_KEYS,
        settings=TYPES,
        fill=_fill_keys,
    ),
    "appended": _Kind(
        columns="c1 bigint, c2 string", properties=_BLOBS, settings=BLOBS, fill=_fill_appended
    ),
    "moments": _Kind(
        columns="c1 bigint, dt datetime, ts timestamp, ntz timestamp_ntz",
        settings=TYPES,
        fill=_fill_moments,
    ),
    "texts": _Kind(
        columns="c1 bigint, c char(5), v varchar(5), s string", settings=TYPES, fill=_fill_texts
    ),
    "maps": _Kind(columns="c1 bigint, m map<string,bigint>", settings=TYPES, fill=_fill_maps),
    "decimals": _Kind(
        columns="c1 bigint, d decimal, e decimal(38,20)",
        settings={**TYPES, "odps.sql.decimal2.extended.scale.enable": "true"},
    ),
    "named": _Kind(columns="c1 bigint"),
    "places": _Kind(columns="c1 bigint, g geography", settings=TYPES),
    "vectors": _Kind(columns="c1 bigint, v vector(float,4)", settings=TYPES),
    "auto": _Kind(
        columns="c1 bigint, d datetime",
        after="AUTO PARTITIONED BY (trunc_time(d, 'day') AS pt)",
        settings=TYPES,
    ),
    "blobs": _Kind(columns="c1 bigint, b blob", properties=_BLOBS, settings=BLOBS),
    "blob_parts": _Kind(
        columns="c1 bigint, b blob",
        after="PARTITIONED BY (p1 string, p2 string)",
        properties=_BLOBS,
        settings=BLOBS,
    ),
}
"""The definition of each kind of table; ``wrong`` names one that the service should refuse."""


class Scratch:
    """Makes tables when they are first needed, and drops all of them.

    Parameters
    ----------
    name
        The name that all of them begin with.
    """

    def __init__(self, asker: Asker, name: TableName) -> None:
        self._asker = asker
        self._names = {kind: replace(name, table=f"{name.table}_{kind}") for kind in KINDS}
        self._names["wrong"] = replace(name, table=f"{name.table}_wrong")
        for kind, full in self._names.items():
            asker.redactor.hide(full.table, f"scratch-{kind}")
        asker.redactor.hide(name.table, "scratch")

    def start_clean(self) -> None:
        """Drop the tables that a killed run has left.

        Raises `ConfigError`: a table of that name exists and was not made by the probe.
        """
        for name in self._names.values():
            self._begin()
            try:
                found = self._asker.storage.control(GetTable(table=name))
            except NotFoundError:
                continue
            if found.comment != MARK:
                raise ConfigError(
                    f"{name} exists and was not made by a probe",
                    option="write",
                    hint="pass another name, with which no table begins",
                )
            self._drop(name)

    def name(self, kind: str) -> TableName:
        """Return the full name of a table, made or not."""
        return self._names[kind]

    def make(self, kind: str) -> TableName:
        """Make a table and its rows."""
        name, how = self._names[kind], KINDS[kind]
        self._begin()
        self._asker.run(
            f"CREATE TABLE {name} ({how.columns}) COMMENT '{MARK}' {how.after} {how.properties}"
            " LIFECYCLE 1;",
            how.settings,
        )
        if how.fill is not None:
            how.fill(self._asker, name)
        return name

    def drop(self) -> list[str]:
        """Drop all of them; return the failures, described without names."""
        failed = []
        for kind, name in self._names.items():
            self._begin()
            try:
                self._drop(name)
            except OdpsNbError as error:
                failed.append(f"<scratch-{kind}> may remain ({type(error).__name__})")
        return failed

    def _begin(self) -> None:
        self._asker.begin(requests=300, rows=0, seconds=300.0)

    def _drop(self, name: TableName) -> None:
        self._asker.run(f"DROP TABLE IF EXISTS {name};")
