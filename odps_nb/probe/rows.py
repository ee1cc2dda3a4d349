"""Questions about ``TableRead`` and ``TablePreview``."""

from __future__ import annotations

from odps_nb.errors import ProtocolError
from odps_nb.probe.asking import Asker
from odps_nb.probe.question import CannotTell, Observation, OneOf, Question
from odps_nb.probe.scratch import PLAIN_ROWS
from odps_nb.probe.steps import columns_of, counted_session, open_session, read
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import sniff_body


def _compression(asker: Asker) -> Observation:
    table, seen = asker.tables["table"], {}
    session, rows = counted_session(asker, table)
    if rows <= 0:
        raise CannotTell("the table has no rows")
    place = {"Offset": 0, "Count": 1}
    for coding in ("zstd", "x-lz4-frame", "x-lz4-frame,zstd"):
        answer = read(asker, table, session, place, coding=coding, kind="data").need()
        try:
            form = sniff_body(answer.data[:4], None)
            seen[coding] = form.value if isinstance(form, Compression) else form
        except ProtocolError:
            seen[coding] = "unknown"
    known = all(form != "unknown" for form in seen.values())
    return {"known": known, **seen}


def _skip(asker: Asker) -> Observation:
    table = asker.tables["plain"]
    session, _ = counted_session(asker, table)
    place = {"Offset": 100, "Count": 10}
    rows = read(asker, table, session, place, SkipRowNum=3).table()
    return {"rows": rows["c1"].to_pylist()}


def _beyond(asker: Asker) -> Observation:
    table = asker.tables["table"]
    session, rows = counted_session(asker, table)
    if rows <= 0:
        raise CannotTell("the table has no rows")
    answer = read(asker, table, session, {"Offset": rows - 1, "Count": 4_294_967_295})
    return {"rows": answer.table().num_rows}


def _unordered(asker: Asker) -> Observation:
    table = asker.tables["table"]
    found = open_session(asker, table).need().members
    names = [name for name, _, partition in columns_of(found) if not partition]
    if len(names) < 2 or int(found.get("RecordCount", 0)) <= 0:
        raise CannotTell("the table has no rows, or only one column")
    asked = [names[1], names[0]]
    rows = read(
        asker,
        table,
        str(found["SessionId"]),
        {"Offset": 0, "Count": 1},
        DataColumns=asked,
        DataColumnsUnordered=True,
    )
    columns = rows.table().column_names
    order = {tuple(asked): "as asked", tuple(asked[::-1]): "as in the table"}
    return {"same_columns": sorted(columns) == sorted(asked), "order": order.get(tuple(columns))}


def _preview_limits(asker: Asker) -> Observation:
    table, seen = asker.tables["plain"], {}
    for name, limit in (("without", None), ("20000", 20_000)):
        body: dict[str, object] = {"Columns": ["c1"]}
        body |= {} if limit is None else {"Limit": limit}
        answer = asker.send("TablePreview", table, body=body, kind="rows")
        seen[name] = "refused" if answer.is_refusal else str(answer.table().num_rows)
    return dict(seen)


def _preview_partition(asker: Asker) -> Observation:
    table, seen = asker.tables["parts"], {}
    for name, text in (
        ("comma", "p1=x1,p2=y1"),
        ("slash", "p1=x1/p2=y1"),
        ("missing", "p1=nope,p2=nope"),
    ):
        body = {"Limit": 10, "Partition": text, "Columns": ["c1"]}
        answer = asker.send("TablePreview", table, body=body, kind="rows")
        seen[name] = "refused" if answer.is_refusal else str(answer.table().num_rows)
    return dict(seen)


QUESTIONS = (
    Question(
        id="read-compression",
        sends="TableCreateReadSession, TableRead",
        text="Which form has the body of TableRead where a compression is asked for?",
        assumes="It is told by the first four bytes: Arrow IPC, zstd or LZ4.",
        ask=_compression,
        expected={"known": True},
        needs=("table",),
    ),
    Question(
        id="skip-rows",
        sends="TableCreateReadSession, TableRead",
        text="Which rows does SkipRowNum leave out of a range?",
        assumes="The first ones of the range.",
        ask=_skip,
        expected={"rows": list(range(103, 110))},
        needs=("plain",),
    ),
    Question(
        id="count-beyond-end",
        sends="TableCreateReadSession, TableRead",
        text="What does a range answer that goes on beyond the last row?",
        assumes="The rows that there are.",
        ask=_beyond,
        expected={"rows": 1},
        needs=("table",),
    ),
    Question(
        id="unordered-columns",
        sends="TableCreateReadSession, TableRead",
        text="In which order do columns come with DataColumnsUnordered?",
        assumes="In any; they are found by name.",
        ask=_unordered,
        expected={"same_columns": True, "order": OneOf(("as asked", "as in the table"))},
        needs=("table",),
    ),
    Question(
        id="preview-limits",
        sends="TablePreview",
        text=f"How many of {PLAIN_ROWS} rows has a preview without Limit, and with 20,000?",
        assumes="10,000 without; as many as asked for with it.",
        ask=_preview_limits,
        expected={"without": "10000", "20000": "20000"},
        needs=("plain",),
        rows=2 * PLAIN_ROWS,
    ),
    Question(
        id="preview-partition",
        sends="TablePreview",
        text="Which sign separates levels in the Partition of a preview?",
        assumes="The comma does; a partition that is missing has no rows.",
        ask=_preview_partition,
        expected={"comma": "1", "missing": "0"},
        needs=("parts",),
    ),
)
