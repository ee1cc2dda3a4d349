"""What is fuzzed: one function per parser, each beginning with the invariant it holds.

A function takes any bytes and raises when the invariant breaks. None of them needs atheris, so
that the tests run them over the kept corpus (``tests/wire/test_fuzz_corpus.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import answers, decoders, previews, requests, sql

__all__ = ["TARGETS"]

TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    target.__name__: target
    for module in (decoders, answers, requests, sql, previews)
    for target in module.TARGETS
}
