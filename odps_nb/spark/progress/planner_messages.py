"""What the planner of ``format("odps")`` tells the driver, as lines of JSON.

Spark opens and commits a read or write of a data source in Python processes of its own beside
the driver. They know what the tasks will do, and how a commit went; the driver knows whom to
show it. One line, one answer, and the connection ends::

    planner  {"token": …, "source": 1, "say": "plan", "operation": "read", "title": "demo.orders",
              "session": "…", "parts": 4, "ranges": true, "rows": 231072}
    driver   {"source": 7}
    planner  {"token": …, "source": 7, "say": "state", "phase": "committing", "rows": 12, …}
    driver   {"source": 7}

The source that a plan is said to is that of a whole session (`odps_nb.spark.register`); the
answer is a source of its own, to which the tasks report. Source 0: nobody wants to know.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import FramingError
from odps_nb.spark.progress.messages import (
    ReportTo,
    count_of,
    encode_line,
    object_of,
    shortened,
    text_of,
)

__all__ = ["Plan", "State", "decode_answer", "decode_said", "encode_answer", "encode_said"]

_OPERATIONS = ("read", "write")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What tasks will do; ``parts`` is 0 where their number is not known.

    ``ranges`` says that the parts cut ``rows`` evenly; otherwise they are the server's splits.
    """

    source: int
    operation: str
    title: str
    session: str
    parts: int = 0
    ranges: bool = False
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a write stands after its tasks: committing, done, cancelled or failed, and why."""

    source: int
    phase: Phase
    rows: int = 0
    message: str = ""


_STATES = (Phase.COMMITTING, Phase.DONE, Phase.CANCELLED, Phase.FAILED)


def encode_said(to: ReportTo, said: Plan | State) -> bytes:
    """Write the line, which carries the token; texts are cut to what fits."""
    told = dataclasses.asdict(said)
    for name, value in told.items():
        if isinstance(value, str):
            told[name] = shortened(value)
    if isinstance(said, State):
        return encode_line({"token": to.token, "say": "state", **told, "phase": said.phase.value})
    return encode_line({"token": to.token, "say": "plan", **told})


def decode_said(line: bytes) -> Plan | State:
    """Read the line; whoever calls has looked at its token.

    Raises
    ------
    FramingError
        It is none.
    """
    told = object_of(line)
    source = count_of(told, "source")
    if told.get("say") == "state":
        phase = next((one for one in _STATES if one.value == told.get("phase")), None)
        if phase is None:
            raise FramingError("a state without phase")
        rows, message = count_of(told, "rows"), text_of(told, "message")
        return State(source=source, phase=phase, rows=rows, message=message)
    operation = text_of(told, "operation")
    if told.get("say") != "plan" or operation not in _OPERATIONS:
        raise FramingError("neither a plan nor a state")
    return Plan(
        source=source,
        operation=operation,
        title=text_of(told, "title"),
        session=text_of(told, "session"),
        parts=count_of(told, "parts"),
        ranges=told.get("ranges") is True,
        rows=None if told.get("rows") is None else count_of(told, "rows"),
    )


def encode_answer(source: int) -> bytes:
    """Write the answer."""
    return encode_line({"source": source})


def decode_answer(line: bytes) -> int:
    """Read the answer.

    Raises
    ------
    FramingError
        It is none.
    """
    return count_of(object_of(line), "source")
