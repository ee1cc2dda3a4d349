"""Pickles: the names that the instructions import; `pickletools.genops` executes nothing."""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from typing import Any, Final

from odps_nb.notebook.preview.shared import words
from odps_nb.parsing.values import UnshowableError

_INSTRUCTIONS: Final = 200_000
_NAMES: Final = 100
_LONGEST: Final = 200
_HIDDEN: Final = "(hidden)"
# modules whose functions start programs, open files or sockets, or run code
_SYSTEM: Final = words(
    "asyncio bdb cffi code codeop commands ctypes ftplib http importlib inspect io marshal"
    " multiprocessing nt os pathlib pdb pickle pip platform posix profile pty pydoc requests runpy"
    " shelve shutil signal site smtplib socket socketserver ssl subprocess sys telnetlib tempfile"
    " threading timeit trace types urllib venv webbrowser xmlrpc zipimport _posixsubprocess"
)
_BUILTINS: Final = words(
    "__import__ breakpoint compile delattr eval exec getattr input open setattr"
)


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the imported names, and which of them can access the system."""
    found, count = {}, 0
    more = False
    try:
        for count, (module, name) in _imports(data):
            if name:
                found[f"{module}.{name}"[:_LONGEST]] = _reaches(module, name)
            if count >= _INSTRUCTIONS or len(found) > _NAMES:
                more = True
                break
    except (ValueError, UnicodeError, OverflowError):  # truncated or damaged
        more = True
    if not count:
        raise UnshowableError("it has no pickle instruction")
    names = list(found)[:_NAMES]
    return {"imports": names, "risky": [n for n in names if found[n]], "more": int(more)}, b""


def _imports(data: bytes) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield each instruction's number, and the module and name that it imports (else ``""``)."""
    memo: dict[int, str] = {}
    last: tuple[str | None, ...] = (None, None)  # strings pushed by the last two instructions
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data), 1):
        name, imported = opcode.name, ("", "")
        if name in ("GLOBAL", "INST"):
            module, _, inner = str(argument).partition(" ")
            imported = module, inner
        elif name == "STACK_GLOBAL":
            # unless the last two instructions pushed both names, they are computed, so unknown
            imported = (last[0], last[1]) if last[0] and last[1] else (_HIDDEN, "?")
        if name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            if last[1] is not None:
                memo[len(memo) if argument is None else int(argument)] = last[1]
            elif name == "MEMOIZE":
                memo[len(memo)] = ""
        elif name in ("GET", "BINGET", "LONG_BINGET") and argument is not None:
            last = last[1], memo.get(int(argument)) or None
        elif name not in ("FRAME", "PROTO"):
            last = last[1], argument if isinstance(argument, str) and _is_text(name) else None
        yield count, imported


def _is_text(opcode: str) -> bool:
    return "UNICODE" in opcode or "STRING" in opcode


def _reaches(module: str, name: str) -> bool:
    if module in ("builtins", "__builtin__"):
        return name.split(".")[0] in _BUILTINS
    return module.split(".")[0] in _SYSTEM or module == _HIDDEN
