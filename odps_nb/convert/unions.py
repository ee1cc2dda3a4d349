"""Unions that pyarrow cannot read without reading past its own table."""

from __future__ import annotations

import pyarrow as pa

from odps_nb.errors import ConversionError

__all__ = ["check_unions"]


def check_unions(schema: pa.Schema) -> None:
    """Refuse unions whose type codes are not 0, 1, 2, ….

    Raises
    ------
    ConversionError
        One of the types, or a type inside of them, is such a union.
    """
    types = list(schema.types)
    while types:
        kind = types.pop()
        types += [kind.field(at).type for at in range(kind.num_fields)]
        if pa.types.is_dictionary(kind):
            types.append(kind.value_type)
        if pa.types.is_union(kind) and kind.type_codes != list(range(kind.num_fields)):
            raise ConversionError(
                "the table holds a union with type codes of its own, which pyarrow cannot read",
                source_type=str(kind)[:200],
                target_type="table",
                hint="write it again with the type codes 0, 1, 2, …",
            )
