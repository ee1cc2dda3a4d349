"""Values that the kernel and the parser process share; imports only the standard library."""

from __future__ import annotations

from dataclasses import dataclass


class UnshowableError(ValueError):
    """The bytes cannot be shown as their type; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits for one job; the defaults are those for a preview."""

    seconds: int = 10  #: Processor time in seconds.
    memory: int = 2 << 30  #: Bytes in addition to the memory that the loaded parsers use.
    answer: int = 8 << 20  #: Maximum size of the response in bytes.
