from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from odps_nb.notebook.magics.arguments import (
    expanded,
    parse,
    parse_columns,
    parse_partition,
    parse_partitions,
    parse_size,
    refuse_keys,
    split_line,
)
from odps_nb.notebook.magics.commands import COMMANDS
from odps_nb.terms import PartitionSpec

SECRET = "LTAI5tSecretKeyMaterial"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("orders -n 5", ["orders", "-n", "5"]),
        ("-w \"note = 'a b'\"", ["-w", "note = 'a b'"]),
        ("-w 'note = \"a b\"'", ["-w", 'note = "a b"']),
        (r"--root C:\data", ["--root", r"C:\data"]),
        ("-p ds=2024-01-01,hour=3", ["-p", "ds=2024-01-01,hour=3"]),
        ("-p ds>'2030',h='1'", ["-p", "ds>'2030',h='1'"]),
        ("-p \"ds>'2030'\"", ["-p", "ds>'2030'"]),
        ("--where=\"ds>'2030'\"", ["--where=ds>'2030'"]),
        ("--save='a b'", ["--save=a b"]),
        ("orders # no comment", ["orders", "#", "no", "comment"]),
    ],
)
def test_a_line_is_split_into_words(line, words):
    assert split_line(line) == words


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["{table}", "-n", "$n"], ["orders", "-n", "3"]),
        (["-p", "ds={day},x={table[:3]}"], ["-p", "ds=2024-01-31,x=ord"]),
        (["-p", "ds>'{day.year - 1}'"], ["-p", "ds>'2023'"]),
        (["-p", "n=${n},h=$n"], ["-p", "n=3,h=3"]),
        (["--save=$folder"], ["--save=a b"]),
        (["-w", "c = '{table}'"], ["-w", "c = '{table}'"]),
        (["--where", "c = '$n'", "$n"], ["--where", "c = '$n'", "3"]),
        (["--where=c = '$n'", "-wc='$n'"], ["--where=c = '$n'", "-wc='$n'"]),
        (["--pattern", "a{{b}}"], ["--pattern", "a{b}"]),
    ],
)
def test_a_variable_is_inserted_in_every_word_except_a_filter(words, values):
    known = {"table": "orders", "n": 3, "day": dt.date(2024, 1, 31), "folder": "a b"}
    assert expanded(words, known) == values


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("ds={months}", r"ds=\{months\}: there is no variable 'months'; did you mean month\?"),
        ("ds={month", r"ds=\{month: expected '\}' .*; write \{\{ for a brace"),
        ("ds={1 / 0}", "division by zero"),
    ],
)
def test_a_variable_that_cannot_be_inserted_is_refused(word, reason):
    with pytest.raises(UsageError, match=reason):
        expanded([word], {"month": "2024-01"})


@pytest.mark.parametrize("name", ["read", "sql", "spark", "write", "blobs"])
def test_every_subcommand_with_progress_has_the_option_quiet(name):
    assert {"-q", "--quiet"} <= set(COMMANDS[name].option_strings())


def test_an_unclosed_quote_raises_a_usage_error():
    with pytest.raises(UsageError, match="quote is not closed"):
        split_line("-w \"a = 'b'")


@given(st.text(max_size=60))
def test_splitting_any_line_returns_words_or_raises_a_usage_error(line):
    try:
        words = split_line(line)
    except UsageError:
        return
    assert all(isinstance(word, str) for word in words)


@pytest.mark.parametrize(
    "word",
    [
        f"--access-key={SECRET}",
        "--access-key",
        "--access_id",
        "--secret-access-key",
        "--password",
        "--token",
        f"--sts-token={SECRET}",
        "--bearer_token",
        "-access_key",
        "--credentials",
        f"https://id:{SECRET}@host/api",
    ],
)
def test_a_line_with_a_key_is_refused_and_the_error_does_not_contain_it(word):
    with pytest.raises(UsageError, match="a cell must not contain keys") as caught:
        refuse_keys(["orders", word])
    assert SECRET not in str(caught.value)


def test_text_that_only_resembles_a_key_is_allowed():
    refuse_keys(["access_key", "secret_table", "-w", "token = 'x'", "https://host/api", "--schema"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["orders", "--colums", "a"], r"has no option --colums; did you mean --columns\?"),
        (["orders", f"--key={SECRET}"], "has no option --key"),
        (["orders", "--col", "a"], "has no option --col"),  # abbreviated options are not accepted
        (["orders", "-w", "amount", ">", "10"], "quote the filter"),
        *((words, ".") for words in ([], ["t", "-n", "0"], ["t", "-n", "x"], ["t", "-t", "csv"])),
    ],
)
def test_the_error_for_an_invalid_option_is_one_line_without_its_value(words, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        parse(COMMANDS["read"].run, words)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("12", 12),
        ("1k", 1000),
        ("1KiB", 1024),
        ("1.5 GB", 1_500_000_000),
        ("2mib", 2 << 20),
    ],
)
def test_sizes_are_parsed(text, count):
    assert parse_size(text) == count


def test_comma_separated_lists_are_parsed():
    assert parse_columns(None) is None
    assert parse_columns("a, `b`,c") == ["a", "b", "c"]
    assert parse_partitions(None) is None
    given = ["ds=1,hour=2", "ds>=3,ds<5", "latest"]
    assert parse_partitions(given) == given
    assert parse_partition("ds=1,hour=2") == PartitionSpec((("ds", "1"), ("hour", "2")))
    assert parse_partition(None) is None
    with pytest.raises(UsageError, match="without spaces"):
        parse_columns("a,,b")
    with pytest.raises(UsageError, match="write key=value"):
        parse_partitions(["2024-01-01"])
    with pytest.raises(UsageError, match="write key=value"):
        parse_partition("latest")


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_every_subcommand_has_a_summary_and_help(command):
    assert command.summary.endswith(".")
    text = command.help()
    assert text.startswith(("%odps " + command.name, "%%odps " + command.name))
    assert command.summary in text
