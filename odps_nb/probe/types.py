"""Questions about types and names of columns, each asked of a table made for it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import CannotTell, Observation, OneOf, Question
from odps_nb.probe.scratch import TYPES, text_row
from odps_nb.probe.steps import (
    STREAM,
    WRITES,
    close_stream,
    columns_of,
    commit,
    counted_session,
    new_stream,
    open_session,
    open_write,
    put,
    read,
)
from odps_nb.terms import TableName
from odps_nb.wire.schema_json import decode_nested

READ = "TableCreateReadSession, TableRead"
NANO = {"TimestampUnit": "nano", "DatetimeUnit": "milli"}
MICRO = {**NANO, "TimestampUnit": "micro"}
NO_TEXT = b"\xe9\x00\xff"


def _arrow(data: bytes) -> pa.Table:
    """Decode an uncompressed Arrow stream, keeping the types that the service sent."""
    try:
        return pa.ipc.open_stream(data).read_all()
    except pa.ArrowInvalid:
        raise CannotTell("the answer is not an uncompressed Arrow stream") from None


def _stored(asker: Asker, table: TableName, **body: Any) -> pa.Table:
    """Read all rows of a small table as they arrive: two requests."""
    session, rows = counted_session(asker, table, **body)
    place = {"Offset": 0, "Count": rows}
    return _arrow(read(asker, table, session, place, coding="identity", kind="data").need().data)


def _zones(asker: Asker) -> Observation:
    schema = _stored(asker, asker.tables["moments"], ArrowOptions=MICRO).schema
    return {name: schema.field(name).type.tz for name in ("dt", "ts", "ntz")}


def _bounds(asker: Asker) -> Observation:
    table = asker.tables["moments"]
    session, _ = counted_session(asker, table, ArrowOptions=NANO, RequiredDataColumns=["ts"])
    seen: Observation = {}
    for offset, name in enumerate(("inside", "before_1970", "after_2038")):
        place = {"Offset": offset, "Count": 1}
        answer = read(asker, table, session, place, may_fail=True)
        seen[name] = "read" if answer.status < 400 else f"{answer.status} {answer.code}"
        if answer.status >= 400:
            seen["code"] = answer.code
    return seen


def _padding(asker: Asker) -> Observation:
    row = _stored(asker, asker.tables["texts"]).slice(0, 1).to_pylist()[0]
    return {"char": row["c"], "varchar": row["v"]}


def _bytes(asker: Asker) -> Observation:
    table = asker.tables["texts"]
    session = open_write(asker, table)
    new_stream(asker, table, session).need()
    offsets = pa.py_buffer(b"\0\0\0\0" + len(NO_TEXT).to_bytes(4, "little"))
    cell = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(NO_TEXT))
    answer = put(asker, table, session, text_row(cell))
    put(asker, table, session, text_row(pa.array(["t"]))).need()
    close_stream(asker, table, session).need()
    commit(asker, table, session, {STREAM: 1}).need()
    column = _stored(asker, table)["s"].combine_chunks()
    if not pa.types.is_string(column.type):
        return {"refused": answer.is_refusal, "arrow": str(column.type)}
    same = NO_TEXT in column.view(pa.binary()).to_pylist()
    return {"refused": answer.is_refusal, "same": same}


def _map_keys(asker: Asker) -> Observation:
    cell = _stored(asker, asker.tables["maps"])["m"].to_pylist()[0]
    return {"entries": [list(entry) for entry in cell]}


def _column_type(asker: Asker, kind: str) -> Observation:
    """Return how the last column of an empty table is declared, and its Arrow type."""
    table = asker.tables[kind]
    declared = columns_of(open_session(asker, table).need().members)[-1][1]
    body = {"Limit": 1}
    headers = {"Accept-Encoding": "identity"}
    answer = asker.send("TablePreview", table, body=body, headers=headers, kind="data").need()
    return {"declared": declared, "arrow": str(_arrow(answer.data).schema[-1].type)}


def _names(asker: Asker) -> Observation:
    seen: Observation = {}
    names = {"digits": "`44`", "digit_first": "`5\u5217`", "quoted": "`'\u5217\u4e03'`"}
    for name, spelled in names.items():
        try:
            asker.run(f"ALTER TABLE {asker.tables['named']} ADD COLUMNS ({spelled} bigint);", TYPES)
        except ServiceError:
            seen[name] = "refused"
        else:
            seen[name] = "taken"
    return seen


def _decimals(asker: Asker) -> Observation:
    table = asker.tables["decimals"]
    types = {name: kind for name, kind, _ in columns_of(open_session(asker, table).need().members)}
    filtered = open_session(asker, table, FilterPredicate="c1 = 1")
    return {"bare": types.get("d"), "filter": "refused" if filtered.is_refusal else "taken"}


def _auto(asker: Asker) -> Observation:
    table = asker.tables["auto"]
    session = open_write(asker, table)
    answer = asker.send("TableGetWriteSchema", table, {"SessionId": session}).need()
    written = decode_nested(answer.members.get("TableSchema") or {})
    return {"columns": sorted(written.column_ids)}


QUESTIONS = (
    Question(
        id="arrow-zones",
        sends=READ,
        text="Which time zone has the Arrow type of DATETIME and TIMESTAMP columns?",
        assumes="Any or none; TIMESTAMP_NTZ has none.",
        ask=_zones,
        expected={"ntz": None},
        needs=("moments",),
    ),
    Question(
        id="timestamp-bounds",
        sends=READ,
        text="How is a TIMESTAMP before 1970 or after 2038 answered in nanoseconds?",
        assumes="By ODPS-0422214, after which odps_nb asks for microseconds; or by its value.",
        ask=_bounds,
        expected={"inside": "read", "code": OneOf(("ODPS-0422214", None))},
        needs=("moments",),
    ),
    Question(
        id="char-padding",
        sends=READ,
        text="Does a CHAR(5) of two letters come with blanks at its end?",
        assumes="It may; a VARCHAR does not.",
        ask=_padding,
        expected={"char": OneOf(("ab   ", "ab")), "varchar": "ab"},
        needs=("texts",),
    ),
    Question(
        id="string-bytes",
        sends=f"{WRITES}, {READ}",
        text="Does a STRING take bytes that are not UTF-8, and does it keep them?",
        assumes="It keeps them if it takes them; odps_nb writes such bytes only when asked to.",
        ask=_bytes,
        expected={"refused": OneOf((True, False))},
        needs=("texts",),
        requests=10,
    ),
    Question(
        id="map-keys",
        sends=READ,
        text="Is a key kept that a MAP has twice?",
        assumes="It is: entries come as they were written.",
        ask=_map_keys,
        expected={"entries": [["a", 1], ["a", 2]]},
        needs=("maps",),
    ),
    Question(
        id="geography-column",
        sends="TableCreateReadSession, TablePreview",
        text="Which Arrow type has a GEOGRAPHY column?",
        assumes="Binary; any other type is passed on.",
        ask=lambda asker: _column_type(asker, "places"),
        expected={"declared": "GEOGRAPHY", "arrow": OneOf(("binary", "large_binary"))},
        needs=("places",),
    ),
    Question(
        id="vector-column",
        sends="TableCreateReadSession, TablePreview",
        text="Which Arrow type has a VECTOR column?",
        assumes="A list or a fixed-size list, which becomes one; any other type is passed on.",
        ask=lambda asker: _column_type(asker, "vectors"),
        expected={"arrow": OneOf(("list<item: float>", "fixed_size_list<item: float>[4]"))},
        needs=("vectors",),
    ),
    Question(
        id="column-names",
        sends="SQL",
        text="May a column be named 44, or begin with a digit, or have quotes in its name?",
        assumes="Either: names are passed on.",
        ask=_names,
        expected={},
        needs=("named",),
        statements=3,
    ),
    Question(
        id="decimal-columns",
        sends="TableCreateReadSession",
        text="Which type is a bare DECIMAL, and is a filter taken beside a DECIMAL(38,20)?",
        assumes="Any precision is read; a filter that is refused is ignored by the fallback.",
        ask=_decimals,
        expected={"filter": OneOf(("taken", "refused"))},
        needs=("decimals",),
    ),
    Question(
        id="auto-partitions",
        sends="TableCreateWriteSession, TableGetWriteSchema",
        text="Which columns has a stream of an AUTO PARTITIONED table?",
        assumes="Those of the table, with or without the partition that is computed.",
        ask=_auto,
        expected={"columns": OneOf((["c1", "d"], ["c1", "d", "pt"]))},
        needs=("auto",),
    ),
)
