"""Questions about write sessions and streams; each uses tables made for it."""

from __future__ import annotations

import datetime

import pyarrow as pa

from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import Observation, OneOf, Question
from odps_nb.probe.scratch import MARK, TYPES
from odps_nb.probe.steps import (
    STREAM,
    WRITES,
    close_stream,
    commit,
    count,
    load,
    new_stream,
    open_write,
    put,
    read_all,
)
from odps_nb.terms import TableName
from odps_nb.wire.schema_json import decode_nested


def _rows(number: int = 1) -> pa.Table:
    return pa.table({"c1": pa.array(range(number), pa.int64()), "c2": ["t"] * number})


def _written(asker: Asker, table: TableName, rows: pa.Table | None = None) -> str:
    """Open a session with one closed stream of rows: four requests; return its id."""
    session = open_write(asker, table)
    new_stream(asker, table, session).need()
    put(asker, table, session, _rows() if rows is None else rows).need()
    close_stream(asker, table, session).need()
    return session


def _commit_twice(asker: Asker) -> Observation:
    table = asker.tables["into"]
    before, session = count(asker, table), _written(asker, table)
    commit(asker, table, session, {STREAM: 1}).need()
    again = commit(asker, table, session, {STREAM: 1})
    state = asker.send("TableGetWriteSession", table, {"SessionId": session})
    return {
        "rows_added": count(asker, table) - before,
        "second": "refused" if again.is_refusal else "taken",
        "code": again.code,
        "state": "refused" if state.is_refusal else state.members.get("SessionStatus"),
    }


def _abort_late(asker: Asker) -> Observation:
    table = asker.tables["into"]
    before, session = count(asker, table), _written(asker, table)
    commit(asker, table, session, {STREAM: 1}).need()
    late = asker.send("TableAbortWriteSession", table, {"SessionId": session})
    return {"rows_added": count(asker, table) - before, **late.outcome()}


def _open_stream(asker: Asker, streams: dict[str, int] | None) -> Observation:
    """Commit a session with a closed stream (1 row) and one that is not closed (2 rows)."""
    table = asker.tables["into"]
    before, session = count(asker, table), _written(asker, table)
    new_stream(asker, table, session, "s1").need()
    put(asker, table, session, _rows(2), stream="s1").need()
    listed = asker.send("TableGetWriteSession", table, {"SessionId": session}).need()
    answer = commit(asker, table, session, streams)
    return {
        "listed": sorted(listed.members.get("Streams") or {}),
        **answer.outcome(),
        "rows_added": count(asker, table) - before,
    }


def _staging_id(asker: Asker) -> Observation:
    table = asker.tables["into"]
    session = open_write(asker, table)
    new_stream(asker, table, session).need()
    found = put(asker, table, session, _rows()).need().members.get("StagingId")
    kinds = {str: "text", int: "number", type(None): "absent"}
    return {"kind": kinds.get(type(found), "other")}


def _count_wrong(asker: Asker) -> Observation:
    table = asker.tables["into"]
    before, session = count(asker, table), open_write(asker, table)
    new_stream(asker, table, session).need()
    answer = put(asker, table, session, _rows(), claimed=4096)
    if not answer.is_refusal:
        close_stream(asker, table, session).need()
        commit(asker, table, session, {STREAM: 1}).need()
    return {**answer.outcome(), "rows_added": count(asker, table) - before}


def _matching(asker: Asker) -> Observation:
    table, plain = asker.tables["into"], _rows()
    shapes = {
        "other_order": plain.select(["c2", "c1"]),
        "other_names": plain.rename_columns(["x", "y"]),
        "too_few": plain.select(["c1"]),
        "too_many": plain.append_column("c3", pa.array(["t"])),
    }
    seen: Observation = {}
    for name, rows in shapes.items():
        session = open_write(asker, table)
        new_stream(asker, table, session).need()
        answer = put(asker, table, session, rows)
        seen[name] = "refused" if answer.is_refusal else "taken"
    return seen


def _overwrite(asker: Asker) -> Observation:
    table = asker.tables["into_parts"]

    def rows(*parts: str) -> pa.Table:
        return pa.table({"c1": pa.array(range(len(parts)), pa.int64()), "p": list(parts)})

    load(asker, table, rows("x", "y", "y"))
    load(asker, table, rows("x"), overwrite="true")
    return {
        f"rows_of_{part}": count(asker, table, RequiredPartitions=[f"p={part}"]) for part in "xy"
    }


def _exactly_once(asker: Asker) -> Observation:
    table = asker.tables["into"]
    before, session = count(asker, table), open_write(asker, table)
    made = new_stream(asker, table, session, ExactlyOnceMode=True).need()
    token = made.members.get("AccessToken") or None
    offsets: dict[str, object] = {"token": token is not None}
    for name, offset in (("first", 0), ("again", 0), ("gap", 5), ("next", 1)):
        answer = put(asker, table, session, _rows(), token=token, offset=offset)
        offsets[name] = "refused" if answer.is_refusal else "taken"
    close_stream(asker, table, session).need()
    commit(asker, table, session, {STREAM: 1}).need()
    return {**offsets, "rows_added": count(asker, table) - before}


def _takeover(asker: Asker) -> Observation:
    table = asker.tables["into"]
    session = open_write(asker, table)
    made = new_stream(asker, table, session, ExactlyOnceMode=True).need()
    old = made.members.get("AccessToken") or None
    put(asker, table, session, _rows(), token=old, offset=0).need()
    place = {"StreamId": STREAM, "StreamVersion": 1, "ExactlyOnceMode": True}
    params = {"SessionId": session, **place, "ExactlyOnceMode": "true"}
    taken = asker.send("TableGetWriteStream", table, params, place)
    if taken.is_refusal:
        return taken.outcome()
    new = taken.members.get("AccessToken") or None
    late = put(asker, table, session, _rows(), token=old, offset=1)
    following = put(asker, table, session, _rows(), token=new, offset=1)
    return {
        "refused": False,
        "offset": taken.members.get("RowOffset"),
        "old_token": "refused" if late.is_refusal else "taken",
        "new_token": "refused" if following.is_refusal else "taken",
    }


def _microseconds(asker: Asker) -> Observation:
    table = asker.tables["typed"]
    moment = datetime.datetime(9000, 1, 2, 3, 4, 5, 678_000)
    rows = pa.table(
        {
            "c1": pa.array([1], pa.int64()),
            "d": pa.array([datetime.date(2024, 1, 2)], pa.date32()),
            "ts": pa.array([moment], pa.timestamp("us")),
            "s": ["'"],
        }
    )
    session = open_write(asker, table)
    new_stream(asker, table, session).need()
    answer = put(asker, table, session, rows)
    if answer.is_refusal:
        return answer.outcome()
    close_stream(asker, table, session).need()
    commit(asker, table, session, {STREAM: 1}).need()
    seen: Observation = {"refused": False}
    for unit in ("micro", "milli"):
        options = {"TimestampUnit": unit, "DatetimeUnit": "milli"}
        found = read_all(asker, table, ArrowOptions=options)["ts"].to_pylist()
        seen[unit] = found == [moment]
    return seen


def _column_ids(asker: Asker, kind: str) -> Observation:
    table = asker.tables[kind]
    session = open_write(asker, table)
    answer = asker.send("TableGetWriteSchema", table, {"SessionId": session}).need()
    return {"ids": dict(decode_nested(answer.members.get("TableSchema") or {}).column_ids)}


def _ids(asker: Asker) -> Observation:
    seen = _column_ids(asker, "into")
    ids = seen["ids"]
    rising = isinstance(ids, dict) and -1 < ids["c1"] < ids["c2"]
    return {**seen, "rising": rising}


def _ids_after(asker: Asker) -> Observation:
    table = asker.tables["changed"]
    asker.run(f"ALTER TABLE {table} ADD COLUMNS (c3 map<string,bigint>, c4 bigint);", TYPES)
    return _column_ids(asker, "changed")


def _plain_blob_table(asker: Asker) -> Observation:
    name = asker.tables["into"]
    wrong = TableName(
        project=name.project,
        schema=name.schema,
        table=name.table.removesuffix("_into") + "_wrong",
    )
    try:
        asker.run(f"CREATE TABLE {wrong} (c1 bigint, b blob) COMMENT '{MARK}' LIFECYCLE 1;", TYPES)
    except ServiceError as error:
        return {"refused": True, "kind": type(error).__name__}
    return {"refused": False}


QUESTIONS = (
    Question(
        id="column-ids",
        sends="TableCreateWriteSession, TableGetWriteSchema",
        text="From where does ColumnId count?",
        assumes="Ids are read as they arrive; they rise with the columns.",
        ask=_ids,
        expected={"rising": True},
        needs=("into",),
    ),
    Question(
        id="column-ids-added",
        sends="SQL, TableCreateWriteSession, TableGetWriteSchema",
        text="Which ColumnId has a column that was added, and one behind a map?",
        assumes="Ids are read as they arrive.",
        ask=_ids_after,
        expected={},
        needs=("changed",),
        statements=1,
    ),
    Question(
        id="commit-twice",
        sends=f"{WRITES}, TableCreateReadSession, TableGetWriteSession",
        text="What becomes of a session after its commit: may it be committed again?",
        assumes="A second commit is refused, or changes nothing.",
        ask=_commit_twice,
        expected={"rows_added": 1},
        needs=("into",),
        requests=12,
    ),
    Question(
        id="abort-after-commit",
        sends=f"{WRITES}, TableCreateReadSession, TableAbortWriteSession",
        text="What does an abort after the commit do?",
        assumes="It is refused, and the rows stay.",
        ask=_abort_late,
        expected={"rows_added": 1, "refused": True},
        needs=("into",),
        requests=12,
    ),
    Question(
        id="commit-open-streams",
        sends=f"{WRITES}, TableCreateReadSession, TableGetWriteSession",
        text="Does a commit without ids take streams that were not closed?",
        assumes="It drops them in silence, and they are not listed.",
        ask=lambda asker: _open_stream(asker, None),
        expected={"listed": [STREAM], "refused": False, "rows_added": 1},
        needs=("into",),
        requests=12,
    ),
    Question(
        id="commit-named-open",
        sends=f"{WRITES}, TableCreateReadSession, TableGetWriteSession",
        text="Does a commit take a stream that it names, and that was not closed?",
        assumes="odps_nb closes what it names; whatever the answer, nothing is there twice.",
        ask=lambda asker: _open_stream(asker, {STREAM: 1, "s1": 1}),
        expected={"rows_added": OneOf((0, 1, 3))},
        needs=("into",),
        requests=12,
    ),
    Question(
        id="staging-id",
        sends="TableCreateWriteSession, TableCreateWriteStream, TableWrite",
        text="Does StagingId come in batch mode, and as what?",
        assumes="It is never read as a number, and may be absent.",
        ask=_staging_id,
        expected={"kind": OneOf(("text", "absent"))},
        needs=("into",),
    ),
    Question(
        id="count-wrong",
        sends=f"{WRITES}, TableCreateReadSession",
        text="Is a Count checked that is not the number of rows?",
        assumes="It is not: the rows of the body are taken.",
        ask=_count_wrong,
        expected={"refused": False, "rows_added": 1},
        needs=("into",),
        requests=12,
    ),
    Question(
        id="columns-matching",
        sends="TableCreateWriteSession, TableCreateWriteStream, TableWrite",
        text="Are columns of a body matched by name or by place, and may some be missing?",
        assumes="A column too few or too many is refused; odps_nb sends the stream's own.",
        ask=_matching,
        expected={"too_few": "refused", "too_many": "refused"},
        needs=("into",),
        requests=16,
    ),
    Question(
        id="overwrite-partitions",
        sends=f"{WRITES}, TableCreateReadSession",
        text="What does an overwrite of all partitions leave of one that gets no row?",
        assumes="Its rows: only partitions that are written are replaced.",
        ask=_overwrite,
        expected={"rows_of_x": 1, "rows_of_y": 2},
        needs=("into_parts",),
        requests=16,
    ),
    Question(
        id="exactly-once",
        sends=f"{WRITES}, TableCreateReadSession",
        text="How does a stream with ExactlyOnceMode take offsets that repeat or leave a gap?",
        assumes="Rows of an offset that was taken are not added again; a gap is refused.",
        ask=_exactly_once,
        expected={"first": "taken", "gap": "refused", "next": "taken", "rows_added": 2},
        needs=("into",),
        requests=14,
    ),
    Question(
        id="stream-takeover",
        sends="TableCreateWriteSession, TableCreateWriteStream, TableWrite, TableGetWriteStream",
        text="May another process take over a stream by TableGetWriteStream?",
        assumes="It gets a token of its own and the offset to go on; the old token ends.",
        ask=_takeover,
        expected={"refused": False, "offset": 1, "old_token": "refused", "new_token": "taken"},
        needs=("into",),
        requests=10,
    ),
    Question(
        id="write-microseconds",
        sends=f"{WRITES}, TableCreateReadSession, TableRead",
        text="Are TIMESTAMPs taken in microseconds, and how are they rounded?",
        assumes="They are, in years beyond nanoseconds too.",
        ask=_microseconds,
        expected={"refused": False, "micro": True},
        needs=("typed",),
        requests=12,
    ),
    Question(
        id="blob-table-properties",
        sends="SQL",
        text="Is a table with a BLOB refused that lacks the properties for it?",
        assumes="It is; create_table sends them all.",
        ask=_plain_blob_table,
        expected={"refused": True},
        needs=("into",),
        statements=1,
    ),
)
