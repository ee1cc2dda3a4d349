"""The faults of the sweep, as named in its table, and the possible outcomes of a run."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "CHANGED",
    "ENDED",
    "FAULTS",
    "PAIRED",
    "REFUSED",
    "RIGHT",
    "UNKNOWN",
    "WRONG",
    "Fault",
    "pair_name",
]

RIGHT = "right"
REFUSED = "error"  # a typed error, and nothing is changed
UNKNOWN = "in doubt"  # a typed error says that the data may be stored: all of it is, or nothing
ENDED = "interrupted"  # interrupted by Ctrl-C: all of the data is stored, or nothing
WRONG = "wrong"  # success with a wrong result; only pyodps
CHANGED = "there"  # an error although the rows are stored; only pyodps


@dataclass(frozen=True)
class Fault:
    """One way to break an exchange.

    ``mended``: a client can recover and must do so. ``documents``: a document
    that is complete by HTTP but meaningless (JSON, XML) is not requested again, unless it responds
    to a SQL statement, because the service did not send it.
    """

    name: str
    meaning: str
    mended: bool = True
    documents: bool = False
    interrupts: bool = False
    files_only: bool = False
    silence: float | None = None  # the client's read time-out, in seconds

    @property
    def on_the_wire(self) -> bool:
        """Whether the fault affects only an exchange, not the client's machine."""
        return self.name not in _OF_THE_MACHINE and not self.interrupts

    def may_fail(self, *, document: bool) -> bool:
        """Return whether a job may fail after this fault in a document, or else in a stream."""
        return not self.mended or (self.documents and document)


_OF_THE_MACHINE = (
    "refused",
    "no names",
    "no descriptors",
    "clock forward",
    "clock back",
    "disk full",
)

FAULTS = (
    Fault("refused", "the connection is closed, and new ones are refused for a moment"),
    Fault("no names", "the connection is closed, and host names cannot be resolved for a moment"),
    Fault(
        "no descriptors",
        "the connection is closed, and no file can be opened",
        mended=False,
    ),
    Fault("reset inside", "the connection is reset while the request is being sent"),
    Fault("reset before", "the request arrived, but was neither executed nor answered"),
    Fault("reset after", "the service executed the request, but did not respond"),
    Fault("cut", "the response ends too early: in its headers, at each message, inside a message"),
    Fault("stalled", "the response stops, but the connection stays open", silence=0.7),
    Fault("silent inside", "part of the request is received, then silence", silence=0.7),
    Fault("silent before", "the request arrived, but was not executed; then silence", silence=0.7),
    Fault("silent after", "the service executed the request; then silence", silence=0.7),
    Fault("shortened", "like cut, but with a matching HTTP length", documents=True),
    Fault("flipped", "a bit of the response is flipped where it can be detected", documents=True),
    Fault("429", "too many requests"),
    Fault("429 later", "too many requests, with Retry-After"),
    Fault("500", "a service error; nothing was executed"),
    Fault("500 after", "a service error after the request was executed"),
    Fault("502 page", "an HTML page from a gateway"),
    Fault("503", "the service is unavailable for a moment"),
    Fault("507", "the service's disk is full", mended=False),
    Fault("expired", "the session of the request has expired", mended=False),
    Fault("no token", "the response has no route token"),
    Fault("twice", "the request is delivered twice"),
    Fault("clock forward", "the client's clock jumps 26 hours ahead", mended=False),
    Fault("clock back", "the client's clock jumps 26 hours back", mended=False),
    Fault("disk full", "the client's disk accepts no more bytes", mended=False, files_only=True),
    Fault("interrupt before", "Ctrl-C before any response", mended=False, interrupts=True),
    Fault(
        "interrupt after", "Ctrl-C after the request was executed", mended=False, interrupts=True
    ),
)

_MEET = ("reset before", "reset after", "cut", "stalled", "429", "503", "expired")
#: The faults that are combined in pairs: the second one breaks the recovery from the first.
PAIRED = tuple(fault for fault in FAULTS if fault.name in _MEET)


def pair_name(first: Fault, second: Fault) -> str:
    """Return the name of a pair in the records."""
    return f"{first.name}, then {second.name}"
