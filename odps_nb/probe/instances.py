"""Questions about results of SQL queries."""

from __future__ import annotations

import uuid

from odps_nb.errors import ServiceError
from odps_nb.probe.asking import Answer, Asker
from odps_nb.probe.question import Observation, OneOf, Question
from odps_nb.probe.scratch import BLOBS, PLAIN_ROWS
from odps_nb.wire.calls.core import instance_target


def _plain_result(asker: Asker) -> str:
    """Run a query of all rows of a table; return the target of its result."""
    instance = asker.run(f"select c1 from {asker.tables['plain']};")
    return instance_target(instance.project, instance.instance_id)


def _read(asker: Asker, target: str, *, limited: bool, **params: object) -> Answer:
    body = {"TaskName": "AnonymousSQLTask", "QueryId": 0, "EnableLimit": limited, "Columns": []}
    return asker.send("InstanceRead", target, params, body, kind="rows")


def _session(asker: Asker, target: str, *, limited: bool) -> Answer:
    made = asker.send("InstanceCreateReadSession", target, body={"EnableLimit": limited})
    session = {"SessionId": made.members.get("DownloadID")}
    return asker.ready(made, lambda: asker.send("InstanceGetReadSession", target, session).need())


def _limit(asker: Asker) -> Observation:
    target = _plain_result(asker)
    seen: Observation = {}
    for name, limited in (("limited", True), ("unlimited", False)):
        answer = _session(asker, target, limited=limited)
        seen[name] = "refused" if answer.is_refusal else answer.members.get("RecordCount")
    return seen


def _direct(asker: Asker) -> Observation:
    target = _plain_result(asker)
    seen: Observation = {}
    for name, limited, params in (
        ("whole", False, {}),
        ("limited", True, {}),
        ("counted", False, {"Count": 5}),
    ):
        answer = _read(asker, target, limited=limited, **params)
        seen[name] = "refused" if answer.is_refusal else answer.table().num_rows
    return seen


def _guid(asker: Asker) -> Observation:
    guid = str(uuid.uuid4())
    first, second = (asker.submit(f"select {number};", guid) for number in (1, 2))
    return {"one_instance": first == second}


def _cancel_finished(asker: Asker) -> Observation:
    return asker.cancel(asker.run("select 1;")).outcome()


def _append_update(asker: Asker) -> Observation:
    table, refused = asker.tables["appended"], False
    try:
        asker.run(f"UPDATE {table} SET c2 = 'b' WHERE c1 = 1;", BLOBS)
    except ServiceError:
        refused = True
    return {"refused": refused, "rows": asker.select(f"SELECT c2 FROM {table};", BLOBS)}


QUESTIONS = (
    Question(
        id="job-guid",
        sends="SQL",
        text="Are two SQL jobs with one Guid one instance?",
        assumes="They are: a job whose response was lost is sent again with its Guid.",
        ask=_guid,
        expected={"one_instance": True},
        statements=2,
    ),
    Question(
        id="result-limit",
        sends="SQL, InstanceCreateReadSession",
        text=f"Does EnableLimit cut a result of {PLAIN_ROWS} rows?",
        assumes="odps_nb never limits: then all rows are counted.",
        ask=_limit,
        expected={"unlimited": PLAIN_ROWS},
        needs=("plain",),
        statements=1,
    ),
    Question(
        id="result-without-session",
        sends="SQL, InstanceRead",
        text="Which rows has a result without a session, with EnableLimit, and with Count 5?",
        assumes="Refused or read: rows are counted as they come, and Count is honoured.",
        ask=_direct,
        expected={"counted": OneOf((5, "refused"))},
        needs=("plain",),
        statements=1,
        rows=3 * PLAIN_ROWS,
    ),
    Question(
        id="cancel-finished",
        sends="SQL, CancelInstance",
        text="How is a stop of a finished instance refused?",
        assumes="With InvalidStateSetting, or not at all.",
        ask=_cancel_finished,
        expected={"code": OneOf(("InvalidStateSetting", None))},
        statements=1,
    ),
    Question(
        id="append-update",
        sends="SQL",
        text="Does a transactional table without a primary key take UPDATE?",
        assumes="It does.",
        ask=_append_update,
        expected={"refused": False, "rows": [{"c2": "b"}]},
        needs=("appended",),
        statements=2,
    ),
)
