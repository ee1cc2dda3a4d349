"""Our errors on their way through Spark (floor 5).

Spark hands an exception of a task to the driver as the text of a Python traceback. So an error
is given its whole story as text before it leaves a task (`for_spark`), and becomes a typed error
again where we run the job ourselves (`from_spark`).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from odps_nb import errors
from odps_nb.errors import OdpsNbError, SessionExpiredError, StateError, explain

__all__ = ["for_spark", "from_spark", "task_errors"]

_OURS = re.compile(r"^(?:[\w.]+: )?odps_nb\.errors\.(\w+): (.*)", re.MULTILINE | re.DOTALL)
# What Spark may print after our text: a blank line, or its own Java frames.
_END = re.compile(r"\n\s*\n|\n\s+at [\w.$]+\(")
_TO_DO = "\nto do: "


def for_spark(error: OdpsNbError | StateError) -> OdpsNbError | StateError:
    """Return the same kind of error whose message holds its notes, request id and hint."""
    story = "\n".join(explain(error))
    return type(error)(story.removeprefix(f"{type(error).__name__}: "), hint=error.hint)


def from_spark(failure: BaseException) -> OdpsNbError | StateError | None:
    """Return our error that a Spark exception tells of, or ``None`` if it tells of none."""
    found = _OURS.search(str(failure))
    kind = getattr(errors, found.group(1), None) if found else None
    if found is None or not (
        isinstance(kind, type) and issubclass(kind, (OdpsNbError, StateError))
    ):
        return None
    text = _END.split(found.group(2), maxsplit=1)[0].rstrip()
    story, _, hint = text.partition(_TO_DO)
    message, *notes = story.splitlines()
    error = kind(message, hint=hint or None)
    for note in notes:
        error.add_note(note.removeprefix("where: "))
    return error


@contextlib.contextmanager
def task_errors(what: str, *, expired: str = "") -> Iterator[None]:
    """Let errors leave a task with their whole story, and with what the task was doing.

    Parameters
    ----------
    what
        E.g. ``split 3 of demo.orders``.
    expired
        The hint for a session that is over: a task never opens another one, which would see
        another snapshot than its neighbours.
    """
    try:
        yield
    except (OdpsNbError, StateError) as error:
        error.add_note(what)
        if expired and isinstance(error, SessionExpiredError):
            error.hint = expired
        raise for_spark(error) from None
