from __future__ import annotations

import datetime
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.access.binding.literals import MAX_VALUES, literal
from odps_nb.access.binding.text import bind
from odps_nb.errors import ArgumentError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (7, "7"),
        (-7, "(-7)"),
        (0.5, "0.5"),
        (-1e-9, "(-1e-09)"),
        (Decimal("12.30"), "CAST('12.30' AS DECIMAL(4,2))"),
        (Decimal("0.001"), "CAST('0.001' AS DECIMAL(4,3))"),
        (Decimal("1E+3"), "CAST('1000' AS DECIMAL(4,0))"),
        ("paid", "'paid'"),
        ("", "''"),
        ("it's", "CONCAT('it', CHR(39), 's')"),
        ("\\", "CHR(92)"),
        ("\uffff", "CAST(UNHEX('EFBFBF') AS STRING)"),  # CHR ends at 127; Spark's is modulo 256
        ("${day} $1", "CONCAT(CHR(36), '{day} $1')"),  # Spark replaces variables in text
        ("ünï ☃", "'ünï ☃'"),
        (datetime.date(2024, 1, 2), "CAST('2024-01-02' AS DATE)"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5), "CAST('2024-01-02 03:04:05' AS TIMESTAMP)"),
        ([1, "a", None], "(1, 'a', NULL)"),
        ((3,), "(3)"),
        (np.int64(5), "5"),
        (np.bool_(True), "TRUE"),
        (np.array([1, 2]), "(1, 2)"),
        (pd.Series(["a", "b"]), "('a', 'b')"),
        (pd.Timestamp("2024-01-02 03:04:05"), "CAST('2024-01-02 03:04:05' AS TIMESTAMP)"),
    ],
)
def test_a_value_becomes_a_literal(value, text):
    assert literal(value) == text


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": 1},
        [],
        [[1]],
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("1e40"),
        list(range(MAX_VALUES + 1)),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_without_a_literal_is_refused_with_a_hint(value):
    with pytest.raises(ArgumentError) as caught:
        literal(value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a > :x", "a > 7"),
        ("a>:x and b<:x", "a>7 and b<7"),
        ("a = ':x'", "a = ':x'"),
        ('a = ":x"', 'a = ":x"'),
        ("`:x` = :x", "`:x` = 7"),
        ("a = 'it''s :x' or b = :x", "a = 'it''s :x' or b = 7"),
        (r"a = 'it\'s :x' or b = :x", r"a = 'it\'s :x' or b = 7"),
        ("a > :x -- not :x\n and b = :x", "a > 7 -- not :x\n and b = 7"),
        ("/* :x */ a = :x", "/* :x */ a = 7"),
        ("a::x = :x", "a::x = 7"),
        ("cast(a as struct<b:x>)", "cast(a as struct<b:x>)"),
        ("a -:minus", "a -(-1)"),
        ("case when a then:x else:minus end", "case when a then 7 else (-1) end"),
        ("id in:ids and b not in:ids", "id in (1, 2) and b not in (1, 2)"),
        ("select:x from t where a=:x limit:x", "select 7 from t where a=7 limit 7"),
        (
            "cast(a as array<struct<b:x,`c`:map<string,struct<d :x>>>>) =:x and b between:x and:x",
            "cast(a as array<struct<b:x,`c`:map<string,struct<d :x>>>>) =7 and b between 7 and 7",
        ),
        ("map < :x and a in:ids", "map < 7 and a in (1, 2)"),
    ],
)
def test_names_in_text_or_comments_are_not_bound(text, bound):
    assert bind(text, {"x": 7, "minus": -1, "ids": [1, 2]}) == bound


@pytest.mark.parametrize(
    ("text", "name", "near"),
    [
        ("a > :threshhold", ":threshhold", ":threshold"),
        ("a = 1 and id in:idz", ":idz", None),
        ("limit:n", ":n", None),
        ("a:b", ":b", None),
        ("select * from {tabel}", "{tabel}", "{table}"),
    ],
)
def test_the_error_for_an_unknown_name_suggests_a_similar_name(text, name, near):
    with pytest.raises(ArgumentError, match=f"{re.escape(name)} has no value") as caught:
        bind(text, {"threshold": 3, "ids": [1], "table": "t"})
    assert near is None or caught.value.hint == f"did you mean {near}?"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("select {c} from {t}", "select `id` from `p`.`s`.`orders`"),
        ("select { c }, '{c}', \"{c}\", `{c}` -- {c}", "select `id`, '{c}', \"{c}\", `{c}` -- {c}"),
        ("select {cs}, /* {c} */ {{c}}, ${c}", "select `id`, `Ä_1`, /* {c} */ {{c}}, ${c}"),
        ("pattern (a{1,3} b{2})", "pattern (a{1,3} b{2})"),
        ("{c} in (:x) and {c} not in :x", "`id` in (1) and `id` not in (1)"),
    ],
)
def test_a_name_in_braces_is_checked_and_quoted(text, bound):
    values = {"c": "id", "cs": ["id", "Ä_1"], "t": "p.s.orders", "x": [1]}
    assert bind(text, values) == bound


@pytest.mark.nightly
@given(name=st.text(max_size=20))
def test_a_name_in_braces_cannot_inject_sql(name):
    try:
        bound = bind("select {name} from t", {"name": name})
    except ArgumentError:
        return
    (column,) = sqlglot.parse_one(bound, dialect="hive").expressions
    assert ".".join(part.name for part in column.parts) == name


# sqlglot parses both kinds of dialects: with backslash escapes and without.
@pytest.mark.parametrize("dialect", ["hive", "duckdb"])
@given(value=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_text_cannot_inject_sql_in_either_dialect(dialect, value):
    parsed = sqlglot.parse_one(bind("a = :v AND b = 1", {"v": value}), dialect=dialect)
    assert isinstance(parsed, sqlglot.exp.And)
    comparison = parsed.left
    assert isinstance(comparison, sqlglot.exp.EQ)
    assert comparison.left.name == "a"
    assert {type(n) for n in comparison.right.walk()} <= {
        sqlglot.exp.Literal,
        sqlglot.exp.Concat,
        sqlglot.exp.Chr,
    }
    pieces = [
        chr(int(n.name)) if isinstance(n.parent, sqlglot.exp.Chr) else n.name
        for n in comparison.right.find_all(sqlglot.exp.Literal, bfs=False)
    ]
    assert "".join(pieces) == value


LISTS = {
    "one": ["paid"],
    "two": ["paid", "new"],
    "pair": ("paid", "new"),
    "array": np.array(["paid", "new"]),
    "series": pd.Series(["paid", "new"]),
    "index": pd.Index(["paid", "new"]),
    "category": pd.Series(["paid", "new"], dtype="category"),
    "arrow": pa.array(["paid", "new"]),
    "chunks": pa.chunked_array([["paid"], ["new"]]),
    "single": {"paid"},
    "frozen": frozenset(["paid"]),
    "a": "paid",
    "b": "new",
}
BOTH, ONE = "('paid', 'new')", "('paid')"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        *((f"s in :{name}", f"s in {BOTH}") for name in ("two", "pair", "array", "series")),
        *((f"s in (:{name})", f"s in {BOTH}") for name in ("two", "index", "category", "arrow")),
        *((f"s not in( :{name} )", f"s not in( {BOTH[1:-1]} )") for name in ("chunks", "two")),
        *((f"s IN (:{name})", f"s IN {ONE}") for name in ("one", "single", "frozen")),
        ("s in (:a, :b)", f"s in {BOTH}"),
        ("s in (:a)", f"s in {ONE}"),
        ("s in (:one, :b)", f"s in {BOTH}"),
        ("s in ('x', :two)", "s in ('x', 'paid', 'new')"),
        ("s in /* , */ (:two -- )\n)", "s in /* , */ ('paid', 'new' -- )\n)"),
        ("(s in (:two)) and (t NOT\nIN :two)", f"(s in {BOTH}) and (t NOT\nIN {BOTH})"),
        ("`in` = :a and s in (:two)", f"`in` = 'paid' and s in {BOTH}"),
    ],
)
def test_a_list_is_bound_after_the_keyword_in(text, bound):
    assert bind(text, LISTS) == bound


@pytest.mark.parametrize(
    "text",
    [
        *("s = :two", ":two", "f(:two)", "select :two", "s in ((:two))", "s between :two"),
        *("s in (:two || 'x')", "s in ('x' || :two)", "s in (select :two)", "inn (:two)"),
        *("s in (f(:two))", "`in` (:two)", "'in' (:two)", "s in ('x') and t = (:two)"),
    ],
)
def test_a_list_outside_of_in_is_refused(text):
    with pytest.raises(ArgumentError, match="only be bound after IN") as caught:
        bind(text, LISTS)
    assert "in (:name)" in caught.value.hint


def test_any_number_of_comments_may_follow_a_list():
    """In an earlier version, each comment doubled the time to bind the text."""
    comments = "/**/" * 500
    assert bind(f"s in (:two{comments})", LISTS) == f"s in ('paid', 'new'{comments})"
    with pytest.raises(ArgumentError, match="only be bound after IN"):
        bind(f"s in (:two{comments} || 'x')", LISTS)


@pytest.mark.parametrize("text", ["s in :none", "s in (:none)", "s not in (:none)"])
@pytest.mark.parametrize("none", [[], (), set(), np.array([]), pd.Series([], dtype=object)])
def test_an_empty_list_is_refused(text, none):
    with pytest.raises(ArgumentError, match="empty list"):
        bind(text, {"none": none})


@pytest.mark.parametrize("text", ["s not in :some", "s not in (:some)", "s not in ('x', :some)"])
def test_a_null_in_a_list_after_not_in_is_refused(text):
    with pytest.raises(ArgumentError, match="no row would match"):
        bind(text, {"some": ["paid", None]})
    assert bind(text.replace("not ", ""), {"some": ["paid", None]}).endswith("NULL)")


@given(
    values=st.lists(
        st.integers(-3, 9) | st.text("ab'\\\n:,()", max_size=3), min_size=1, max_size=4
    ),
    form=st.sampled_from(["in :v", "in (:v)", "in(:v)", "in ( :v )", "not in (:v)", "not in :v"]),
)
def test_a_list_may_be_bound_with_or_without_parentheses(values, form):
    bound = bind(f"a {form} and b = 1", {"v": values})
    parsed = sqlglot.parse_one(bound, dialect="duckdb")
    assert isinstance(parsed, sqlglot.exp.And)
    found = parsed.find(sqlglot.exp.In)
    assert len(found.expressions) == len(values)
    assert not any(isinstance(one, sqlglot.exp.Tuple) for one in found.expressions)
