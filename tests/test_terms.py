"""Shared terms: names that cannot inject paths or SQL, partition specs, references, sizes."""

from __future__ import annotations

import base64
import datetime
import enum
import pickle
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ArgumentError
from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    SplitMode,
    TableName,
    TimeUnit,
    WriteMode,
    covered,
    format_bytes,
    query_title,
)


class Named(str, enum.Enum):
    """A str whose text differs from its value."""

    DAY = "day"


LONG = "x" * 10**6 + "!"
INJECTIONS = [
    "",
    " ",
    "t;drop table x",
    "t; --",
    "t' or '1'='1",
    't"',
    "t`",
    "t)",
    "t/../x",
    "../x",
    "t?a=b",
    "t&Action=TableAbortWriteSession",
    "t#x",
    "t%2e",
    "t\n",
    "t\r\nHost: x",
    "t\x00",
    "a b",
    "1t",
    "t-1",
    "t$",
    "a.b",
    "t\u202e",
    "t\u200b",
    "x" * 129,
]


# -- table names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INJECTIONS)
@pytest.mark.parametrize("part", ["project", "schema", "table"])
def test_a_name_that_could_inject_sql_or_a_path_is_refused(part: str, name: str) -> None:
    parts = {"project": "p", "schema": "s", "table": "t", part: name}
    with pytest.raises(ArgumentError, match=f"is not a valid {part} name") as caught:
        TableName(**parts)
    assert "letters, digits and underscores" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "name", [n for n in INJECTIONS if n.strip().strip("`") == n and "." not in n]
)
def test_a_parsed_name_that_could_inject_sql_or_a_path_is_refused(name: str) -> None:
    for text in (name, f"p.{name}", f"p.s.{name}", f"p.{name}.t"):
        with pytest.raises(ArgumentError):
            TableName.parse(text, project="p")


@given(st.text())
def test_any_text_is_a_name_of_word_characters_or_is_refused(text: str) -> None:
    try:
        name = TableName.parse(text, project="p")
    except ArgumentError:
        return
    assert all(
        part.isidentifier() or part.replace("_", "a").isalnum() for part in str(name).split(".")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", "home.dev.t"),
        (" t ", "home.dev.t"),
        ("`t`", "home.dev.t"),
        ("p.t", "p.t"),
        ("p . `t`", "p.t"),
        ("p.s.t", "p.s.t"),
        ("_t1", "home.dev._t1"),
        ("表", "home.dev.表"),
    ],
)
def test_a_name_is_completed_with_the_defaults_of_the_connection(text: str, expected: str) -> None:
    assert str(TableName.parse(text, project="home", schema="dev")) == expected


def test_a_name_with_four_parts_is_refused() -> None:
    with pytest.raises(ArgumentError, match="is not a table name"):
        TableName.parse("a.b.c.d", project="p")


def test_a_name_without_a_schema_has_no_default_schema() -> None:
    name = TableName(project="p", table="t")
    assert (name.schema, str(name)) == (None, "p.t")
    assert pickle.loads(pickle.dumps(name)) == name
    assert repr(name) == "TableName(project='p', table='t', schema=None)"


# -- partitions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ("", ""),
        ("ds=2024-01-01", "ds=2024-01-01"),
        (" ds = 2024-01-01 , hour = 3 ", "ds=2024-01-01,hour=3"),
        ("ds='2024-01-01'/hour=\"3\"", "ds=2024-01-01,hour=3"),
        ("ds=a b", "ds=a b"),
        ({"ds": "2024-01-01", "hour": 3}, "ds=2024-01-01,hour=3"),
        ({"ds": "2024-01-02", "hour": np.int8(3)}, "ds=2024-01-02,hour=3"),
        ({"ds": Named.DAY, "hour": np.str_("3")}, "ds=day,hour=3"),
        ({}, ""),
    ],
)
def test_a_partition_spec_is_created_from_each_form(value: object, expected: str) -> None:
    spec = PartitionSpec.of(value)  # type: ignore[arg-type]
    assert str(spec) == expected
    assert PartitionSpec.of(spec) == spec
    assert PartitionSpec.of(str(spec)) == spec
    assert len(spec) == len(list(spec))


@pytest.mark.parametrize(
    "value",
    [
        *("x", "=x", "ds=", "ds=''", "'1'=x", "d s=x", "ds=a,b", "ds;=x", "ds' or '1=1"),
        *({"d s": "x"}, {"ds": ""}, {"ds' or '1": "1"}, {"": "x"}),
    ],
)
def test_an_invalid_partition_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ArgumentError, match="is not a partition level") as caught:
        PartitionSpec.of(value)  # type: ignore[arg-type]
    assert "ds=2024-01-01" in (caught.value.hint or "")


@given(st.dictionaries(st.from_regex(r"[a-z_]\w{0,5}", fullmatch=True), st.text(), max_size=3))
def test_a_partition_is_unchanged_by_a_round_trip_or_refused(values: dict[str, str]) -> None:
    spec = PartitionSpec(tuple(values.items()))
    try:
        assert PartitionSpec.of(values) == spec
    except ArgumentError:
        assert not spec.has_name
        with pytest.raises(ArgumentError):
            PartitionSpec.of(spec)
        return
    assert spec.has_name
    assert PartitionSpec.of(str(spec)) == spec
    assert pickle.loads(pickle.dumps(spec)) == spec


def _readings(text: str) -> Iterator[str]:
    """The known ways in which readers of ``key=value`` change a value."""
    yield from (text.strip(), text.strip(" "), text.strip("'\""), text.replace("'", ""))
    yield from (text.replace('"', ""), *re.split("[,/=]", text), text.replace("\\", ""))
    yield text.strip("\u200b\ufeff\u00ad")
    yield text.encode("utf-8", "ignore").decode()


EDGES = [
    " ",
    "\t",
    "\n",
    "\r\n",
    "\0",
    "\x1b",
    "\x85",
    "\xa0",
    "\u3000",
    "\u200b",
    "\ufeff",
    "\u2028",
]
SIGNS = [",", "/", "=", "'", '"', "\\", "\ud800", "\x00"]
HOSTILE = (
    *(one + "b" for one in EDGES),
    *("b" + one for one in EDGES),
    *EDGES,
    *("a" + sign + "b" for sign in SIGNS),
    *("'b'", '"b"', "'b", "b'", "=b", "b=", "b,hour=3", "b/hour=3", "", "\ufffe"),
)
"""Values that some reader of a request takes for another one."""


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_an_ambiguous_partition_value_is_refused(value: str) -> None:
    spec = PartitionSpec((("ds", value),))
    for road in (lambda: PartitionSpec.of({"ds": value}), lambda: PartitionSpec.of(spec)):
        with pytest.raises(ArgumentError) as caught:
            road()
        assert caught.value.hint
    assert not spec.has_name


@given(st.text(st.sampled_from([*"ab3%+&#:.-_\xe9\u8868 ", *"".join(EDGES), *SIGNS]), max_size=4))
def test_every_known_parser_returns_an_accepted_value_unchanged(value: str) -> None:
    if PartitionSpec((("ds", value),)).has_name:
        assert set(_readings(value)) == {value}


@pytest.mark.parametrize(
    "text", ["ds=' b'", "ds='b '", "ds='a,b'", 'ds="a/b"', "ds=\xa0b", "ds='b"]
)
def test_an_ambiguous_value_in_quotes_is_parsed_and_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="no request can express it") as caught:
        PartitionSpec.of(text)
    assert caught.value.code == "InvalidPartitionSpec"


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, np.True_, 3.0, float("nan"), Decimal("3"), b"x", ["x"], np.array([1, 2])),
        *(datetime.datetime(2024, 1, 1), np.datetime64("2024-01-01"), pd.Timestamp("2024-01-01")),
        *(datetime.date(2024, 1, 1), pd.NA, pd.NaT),
    ],
    ids=repr,
)
def test_a_mapping_value_with_several_spellings_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="'ds' has a value of type") as caught:
        PartitionSpec.of({"ds": value})
    assert "2024-01-01" in (caught.value.hint or "")
    assert "day.strftime" in (caught.value.hint or "")


@pytest.mark.parametrize("value", [3, 2.5, ["ds=1"], b"ds=1"])
def test_an_invalid_partition_value_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="is not a partition"):
        PartitionSpec.of(value)  # type: ignore[arg-type]


def test_a_partial_spec_covers_its_partitions() -> None:
    day = PartitionSpec.of("ds=1")
    hour = PartitionSpec.of("ds=1,h=2")
    assert day.covers(hour)
    assert PartitionSpec().covers(hour)
    assert hour.covers(PartitionSpec.of("h=2,ds=1"))
    assert not hour.covers(day)
    assert not PartitionSpec.of("ds=2").covers(hour)


def test_a_partition_is_covered_by_several_specs_if_one_of_them_covers_the_partition() -> None:
    wanted = [PartitionSpec.of(text) for text in ("ds=1", "ds=2,h=3", "h=4")]
    chosen = covered(wanted)
    for text in ("ds=1,h=1", "ds=2,h=3", "h=3,ds=2", "ds=2,h=2", "ds=3,h=4", "ds=2", "ds=3,h=3"):
        spec = PartitionSpec.of(text)
        assert chosen(spec) == any(one.covers(spec) for one in wanted)
    assert covered([PartitionSpec()])(wanted[0])
    assert not covered([])(wanted[0])


# -- compression and other options --------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, Compression.NONE),
        ("none", Compression.NONE),
        ("ZSTD", Compression.ZSTD),
        ("lz4", Compression.LZ4),
        (Compression.LZ4, Compression.LZ4),
        ("UNCOMPRESSED", Compression.NONE),
        ("LZ4_FRAME", Compression.LZ4),
        ("x-lz4-frame", Compression.LZ4),
        (Compression.UNCOMPRESSED, Compression.NONE),
    ],
)
def test_compression_is_parsed_from_text(value: str | None, expected: Compression) -> None:
    assert Compression.of(value) is expected


@pytest.mark.parametrize("value", ["gzip", "", 1, b"zstd", TimeUnit.NANO])
def test_the_error_for_an_unknown_compression_lists_the_known_ones(value: Any) -> None:
    with pytest.raises(
        ArgumentError, match=f"unknown compression {re.escape(repr(value))}"
    ) as caught:
        Compression.of(value)
    assert (caught.value.argument, caught.value.hint) == (
        "compression",
        "use 'none', 'zstd' or 'lz4'",
    )


def test_option_values_equal_those_in_requests() -> None:
    assert [mode.value for mode in SplitMode] == ["Size", "RowOffset", "Parallelism", "Bucket"]
    assert [mode.value for mode in WriteMode] == [
        "Batch",
        "Streaming",
        "StreamingRealtime",
    ]
    assert [unit.value for unit in TimeUnit] == ["second", "milli", "micro", "nano"]
    assert all(status.value == status.name for status in SessionStatus)


def test_splits_are_values_with_a_readable_text() -> None:
    assert str(IndexSplit(3)) == "split 3"
    assert str(RowRangeSplit(10, 5)) == "rows 10…15"
    assert pickle.loads(pickle.dumps(RowRangeSplit(10, 5))) == RowRangeSplit(10, 5)
    assert len({IndexSplit(1), IndexSplit(1), RowRangeSplit(0, 1)}) == 2


# -- blob references --------------------------------------------------------------------------


@given(st.binary())
def test_all_forms_of_a_blob_reference_have_the_same_value(raw: bytes) -> None:
    reference = BlobReference.from_raw(raw)
    assert reference.raw == raw
    assert reference.token == base64.b64encode(raw).decode()
    assert BlobReference.from_text(reference.token) == reference
    assert BlobReference.from_text(reference.token.encode()) == reference
    assert pickle.loads(pickle.dumps(reference)) == reference


def test_the_blob_reference_of_the_protocol_page_is_parsed() -> None:
    assert BlobReference.from_text("/wByZWYw").raw == bytes.fromhex("ff0072656630")


@pytest.mark.parametrize(
    "token",
    ["abc", "a-_=", "YQ", "YQ=", " YQ==", "YQ==\n", "é", b"\xff\x00ref0", LONG],
    ids=lambda token: repr(token[:8]),
)
def test_text_that_is_not_padded_base64_is_refused(token: str | bytes) -> None:
    with pytest.raises(ArgumentError, match="is not a blob reference") as caught:
        BlobReference.from_text(token)
    assert len(str(caught.value)) < 120


def test_the_repr_of_a_blob_reference_is_bounded() -> None:
    assert repr(BlobReference("AAAA")) == "BlobReference('AAAA')"
    assert len(repr(BlobReference("A" * 10**6))) < 60


# -- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (12_345_678, "12.3 MB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (5e9, "5.0 GB"),
        (2.5e12, "2.5 TB"),
        (7e15, "7.0 PB"),
        (7e19, "70000.0 PB"),
    ],
)
def test_byte_counts_are_readable(count: float, text: str) -> None:
    assert format_bytes(count) == text


def test_the_title_of_a_query_ends_before_its_first_literal() -> None:
    short = "select id\n  from orders"
    assert query_title(short) == "select id from orders"
    for literal in ("'two words or more'", '"two words or more"', "`two words or more`"):
        title = query_title(f"select id from orders where note = {literal}", 45)
        assert title == "select id from orders where note = …"
    assert query_title("select id, customer, amount from orders", 25) == "select id, customer, …"
    assert query_title("x" * 100, 10) == "xxxxxxxxx…"
