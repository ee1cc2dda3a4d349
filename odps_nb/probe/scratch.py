"""Creates and drops the tables that ``--write`` uses.

Each table's comment marks it as created by the probe, and its lifecycle is one day. If a run is
killed, the next run or the service drops its tables.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from odps_nb.errors import ConfigError, NotFoundError, OdpsNbError
from odps_nb.probe.asking import Asker
from odps_nb.probe.steps import load
from odps_nb.terms import TableName
from odps_nb.wire.control import GetTable

MARK = "made by odps-nb probe"
PLAIN_ROWS = 30_000
_DROP = "DROP TABLE IF EXISTS {};"
TYPES: Mapping[str, str] = {"odps.sql.type.system.odps2": "true"}
BLOBS: Mapping[str, str] = {**TYPES, "odps.table.append2.enable": "true"}
_PARTITIONS = "PARTITIONED BY (p1 string, p2 string)"
_BLOBS = "TBLPROPERTIES ('table.format.version'='2', 'transactional'='true')"
_KEYS = (
    "TBLPROPERTIES ('transactional'='true', 'acid.cdc.mode.enable'='true',"
    " 'acid.cdc.build.async'='false', 'cdc.insert.into.passthrough.enable'='true',"
    " 'write.bucket.num'='16')"
)


def numbers(count: int = 1) -> pa.Array:
    """Return an array of the BIGINTs from 0 to ``count - 1``."""
    return pa.array(range(count), pa.int64())


def _fill_plain(asker: Asker) -> None:
    """Load rows; each block of 10,000 has its own range of ``c1`` and ``c2``."""
    doubled = pa.array(range(0, 2 * PLAIN_ROWS, 2), pa.int64())
    texts = [f"t{i}" for i in range(PLAIN_ROWS)]
    load(asker, "plain", pa.table({"c1": numbers(PLAIN_ROWS), "c2": doubled, "c3": texts}))


def _fill_parts(asker: Asker) -> None:
    for number in (1, 2):
        rows = pa.table({"c1": pa.array([number], pa.int64()), "c2": ["t"]})
        load(asker, "parts", rows, f"p1=x{number}/p2=y{number}")


def _fill_moments(asker: Asker) -> None:
    """Load rows with times within, before and after the range of nanosecond timestamps."""
    days = [datetime.datetime(year, 1, 2, 3, 4, 5) for year in (2024, 1960, 2040)]
    units = {"dt": "ms", "ts": "us", "ntz": "us"}
    times = {name: pa.array(days, pa.timestamp(unit)) for name, unit in units.items()}
    load(asker, "moments", pa.table({"c1": numbers(3), **times}))


def _fill_appended(asker: Asker) -> None:
    asker.run(f"INSERT INTO TABLE {asker.tables['appended']} VALUES (1, 'a');")


def _fill_keys(asker: Asker) -> None:
    for value in "ab":
        asker.run(f"INSERT INTO TABLE {asker.tables['keys']} VALUES (1, '{value}');")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of table: columns, clauses after COMMENT, SQL settings, a function that loads rows."""

    columns: str
    rest: str = ""
    settings: Mapping[str, str] | None = None
    fill: Callable[[Asker], None] = lambda _asker: None


KINDS: Mapping[str, _Kind] = {
    "plain": _Kind("c1 bigint, c2 bigint, c3 string", fill=_fill_plain),
    "empty": _Kind("c1 bigint"),
    "parts": _Kind("c1 bigint, c2 string", _PARTITIONS, fill=_fill_parts),
    "typed": _Kind("c1 bigint, d date, ts timestamp, s string", "", TYPES),
    "into": _Kind("c1 bigint, c2 string"),
    "into_parts": _Kind("c1 bigint", "PARTITIONED BY (p string)"),
    "keys": _Kind("id bigint PRIMARY KEY NOT NULL, val string", _KEYS, TYPES, _fill_keys),
    "appended": _Kind("c1 bigint, c2 string", _BLOBS, BLOBS, _fill_appended),
    "moments": _Kind(
        "c1 bigint, dt datetime, ts timestamp, ntz timestamp_ntz", "", TYPES, _fill_moments
    ),
    "auto": _Kind(
        "c1 bigint, d datetime", "AUTO PARTITIONED BY (trunc_time(d, 'day') AS pt)", TYPES
    ),
    "blobs": _Kind("c1 bigint, b blob", _BLOBS, BLOBS),
    "blob_parts": _Kind("c1 bigint, b blob", f"{_PARTITIONS} {_BLOBS}", BLOBS),
}
"""Definition of each kind of table."""


class Scratch:
    """The tables that the probe creates on demand, with the name prefix ``name``."""

    def __init__(self, asker: Asker, name: TableName) -> None:
        self._asker = asker
        self._names = {kind: replace(name, table=f"{name.table}_{kind}") for kind in KINDS}
        for kind, full in self._names.items():
            asker.redactor.hide(full.table, f"scratch-{kind}")
        asker.redactor.hide(name.table, "scratch")

    def start_clean(self) -> None:
        """Drop a killed run's tables; raise `ConfigError` if a table belongs to another program."""
        for name in self._names.values():
            self._begin()
            try:
                info = self._asker.storage.control(GetTable(table=name))
            except NotFoundError:
                continue
            if info.comment != MARK:
                raise ConfigError(
                    f"the table {name} already exists and was not created by a probe",
                    option="write",
                    hint="pass another name prefix to --write",
                )
            self._asker.run(_DROP.format(name))

    def make(self, kind: str) -> None:
        """Create the table of a kind and load its rows."""
        name, how = self._names[kind], KINDS[kind]
        self._begin()
        self._asker.run(
            f"CREATE TABLE {name} ({how.columns}) COMMENT '{MARK}' {how.rest} LIFECYCLE 1;",
            how.settings,
        )
        self._asker.tables[kind] = name
        try:
            how.fill(self._asker)
        except BaseException:
            del self._asker.tables[kind]
            raise

    def drop(self) -> list[str]:
        """Drop the tables of all kinds; return a description of each failure, without names."""
        failed = []
        for kind, name in self._names.items():
            self._begin()
            try:
                self._asker.run(_DROP.format(name))
            except OdpsNbError as error:
                failed.append(f"<scratch-{kind}> may remain ({type(error).__name__})")
        return failed

    def _begin(self) -> None:
        self._asker.begin(requests=300, rows=0, seconds=300.0)
