"""Questions about read sessions, incremental reads, row ranges, previews and filters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import CannotTell, Observation, Questions
from odps_nb.probe.scratch import PLAIN_ROWS
from odps_nb.probe.steps import (
    ROW_OFFSET,
    SIZE,
    columns_of,
    count,
    counted_session,
    open_session,
    read,
)
from odps_nb.wire.calls.core import table_target

QUESTIONS = Questions()
asks = QUESTIONS.asks
NANO = {"TimestampUnit": "nano", "DatetimeUnit": "milli"}
SIMPLE = {"BIGINT", "INT", "SMALLINT", "TINYINT", "STRING", "DOUBLE", "DATETIME", "DATE"}


@asks("What is the unit of ExpirationTime?", {"unit": ("milliseconds", "seconds")}, "table")
def _session_expiry(asker: Asker) -> Observation:
    number = open_session(asker, "table").need().members.get("ExpirationTime")
    if not isinstance(number, int) or number <= 0:
        return {"unit": "none"}
    now = asker.storage.now()
    ahead = {"seconds": number - now, "milliseconds": number / 1000 - now}
    units = [unit for unit, seconds in ahead.items() if -3600 < seconds < 366 * 86400]
    if len(units) != 1:
        return {"unit": "unknown"}
    return {"unit": units[0], "lives_hours": round(ahead[units[0]] / 3600)}


@asks(
    "Does session_refresh keep a session alive?",
    {"refused": False, "expires_earlier": False},
    "table",
)
def _session_refresh(asker: Asker) -> Observation:
    members = open_session(asker, "table").need().members
    params = {"SessionId": members["SessionId"], "session_refresh": "true"}
    again = asker.send("TableGetReadSession", "table", params)
    earlier = again.members.get("ExpirationTime", 0) < members.get("ExpirationTime", 0)
    return {"refused": again.is_refusal, "expires_earlier": earlier}


@asks("Are blanks, &, %, + and = signed as by the vendor's clients?", {"taken": True}, "table")
def _signed_parameters(asker: Asker) -> Observation:
    params, body = {"ProbeText": "a b&c%d+e=f,g/h"}, {"SplitOptions": ROW_OFFSET}
    response = asker.send("TableCreateReadSession", "table", params, body, may_deny=True)
    if not response.is_refusal:
        return {"taken": True}
    open_session(asker, "table").need()  # raises if a request without the parameter is refused, too
    return {"taken": False, "status": response.status, "code": response.code}


@asks("Is a range of an empty table empty?", {"record_count": 0, "range": "no rows"}, "empty")
def _empty_table(asker: Asker) -> Observation:
    session, rows = counted_session(asker, "empty")
    response = read(asker, "empty", session, (0, 1))
    return {"record_count": rows, "range": "refused" if response.is_refusal else "no rows"}


@asks(
    "Is a range at or past the end refused?", {"at_end": "0 rows", "past_end": "refused"}, "table"
)
def _range_end(asker: Asker) -> Observation:
    session, rows = counted_session(asker, "table")
    seen: Observation = {}
    for name, offset in (("at_end", rows), ("past_end", rows + 1)):
        response = read(asker, "table", session, (offset, 1))
        seen[name] = "refused" if response.is_refusal else f"{response.table().num_rows} rows"
    return seen


@asks("Are partition columns returned without being requested?", {"columns": ["c1"]}, "parts")
def _data_columns_alone(asker: Asker) -> Observation:
    members = open_session(asker, "parts", RequiredDataColumns=["c1"]).need().members
    return {"columns": list(columns_of(members))}


@asks("What separates levels in RequiredPartitions?", {"slash": 1}, "parts")
def _required_partitions(asker: Asker) -> Observation:
    seen: Observation = {}
    for name, sign in (("slash", "/"), ("comma", ",")):
        response = open_session(asker, "parts", RequiredPartitions=[f"p1=x1{sign}p2=y1"])
        seen[name] = "refused" if response.is_refusal else response.members.get("RecordCount")
    return seen


@asks(
    "Which split modes does a primary-key table have?",
    {"taken": ("RowOffset, Size", "RowOffset", "Size")},
    "keys",
)
def _key_table_modes(asker: Asker) -> Observation:
    accepted = [
        str(splits["SplitMode"])
        for splits in (ROW_OFFSET, SIZE)
        if not open_session(asker, "keys", SplitOptions=splits).is_refusal
    ]
    return {"taken": ", ".join(accepted)}


@asks("Does reading a primary-key table merge its rows?", {"refused": False, "rows": 1}, "keys")
def _key_table_session(asker: Asker) -> Observation:
    response = open_session(asker, "keys")
    return {"refused": response.is_refusal, "rows": response.members.get("RecordCount")}


@asks("Does RecordCount with a filter count stored rows?", {"counted": "rows stored"}, "table")
def _filter_record_count(asker: Asker) -> Observation:
    """Compare a table's row count with the count for a condition that no row satisfies."""
    members = open_session(asker, "table").need().members
    simple = [name for name, kind in columns_of(members).items() if kind in SIMPLE]
    rows = int(members.get("RecordCount", -1))
    if not simple or rows <= 0:
        raise CannotTell("the table has no rows, or no column of a simple type")
    quoted = "`" + simple[0].replace("`", "``") + "`"
    text = f"({quoted} is null) and ({quoted} is not null)"
    counted = count(asker, "table", FilterPredicate=text)
    return {"counted": {rows: "rows stored", 0: "rows kept"}.get(counted, "neither")}


# -- refusals ---------------------------------------------------------------------------------


@asks("How is a read of a missing table refused?", {"refused": True}, "table")
def _refusal_table(asker: Asker) -> Observation:
    missing = replace(asker.tables["table"], table="odps_nb_probe_no_such_table")
    # may_deny: some services respond with 403 if the table is missing
    return open_session(asker, table_target(missing), may_deny=True).outcome()


@asks(
    "How is an unsupported filter refused, and is it also refused with a fallback?",
    {"refused": True, "refused_with_fallback": False},
    "table",
)
def _refusal_filter(asker: Asker) -> Observation:
    text = "odps_nb_probe_no_such_column = 1"
    alone = open_session(asker, "table", FilterPredicate=text)
    other = open_session(asker, "table", FilterPredicate=text, FilterPredicateFallback=True)
    return {**alone.outcome(), "refused_with_fallback": other.is_refusal}


# -- rows and previews ------------------------------------------------------------------------


@asks("Which rows of a range does SkipRowNum skip?", {"rows": list(range(103, 110))}, "plain")
def _skip_rows(asker: Asker) -> Observation:
    session, _ = counted_session(asker, "plain")
    rows = read(asker, "plain", session, (100, 10), SkipRowNum=3).table()
    return {"rows": rows["c1"].to_pylist()}


@asks("What separates levels in a preview's Partition?", {"comma": "1", "missing": "0"}, "parts")
def _preview_partition(asker: Asker) -> Observation:
    texts = {"comma": "p1=x1,p2=y1", "slash": "p1=x1/p2=y1", "missing": "p1=nope,p2=nope"}
    seen: Observation = {}
    for name, text in texts.items():
        body = {"Columns": ["c1"], "Limit": 10, "Partition": text}
        response = asker.send("TablePreview", "parts", body=body, kind="rows")
        seen[name] = "refused" if response.is_refusal else str(response.table().num_rows)
    return seen


@asks(
    "How is a TIMESTAMP before 1970 or after 2038 returned in nanoseconds?",
    {"inside": "read", "code": ("ODPS-0422214", None)},
    "moments",
)
def _timestamp_bounds(asker: Asker) -> Observation:
    session, _ = counted_session(asker, "moments", ArrowOptions=NANO, RequiredDataColumns=["ts"])
    seen: Observation = {}
    for offset, name in enumerate(("inside", "before_1970", "after_2038")):
        response = read(asker, "moments", session, (offset, 1), may_fail=True)
        seen[name] = "read" if response.status < 400 else f"{response.status} {response.code}"
        if response.status >= 400:
            seen["code"] = response.code
    return seen


# -- filters ----------------------------------------------------------------------------------


@asks(
    "Do ranges of a filtered session count stored rows or rows that the filter keeps?",
    {"record_count": PLAIN_ROWS, "range": list(range(20_000, 20_010))},
    "plain",
)
def _filter_ranges(asker: Asker) -> Observation:
    session, counted = counted_session(asker, "plain", FilterPredicate="c1 = 20000")
    response = read(asker, "plain", session, (20_000, 10))
    rows = "refused" if response.is_refusal else response.table()["c1"].to_pylist()
    return {"record_count": counted, "range": rows}


def _kept(asker: Asker, text: str) -> Observation:
    """Count the rows that a filtered session returns if its splits are sized in bytes."""
    body: dict[str, Any] = {"RequiredDataColumns": ["c1", "c2"], "FilterPredicate": text}
    members = open_session(asker, "plain", SplitOptions=SIZE, **body).need().members
    splits = range(int(members["SplitsCount"]))
    responses = [read(asker, "plain", members["SessionId"], {"Index": index}) for index in splits]
    return {"rows": sum(response.table().num_rows for response in responses)}


asks(
    "How many rows are returned for a condition that one row satisfies?",
    {"rows": 10_000},
    "plain",
    id="filter-block-size",
    rows=PLAIN_ROWS,
)(lambda asker: _kept(asker, "c1 = 20000"))
asks(
    "How many rows are returned if a block satisfies two conditions, but no row satisfies both?",
    {"rows": 0},
    "plain",
    id="filter-conditions",
    rows=PLAIN_ROWS,
)(lambda asker: _kept(asker, "(c1 = 20000) and (c2 = 40002)"))

_FORMS = {
    "back_quotes": "`c1` = 1",
    "chr": "s = CHR(39)",
    "cast_date": "d >= CAST('2024-01-01' AS DATE)",
    "text_and_datetime": "ts >= '2024-01-01 00:00:00'",
    "in": "c1 in (1, 2)",
    "not": "not (c1 = 1)",
}


@asks("Which expressions does a filter accept?", dict.fromkeys(_FORMS, "taken"), "typed")
def _filter_forms(asker: Asker) -> Observation:
    return {
        name: open_session(asker, "typed", FilterPredicate=text).word
        for name, text in _FORMS.items()
    }


# -- incremental reads -------------------------------------------------------------------------


def _versions(mode: str, start: int) -> dict[str, object]:
    """Encode the incremental options as the C++ client does."""
    return {
        "EnableIncrementalRead": True,
        "StartVersion": start,
        "EndVersion": -1,
        "StartTimeStamp": "-1",
        "EndTimeStamp": "-1",
        "Mode": mode,
    }


def _changes(asker: Asker, options: Mapping[str, object]) -> Response:
    return open_session(
        asker,
        "keys",
        SplitOptions={"SplitMode": "Bucket"},
        IncrementalRead=True,
        IncrementalReadOptions=options,
    )


def _latest(asker: Asker) -> int:
    """Return the table's current version."""
    return int(_changes(asker, _versions("cdc", 0)).need().members["LatestVersion"])


@asks("Which IncrementalReadOptions are accepted?", {"cdc": "taken", "append": "taken"}, "keys")
def _incremental_options(asker: Asker) -> Observation:
    forms = {mode: _versions(mode, 1) for mode in ("cdc", "append", "version")}
    forms["from_to"] = {"Mode": "cdc", "From": 1, "To": 2}
    return {name: _changes(asker, options).word for name, options in forms.items()}


@asks("Is the start version of a range excluded?", {"from_latest": 0, "from_before": 1}, "keys")
def _incremental_start(asker: Asker) -> Observation:
    latest = _latest(asker)
    seen: Observation = {}
    for name, version in (("from_latest", latest), ("from_before", latest - 1)):
        members = _changes(asker, _versions("cdc", version)).need().members
        seen[name] = len(members.get("SplitBucketId") or [])
    return seen


@asks("Which system columns does an incremental read return?", {"has_operation": True}, "keys")
def _incremental_columns(asker: Asker) -> Observation:
    seen: Observation = {}
    for mode in ("append", "cdc"):
        columns = columns_of(_changes(asker, _versions(mode, 1)).need().members)
        seen[mode] = [f"{name} {kind}" for name, kind in columns.items() if name.startswith("__")]
    return {**seen, "has_operation": "__meta_op_type" in columns}


@asks("Are changes across an overwrite refused?", {"refused": (True, False)}, "keys", statements=1)
def _incremental_replaced(asker: Asker) -> Observation:
    before = _latest(asker)
    asker.run(f"INSERT OVERWRITE TABLE {asker.tables['keys']} VALUES (1, 'c');")
    return _changes(asker, _versions("cdc", before)).outcome()
