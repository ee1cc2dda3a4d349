"""Alternative response forms, for cases where the real service's response is uncertain.

Each field of :class:`Forms` stands for one such case. Its default is the most likely form. The
other forms can be selected at startup (``odps-nb serve --form NAME=VALUE``), so that tests can
cover all of them. The client accepts all forms. Evidence numbers refer to ``tests/evidence``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.char import char_columns, padded
from odps_nb.arrow.leaves import columns_of, with_leaf_types, with_leaves
from odps_nb.arrow.tunnel_types import seconds_and_nanos
from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.errors import ConfigError
from odps_nb.schema import TEXT, Column, OdpsType, TypeCode

_TIMESTAMPS = (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """The response forms to use. The type of each field lists its values, the default first."""

    # Time zone of DATETIME and TIMESTAMP in Arrow (evidence 151: a time zone is set, but its name
    # is unknown).
    time_zone: Literal["UTC", "Asia/Shanghai", "none"] = "UTC"
    # Split modes of non-incremental reads of primary-key tables (evidence 164: the Java SDK uses
    # Size in version 1; the vendor's manual specifies RowOffset).
    key_splits: Literal["both", "RowOffset", "Size"] = "both"
    # HTTP status if a nanosecond read has a TIMESTAMP outside 1970-01-01 to 2038-01-19 03:14:07
    # (evidence 152: only the error text is known). "none" sends every value that fits 64 bits.
    nanosecond_status: Literal["400", "500", "none"] = "400"
    # Arrow forms of STRING, CHAR, VARCHAR, JSON and BINARY, and of TIMESTAMP and TIMESTAMP_NTZ
    # (evidence 173: sessions of version 1 could request the other form).
    strings: Literal["plain", "dictionary"] = "plain"
    timestamps: Literal["plain", "struct"] = "plain"
    char: Literal["padded", "stripped"] = "padded"  # whether CHAR(n) is padded (evidence 153)
    # Time zone of SQL, which the project document contains (evidence 188). "none": the document has
    # no time zone, and SQL uses UTC.
    project_zone: Literal["UTC", "Asia/Shanghai", "none"] = "UTC"
    # How requests to a transfer service that the account lacks are refused (`transfer_services`).
    refusal: Literal["not-found", "no-permission", "quota", "no-path", "region"] = "not-found"

    @property
    def sql_zone(self) -> str:
        """The time zone of statements that do not set a time zone."""
        return "UTC" if self.project_zone == "none" else self.project_zone

    def shaped(
        self, batches: Iterator[pa.RecordBatch], columns: Sequence[Column]
    ) -> Iterator[pa.RecordBatch]:
        """Convert batches of stored rows to the form in which they are sent."""
        chars = char_columns([column.name for column in columns], columns)
        if self.char == "stripped" or not chars:
            return batches
        return (padded(batch, chars) for batch in batches)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Forms:
        """Parse options such as ``time_zone=none``; raise ``ConfigError`` for an unknown form."""
        choices = {name: get_args(kind) for name, kind in get_type_hints(cls).items()}
        selected: dict[str, Any] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if value not in choices.get(name, ()):
                raise ConfigError(
                    f"unknown form {text!r}", option="form", hint=f"choose from {cls.describe()}"
                )
            selected[name] = value
        return cls(**selected)

    @classmethod
    def describe(cls) -> str:
        """Return all forms and their values on one line, for ``--help``."""
        kinds = get_type_hints(cls).items()
        return "; ".join(f"{name}={'|'.join(get_args(kind))}" for name, kind in kinds)


def formed(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Sequence[Column], forms: Forms
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return a stream's schema and batches, converted to the selected forms."""

    def leaf(received: pa.DataType, odps: OdpsType | None) -> pa.DataType:
        code = None if odps is None else odps.code
        if forms.timestamps == "struct" and code in _TIMESTAMPS:
            return SECONDS_AND_NANOS
        if forms.time_zone != "none" and code in (TypeCode.DATETIME, TypeCode.TIMESTAMP):
            return pa.timestamp(received.unit, forms.time_zone)
        if forms.strings == "dictionary" and (code in TEXT or code is TypeCode.BINARY):
            return pa.dictionary(pa.int32(), received)
        return received

    kinds = [
        with_leaf_types(kind, None if column is None else column.type, leaf)
        for kind, column in zip(schema.types, columns_of(schema.names, columns), strict=True)
    ]
    if kinds == schema.types:
        return schema, batches
    sent = pa.schema(map(pa.Field.with_type, schema, kinds))
    return sent, (
        pa.record_batch(
            [
                with_leaves(array, kind, _leaf)
                for array, kind in zip(batch.columns, kinds, strict=True)
            ],
            schema=sent,
        )
        for batch in batches
    )


def _leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pt.is_timestamp(kind):
        return array.view(kind)
    if pt.is_dictionary(kind):
        return array.dictionary_encode()
    return seconds_and_nanos(array)
