"""SQL instances: submission, status, result, cancellation (``docs/protocol.md`` section 9.3).

Result rows are read with the Storage API (``odps_nb.wire.calls.instance``); the result document
here contains error texts and the output of DDL statements.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar

from odps_nb.errors import (
    ArgumentError,
    FramingError,
    InvalidRequestError,
    ProtocolError,
    QueryError,
)
from odps_nb.wire.calls.core import NO_SCOPE, Pairs, Scope, WireRequest, find_header
from odps_nb.wire.calls.errors import code_of_text, split_advice
from odps_nb.wire.calls.hints import hint_in_sql
from odps_nb.wire.control.core import (
    XML_TYPE,
    SafeCall,
    date_text,
    epoch,
    project_path,
    rest_request,
    xml_body,
)
from odps_nb.wire.json_fields import dump, in_request, parse_object
from odps_nb.wire.xml_text import (
    Element,
    child_text,
    element,
    has_spelling,
    parse_answer,
    parse_xml,
)

SQL_TASK = "AnonymousSQLTask"
MAX_SQL = 4 * 2**20
_INSTANCE_ID = re.compile(r"[\w-]{1,128}", re.ASCII)
_XML_HEADERS = (("Content-Type", XML_TYPE),)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """Outcome of one task: ``status``, such as ``Success`` or ``Failed``, and result ``text``.

    In a text to encode, surrogates represent invalid UTF-8 bytes (Python's ``surrogateescape``).
    ``descriptor``: JSON about the result of a MaxQA job.
    """

    name: str = SQL_TASK
    status: str = ""
    text: str = ""
    format: str = "csv"
    descriptor: str = ""

    @property
    def failed(self) -> bool:
        """Whether the task failed or was cancelled."""
        return self.status.lower() in ("failed", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceResult:
    """Results of an instance's tasks; ``status`` is the instance's status, if known."""

    tasks: tuple[TaskResult, ...] = ()
    status: str = ""

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers."""
        parts = [element("Status", self.status)] if self.status else []
        tasks = (
            element(
                "Task",
                (
                    element("Name", task.name),
                    *((element("Status", task.status),) if task.status else ()),
                    _result(task),
                    *((element("ResultDescriptor", task.descriptor),) if task.descriptor else ()),
                ),
                Type="SQL",
            )
            for task in self.tasks
        )
        return xml_body("Instance", (*parts, element("Tasks", tasks))), dict(_XML_HEADERS)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> InstanceResult:
        """Decode a result document; its results may be in Base64."""
        return cls._of(parse_answer(body, "result document", root="Instance"))

    @classmethod
    def _of(cls, root: Element) -> InstanceResult:
        return cls(
            tasks=tuple(_task_result(task) for task in root.findall("Tasks/Task")),
            status=child_text(root, "Status"),
        )


def _result(task: TaskResult) -> str:
    if has_spelling(task.text):
        return element("Result", task.text, Format=task.format)
    data = base64.b64encode(task.text.encode("utf-8", "surrogateescape")).decode()
    return element("Result", data, Transform="Base64", Format=task.format)


def _task_result(task: Element) -> TaskResult:
    result = task.find("Result")
    text, kind = "", ""
    if result is not None:
        text, kind = result.text or "", result.get("Format", "")
        if result.get("Transform") == "Base64":
            try:
                text = base64.b64decode(text).decode("utf-8", "replace")
            except (binascii.Error, ValueError):
                raise FramingError("a task result declared as Base64 is not valid") from None
    return TaskResult(
        name=child_text(task, "Name"), status=child_text(task, "Status"), text=text, format=kind
    )


def query_error(task: TaskResult) -> QueryError:
    """Create the error for a failed task, with the text, code and hint found in its result."""
    text = task.text.strip() or f"task {task.name} ended as {task.status or 'unknown'}"
    code = code_of_text(text)
    text, advice = split_advice(text)
    hint = advice or hint_in_sql(code, text)
    return QueryError(text[:4000], code=code, hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedInstance:
    """A new instance; ``result`` is set if the server ran it immediately."""

    instance_id: str
    result: InstanceResult | None = None

    def encode(self, *, location: str) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers; ``location`` is the URL without the id."""
        body, headers = (b"", {}) if self.result is None else self.result.encode()
        return body, headers | {"Location": f"{location.rstrip('/')}/{self.instance_id}"}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> SubmittedInstance:
        """Decode the response; the instance id is the last segment of ``Location``."""
        location = find_header(headers, "location") or ""
        instance_id = location.partition("?")[0].rstrip("/").rpartition("/")[2]
        if not _INSTANCE_ID.fullmatch(instance_id):
            raise FramingError(
                "the response to a submitted job has no instance id",
                hint="check the endpoint, and whether a proxy or a login page sent the response",
            )
        root = (
            parse_answer(body, "response to a submitted job", root="Instance")
            if body.strip()
            else None
        )
        result = None if root is None or root.find("Tasks") is None else InstanceResult._of(root)
        return cls(instance_id=instance_id, result=result)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSql:
    """Request to start a SQL job; a repeated ``unique_id`` in a project returns the same instance.

    With ``estimates``, the job returns a `SqlCost` without running the query.
    """

    project: str
    sql: str
    name: str = SQL_TASK
    settings: Mapping[str, str] = field(default_factory=dict)
    unique_id: str = ""
    priority: int = 9
    estimates: bool = False

    @property
    def idempotent(self) -> bool:
        """Whether a retry is safe: the server recognises repeats by ``unique_id``."""
        return bool(self.unique_id)

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; append a semicolon to the query if it has none."""
        if not has_spelling(self.sql):
            raise ArgumentError(
                "the query contains a control character, which XML cannot represent",
                hint="write chr(n), where n is its code point, or bind the text as :name",
            )
        properties = {"settings": dump(dict(self.settings)).decode(), "uuid": self.unique_id}
        config = (
            element("Property", (element("Name", key), element("Value", value)))
            for key, value in properties.items()
            if value
        )
        sql = (
            element("Name", self.name),
            element("Config", config),
            element("Query", _ended(self.sql.strip())),
        )
        job = (
            element("Priority", str(self.priority)),
            *([element("Guid", self.unique_id)] if self.unique_id else ()),
            element("Tasks", (element("SQLCost" if self.estimates else "SQL", sql),)),
            element("DAG", (element("RunMode", "Sequence"),)),
        )
        return rest_request(
            project_path(self.project, "instances"),
            scope=scope,
            method="POST",
            headers=_XML_HEADERS,
            body=xml_body("Instance", (element("Job", job),)),
        )

    @classmethod
    def decode(cls, wire: WireRequest, *, project: str) -> SubmitSql:
        """Decode the request, including the variants that other clients send."""
        try:
            root = parse_xml(wire.body or b"", "job", max_bytes=MAX_SQL)
        except ProtocolError as error:
            raise in_request(error.message) from None
        task, estimate = root.find("Job/Tasks/SQL"), root.find("Job/Tasks/SQLCost")
        task = task if task is not None else estimate
        if task is None:
            raise _not_sql([one.tag for one in root.findall("Job/Tasks/*")])
        config = _config_of(task.findall("Config/Property"))
        fields = parse_object(config.get("settings", "").encode(), "settings", in_request)
        priority = child_text(root, "Job/Priority")
        return cls(
            project=project,
            sql=child_text(task, "Query"),
            name=child_text(task, "Name") or SQL_TASK,
            settings={key: fields.simple(key) or "" for key in fields},
            unique_id=child_text(root, "Job/Guid"),
            priority=int(priority) if priority in map(str, range(10)) else 9,
            estimates=task is estimate,
        )

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> SubmittedInstance:
        return SubmittedInstance.decode(body, headers)


def _not_sql(kinds: list[str]) -> InvalidRequestError:
    """Return the error for a job without a SQL task."""
    if "SQLRT" in kinds:
        # The codes ODPS-182… make the clients of MCQA 1 fall back to SQL jobs (odps-sdk-core,
        # `FallbackPolicy`; pyodps, `dbapi`); they expect this one for a missing public session.
        text = (
            f"{_NO_SESSION}: there are no sessions of MCQA 1, which is closed to new users since"
            " November 2025 (to do: use MaxQA, or run the statement as a SQL job)"
        )
        return InvalidRequestError(text, status=400, code=_NO_SESSION)
    found = f"only {', '.join(kinds)}" if kinds else "no task"
    return in_request(f"the job has no SQL task: it has {found}")


_NO_SESSION = "ODPS-1820002"


def _ended(query: str) -> str:
    last = query.rpartition("\n")[2]
    code, dashes, _ = last.partition("--")
    if query.endswith(";") or (dashes and code.rstrip().endswith(";")):
        return query
    return query + ("\n;" if dashes else ";")  # a semicolon in a comment does not end a query


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """State of a task: ``Waiting``, ``Running``, ``Success``, ``Failed``, ``Cancelled`` …"""

    name: str = SQL_TASK
    status: str = ""
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceStatus:
    """State of an instance: ``Running``, ``Suspended`` or ``Terminated``; times in epoch seconds.

    ``Terminated`` includes failures; the task states show whether the instance succeeded.
    """

    status: str
    tasks: tuple[TaskState, ...] = ()
    owner: str = ""
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the instance has ended."""
        return self.status.lower() == "terminated"

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers."""
        tasks = (
            element(
                "Task",
                (
                    element("Name", task.name),
                    element("StartTime", date_text(task.started_at)),
                    element("EndTime", date_text(task.ended_at)),
                    element("Status", task.status),
                ),
                Type="SQL",
            )
            for task in self.tasks
        )
        parts = [element("Status", self.status)]
        if self.tasks:
            parts.append(element("Tasks", tasks))
        headers = {
            "x-odps-owner": self.owner,
            "x-odps-start-time": date_text(self.started_at),
        }
        sent = {key: value for key, value in headers.items() if value}
        sent["x-odps-end-time"] = date_text(self.ended_at)  # Java needs it, even if it is empty
        return xml_body("Instance", parts), dict(_XML_HEADERS) | sent

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> InstanceStatus:
        """Decode a status document, with or without tasks."""
        root = parse_answer(body, "status document", root="Instance")
        status = child_text(root, "Status")
        if not status:
            raise FramingError("the status document has no Status")
        return cls(
            status=status,
            tasks=tuple(
                TaskState(
                    name=child_text(task, "Name"),
                    status=child_text(task, "Status"),
                    started_at=epoch(child_text(task, "StartTime")),
                    ended_at=epoch(child_text(task, "EndTime")),
                )
                for task in root.findall("Tasks/Task")
            ),
            owner=find_header(headers, "x-odps-owner") or "",
            started_at=epoch(find_header(headers, "x-odps-start-time")),
            ended_at=epoch(find_header(headers, "x-odps-end-time")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfInstance(SafeCall):
    """Base class of requests about one instance."""

    QUERY: ClassVar[Pairs] = ()

    project: str
    instance_id: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        path = project_path(self.project, "instances", self.instance_id)
        return rest_request(path, self.QUERY, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInstance(_OfInstance):
    """Request for an instance's state."""

    decode_answer = staticmethod(InstanceStatus.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTaskStatus(_OfInstance):
    """Request for the states of an instance's tasks."""

    QUERY: ClassVar[Pairs] = (("taskstatus", ""),)

    decode_answer = staticmethod(InstanceStatus.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInstanceResult(_OfInstance):
    """Request for an instance's result text."""

    QUERY: ClassVar[Pairs] = (("result", ""),)

    decode_answer = staticmethod(InstanceResult.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetInstanceSource(_OfInstance):
    """Request for an instance's job, in the stock client's form (``?source``)."""

    QUERY: ClassVar[Pairs] = (("source", ""),)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Return the SQL text and its settings, which are empty if there are none."""
        root = parse_answer(body, "job document", root="Job")
        text = _config_of(root.findall("Tasks/SQL/Config/Property")).get("settings") or "{}"
        settings: dict[str, str] = {}
        with suppress(ProtocolError):  # any client may have sent them
            fields = parse_object(text.encode(), "settings")
            settings = {key: fields.simple(key) or "" for key in fields if key.startswith(_OF_SQL)}
        return child_text(root, "Tasks/SQL/Query"), settings


# Settings that change the result of a query; other tools also send settings about themselves.
_OF_SQL = ("odps.sql.", "odps.namespace.", "odps.default.")


def _config_of(properties: Iterable[Element]) -> dict[str, str]:
    return {child_text(one, "Name"): child_text(one, "Value") for one in properties}


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelInstance(_OfInstance):
    """Request to stop an instance; has no effect if the instance has ended."""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return rest_request(
            project_path(self.project, "instances", self.instance_id),
            scope=scope,
            method="PUT",
            headers=_XML_HEADERS,
            body=xml_body("Instance", (element("Status", "Terminated"),)),
        )

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Ignore the response, which is empty."""
