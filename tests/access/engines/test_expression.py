"""Expressions of pyarrow are decoded exactly, or not at all."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.compute import field

from odps_nb.access.engines.expression import (
    ArrowCall,
    Field,
    build,
    fields_of,
    parts_of,
    read,
)

NOTHING = pa.scalar(None, pa.bool_())
UNDERSTOOD = [
    (field("x") > 3) & (field("s") == "a'b\\\n\0ü"),
    (field("x") <= 3) | ~(field("s") != ""),
    field("x") < field("y"),
    field("b"),
    ~field("b"),
    field("x").isin([1, 2, None]),
    field("x").isin(pa.array([], pa.int64())),
    field("f").isin([1.0, float("nan")]),
    field("f") == float("nan"),
    field("f").is_nan(),
    field("x").is_null() | field("x").is_valid(),
    field("st", "a", "b") >= 1,
    field("m") > Decimal("1.50"),
    field("d") >= datetime.date(2024, 1, 1),
    field("t") < datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    field("x") == pa.scalar(None, pa.int64()),
    pc.if_else(field("x").is_valid(), field("x").isin([1]), NOTHING),
    pc.scalar(True),
]
NOT_UNDERSTOOD = [
    field(0) > 3,
    field("x") + 1 > 3,
    field("x").cast("float64") > 1.5,
    field("x").is_null(nan_is_null=True),
    pc.starts_with(field("s"), "a"),
    (field("x") > 3) & pc.starts_with(field("s"), "a"),
    pc.and_(field("b"), field("b")),  # SQL uses Kleene logic; this function does not
    pc.is_in(field("x"), value_set=pa.array([1]), skip_nulls=True),
]


@pytest.mark.parametrize("expression", UNDERSTOOD, ids=str)
def test_a_parsed_expression_builds_the_same_expression(expression):
    tree = read(expression)
    assert tree is not None
    again = build(tree)
    assert again.equals(expression) or str(again) == str(expression)  # NaN does not equal NaN


@pytest.mark.parametrize("expression", NOT_UNDERSTOOD, ids=str)
def test_an_expression_that_cannot_be_pushed_down_is_not_parsed(expression):
    assert read(expression) is None
    assert fields_of(expression) is None


def test_a_conjunction_is_divided_into_its_operands():
    expression = (field("x") > 1) & ((field("y") > 2) & (field("z") | field("w")))
    parts = list(parts_of(read(expression)))
    assert [one.name for one in parts if isinstance(one, ArrowCall)] == [
        "greater",
        "greater",
        "or_kleene",
    ]
    assert parts[0].arguments[0] == Field(("x",))
    assert fields_of(expression) == {"x", "y", "z", "w"}


def test_a_decoded_expression_that_differs_from_the_original_is_rejected(monkeypatch):
    """The format of pickled expressions is undocumented and may change."""
    from odps_nb.access.engines import expression as module

    other = module._pickled(field("x") > 4)
    monkeypatch.setattr(module, "_pickled", lambda _: other)
    assert build(module._Reader(field("x") > 3).tree()).equals(field("x") > 4)
    monkeypatch.setattr(module, "_pickled", lambda one: pa.py_buffer(b"ARROW1\0\0 something else"))
    assert read(field("x") > 3) is None


def test_a_deeply_nested_expression_is_parsed_or_skipped():
    deep = field("x") > 0
    for number in range(2_000):
        deep = deep | (field("x") == number)
    assert read(deep) is None or fields_of(deep) == {"x"}
    assert read(field("x").isin(list(range(50_000)))) is not None
