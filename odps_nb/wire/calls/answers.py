"""Parses JSON answers: the checks that all share, session statuses, and the empty answer.

``docs/protocol.md`` sections 3 and 8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odps_nb.errors import FramingError
from odps_nb.terms import SessionStatus
from odps_nb.wire.calls.core import REQUEST_ID, find_header
from odps_nb.wire.calls.errors import decode_error
from odps_nb.wire.json_fields import Fields, dump, in_answer, parse_object


def parse_answer(body: bytes, headers: Mapping[str, str], what: str) -> Fields:
    """Read the JSON object of a successful answer; its request id goes into every error.

    An error object that came with a 2xx status is raised as the error it is: read as an empty
    result it would turn a failed commit into a success.
    """
    request_id = find_header(headers, REQUEST_ID)

    def refuse(message: str) -> FramingError:
        error = in_answer(message)
        error.request_id = request_id
        return error

    fields = parse_object(body, what, refuse)
    if fields.optional_text("Code") is not None:
        raise decode_error(200, headers, body)
    return fields


def parse_status(fields: Fields, key: str) -> SessionStatus:
    """Parse a session status, upper or lower case; a missing one is an error."""
    text = fields.need_text(key)
    try:
        return SessionStatus(text.upper())
    except ValueError:
        raise fields.fail(key, f"{text[:40]!r} is not a known session status") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyAnswer:
    """An answer without a result: the call succeeded, perhaps with a warning."""

    warning: str = ""

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the answer as body and headers."""
        return dump({"WarningMessage": self.warning}), {}

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> EmptyAnswer:
        """Decode an answer; the body may be empty."""
        return cls(warning=parse_answer(body, headers, "answer").text("WarningMessage"))
