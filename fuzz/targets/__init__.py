"""The fuzz targets: one function per parser, whose docstring states the invariant that it checks.

A function takes any bytes and raises an error if the invariant is violated. No function needs
atheris, so the tests run all of them over the stored corpus (``tests/wire/test_fuzz_corpus.py``).
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
