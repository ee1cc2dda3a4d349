"""What every answer is asked first: yes or no, and how long (floor 3).

Must not know: single calls.
"""

from __future__ import annotations

from odps_nb.errors import LimitExceededError
from odps_nb.http.transport import HttpResponse
from odps_nb.wire.calls import decode_error

__all__ = ["document", "refusal", "successful"]

MAX_DOCUMENT = 1 << 28  # bytes of a JSON or XML answer
MAX_ERROR = 1 << 20


def successful(response: HttpResponse) -> HttpResponse:
    """Return an answer that says yes; raise what one says that does not."""
    if 200 <= response.status < 300:
        return response
    with response:
        raise decode_error(response.status, response.headers, response.read(MAX_ERROR))


def refusal(response: HttpResponse) -> Exception:
    """Read the error out of an answer that came while the body was still being sent."""
    with response:
        return decode_error(response.status, response.headers, response.read(MAX_ERROR))


def document(response: HttpResponse) -> bytes:
    """Return the whole body of an answer that is a JSON or XML document."""
    pieces: list[bytes] = []
    for piece in response.chunks():
        pieces.append(piece)
        if response.wire_bytes > MAX_DOCUMENT:
            raise LimitExceededError(
                "the answer is too long for a document",
                limit=MAX_DOCUMENT,
                actual=response.wire_bytes,
                request_id=response.request_id,
            )
    return b"".join(pieces)
