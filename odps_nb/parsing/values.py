"""Values that the kernel and the parser process share. Imports nothing."""

from __future__ import annotations

from dataclasses import dataclass


class UnshowableError(ValueError):
    """The bytes cannot be shown as what they are; the message is one line for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one job; the defaults are those of a preview.

    Attributes
    ----------
    seconds
        Processor time.
    memory
        Bytes beyond what the process has with its parsers loaded.
    answer
        Bytes of the answer.
    """

    seconds: int = 10
    memory: int = 2 << 30
    answer: int = 8 << 20
