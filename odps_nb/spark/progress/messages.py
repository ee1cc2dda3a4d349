"""Messages between Spark's tasks, its planner and the driver, as lines of JSON.

A task opens one connection for each part (a split that it reads, a stream that it writes), says
hello once and then how far it is. All counters are totals of this attempt at this part, so that
a lost line costs nothing. The driver sends at most one word, `STOP`. Spark plans and commits a
read or write of ``format("odps")`` in processes beside the driver; these send one event, get one
answer, and the connection ends::

    task     {"type": "hello", "token": …, "activity": 3, "execution": "12", "tags": [], "stage": 5,
              "partition": 0, "attempt": 17, "part": 0}
    task     {"type": "report", "rows": 8192, "wire_bytes": 70112, …, "done": false, …}
    driver   stop

    planner  {"type": "plan", "token": …, "activity": 1, "operation": "read",
              "title": "demo.orders", "session": "…", "parts": 4, "ranges": true, "rows": 231072}
    driver   {"type": "answer", "activity": 7}
    planner  {"type": "write", "token": …, "activity": 7, "phase": "committing", "rows": 12, …}
    driver   {"type": "answer", "activity": 7}

A plan names the activity of a whole session (`odps_nb.spark.register`); the answer is the number of
an activity of its own, to which the tasks report, and 0 if nobody listens.

Bytes in, values out: no sockets, no Spark.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import FramingError

__all__ = [
    "COUNTERS",
    "MAX_LINE",
    "STOP",
    "Answer",
    "Hello",
    "Message",
    "PlanEvent",
    "Report",
    "ReportTo",
    "WriteEvent",
    "decode",
    "encode",
]

#: Bytes of one line, its end included.
MAX_LINE = 4096
STOP = b"stop\n"

# Twice as many characters, twelve bytes each when escaped, leave room for the counters in a line.
_MAX_TEXT = 150
_MAX_TAGS = 16
_MAX_COUNT = 1 << 62


@dataclass(frozen=True, slots=True, repr=False)
class ReportTo:
    """Where the tasks of one DataFrame report; its token proves that they are ours.

    Travels inside the pickled function of a task, like a `TaskProfile`.
    """

    host: str
    port: int
    token: str
    activity: int

    def __repr__(self) -> str:
        return f"ReportTo({self.host}:{self.port}, activity={self.activity})"


class Message:
    """One line."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(Message):
    """Names the attempt and the part that a connection reports.

    ``execution`` is Spark's id of the query, empty where a job is no query; ``tags`` are the
    job's.
    """

    activity: int
    execution: str = ""
    tags: tuple[str, ...] = ()
    stage: int = 0
    partition: int = 0
    attempt: int = 0
    part: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Message):
    """Counters of an attempt, its last event (a retry, say) and its last request id.

    ``done`` once it has proved that its part is whole.
    """

    rows: int = 0
    items: int = 0
    wire_bytes: int = 0
    decoded_bytes: int = 0
    complete_bytes: int = 0
    verified_bytes: int = 0
    retries: int = 0
    resumes: int = 0
    done: bool = False
    event: str = ""
    request: str = ""


Operation = Literal["read", "write"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvent(Message):
    """A read or write was planned; ``parts`` is 0 where their number is not known.

    ``ranges`` says that the parts cut ``rows`` evenly; otherwise they are the server's splits.
    """

    activity: int
    operation: Operation
    title: str
    session: str
    parts: int = 0
    ranges: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteEvent(Message):
    """A write is being committed, or has ended: done, cancelled or failed, and why."""

    activity: int
    phase: Phase
    rows: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Message):
    """The driver's answer to an event: the number of the activity that it concerns, or 0."""

    activity: int


_M = TypeVar("_M", bound=Message)
_NAMES: dict[type[Message], str] = {
    Hello: "hello",
    Report: "report",
    PlanEvent: "plan",
    WriteEvent: "write",
    Answer: "answer",
}
_WRITE_PHASES = (Phase.COMMITTING, Phase.DONE, Phase.CANCELLED, Phase.FAILED)

#: The fields of a report that are counted.
COUNTERS = tuple(field.name for field in dataclasses.fields(Report) if field.type == "int")


def encode(message: Message, token: str | None = None) -> bytes:
    """Write a message as a line, the first one with a token; texts are cut to what fits."""
    told: dict[str, Any] = {"type": _NAMES[type(message)]}
    if token is not None:
        told["token"] = token
    for field in dataclasses.fields(message):  # type: ignore[arg-type]  # all of them are
        value = getattr(message, field.name)
        told[field.name] = _cut(value) if type(value) is str else value
    return json.dumps(told).encode("ascii") + b"\n"


def decode(line: bytes, *kinds: type[_M], token: str | None = None) -> _M:
    """Read a line that is one of these messages.

    Raises
    ------
    FramingError
        It is none of them, or it has another token.
    """
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise FramingError("a message that is not JSON") from None
    if not isinstance(told, dict):
        raise FramingError("a message that is not a JSON object")
    if token is not None and not _is_token(told.get("token"), token):
        raise FramingError("a message without the token")
    kind = next((one for one in kinds if _NAMES[one] == told.get("type")), None)
    if kind is None:
        raise FramingError("a message of an unexpected type")
    found = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # all of them are
        value = _READERS[field.type](told.get(field.name))
        if value is _INVALID:
            raise FramingError(f"a {_NAMES[kind]} message without a valid {field.name}")
        found[field.name] = value
    return kind(**found)


_INVALID = object()


def _is_token(shown: Any, token: str) -> bool:
    return isinstance(shown, str) and hmac.compare_digest(
        shown.encode(errors="replace"), token.encode()
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _count(value: Any) -> Any:
    return value if type(value) is int and 0 <= value < _MAX_COUNT else _INVALID


def _tags(value: Any) -> Any:
    if not isinstance(value, list) or len(value) > _MAX_TAGS:
        return _INVALID
    return tuple(str(tag)[:_MAX_TEXT] for tag in value)


# By the annotation of a field.
_READERS: dict[Any, Any] = {
    "int": _count,
    "int | None": lambda value: None if value is None else _count(value),
    "bool": lambda value: value if isinstance(value, bool) else _INVALID,
    "str": lambda value: value[:_MAX_TEXT] if isinstance(value, str) else _INVALID,
    "tuple[str, ...]": _tags,
    "Operation": lambda value: value if value in ("read", "write") else _INVALID,
    "Phase": lambda value: next((one for one in _WRITE_PHASES if one.value == value), _INVALID),
}
