"""Parses untrusted bytes in the parser process; the kernel receives only plain text.

The responses are not trusted either: this module checks their types, and renderers escape them.
See ``docs/decisions/previews.md``.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from odps_nb.child_process import Child, IdleTimer, passed_on
from odps_nb.errors import (
    ConversionError,
    LimitExceededError,
    MissingDependencyError,
    OdpsNbError,
)
from odps_nb.parsing.values import Limits, UnshowableError

# maximum elapsed seconds per CPU second, because a job may wait for a disk or a busy CPU
_PATIENCE: Final = 3
_START: Final = 30
IDLE_SECONDS: Final = 10.0
"""Idle seconds after which the parser process ends; the process uses about 60 MiB."""
# Import from this package, then the interpreter's folders, then the kernel's, so that a file in the
# user's working folder (such as a saved blob) cannot replace a library.
_BOOT: Final = """
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
home, *more = sys.argv[1:]
sys.path += [folder for folder in more if folder not in sys.path]
spec = PathFinder.find_spec("odps_nb", [home])
package = sys.modules["odps_nb"] = module_from_spec(spec)
spec.loader.exec_module(package)
from odps_nb.parsing.process import main
main()
"""
# use one thread and no memory pools, whose reservations could exceed the limit
_SET: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_REFUSALS: Final = {error.__name__: error for error in (ConversionError, LimitExceededError)}
_T = TypeVar("_T")


class ParserStoppedError(UnshowableError):
    """The parser process crashed, or exceeded its time or memory limit."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"it stopped the parser process ({why}); your kernel is still running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A parser's response: text and numbers by name, and data.

    The response is not trusted: each method checks the type, and renderers escape text.
    """

    found: dict[str, Any]
    data: bytes

    def __repr__(self) -> str:
        return f"Parsed({sorted(self.found)}, <{len(self.data)} B>)"

    def text(self, name: str) -> str:
        """Return one string."""
        return _checked(self.found.get(name), str)

    def number(self, name: str) -> int:
        """Return one integer."""
        return _checked(self.found.get(name), int)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings."""
        return tuple(_checked(text, str) for text in _checked(self.found.get(name), list))

    def rows(self, name: str) -> list[tuple[str, ...]]:
        """Return a list of rows of strings."""
        rows = [_checked(row, list) for row in _checked(self.found.get(name), list)]
        return [tuple(_checked(text, str) for text in row) for row in rows]


def _checked(value: object, wanted: type[_T]) -> _T:
    if not isinstance(value, wanted):
        raise ParserStoppedError("invalid answer")
    return value


class Parser:
    """Client of a parser process, which starts when needed and restarts after a crash.

    Runs one job at a time; thread-safe. A forked kernel starts its own parser process. The process
    ends after ``idle_seconds`` without a job.
    """

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._lock = threading.Lock()
        self._process: Child | None = None
        self._resting = IdleTimer(idle_seconds, self.close)
        self._asking = False
        self._strikes = 0

    def __repr__(self) -> str:
        return f"<Parser {'running' if self._process else 'not started'}>"

    def parse(
        self, parser: str, data: bytes, options: dict[str, Any], limits: Limits | None = None
    ) -> Parsed:
        """Parse ``data`` with the named preview parser; ``"conversion"`` converts blobs instead.

        Raises `UnshowableError` with the reason, `ParserStoppedError` if the parser was stopped,
        `MissingDependencyError`, or the parser's `ConversionError` or `LimitExceededError`.
        """
        limits = limits or Limits()
        with self._lock:
            # after timeouts, jobs get less time, so that a gallery with many slow blobs finishes
            allowed = replace(limits, seconds=max(1, limits.seconds >> self._strikes // 2))
            self._resting.stop()
            job = {"parser": parser, "options": options, "limits": asdict(allowed)}
            result, answer = self._ask(job, data, allowed)
            self._resting.start()
            late = result.get("stopped") == "too much time"
            self._strikes = min(8, self._strikes + 2) if late else max(0, self._strikes - 1)
        if "missing" in result:
            extra = "previews" if result.get("extra") == "previews" else "notebook"
            hint = str(result.get("hint") or f"pip install 'odps-nb[{extra}]'")
            raise MissingDependencyError(str(result["missing"]), extra=extra, hint=hint)
        if "refused" in result:
            raise _refusal(result)
        if "unshowable" in result:
            raise UnshowableError(str(result["unshowable"])[:400])
        if "done" not in result:
            raise ParserStoppedError(str(result.get("stopped"))[:80])
        return Parsed(found=_checked(result["done"], dict), data=answer)

    def close(self) -> None:
        """Stop the process; the next job starts a new one."""
        with self._lock:
            self._resting.stop()
            self._end()

    def forget(self) -> None:
        """Forget the parent's parser process after a fork, without stopping it."""
        process, self._process, self._lock = self._process, None, threading.Lock()
        self._resting.timer = None  # the timer's thread does not exist in this process
        if process is not None:
            process.forget()

    # -- one job ------------------------------------------------------------------------------

    def _ask(
        self, job: dict[str, Any], data: bytes, limits: Limits
    ) -> tuple[dict[str, Any], bytes]:
        if self._asking:  # the response to an interrupted request is still outstanding
            self._end()
        limit = limits.seconds * _PATIENCE + (0 if self._process else _START)
        process = self._running()
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit, end)
        timer.daemon = True
        self._asking = True
        timer.start()
        try:
            process.send(job, data)
            answer = process.receive(limits.answer)
            self._asking = False
        except (OSError, EOFError, ValueError, RecursionError) as error:
            _stop(timer)
            code = self._end()
            why = f"exit status {code}" if isinstance(error, (OSError, EOFError)) else str(error)
            return {"stopped": "too much time" if late.is_set() else why}, b""
        except BaseException:
            _stop(timer)
            self._end()
            raise
        _stop(timer)
        return answer

    def _running(self) -> Child:
        if self._process is None:
            package = str(Path(__file__).resolve().parents[2])
            path = [package, *_library_folders()]
            try:
                self._process = Child(
                    [sys.executable, "-I", "-c", _BOOT, *path], {**passed_on(), **_SET}, quiet=True
                )
            except (OSError, ValueError, TypeError) as error:
                raise UnshowableError(f"the parser process cannot be started: {error}") from None
        return self._process

    def _end(self) -> int:
        process, self._process, self._asking = self._process, None, False
        return 0 if process is None else process.end()


def _library_folders() -> list[str]:
    """Return the folders in `sys.path`, except the working folder and the script's folder."""
    script = getattr(sys.modules.get("__main__"), "__file__", None) or "script"
    works = (Path.cwd(), Path(script).resolve().parent)
    return [folder for folder in sys.path if folder and Path(folder).resolve() not in works]


def _stop(timer: threading.Timer) -> None:
    """Cancel the timer; if it is already running, wait until it ends."""
    timer.cancel()
    timer.join()


def _refusal(result: dict[str, Any]) -> OdpsNbError:
    """Return the error that a parser raised; only two classes are allowed."""
    error_class = _REFUSALS.get(str(result["refused"]))
    facts = _checked(result.get("facts"), dict)
    if error_class is None or facts.keys() - set(error_class.fact_names):
        raise ParserStoppedError("invalid answer")
    return error_class(_checked(result.get("message"), str), **facts)


def at_exit(parser: Parser) -> Parser:
    """Register ``parser`` to be closed at exit and forgotten in a forked process; return it."""
    atexit.register(parser.close)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=parser.forget)
    return parser
