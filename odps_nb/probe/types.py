"""Questions about types and names of columns."""

from __future__ import annotations

import pyarrow as pa

from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import Observation, Questions
from odps_nb.probe.scratch import TYPES, text_row
from odps_nb.probe.steps import (
    ProbeUpload,
    columns_of,
    counted_session,
    open_session,
    raw_arrow,
    read,
    read_raw,
)

QUESTIONS = Questions()
asks = QUESTIONS.asks
NANO = {"TimestampUnit": "nano", "DatetimeUnit": "milli"}
MICRO = {**NANO, "TimestampUnit": "micro"}
NO_TEXT = b"\xe9\x00\xff"


@asks("Which time zone have the Arrow types of DATETIME and TIMESTAMP?", {"ntz": None}, "moments")
def _arrow_zones(asker: Asker) -> Observation:
    schema = read_raw(asker, "moments", ArrowOptions=MICRO).schema
    return {name: schema.field(name).type.tz for name in ("dt", "ts", "ntz")}


@asks(
    "How is a TIMESTAMP before 1970 or after 2038 answered in nanoseconds?",
    {"inside": "read", "code": ("ODPS-0422214", None)},
    "moments",
)
def _timestamp_bounds(asker: Asker) -> Observation:
    session, _ = counted_session(asker, "moments", ArrowOptions=NANO, RequiredDataColumns=["ts"])
    seen: Observation = {}
    for offset, name in enumerate(("inside", "before_1970", "after_2038")):
        found = read(asker, "moments", session, (offset, 1), may_fail=True)
        seen[name] = "read" if found.status < 400 else f"{found.status} {found.code}"
        if found.status >= 400:
            seen["code"] = found.code
    return seen


@asks("Is a CHAR(5) of two letters padded?", {"char": ("ab   ", "ab"), "varchar": "ab"}, "texts")
def _char_padding(asker: Asker) -> Observation:
    row = read_raw(asker, "texts").slice(0, 1).to_pylist()[0]
    return {"char": row["c"], "varchar": row["v"]}


@asks("Does a STRING take and keep bytes that are not UTF-8?", {"refused": (True, False)}, "texts")
def _string_bytes(asker: Asker) -> Observation:
    upload = ProbeUpload(asker, "texts")
    upload.open().need()
    offsets = pa.py_buffer(b"\0\0\0\0" + len(NO_TEXT).to_bytes(4, "little"))
    cell = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(NO_TEXT))
    found = upload.put(text_row(cell))
    upload.put(text_row(pa.array(["t"]))).need()
    upload.finish()
    column = read_raw(asker, "texts")["s"].combine_chunks()
    if not pa.types.is_string(column.type):
        return {"refused": found.is_refusal, "arrow": str(column.type)}
    same = NO_TEXT in column.view(pa.binary()).to_pylist()
    return {"refused": found.is_refusal, "same": same}


@asks("Is a key kept that a MAP has twice?", {"entries": [["a", 1], ["a", 2]]}, "maps")
def _map_keys(asker: Asker) -> Observation:
    cell = read_raw(asker, "maps")["m"].to_pylist()[0]
    return {"entries": [list(entry) for entry in cell]}


def _last_column(asker: Asker, table: str) -> Observation:
    """Return how the last column of an empty table is declared, and its Arrow type."""
    declared = columns_of(open_session(asker, table).need().members)
    headers = {"Accept-Encoding": "identity"}
    found = asker.send("TablePreview", table, body={"Limit": 1}, headers=headers, kind="data")
    arrow = raw_arrow(found.need().data).schema[-1].type
    return {"declared": list(declared.values())[-1], "arrow": str(arrow)}


asks(
    "Which Arrow type has GEOGRAPHY?",
    {"declared": "GEOGRAPHY", "arrow": ("binary", "large_binary")},
    "places",
    id="geography-column",
)(lambda asker: _last_column(asker, "places"))
asks(
    "Which Arrow type has a VECTOR column?",
    {"arrow": ("list<item: float>", "fixed_size_list<item: float>[4]")},
    "vectors",
    id="vector-column",
)(lambda asker: _last_column(asker, "vectors"))


@asks("Which unusual column names are taken?", {}, "named", statements=3)
def _column_names(asker: Asker) -> Observation:
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


@asks(
    "Which type is a bare DECIMAL, and is a filter taken beside a DECIMAL(38,20)?",
    {"filter": ("taken", "refused")},
    "decimals",
)
def _decimal_columns(asker: Asker) -> Observation:
    types = columns_of(open_session(asker, "decimals").need().members)
    filtered = open_session(asker, "decimals", FilterPredicate="c1 = 1")
    return {"bare": types.get("d"), "filter": filtered.word}


@asks(
    "Which columns has a stream of an AUTO PARTITIONED table?",
    {"columns": (["c1", "d"], ["c1", "d", "pt"])},
    "auto",
)
def _auto_partitions(asker: Asker) -> Observation:
    return {"columns": sorted(ProbeUpload(asker, "auto").schema().column_ids)}
