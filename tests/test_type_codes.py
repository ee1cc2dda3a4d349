"""Each type code is handled in each place that lists type codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odps_nb.arrow.types import arrow_type
from odps_nb.client.read import stream_schema
from odps_nb.convert.fitting import leaf
from odps_nb.errors import ConversionError, InvalidRequestError
from odps_nb.filters.tree import ValueKind
from odps_nb.local.sql.duck_types import duck_type
from odps_nb.local.store import arrow_types as stored_types
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TypeCode,
    UnknownType,
    VectorType,
)
from odps_nb.spark.tasks.types import spark_type
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.type_text import format_type, read_type

BIGINT, FLOAT = PrimitiveType(TypeCode.BIGINT), PrimitiveType(TypeCode.FLOAT)
COMPOSED: dict[TypeCode, OdpsType] = {
    TypeCode.DECIMAL: DecimalType(10, 2),
    TypeCode.CHAR: LengthType(TypeCode.CHAR, 3),
    TypeCode.VARCHAR: LengthType(TypeCode.VARCHAR, 3),
    TypeCode.ARRAY: ArrayType(BIGINT),
    TypeCode.MAP: MapType(BIGINT, BIGINT),
    TypeCode.STRUCT: StructType((StructField("a", BIGINT),)),
    TypeCode.VECTOR: VectorType(FLOAT, 3),
    TypeCode.UNKNOWN: UnknownType("foo(3)"),
}
NESTED = {TypeCode.ARRAY, TypeCode.MAP, TypeCode.STRUCT}
UNREAD = {TypeCode.VARIANT, TypeCode.UNKNOWN}


def one_of(code: TypeCode) -> OdpsType:
    return COMPOSED.get(code, PrimitiveType(code))


def test_each_type_code_has_a_row_of_facts() -> None:
    assert set(TYPE_FACTS) == set(TypeCode)


@pytest.mark.parametrize("code", TypeCode)
def test_the_facts_of_a_type_code_name_existing_types(code: TypeCode) -> None:
    facts = TYPE_FACTS[code]
    assert facts.kind in ValueKind.__members__
    assert not facts.spark or spark_type(one_of(code)).__class__.__name__ == facts.spark
    if facts.width:
        assert facts.width == stored_types.arrow_type(one_of(code)).bit_width + 7 >> 3


@pytest.mark.parametrize("code", TypeCode)
def test_each_type_code_has_a_type_text(code: TypeCode) -> None:
    assert read_type(format_type(one_of(code))) == one_of(code)


@pytest.mark.parametrize("code", TypeCode)
def test_each_type_has_an_arrow_type_for_reads_and_writes(code: TypeCode) -> None:
    for for_write in (False, True):
        assert arrow_type(one_of(code), for_write=for_write) is not None


def test_each_type_has_a_list_of_arrow_forms() -> None:
    assert set(stream_schema._FORMS) == set(TypeCode) - NESTED - {TypeCode.DECIMAL}


def test_each_type_has_a_rule_for_the_values_that_fit() -> None:
    assert set(leaf._FITS) == set(TypeCode) - NESTED - UNREAD - {TypeCode.VECTOR}


@pytest.mark.parametrize("code", TypeCode)
@pytest.mark.parametrize(
    ("place", "refusal"),
    [
        (spark_type, ConversionError),
        (stored_types.arrow_type, InvalidRequestError),
        (duck_type, InvalidRequestError),
    ],
)
def test_spark_and_the_embedded_service_accept_or_refuse_each_type(
    place: Callable[[OdpsType], Any], refusal: type[Exception], code: TypeCode
) -> None:
    if code in UNREAD:
        with pytest.raises(refusal):
            place(one_of(code))
    else:
        assert place(one_of(code))
