"""Questions about read sessions and their refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from odps_nb.probe.asking import Asker
from odps_nb.probe.question import CannotTell, Observation, OneOf, Question
from odps_nb.probe.steps import (
    ROW_OFFSET,
    SIZE,
    columns_of,
    count,
    counted_session,
    open_session,
    read,
)

REFUSED = {"refused": True}
SIMPLE = {"BIGINT", "INT", "SMALLINT", "TINYINT", "STRING", "DOUBLE", "DATETIME", "DATE"}
_ANY_4XX = "Any status from 400 to 499 is a refusal, whatever its Code."


def _expiry(asker: Asker) -> Observation:
    number = open_session(asker, asker.tables["table"]).need().members.get("ExpirationTime")
    if not isinstance(number, int) or number <= 0:
        return {"unit": "none"}
    ahead = {
        "seconds": number - asker.storage.now(),
        "milliseconds": number / 1000 - asker.storage.now(),
    }
    year = 366 * 86400
    units = [unit for unit, seconds in ahead.items() if -3600 < seconds < year]
    if len(units) != 1:
        return {"unit": "unknown"}
    return {"unit": units[0], "lives_hours": round(ahead[units[0]] / 3600)}


def _refresh(asker: Asker) -> Observation:
    table = asker.tables["table"]
    made = open_session(asker, table).need().members
    params = {"SessionId": made["SessionId"], "session_refresh": "true"}
    again = asker.send("TableGetReadSession", table, params)
    earlier = again.members.get("ExpirationTime", 0) < made.get("ExpirationTime", 0)
    return {"refused": again.is_refusal, "expires_earlier": earlier}


def _signed(asker: Asker) -> Observation:
    table = asker.tables["table"]
    params = {"ProbeText": "a b&c%d+e=f,g/h"}
    body = {"SplitOptions": dict(ROW_OFFSET)}
    answer = asker.send("TableCreateReadSession", table, params, body, may_deny=True)
    if not answer.is_refusal:
        return {"taken": True}
    open_session(asker, table).need()  # rights and table are fine: the parameter is refused
    return {"taken": False, "status": answer.status, "code": answer.code}


def _empty_range(asker: Asker) -> Observation:
    table = asker.tables["empty"]
    session, rows = counted_session(asker, table)
    answer = read(asker, table, session, {"Offset": 0, "Count": 1})
    return {"record_count": rows, "range": "refused" if answer.is_refusal else "no rows"}


def _empty_splits(asker: Asker) -> Observation:
    answer = open_session(asker, asker.tables["empty"], SplitOptions=dict(SIZE)).need()
    return {"splits": answer.members.get("SplitsCount")}


def _range_end(asker: Asker) -> Observation:
    table = asker.tables["table"]
    session, rows = counted_session(asker, table)
    seen: Observation = {}
    for name, offset in (("at_end", rows), ("past_end", rows + 1)):
        answer = read(asker, table, session, {"Offset": offset, "Count": 1})
        seen[name] = "refused" if answer.is_refusal else f"{answer.table().num_rows} rows"
    return seen


def _data_columns_alone(asker: Asker) -> Observation:
    answer = open_session(asker, asker.tables["parts"], RequiredDataColumns=["c1"]).need()
    return {"columns": [name for name, _, _ in columns_of(answer.members)]}


def _separators(asker: Asker) -> Observation:
    table, seen = asker.tables["parts"], {}
    for name, sign in (("slash", "/"), ("comma", ",")):
        answer = open_session(asker, table, RequiredPartitions=[f"p1=x1{sign}p2=y1"])
        seen[name] = "refused" if answer.is_refusal else answer.members.get("RecordCount")
    return dict(seen)


def _key_table(asker: Asker) -> Observation:
    table = asker.tables["keys"]
    answer = open_session(asker, table)
    if answer.is_refusal:
        return answer.outcome()
    return {"refused": False, "rows": answer.members.get("RecordCount")}


def _key_modes(asker: Asker) -> Observation:
    taken = [
        str(splits["SplitMode"])
        for splits in (ROW_OFFSET, SIZE)
        if not open_session(asker, asker.tables["keys"], SplitOptions=dict(splits)).is_refusal
    ]
    return {"taken": ", ".join(taken)}


def _refused_size(asker: Asker) -> Observation:
    splits = {**SIZE, "SplitNumber": 1}
    return open_session(asker, asker.tables["table"], SplitOptions=splits).outcome()


def _refused_bucket(asker: Asker) -> Observation:
    splits = {"SplitMode": "Bucket"}
    return open_session(asker, asker.tables["plain"], SplitOptions=splits).outcome()


def _refused_mode(asker: Asker) -> Observation:
    return open_session(asker, asker.tables["blobs"], SplitOptions=dict(SIZE)).outcome()


def _refused_table(asker: Asker) -> Observation:
    table = asker.tables["table"]
    missing = replace(table, table="odps_nb_probe_no_such_table")
    return open_session(asker, missing, may_deny=True).outcome()  # some services answer 403 here


def _refused_column(asker: Asker) -> Observation:
    named = ["odps_nb_probe_no_such_column"]
    return open_session(asker, asker.tables["table"], RequiredDataColumns=named).outcome()


def _missing_partition(asker: Asker) -> Observation:
    answer = open_session(asker, asker.tables["parts"], RequiredPartitions=["p1=nope/p2=nope"])
    if answer.is_refusal:
        return answer.outcome()
    return {"refused": False, "rows": answer.members.get("RecordCount")}


def _refused_batch(asker: Asker, **body: Any) -> Observation:
    table = asker.tables["table"]
    session, rows = counted_session(asker, table)
    if rows <= 0:
        raise CannotTell("the table has no rows")
    return read(asker, table, session, {"Offset": 0, "Count": 1}, **body).outcome()


def _refused_filter(asker: Asker) -> Observation:
    table, text = asker.tables["table"], "odps_nb_probe_no_such_column = 1"
    alone = open_session(asker, table, FilterPredicate=text)
    other = open_session(asker, table, FilterPredicate=text, FilterPredicateFallback=True)
    return {**alone.outcome(), "refused_with_fallback": other.is_refusal}


def _sees_all(asker: Asker) -> Observation:
    """Compare the rows of the table with those of a condition that no row satisfies."""
    table = asker.tables["table"]
    found = open_session(asker, table).need().members
    simple = [name for name, kind, _ in columns_of(found) if kind in SIMPLE]
    if not simple:
        raise CannotTell("the table has no column of a simple type")
    rows = int(found.get("RecordCount", -1))
    if rows <= 0:
        raise CannotTell("the table has no rows")
    quoted = "`" + simple[0].replace("`", "``") + "`"
    text = f"({quoted} is null) and ({quoted} is not null)"
    kept = count(asker, table, FilterPredicate=text)
    return {"counted": {rows: "rows stored", 0: "rows kept"}.get(kept, "neither")}


QUESTIONS = (
    Question(
        id="session-expiry",
        sends="TableCreateReadSession",
        text="What is the unit of ExpirationTime, and how long does a read session live?",
        assumes="It is told by magnitude: milliseconds or seconds since the epoch.",
        ask=_expiry,
        expected={"unit": OneOf(("milliseconds", "seconds"))},
        needs=("table",),
    ),
    Question(
        id="session-refresh",
        sends="TableCreateReadSession, TableGetReadSession",
        text="Is a read session kept alive by session_refresh?",
        assumes="It is taken, and the session does not end earlier.",
        ask=_refresh,
        expected={"refused": False, "expires_earlier": False},
        needs=("table",),
    ),
    Question(
        id="signed-parameters",
        sends="TableCreateReadSession",
        text="Are parameters with blank, &, %, + and = signed as the stock clients sign them?",
        assumes="They are signed as pyodps does.",
        ask=_signed,
        expected={"taken": True},
        needs=("table",),
    ),
    Question(
        id="empty-table",
        sends="TableCreateReadSession, TableRead",
        text="What does a session by rows of an empty table count, and a range of it answer?",
        assumes="No rows are counted, and a range that begins at the end has none.",
        ask=_empty_range,
        expected={"record_count": 0, "range": "no rows"},
        needs=("empty",),
    ),
    Question(
        id="empty-splits",
        sends="TableCreateReadSession",
        text="How many splits by size has an empty table?",
        assumes="None; splits without rows are read as well.",
        ask=_empty_splits,
        expected={"splits": OneOf((0, 1))},
        needs=("empty",),
    ),
    Question(
        id="range-end",
        sends="TableCreateReadSession, TableRead",
        text="What does a range answer whose Offset is the end, or one more?",
        assumes="No rows at the end, a refusal beyond it.",
        ask=_range_end,
        expected={"at_end": "0 rows", "past_end": "refused"},
        needs=("table",),
    ),
    Question(
        id="data-columns-alone",
        sends="TableCreateReadSession",
        text="Do partition columns come where only data columns are named?",
        assumes="They do not.",
        ask=_data_columns_alone,
        expected={"columns": ["c1"]},
        needs=("parts",),
    ),
    Question(
        id="required-partitions",
        sends="TableCreateReadSession",
        text="Which sign separates levels in RequiredPartitions?",
        assumes="The slash does; the embedded service takes the comma, too.",
        ask=_separators,
        expected={"slash": 1},
        needs=("parts",),
    ),
    Question(
        id="key-table-session",
        sends="TableCreateReadSession",
        text="What does a session that is not incremental answer for a primary-key table?",
        assumes="The rows merged: two upserts of one key are one row.",
        ask=_key_table,
        expected={"refused": False, "rows": 1},
        needs=("keys",),
    ),
    Question(
        id="key-table-modes",
        sends="TableCreateReadSession",
        text="Which split modes does a primary-key table take?",
        assumes="RowOffset, Size or both: the client asks for the other where one is refused.",
        ask=_key_modes,
        expected={"taken": OneOf(("RowOffset, Size", "RowOffset", "Size"))},
        needs=("keys",),
    ),
    Question(
        id="filter-record-count",
        sends="TableCreateReadSession",
        text="Does RecordCount of a filtered session count the rows stored or those kept?",
        assumes="The rows stored; a filtered read is never checked against it.",
        ask=_sees_all,
        expected={"counted": "rows stored"},
        needs=("table",),
    ),
    Question(
        id="refusal-split-size",
        sends="TableCreateReadSession",
        text="How are splits of one byte refused?",
        assumes=_ANY_4XX,
        ask=_refused_size,
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="refusal-bucket",
        sends="TableCreateReadSession",
        text="How is Bucket refused for a table that is not clustered?",
        assumes=_ANY_4XX,
        ask=_refused_bucket,
        expected=REFUSED,
        needs=("plain",),
    ),
    Question(
        id="refusal-mode",
        sends="TableCreateReadSession",
        text="How are splits by size refused for a transactional table?",
        assumes=_ANY_4XX,
        ask=_refused_mode,
        expected=REFUSED,
        needs=("blobs",),
    ),
    Question(
        id="refusal-table",
        sends="TableCreateReadSession",
        text="How is a table refused that does not exist?",
        assumes=_ANY_4XX,
        ask=_refused_table,
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="refusal-column",
        sends="TableCreateReadSession",
        text="How is a column refused that does not exist?",
        assumes=_ANY_4XX,
        ask=_refused_column,
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="missing-partition",
        sends="TableCreateReadSession",
        text="What does a session answer that names a partition that does not exist?",
        assumes="It is refused.",
        ask=_missing_partition,
        expected={"refused": True},
        needs=("parts",),
    ),
    Question(
        id="refusal-batch-rows",
        sends="TableCreateReadSession, TableRead",
        text="How are batches of 20,001 rows refused?",
        assumes=_ANY_4XX,
        ask=lambda asker: _refused_batch(asker, MaxBatchRows=20_001),
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="refusal-batch-bytes",
        sends="TableCreateReadSession, TableRead",
        text="How are batches of 1,024 bytes refused?",
        assumes=_ANY_4XX,
        ask=lambda asker: _refused_batch(asker, MaxBatchRawSize=1024),
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="refusal-format",
        sends="TableCreateReadSession, TableRead",
        text="How is a DataFormat refused that nobody knows?",
        assumes=_ANY_4XX,
        ask=lambda asker: _refused_batch(asker, DataFormat={"Type": "arrow1", "Version": "V6"}),
        expected=REFUSED,
        needs=("table",),
    ),
    Question(
        id="refusal-filter",
        sends="TableCreateReadSession",
        text="How is a filter refused that the service does not take, and is it with a fallback?",
        assumes="A 4xx without FilterPredicateFallback, all rows with it.",
        ask=_refused_filter,
        expected={"refused": True, "refused_with_fallback": False},
        needs=("table",),
    ),
)
