"""What a task tells the driver while it runs, as lines of JSON.

A task opens one connection for each part (a split that it reads, a stream that it writes), says
hello once and then how far it is. All figures are totals of this attempt at this part, so that a
line which is lost costs nothing. The driver says one thing at most, `STOP`::

    task    {"token": …, "source": 3, "execution": "12", "tags": [], "stage": 5, "partition": 0,
             "attempt": 17, "part": 0}
    task    {"rows": 8192, "wire_bytes": 70112, …, "done": false, "event": "", "request": ""}
    driver  stop

Bytes in, values out: no sockets, no Spark.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
from dataclasses import dataclass
from typing import Any

from odps_nb.errors import FramingError, LimitExceededError

__all__ = [
    "MAX_LINE",
    "MAX_TEXT",
    "STOP",
    "Figures",
    "Hello",
    "LineBuffer",
    "Report",
    "ReportTo",
    "count_of",
    "decode_hello",
    "decode_report",
    "encode_hello",
    "encode_line",
    "encode_report",
    "is_hello",
    "object_of",
    "shortened",
    "text_of",
]

#: Bytes of one line, its end included.
MAX_LINE = 4096
STOP = b"stop\n"

# Twice as many characters, twelve bytes each when escaped, leave room for the figures in a line.
MAX_TEXT = 150
MAX_TAGS = 16
MAX_COUNT = 1 << 62


@dataclass(frozen=True, slots=True, repr=False)
class ReportTo:
    """Where the tasks of one DataFrame report; its token proves that they are ours.

    Travels inside the pickled function of a task, like a `TaskProfile`.
    """

    host: str
    port: int
    token: str
    source: int

    def __repr__(self) -> str:
        return f"ReportTo({self.host}:{self.port}, source={self.source})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Which attempt at which part speaks.

    ``execution`` is Spark's id of the query, empty where a job is no query; ``tags`` are the
    job's.
    """

    source: int
    execution: str
    tags: tuple[str, ...]
    stage: int
    partition: int
    attempt: int
    part: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How far an attempt is; ``done`` once it has proved that its part is whole."""

    rows: int = 0
    items: int = 0
    wire_bytes: int = 0
    decoded_bytes: int = 0
    complete_bytes: int = 0
    verified_bytes: int = 0
    retries: int = 0
    resumes: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Figures with the last event (a retry, say) and the last request id."""

    figures: Figures
    event: str = ""
    request: str = ""


class LineBuffer:
    """Bytes as they come -> whole lines; never holds more than `MAX_LINE` bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are whole now, without their ends.

        Raises
        ------
        LimitExceededError
            A line is too long.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if max(map(len, (*lines, self._rest))) >= MAX_LINE:
            raise LimitExceededError("a line of a report is too long", limit=MAX_LINE)
        return lines


def encode_hello(to: ReportTo, hello: Hello) -> bytes:
    """Write the first line, which carries the token."""
    return encode_line({"token": to.token, **dataclasses.asdict(hello)})


def decode_hello(line: bytes, token: str) -> Hello:
    """Read the first line.

    Raises
    ------
    FramingError
        It is none, or its token is another one.
    """
    told = _shown(line, token)
    tags = told.get("tags")
    if not isinstance(tags, list) or len(tags) > MAX_TAGS:
        raise FramingError("a report without tags")
    return Hello(
        execution=text_of(told, "execution"),
        tags=tuple(str(tag)[:MAX_TEXT] for tag in tags),
        **{name: count_of(told, name) for name in _WHO},
    )


def is_hello(line: bytes, token: str) -> bool:
    """Whether a first line is that of a task; else a planner speaks (`planner_messages`).

    Raises
    ------
    FramingError
        It is no such line, or its token is another one.
    """
    return "say" not in _shown(line, token)


def _shown(line: bytes, token: str) -> dict[str, Any]:
    told = object_of(line)
    shown = told.get("token")
    if not isinstance(shown, str) or not hmac.compare_digest(
        shown.encode(errors="replace"), token.encode()
    ):
        raise FramingError("a report without the token")
    return told


def encode_report(report: Report) -> bytes:
    """Write one line of figures; texts are cut to what fits."""
    texts = {"event": shortened(report.event), "request": shortened(report.request)}
    return encode_line({**dataclasses.asdict(report.figures), **texts})


def decode_report(line: bytes) -> Report:
    """Read one line of figures.

    Raises
    ------
    FramingError
        It is none.
    """
    told = object_of(line)
    done = told.get("done")
    if not isinstance(done, bool):
        raise FramingError("a report without figures")
    return Report(
        figures=Figures(done=done, **{name: count_of(told, name) for name in _COUNTS}),
        event=text_of(told, "event"),
        request=text_of(told, "request"),
    )


_WHO = ("source", "stage", "partition", "attempt", "part")
_COUNTS = tuple(field.name for field in dataclasses.fields(Figures) if field.name != "done")


def shortened(text: str) -> str:
    """Return a text as far as it fits into a line."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def encode_line(told: dict[str, Any]) -> bytes:
    """Write one line."""
    return json.dumps(told).encode("ascii") + b"\n"


def object_of(line: bytes) -> dict[str, Any]:
    """Read one line.

    Raises
    ------
    FramingError
        It is no object of JSON.
    """
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        raise FramingError("a report that is no JSON") from None
    if not isinstance(told, dict):
        raise FramingError("a report that is no object")
    return told


def count_of(told: dict[str, Any], name: str) -> int:
    """Take a count out of a line.

    Raises
    ------
    FramingError
        It is not there, or no count.
    """
    value = told.get(name)
    if type(value) is not int or not 0 <= value < MAX_COUNT:
        raise FramingError(f"a report without {name}")
    return value


def text_of(told: dict[str, Any], name: str) -> str:
    """Take a text out of a line, cut to what fits.

    Raises
    ------
    FramingError
        It is not there.
    """
    value = told.get(name)
    if not isinstance(value, str):
        raise FramingError(f"a report without {name}")
    return value[:MAX_TEXT]
