"""Questions about SQL: expression semantics, query results, jobs."""

from __future__ import annotations

import uuid
from typing import Any

from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Asker, Response
from odps_nb.probe.question import Observation, Questions
from odps_nb.probe.scratch import BLOBS, PLAIN_ROWS, TYPES
from odps_nb.wire.calls.core import instance_target
from odps_nb.wire.control import SQL_ZONE

QUESTIONS = Questions()
asks = QUESTIONS.asks


def _expressions(
    id: str,
    text: str,
    expected: dict[str, object],
    *,
    zone: str = "",
    embedded: bool = True,
) -> None:
    """Add a question about constant SQL expressions, each evaluated in a separate query."""
    settings = {**TYPES, SQL_ZONE: zone} if zone else TYPES

    def ask(asker: Asker) -> Observation:
        seen: Observation = {}
        for expression in expected:
            try:
                rows = asker.select(f"select {expression} as r;", settings)
            except ServiceError:
                seen[expression] = "error"
            else:
                seen[expression] = rows[0]["r"] if len(rows) == 1 else "no row"
        return seen

    asks(text, expected, id=id, statements=len(expected), embedded=embedded)(ask)


_expressions(
    "sql-text-number",
    "Are text and a number compared as DOUBLE?",
    {"'9007199254740993' = 9007199254740992": True, "'10' = 10.0": True},
)
_expressions(
    "sql-bad-conversion", "How is non-numeric text compared with a number?", {"'abc' = 1": "error"}
)
_expressions(
    "sql-decimal",
    "Is a DECIMAL compared exactly with a number literal?",
    {"cast('0.10' as decimal(10,2)) = 0.1": True, "0.1BD + 0.2BD = 0.3BD": True},
)
_expressions(
    "sql-like",
    "Does a backslash in LIKE escape the wildcard?",
    {r"'a%b' like 'a\\%b'": True, r"'axb' like 'a\\%b'": False},
)
_expressions(
    "sql-length",
    "Does LENGTH count characters?",
    {"length('\u00e4\u4e2dz')": 3, "length('\U0001f600')": 1},
)
_expressions(
    "sql-nan",
    "How is NaN compared?",
    {
        "cast('NaN' as double) = cast('NaN' as double)": True,
        "cast('NaN' as double) > 1e300": True,
    },
)
_expressions(
    "sql-char",
    "Do trailing blanks of a CHAR affect comparisons?",
    {"cast('a ' as char(3)) = cast('a' as char(3))": True, "'a ' = 'a'": False},
    embedded=False,
)
_expressions(
    "sql-char-functions",
    "Do functions see the padding of a CHAR?",
    {
        "length(cast('a' as char(3))) = 1": True,
        "concat(cast('a' as char(3)), 'b') = 'ab'": True,
        "cast(cast('a' as char(3)) as string) = 'a'": True,
    },
    embedded=False,
)
_expressions(
    "sql-cast-length",
    "Does a cast to CHAR(n) or VARCHAR(n) truncate longer text?",
    {"cast('abc' as char(2)) = 'ab'": True, "cast('abc' as varchar(2)) = 'ab'": True},
    embedded=False,
)
_expressions(
    "sql-clock-changes",
    "Which instants do repeated and skipped local times in New York denote?",
    {
        "unix_timestamp(cast('2024-11-03 01:30:00' as datetime))": 1_730_611_800,
        "unix_timestamp(cast('2024-03-10 02:30:00' as datetime))": 1_710_055_800,
    },
    zone="America/New_York",
)
_expressions(
    "sql-union-text",
    "Is a UNION of text and DATETIME refused?",
    {
        "(select max(day(v)) from (select cast('2024-01-02 00:00:00' as datetime) as v"
        " union all select '2024-01-03 00:00:00' as v) q)": ("error", 3)
    },
)
_expressions(
    "sql-text-order",
    "In which order is text sorted?",
    {"'Z' < 'a'": True, "'\u00e4' > 'z'": True, "'\U0001f600' > '\uff5e'": True},
)
_expressions(
    "sql-null",
    "What do comparisons with null yield?",
    {"null = null": None, "1 in (2, null)": None},
)


# -- results and jobs -------------------------------------------------------------------------


@asks("Are two SQL jobs with the same Guid one instance?", {"one_instance": True}, statements=2)
def _job_guid(asker: Asker) -> Observation:
    guid = str(uuid.uuid4())
    first, second = (asker.submit(f"select {number};", guid) for number in (1, 2))
    return {"one_instance": first == second}


def _plain_result(asker: Asker) -> str:
    """Query all rows of a table; return the ``Target`` of the result."""
    instance = asker.run(f"select c1 from {asker.tables['plain']};")
    return instance_target(instance.project, instance.instance_id)


@asks(
    f"Does EnableLimit truncate a result of {PLAIN_ROWS} rows?",
    {"unlimited": PLAIN_ROWS},
    "plain",
    statements=1,
)
def _result_limit(asker: Asker) -> Observation:
    target = _plain_result(asker)
    seen: Observation = {}
    for name, limited in (("limited", True), ("unlimited", False)):
        created = asker.send("InstanceCreateReadSession", target, body={"EnableLimit": limited})
        session = {"SessionId": created.members.get("DownloadID")}

        def again(session: dict[str, Any] = session) -> Response:
            return asker.send("InstanceGetReadSession", target, session).need()

        response = asker.ready(created, again)
        seen[name] = "refused" if response.is_refusal else response.members.get("RecordCount")
    return seen


@asks(
    "How many rows of a result does a read without a session return: by default, with EnableLimit, "
    "and with Count=5?",
    {"counted": (5, "refused")},
    "plain",
    statements=1,
    rows=3 * PLAIN_ROWS,
)
def _result_without_session(asker: Asker) -> Observation:
    target = _plain_result(asker)
    seen: Observation = {}
    for name, limited, params in (
        ("whole", False, {}),
        ("limited", True, {}),
        ("counted", False, {"Count": 5}),
    ):
        body = {"TaskName": "AnonymousSQLTask", "QueryId": 0, "EnableLimit": limited, "Columns": []}
        response = asker.send("InstanceRead", target, params, body, kind="rows")
        seen[name] = "refused" if response.is_refusal else response.table().num_rows
    return seen


@asks("Is stopping a finished job refused?", {"code": ("InvalidStateSetting", None)}, statements=1)
def _cancel_finished(asker: Asker) -> Observation:
    return asker.cancel(asker.run("select 1;"))


@asks(
    "Does a transactional table without a primary key allow UPDATE?",
    {"refused": False, "rows": [{"c2": "b"}]},
    "appended",
    statements=2,
)
def _append_update(asker: Asker) -> Observation:
    table, refused = asker.tables["appended"], False
    try:
        asker.run(f"UPDATE {table} SET c2 = 'b' WHERE c1 = 1;", BLOBS)
    except ServiceError:
        refused = True
    return {"refused": refused, "rows": asker.select(f"SELECT c2 FROM {table};", BLOBS)}
