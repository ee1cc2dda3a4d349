"""The parser process, which parses untrusted bytes in place of the kernel.

Parsers in native code may crash or hang on malicious bytes; here, that affects only one job.

::

    JSON of a job: {"parser": …, "options": …, "limits": …}, with the bytes as data
    JSON of a response: {"done": …}  {"unshowable": reason}  {"missing": library}
                        {"refused": class, …}  {"stopped": why}

Each job runs in a fork of this process, which has loaded the parsers and nothing else, so no job
can affect another. On systems without fork, the job runs in this process, and the client starts
a new process after a crash. The process ends when stdin is closed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pkgutil
import signal
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from odps_nb.child_process import LENGTHS, die_first, hide_pandas, pack, unpack
from odps_nb.errors import ConversionError, LimitExceededError, MissingDependencyError
from odps_nb.parsing.reasons import is_failure, refusal_of
from odps_nb.parsing.values import Limits, UnshowableError

#: Entry point group for parsers in other packages; each is a module with a function `parse`.
GROUP: Final = "odps_nb.preview_parsers"
_PREVIEWS: Final = "odps_nb.formats.parsers"
_CONVERSION: Final = "odps_nb.convert.blob_parser"
# libraries in the ``notebook`` extra; all others are in ``previews``
_OF_NOTEBOOK: Final = ("PIL", "nh3", "pygments")
_CALLED: Final = {"PIL": "Pillow", "pygments": "Pygments", "python_calamine": "python-calamine"}
_FORKS: Final = hasattr(os, "fork")


def main() -> None:
    """Respond to jobs until stdin ends."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # libraries' printed output must not mix with the responses
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    die_first()
    hide_pandas()
    while True:
        try:
            job, data = unpack(requests)
        except EOFError:
            return
        limits = Limits(**job["limits"])
        if _FORKS:
            answer = _in_fork(job, data, limits, answers.fileno())
        else:
            answer = _bounded(_done(job, data), limits)
        answers.write(answer)
        answers.flush()
        del data, answer


def _in_fork(job: dict[str, Any], data: bytes, limits: Limits, answers: int) -> bytes:
    # import the parser before the fork, so it is loaded only once; the fork reports any failure
    with contextlib.suppress(Exception):
        _parser(job["parser"])
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        # make the data of other jobs unreachable from this fork
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(answers)
        os.close(reading)
        _work(job, data, limits, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read(limits.answer + 1)
    if len(answer) > limits.answer:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return _bounded(answer, limits) if code == 0 else pack({"stopped": _why(code)})


def _work(job: dict[str, Any], data: bytes, limits: Limits, writing: int) -> None:
    """Run the job in the forked process and exit."""
    code = 1
    try:
        _limit(limits)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(_done(job, data))
        code = 0
    finally:
        os._exit(code)


def _done(job: dict[str, Any], data: bytes) -> bytes:
    try:
        content, picture = _parser(job["parser"]).parse(data, job["options"])
        return pack({"done": content}, picture)
    except MissingDependencyError as error:
        return pack({"missing": str(error), "extra": error.extra, "hint": error.hint})
    except (ConversionError, LimitExceededError) as error:
        # The caller of a conversion receives the class, message and attributes. An OversizeError
        # is reported as its base class, because the caller can increase every limit here.
        kind = ConversionError if isinstance(error, ConversionError) else LimitExceededError
        facts = {name: getattr(error, name) for name in kind.fact_names}
        return pack({"refused": kind.__name__, "message": error.message, "facts": facts})
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        extra = "notebook" if name in _OF_NOTEBOOK else "previews"
        return pack({"missing": f"it needs {_CALLED.get(name, name)}", "extra": extra})
    except ImportError as error:
        return pack({"missing": f"a library cannot be loaded: {error}"})
    except UnshowableError as error:
        return pack({"unshowable": str(error)})
    except MemoryError:
        return pack({"stopped": "too much memory"})
    except BaseException as error:  # third-party decoders may raise anything for malicious bytes
        if not is_failure(error):
            raise
        # the preview tile shows the reason
        return pack({"unshowable": refusal_of(error)})


@functools.cache
def _parser(name: str) -> ModuleType:
    if name == "conversion":
        return importlib.import_module(_CONVERSION)
    ours = importlib.import_module(_PREVIEWS)
    if name in {module.name for module in pkgutil.iter_modules(ours.__path__)}:
        return importlib.import_module(f"{_PREVIEWS}.{name}")
    # only installed packages may provide code that runs here
    for entry in entry_points(group=GROUP, name=name):
        module: ModuleType = entry.load()
        return module
    raise ValueError(f"there is no parser {name!r}")


def _bounded(answer: bytes, limits: Limits) -> bytes:
    """Return the response if it has the stated length, otherwise an error response."""
    if len(answer) > limits.answer:
        return pack({"stopped": "answer too long"})
    lengths = LENGTHS.unpack(answer[: LENGTHS.size]) if len(answer) >= LENGTHS.size else (0, 0)
    whole = len(answer) == LENGTHS.size + sum(lengths)
    return answer if whole else pack({"stopped": "invalid answer"})


def _why(code: int) -> str:
    if code == -getattr(signal, "SIGXCPU", 0):
        return "too much time"
    try:
        return signal.Signals(-code).name if code < 0 else f"exit status {code}"
    except ValueError:
        return f"signal {-code}"


# -- bounds -------------------------------------------------------------------------------------


def _limit(limits: Limits) -> None:
    """Limit this process's CPU time, memory and file size; disable core dumps."""
    try:
        import resource
    except ImportError:
        return  # on Windows, the client stops jobs that take too long
    seconds, memory = limits.seconds, limits.memory + _mapped()
    for what, bound in (
        ("RLIMIT_CPU", (seconds, seconds + 1)),  # SIGXCPU, which states the reason, then SIGKILL
        ("RLIMIT_AS", (memory, memory)),
        ("RLIMIT_FSIZE", (0, 0)),
        ("RLIMIT_CORE", (0, 0)),
    ):
        # macOS refuses to set RLIMIT_AS; a lower limit set by the system remains
        with contextlib.suppress(AttributeError, ValueError, OSError):
            resource.setrlimit(getattr(resource, what), bound)


def _mapped() -> int:
    """Return the number of bytes of address space in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return 2 << 30
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
