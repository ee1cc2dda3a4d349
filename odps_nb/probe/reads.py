"""Questions about read sessions, their refusals, ranges of rows, previews and filters."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from odps_nb.errors import ProtocolError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import CannotTell, Observation, Questions
from odps_nb.probe.scratch import PLAIN_ROWS
from odps_nb.probe.steps import (
    ROW_OFFSET,
    SIZE,
    columns_of,
    count,
    counted_session,
    filled_session,
    open_session,
    read,
)
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import sniff_body
from odps_nb.wire.calls.core import table_target

QUESTIONS = Questions()
asks = QUESTIONS.asks
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
    made = open_session(asker, "table").need().members
    params = {"SessionId": made["SessionId"], "session_refresh": "true"}
    again = asker.send("TableGetReadSession", "table", params)
    earlier = again.members.get("ExpirationTime", 0) < made.get("ExpirationTime", 0)
    return {"refused": again.is_refusal, "expires_earlier": earlier}


@asks("Are blanks, &, %, + and = signed as the stock clients sign them?", {"taken": True}, "table")
def _signed_parameters(asker: Asker) -> Observation:
    params, body = {"ProbeText": "a b&c%d+e=f,g/h"}, {"SplitOptions": ROW_OFFSET}
    found = asker.send("TableCreateReadSession", "table", params, body, may_deny=True)
    if not found.is_refusal:
        return {"taken": True}
    open_session(asker, "table").need()  # rights and table are fine: the parameter is refused
    return {"taken": False, "status": found.status, "code": found.code}


@asks("What is in a range of an empty table?", {"record_count": 0, "range": "no rows"}, "empty")
def _empty_table(asker: Asker) -> Observation:
    session, rows = counted_session(asker, "empty")
    found = read(asker, "empty", session, (0, 1))
    return {"record_count": rows, "range": "refused" if found.is_refusal else "no rows"}


@asks("How many splits by size has an empty table?", {"splits": (0, 1)}, "empty")
def _empty_splits(asker: Asker) -> Observation:
    members = open_session(asker, "empty", SplitOptions=SIZE).need().members
    return {"splits": members.get("SplitsCount")}


@asks(
    "What is in a range at or past the end?", {"at_end": "0 rows", "past_end": "refused"}, "table"
)
def _range_end(asker: Asker) -> Observation:
    session, rows = counted_session(asker, "table")
    seen: Observation = {}
    for name, offset in (("at_end", rows), ("past_end", rows + 1)):
        found = read(asker, "table", session, (offset, 1))
        seen[name] = "refused" if found.is_refusal else f"{found.table().num_rows} rows"
    return seen


@asks("Do partition columns come where only data columns are named?", {"columns": ["c1"]}, "parts")
def _data_columns_alone(asker: Asker) -> Observation:
    members = open_session(asker, "parts", RequiredDataColumns=["c1"]).need().members
    return {"columns": list(columns_of(members))}


@asks("Which sign separates levels in RequiredPartitions?", {"slash": 1}, "parts")
def _required_partitions(asker: Asker) -> Observation:
    seen: Observation = {}
    for name, sign in (("slash", "/"), ("comma", ",")):
        found = open_session(asker, "parts", RequiredPartitions=[f"p1=x1{sign}p2=y1"])
        seen[name] = "refused" if found.is_refusal else found.members.get("RecordCount")
    return seen


@asks(
    "Which split modes has a key table?",
    {"taken": ("RowOffset, Size", "RowOffset", "Size")},
    "keys",
)
def _key_table_modes(asker: Asker) -> Observation:
    taken = [
        str(splits["SplitMode"])
        for splits in (ROW_OFFSET, SIZE)
        if not open_session(asker, "keys", SplitOptions=splits).is_refusal
    ]
    return {"taken": ", ".join(taken)}


@asks("Does a filtered RecordCount count stored or kept rows?", {"counted": "rows stored"}, "table")
def _filter_record_count(asker: Asker) -> Observation:
    """Compare the rows of the table with those of a condition that no row satisfies."""
    found = open_session(asker, "table").need().members
    simple = [name for name, kind in columns_of(found).items() if kind in SIMPLE]
    rows = int(found.get("RecordCount", -1))
    if not simple or rows <= 0:
        raise CannotTell("the table has no rows, or no column of a simple type")
    quoted = "`" + simple[0].replace("`", "``") + "`"
    text = f"({quoted} is null) and ({quoted} is not null)"
    kept = count(asker, "table", FilterPredicate=text)
    return {"counted": {rows: "rows stored", 0: "rows kept"}.get(kept, "neither")}


# -- refusals ---------------------------------------------------------------------------------


def _session_outcome(asker: Asker, table: str, body: dict[str, Any]) -> Observation:
    found = open_session(asker, table, **body)
    if found.is_refusal:
        return found.outcome()
    return {"refused": False, "rows": found.members.get("RecordCount")}


def _refused(id: str, text: str, table: str, **body: object) -> None:
    asks(text, {"refused": True}, table, id=id)(partial(_session_outcome, table=table, body=body))


def _refused_read(id: str, text: str, **body: Any) -> None:
    def ask(asker: Asker) -> Observation:
        session, _ = filled_session(asker, "table")
        return read(asker, "table", session, (0, 1), **body).outcome()

    asks(text, {"refused": True}, "table", id=id)(ask)


_SMALL = {**SIZE, "SplitNumber": 1}
_refused("refusal-split-size", "Are splits of one byte refused?", "table", SplitOptions=_SMALL)
_BUCKET = {"SplitMode": "Bucket"}
_refused("refusal-bucket", "Is Bucket refused for a plain table?", "plain", SplitOptions=_BUCKET)
_refused("refusal-mode", "Is Size refused for a transactional table?", "blobs", SplitOptions=SIZE)
_NONE = ["odps_nb_probe_no_such_column"]
_refused("refusal-column", "Is a missing column refused?", "table", RequiredDataColumns=_NONE)
_NOPE = ["p1=nope/p2=nope"]
_refused("missing-partition", "Is a missing partition refused?", "parts", RequiredPartitions=_NOPE)
_refused_read("refusal-batch-rows", "Are batches of 20,001 rows refused?", MaxBatchRows=20_001)
_refused_read("refusal-batch-bytes", "Are batches of 1,024 bytes refused?", MaxBatchRawSize=1024)
_FORM = {"Type": "arrow1", "Version": "V6"}
_refused_read("refusal-format", "Is an unknown DataFormat refused?", DataFormat=_FORM)

asks("Is a key table read merged?", {"refused": False, "rows": 1}, "keys", id="key-table-session")(
    lambda asker: _session_outcome(asker, "keys", {})
)


@asks("How is a missing table refused?", {"refused": True}, "table")
def _refusal_table(asker: Asker) -> Observation:
    missing = replace(asker.tables["table"], table="odps_nb_probe_no_such_table")
    # some services answer 403 here
    return open_session(asker, table_target(missing), may_deny=True).outcome()


@asks(
    "How is a filter refused that the service does not take, and is it with a fallback?",
    {"refused": True, "refused_with_fallback": False},
    "table",
)
def _refusal_filter(asker: Asker) -> Observation:
    text = "odps_nb_probe_no_such_column = 1"
    alone = open_session(asker, "table", FilterPredicate=text)
    other = open_session(asker, "table", FilterPredicate=text, FilterPredicateFallback=True)
    return {**alone.outcome(), "refused_with_fallback": other.is_refusal}


# -- rows and previews ------------------------------------------------------------------------


@asks("Which form has the body of a compressed TableRead?", {"known": True}, "table")
def _read_compression(asker: Asker) -> Observation:
    session, _ = filled_session(asker, "table")
    seen = {}
    for coding in ("zstd", "x-lz4-frame", "x-lz4-frame,zstd"):
        data = read(asker, "table", session, (0, 1), coding=coding, kind="data").need().data
        try:
            form = sniff_body(data[:4], None)
            seen[coding] = form.value if isinstance(form, Compression) else form
        except ProtocolError:
            seen[coding] = "unknown"
    return {"known": "unknown" not in seen.values(), **seen}


@asks("Which rows does SkipRowNum leave out of a range?", {"rows": list(range(103, 110))}, "plain")
def _skip_rows(asker: Asker) -> Observation:
    session, _ = counted_session(asker, "plain")
    rows = read(asker, "plain", session, (100, 10), SkipRowNum=3).table()
    return {"rows": rows["c1"].to_pylist()}


@asks("What does a range answer that extends beyond the last row?", {"rows": 1}, "table")
def _count_beyond_end(asker: Asker) -> Observation:
    session, rows = filled_session(asker, "table")
    found = read(asker, "table", session, (rows - 1, 4_294_967_295))
    return {"rows": found.table().num_rows}


@asks(
    "In which order do columns come with DataColumnsUnordered?",
    {"same_columns": True, "order": ("as asked", "as in the table")},
    "table",
)
def _unordered_columns(asker: Asker) -> Observation:
    found = open_session(asker, "table").need().members
    listed = (found.get("DataSchema") or {}).get("DataColumns") or []
    if len(listed) < 2 or int(found.get("RecordCount", 0)) <= 0:
        raise CannotTell("the table has no rows, or only one column")
    asked = [str(listed[1]["Name"]), str(listed[0]["Name"])]
    body: dict[str, Any] = {"DataColumns": asked, "DataColumnsUnordered": True}
    names = read(asker, "table", str(found["SessionId"]), (0, 1), **body).table().column_names
    order = {tuple(asked): "as asked", tuple(asked[::-1]): "as in the table"}
    return {"same_columns": sorted(names) == sorted(asked), "order": order.get(tuple(names))}


def _previews(asker: Asker, table: str, bodies: dict[str, dict[str, object]]) -> Observation:
    seen: Observation = {}
    for name, body in bodies.items():
        body = {"Columns": ["c1"], **body}
        found = asker.send("TablePreview", table, body=body, kind="rows")
        seen[name] = "refused" if found.is_refusal else str(found.table().num_rows)
    return seen


@asks(
    f"How many of {PLAIN_ROWS} rows has a preview without Limit, and with 20,000?",
    {"without": "10000", "20000": "20000"},
    "plain",
    rows=2 * PLAIN_ROWS,
)
def _preview_limits(asker: Asker) -> Observation:
    return _previews(asker, "plain", {"without": {}, "20000": {"Limit": 20_000}})


@asks(
    "Which sign separates levels in a preview's Partition?", {"comma": "1", "missing": "0"}, "parts"
)
def _preview_partition(asker: Asker) -> Observation:
    texts = {"comma": "p1=x1,p2=y1", "slash": "p1=x1/p2=y1", "missing": "p1=nope,p2=nope"}
    bodies = {name: {"Limit": 10, "Partition": text} for name, text in texts.items()}
    return _previews(asker, "parts", bodies)


# -- filters ----------------------------------------------------------------------------------


@asks(
    "Do ranges of a filtered session address the rows stored or those kept?",
    {"record_count": PLAIN_ROWS, "range": list(range(20_000, 20_010))},
    "plain",
)
def _filter_ranges(asker: Asker) -> Observation:
    session, counted = counted_session(asker, "plain", FilterPredicate="c1 = 20000")
    found = read(asker, "plain", session, (20_000, 10))
    rows = "refused" if found.is_refusal else found.table()["c1"].to_pylist()
    return {"record_count": counted, "range": rows}


def _kept(asker: Asker, text: str) -> Observation:
    """Count the rows that a filtered session with splits by size returns."""
    body: dict[str, Any] = {"RequiredDataColumns": ["c1", "c2"], "FilterPredicate": text}
    members = open_session(asker, "plain", SplitOptions=SIZE, **body).need().members
    splits = range(int(members["SplitsCount"]))
    found = [read(asker, "plain", members["SessionId"], {"Index": index}) for index in splits]
    return {"rows": sum(one.table().num_rows for one in found)}


asks(
    "How many rows come for a condition that one row meets?",
    {"rows": 10_000},
    "plain",
    id="filter-block-size",
    rows=PLAIN_ROWS,
)(lambda asker: _kept(asker, "c1 = 20000"))
asks(
    "Which rows come where each of two conditions is met in a block, but by no row both?",
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


@asks("Which forms does a filter take?", dict.fromkeys(_FORMS, "taken"), "typed")
def _filter_forms(asker: Asker) -> Observation:
    return {
        name: open_session(asker, "typed", FilterPredicate=text).word
        for name, text in _FORMS.items()
    }
