"""Hypothesis strategies for types, columns and schemas, and a capture of any outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from odps_nb.errors import OdpsNbError
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TableSchema,
    TypeCode,
    explicit_decimals,
)

COMPOSITE = {"DECIMAL", "CHAR", "VARCHAR", "ARRAY", "MAP", "STRUCT"}
# The nested form has no numbers for types below 0.
PRIMITIVES = [PrimitiveType(code) for code in TypeCode if code >= 0 and code.name not in COMPOSITE]

# Any name that UTF-8 can encode; the quoted form accepts all of them.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    texts.filter(bool),
)


plain_names = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


def unique_names(
    max_size: int = 4, *, min_size: int = 1, of: st.SearchStrategy[str] = names
) -> st.SearchStrategy[list[str]]:
    return st.lists(of, min_size=min_size, max_size=max_size, unique_by=str.casefold)


def decimals() -> st.SearchStrategy[OdpsType]:
    sized = st.integers(1, 76).flatmap(
        lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p))
    )
    return st.one_of(st.just(DecimalType()), sized)


scalars: st.SearchStrategy[OdpsType] = st.one_of(
    st.sampled_from(PRIMITIVES),
    decimals(),
    st.builds(LengthType, st.just(TypeCode.CHAR), st.integers(1, 255)),
    st.builds(LengthType, st.just(TypeCode.VARCHAR), st.integers(1, 65535)),
)


def types_with(of: st.SearchStrategy[str]) -> st.SearchStrategy[OdpsType]:
    """Types of any depth whose fields have names from the strategy ``of``."""

    def nest(inner: st.SearchStrategy[OdpsType]) -> st.SearchStrategy[OdpsType]:
        structs = unique_names(of=of).flatmap(
            lambda found: st.tuples(*(inner for _ in found)).map(
                lambda kinds: StructType(
                    tuple(StructField(n, t) for n, t in zip(found, kinds, strict=True))
                )
            )
        )
        return st.one_of(st.builds(ArrayType, inner), st.builds(MapType, inner, inner), structs)

    return st.recursive(scalars, nest, max_leaves=6)


types = types_with(names)
plain_types = types_with(plain_names)


def columns_of(
    found: list[str], kinds: st.SearchStrategy[OdpsType] = types
) -> st.SearchStrategy[tuple[Column, ...]]:
    return st.tuples(
        *(
            st.builds(Column, name=st.just(name), type=kinds, comment=texts, nullable=st.booleans())
            for name in found
        )
    )


@st.composite
def schemas(draw: st.DrawFn, *, plain: bool = False) -> TableSchema:
    """Schemas whose columns have no ids yet; ``plain``: names that need no quotes."""
    found = draw(unique_names(4, min_size=0, of=plain_names if plain else names))
    kinds = plain_types if plain else types
    cut = draw(st.integers(0, len(found)))
    return TableSchema(
        columns=draw(columns_of(found[:cut], kinds)),
        partition_columns=draw(columns_of(found[cut:], kinds)),
    )


def described(schema: TableSchema) -> TableSchema:
    """Return a schema as `encode_nested` describes it: a bare DECIMAL is DECIMAL(38,18)."""

    def explicit(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(replace(one, type=explicit_decimals(one.type)) for one in columns)

    return TableSchema(
        columns=explicit(schema.columns), partition_columns=explicit(schema.partition_columns)
    )


json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the value of a call, or its odps_nb error; other errors are raised."""
    try:
        return call(*args, **kwargs)
    except OdpsNbError as error:
        return error
