"""Type text and column lists: the grammar, its limits, and the errors for mistyped text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ArgumentError
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
    TypeCode,
    UnknownType,
    VectorType,
)
from odps_nb.wire.type_text import (
    MAX_DEPTH,
    MAX_TEXT,
    format_columns,
    format_type,
    parse_columns,
    parse_type,
    read_type,
)
from tests.support.wire.schemas import PRIMITIVES, outcome, texts, types, unique_names
from tests.support.wire.schemas import columns_of as columns_named

BIGINT, STRING = PrimitiveType(TypeCode.BIGINT), PrimitiveType(TypeCode.STRING)
BLOB, FLOAT = PrimitiveType(TypeCode.BLOB), PrimitiveType(TypeCode.FLOAT)


@given(types)
def test_a_type_is_unchanged_by_a_round_trip(type_: OdpsType) -> None:
    assert parse_type(format_type(type_)) == type_


@given(types)
def test_type_text_is_not_case_sensitive_outside_of_names(type_: OdpsType) -> None:
    text = format_type(type_)
    if text == text.casefold() and text.isascii() and "`" not in text:
        assert format_type(parse_type(text.upper())).lower() == text


@given(unique_names().flatmap(columns_named))
def test_a_column_list_is_unchanged_by_a_round_trip(columns: tuple[Column, ...]) -> None:
    assert parse_columns(format_columns(columns)) == columns


@given(st.text(max_size=40))
def test_any_text_gives_a_type_or_an_odps_nb_error(text: str) -> None:
    found = outcome(parse_type, text)
    if isinstance(found, ArgumentError):
        assert found.code == "InvalidArgument"
    else:
        assert parse_type(format_type(found)) == found


PARTS = ("array", "map", "struct", "foo", "bigint", "a", "`b`", "9", "'c'", *"<>(),:` ")
TOKENS = ("array", "map", "struct", "decimal", "char", "bigint", "blob", "a", "`b`", "9", "'")


@given(st.lists(st.sampled_from([*TOKENS, *"<>(),:` "]), max_size=12))
def test_any_mix_of_tokens_gives_a_type_or_an_odps_nb_error(parts: list[str]) -> None:
    text = "".join(parts)
    for parse, write in ((parse_type, format_type), (parse_columns, format_columns)):
        found = outcome(parse, text)
        if isinstance(found, ArgumentError):
            assert found.hint
        else:
            assert parse(write(found)) == found


@pytest.mark.parametrize("type_", PRIMITIVES, ids=lambda t: t.code.name)
def test_a_primitive_type_is_formatted_as_its_name(type_: PrimitiveType) -> None:
    assert format_type(type_) == type_.code.name.lower()
    assert parse_type(f"  {type_.code.name} \n") == type_


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("decimal", DecimalType()),
        ("DECIMAL ( 10 , 2 )", DecimalType(10, 2)),
        ("decimal(10)", DecimalType(10, 0)),
        ("char(3)", LengthType(TypeCode.CHAR, 3)),
        ("VarChar(65535)", LengthType(TypeCode.VARCHAR, 65535)),
        ("array<array<blob>>", ArrayType(ArrayType(BLOB))),
        ("GEOGRAPHY", PrimitiveType(TypeCode.GEOGRAPHY)),
        ("Vector(Float, 3)", VectorType(FLOAT, 3)),
        ("VECTOR<FLOAT,3>", VectorType(FLOAT, 3)),
        ("map<string, bigint>", MapType(STRING, BIGINT)),
        (
            "STRUCT<f1:STRING,F2:blob>",
            StructType((StructField("f1", STRING), StructField("F2", BLOB))),
        ),
        (
            "struct<`a b``c`: bigint comment 'x', map: string>",
            StructType((StructField("a b`c", BIGINT), StructField("map", STRING))),
        ),
    ],
)
def test_type_text_is_parsed(text: str, expected: OdpsType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FOO", UnknownType("FOO")),
        ("Foo( 3 , 'x)' )", UnknownType("Foo( 3 , 'x)' )")),
        ("geometry<point,4326>", UnknownType("geometry<point,4326>")),
        ("array<foo>", ArrayType(UnknownType("foo"))),
        ("map<string,geometry(4326)>", MapType(STRING, UnknownType("geometry(4326)"))),
        (
            "struct<a:foo(3),b:bigint>",
            StructType((StructField("a", UnknownType("foo(3)")), StructField("b", BIGINT))),
        ),
        # unknown, not the type named by the first word
        ("timestamp with local time zone", UnknownType("timestamp with local time zone")),
        ("decimal(100,2)", UnknownType("decimal(100,2)")),
        ("vector(bfloat16,4)", UnknownType("vector(bfloat16,4)")),
        ("array<bigint not null>", UnknownType("array<bigint not null>")),
        ("[{?", UnknownType("[{?")),
        ("array<" * 40 + "bigint" + ">" * 40, UnknownType("array<" * 40 + "bigint" + ">" * 40)),
        ("bigint", BIGINT),
    ],
)
def test_the_type_text_of_a_service_is_parsed(text: str, expected: OdpsType) -> None:
    """Evidence 154, 155: a type text that cannot be parsed is kept as data."""
    assert read_type(text) == expected
    assert read_type(format_type(expected)) == expected


@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(PARTS), max_size=12).map("".join)))
def test_any_type_text_of_a_service_is_a_type(text: str) -> None:
    found = read_type(text)
    assert read_type(format_type(found)) == found


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (VectorType(FLOAT, 3), "vector(float,3)"),
        (DecimalType(10, None), "decimal(10,0)"),
        (StructType((StructField("a-b", BIGINT),)), "struct<`a-b`:bigint>"),
        (StructType((StructField("größe", BIGINT),)), "struct<größe:bigint>"),
    ],
)
def test_a_type_is_written_as_its_text(type_: OdpsType, text: str) -> None:
    assert str(type_) == format_type(type_) == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a type"),
        ("bigintt", "'bigintt' is not a type"),
        ("geometry", "'geometry' is not a type"),
        ("unknown", "'unknown' is not a type"),
        ("vector", r"expected '\('"),
        ("vector(float)", "expected ','"),
        ("vector(bigint,3)", "is not a VECTOR element type"),
        ("vector(float,0)", "is not a number of elements"),
        ("vector(float,3>", r"expected '\)'"),
        ("bigint string", "expected the end"),
        ("bigint(3)", "expected the end"),
        ("char", r"expected '\('"),
        ("char(0)", "is not a length of char"),
        ("char(256)", r"\(1 to 255\)"),
        ("varchar(65536)", "is not a length"),
        ("varchar(1e3)", "is not a length"),
        ("varchar(٣)", "is not a length"),
        ("decimal(0)", "is not a precision"),
        ("decimal(77,2)", "is not a precision"),
        ("decimal(10,11)", "is not a scale"),
        ("decimal(9999999999)", "is not a precision"),
        ("array<bigint", "expected '>'"),
        ("array<>", "expected a type"),
        ("map<string>", "expected ','"),
        ("struct<>", "expected a field name"),
        ("struct<a>", "expected ':'"),
        ("struct<1a:bigint>", "'1a' is not a field name"),
        ("struct<a:bigint,A:string>", "field 'A' occurs twice"),
        ("struct<a:bigint,>", "expected a field name"),
        ("struct<a:bigint comment b>", "expected a comment in quotes"),
        ("struct<``:bigint>", "unexpected '`'"),
        ("bigint; drop table t", "unexpected ';' at character 6"),
        ("array<'x'>", "expected a type"),
    ],
)
def test_invalid_text_is_reported_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem) as caught:
        parse_type(text)
    assert caught.value.hint


def test_a_mistyped_name_gets_a_suggestion() -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_type("array<tinyin>")
    assert caught.value.hint == "did you mean tinyint?"


def test_the_depth_of_a_type_is_limited() -> None:
    def nested(depth: int) -> str:
        return "array<" * depth + "blob" + ">" * depth

    assert format_type(parse_type(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    for depth in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ArgumentError, match="nested deeper than"):
            parse_type(nested(depth))


def test_the_length_of_type_text_is_limited() -> None:
    with pytest.raises(ArgumentError, match="longer than") as caught:
        parse_type("x" * (MAX_TEXT + 1))
    assert len(str(caught.value)) < 300


def test_long_invalid_text_is_truncated_in_the_error() -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_type("struct<" + "a:bigint," * 1000)
    assert len(str(caught.value)) < 300


# -- column lists -----------------------------------------------------------------------------


def test_a_column_list_with_all_clauses_is_parsed() -> None:
    found = parse_columns(
        "id BIGINT NOT NULL COMMENT 'the key', amount decimal(18,2) null,\n"
        '`odd name` array<string> comment "say \\"hi\\"\\n"'
    )
    assert found == (
        Column(name="id", type=BIGINT, nullable=False, comment="the key"),
        Column(name="amount", type=DecimalType(18, 2)),
        Column(name="odd name", type=ArrayType(STRING), comment='say "hi"\n'),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a column name"),
        ("id", "expected a type"),
        ("id bigint,", "expected a column name"),
        ("id bigint id2 bigint", "expected the end"),
        ("id bigint not comment 'x'", "expected null"),
        ("id bigint comment x", "expected a comment in quotes"),
        ("id bigint comment 'x", "unexpected"),
        ("id bigint, ID string", "column 'ID' occurs twice"),
        ("1d bigint", "'1d' is not a column name"),
        ("id bigint) ; drop table t", r"expected the end at character 9, found '\)'"),
        ("id bigint default 3", "expected the end"),
    ],
)
def test_an_invalid_column_list_is_reported_with_its_position(text: str, problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        parse_columns(text)


def test_no_name_or_comment_is_parsed_as_sql() -> None:
    evil = Column(name="a` bigint); drop table t; --", type=BIGINT, comment="'); drop table t; --")
    text = format_columns([evil])
    assert text == ("`a`` bigint); drop table t; --` bigint comment '\\'); drop table t; --'")
    assert parse_columns(text) == (evil,)


@given(texts)
def test_a_comment_is_unchanged_by_a_round_trip(comment: str) -> None:
    column = Column(name="a", type=BIGINT, comment=comment)
    assert parse_columns(format_columns([column])) == (column,)
