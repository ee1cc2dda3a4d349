"""`OverVersion1`: a Storage API request in the form of version 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odps_nb.wire.calls import Scope, WireRequest
from odps_nb.wire.calls.v1 import V1Request, decode_answer, encode_v1


@dataclass(frozen=True, slots=True)
class OverVersion1:
    """A request in the form of version 1; the response is decoded in the same form."""

    request: V1Request

    @property
    def idempotent(self) -> bool:
        """Whether the request is safe to send twice."""
        return self.request.idempotent

    def encode(self, api_version: int = 1, *, scope: Scope = Scope()) -> WireRequest:  # noqa: B008
        return encode_v1(self.request, scope=scope)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> Any:
        return decode_answer(self.request, body, headers)
