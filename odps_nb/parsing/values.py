"""Values exchanged between the kernel and the parser process; needs only the standard library."""

from __future__ import annotations

from dataclasses import dataclass


class UnshowableError(ValueError):
    """The bytes cannot be displayed as a file of their type; the message is one line for users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one job; the defaults are those for a preview."""

    seconds: int = 10  #: Processor time in seconds.
    memory: int = 2 << 30  #: Maximum memory in bytes, on top of what the loaded parsers use.
    answer: int = 8 << 20  #: Maximum size of the response in bytes.
