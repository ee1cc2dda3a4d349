"""Values that the kernel and the parser process share. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


class UnshowableError(ValueError):
    """The bytes cannot be shown as what they are; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one job; the defaults are those of a preview."""

    seconds: int = 10  #: Of processor time.
    memory: int = 2 << 30  #: Bytes beyond what the process has with its parsers loaded.
    answer: int = 8 << 20  #: Bytes of the answer.
