"""The first rows of a table as a request (``docs/protocol.md`` section 3.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.calls.core import (
    NO_SCOPE,
    Params,
    Scope,
    WireRequest,
    decode_partition,
    encode_partition,
    request_fields,
    storage_request,
    table_target,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Read the first rows of a table, without a session (``TablePreview``).

    A ``limit`` of 0 is all rows; ``None`` leaves it to the service, whose default is not
    documented. Without ``columns`` all are read, partition columns last; with some, exactly these.
    A partition that does not exist gives no rows, and no error (C++ client: preview tests).
    """

    ACTION: ClassVar[str] = "TablePreview"
    idempotent: ClassVar[bool] = True

    table: TableName
    limit: int | None = None
    partition: PartitionSpec | None = None
    columns: tuple[str, ...] = ()

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; the body repeats the parameters."""
        params: list[tuple[str, str]] = []
        body: dict[str, object] = {}
        if self.limit is not None:
            params.append(("Limit", str(self.limit)))
            body["Limit"] = self.limit
        if self.partition is not None:
            spelled = encode_partition(self.partition, separator=",")
            params.append(("Partition", spelled))
            body["Partition"] = spelled
        if self.columns:
            body["Columns"] = list(self.columns)
        target = table_target(self.table)
        return storage_request(
            self.ACTION, target, params, api_version=api_version, scope=scope, body=body
        )

    @classmethod
    def decode(cls, wire: WireRequest) -> Preview:
        """Decode the request; from the parameters, not from their copies in the body."""
        params, fields = Params(wire), request_fields(wire)
        partition = params.optional("Partition") or fields.optional_text("Partition")
        limit = params.optional_integer("Limit")
        return cls(
            table=params.table,
            limit=fields.optional_integer("Limit") if limit is None else limit,
            partition=None if partition is None else decode_partition(partition),
            columns=fields.texts("Columns"),
        )
