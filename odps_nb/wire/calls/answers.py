"""JSON responses: shared checks, session statuses, and the empty response.

``docs/protocol.md`` sections 3 and 8.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from odps_nb.errors import FramingError
from odps_nb.schema import TableSchema
from odps_nb.terms import SessionStatus
from odps_nb.wire.calls.core import REQUEST_ID, Params, WireRequest, find_header
from odps_nb.wire.calls.errors import decode_error
from odps_nb.wire.calls.spelling import Draft, FieldPlace, Received, fill, member, read_fields
from odps_nb.wire.json_fields import Fields, dump, in_answer, parse_object
from odps_nb.wire.schema_json import decode_flat, encode_flat

NO_PARAMS = Params(WireRequest(method="", path=""))


def parse_answer(body: bytes, headers: Mapping[str, str], what: str) -> Fields:
    """Parse the JSON object of a successful response; add the response's request id to errors.

    An error object in a 2xx response is raised as an error, because reading it as an empty result
    would turn a failed commit into a success.
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
    """Parse a session status, ignoring case; raise if it is missing."""
    text = fields.need_text(key)
    try:
        return SessionStatus(text.upper())
    except ValueError:
        raise fields.fail(key, f"{text[:40]!r} is not a known session status") from None


class StorageAnswer:
    """Base class of Storage API responses; ``WHAT`` names the response in errors."""

    __slots__ = ()
    WHAT: ClassVar[str]

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers."""
        draft = fill(Draft(), self)
        return dump(draft.body), dict(draft.headers)

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> Self:
        """Decode a response."""
        fields = parse_answer(body, headers, cls.WHAT)
        found: Self = read_fields(cls, Received(NO_PARAMS, headers, lambda: fields))
        return found


def optional_record_count() -> FieldPlace:
    """Return the `FieldPlace` of a row count; -1 on the wire means unknown."""

    def read(fields: Fields, key: str) -> int | None:
        count = fields.integer(key, -1)
        return None if count < 0 else count

    return member("RecordCount", read, lambda count: -1 if count is None else count)


Status = Annotated[
    SessionStatus, member("SessionStatus", parse_status, lambda status: status.value)
]
Warned = Annotated[str, member("WarningMessage", Fields.text)]
FlatSchema = Annotated[
    TableSchema,
    member("DataSchema", lambda one, key: decode_flat(one.mapping(key) or {}), encode_flat),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyAnswer(StorageAnswer):
    """A response without a result: the call succeeded, possibly with a warning."""

    WHAT: ClassVar[str] = "response"

    warning: Warned = ""
