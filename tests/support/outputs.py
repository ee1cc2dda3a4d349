"""Collects all text that a user or a log could show, to check that it contains no secret."""

from __future__ import annotations

import logging
import pickle
import traceback
from collections.abc import Iterator

from odps_nb.errors import OdpsNbError, explain

SECRETS = {
    "access_key": "SeCrEt-of-the-access-key",
    "sts_token": "SeCrEt-of-the-sts-token",
    "bearer_token": "SeCrEt-of-the-bearer-token",
    "app_key": "SeCrEt-of-the-application",
    "proxy": "SeCrEt-of-the-proxy",
}


def frames_of(error: BaseException) -> Iterator[str]:
    """Display every local variable of every frame of the error and its causes, suppressed or not.

    Frames of the tests and of pytest are omitted: they stand for the user's code with its secrets.
    """
    waiting, seen = [error], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        yield from (str(one), repr(one.args), *getattr(one, "__notes__", ()))
        for frame, line in traceback.walk_tb(one.__traceback__):
            place = frame.f_code.co_filename
            if "/tests/" not in place and "pytest" not in place:
                for name, value in frame.f_locals.items():
                    yield f"{place}:{line} {name} = {value!r}"


class Outputs:
    """Collects all text that anyone could read, to be searched at the end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.errors = 0

    def thing(self, one: object) -> None:
        """Record the repr of an object, and its pickle if it can be pickled."""
        self.pieces += [repr(one).encode(), str(one).encode()]
        if (bundle := getattr(one, "_repr_mimebundle_", None)) is not None:
            self.attempt(lambda: self.pieces.append(str(bundle()).encode()))
        try:
            self.pieces.append(pickle.dumps(one))
        except OdpsNbError as error:
            self.pieces.append(repr(error).encode())
        except (TypeError, AttributeError, pickle.PicklingError):
            pass  # Python cannot pickle objects that contain a lock or a function

    def attempt(self, work) -> None:
        """Run a function; record its error, if any, and the error's causes."""
        try:
            self.thing(work())
        except OdpsNbError as error:
            self.errors += 1
            self.thing(error)
            self.pieces += [line.encode() for line in explain(error)]
            self.pieces += [line.encode() for line in traceback.format_exception(error)]
            self.pieces += [line.encode() for line in frames_of(error)]

    def check(self, *secrets: str) -> None:
        whole = b"\n".join(self.pieces)
        for secret in (*SECRETS.values(), "ODPS me:", "account_provider:aliyun", *secrets):
            place = whole.find(secret.encode())
            assert place < 0, whole[max(0, place - 200) : place + 60]


class Lines(logging.Handler):
    """Keeps every log line, with its traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {self.format(record)}")
