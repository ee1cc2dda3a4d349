"""Lines between tasks, planners and driver: whatever the bytes, messages or our errors."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import FramingError
from odps_nb.spark.progress.messages import (
    COUNTERS,
    MAX_LINE,
    Answer,
    Hello,
    Message,
    PlanEvent,
    Report,
    ReportTo,
    WriteEvent,
    decode,
    encode,
)

TOKEN = "5a" * 16
TO = ReportTo("127.0.0.1", 1234, TOKEN, 3)
HELLO = Hello(
    activity=3, execution="12", tags=("odps-nb-a",), stage=5, partition=1, attempt=17, part=1
)
PLAN = PlanEvent(
    activity=3, operation="read", title="p.t", session="s", parts=4, ranges=True, rows=400
)
WRITE = WriteEvent(activity=1, phase=Phase.DONE)
KINDS = (Hello, Report, PlanEvent, WriteEvent, Answer)

counts = st.integers(0, 2**62 - 1)
texts = st.text(max_size=150)
counters = dict.fromkeys(COUNTERS, counts)
messages = st.one_of(
    st.builds(
        Hello,
        execution=texts,
        tags=st.lists(texts, max_size=1).map(tuple),
        **dict.fromkeys(("activity", "stage", "partition", "attempt", "part"), counts),
    ),
    st.builds(Report, done=st.booleans(), event=texts, request=texts, **counters),
    st.builds(
        PlanEvent,
        activity=counts,
        operation=st.sampled_from(["read", "write"]),
        title=texts,
        session=texts,
        parts=counts,
        ranges=st.booleans(),
        rows=st.none() | counts,
    ),
    st.builds(
        WriteEvent,
        activity=counts,
        phase=st.sampled_from([Phase.COMMITTING, Phase.DONE, Phase.CANCELLED, Phase.FAILED]),
        rows=counts,
        message=texts,
    ),
    st.builds(Answer, activity=counts),
)


@given(messages)
def test_a_message_comes_back_as_it_was_and_fits_a_line(message: Message) -> None:
    for token in (None, TOKEN):
        line = encode(message, token)
        assert len(line) <= MAX_LINE
        assert decode(line.rstrip(b"\n"), *KINDS, token=token) == message


@given(st.text(), st.text())
def test_texts_are_cut(event: str, request: str) -> None:
    line = encode(Report(rows=2**62 - 1, event=event, request=request))
    assert len(line) <= MAX_LINE
    found = decode(line, Report)
    assert event.startswith(found.event.removesuffix("…"))
    assert request.startswith(found.request.removesuffix("…"))


@pytest.mark.parametrize(
    "message",
    [
        Report(event="\N{GRINNING FACE}" * 5000, request="\N{GRINNING FACE}" * 5000),
        WriteEvent(activity=1, phase=Phase.FAILED, message="\N{GRINNING FACE}" * 5000),
        PlanEvent(activity=1, operation="read", title="\x00" * 5000, session="\x00" * 5000),
    ],
)
def test_long_texts_are_cut_to_a_line(message: Message) -> None:
    line = encode(message, TOKEN)
    assert 0 < len(line) <= MAX_LINE
    assert type(decode(line, *KINDS)) is type(message)


def test_a_first_line_needs_the_token() -> None:
    line = encode(HELLO, TOKEN)
    assert decode(line, Hello, token=TOKEN) == HELLO
    for other in ("", "5a" * 15, "00" * 16):
        with pytest.raises(FramingError, match="token"):
            decode(line, Hello, token=other)
    shown: Any
    for shown in (None, 5, "", "\ud800", ["5a" * 16]):
        with pytest.raises(FramingError, match="token"):
            decode(json.dumps({**json.loads(line), "token": shown}).encode(), Hello, token=TOKEN)


@given(messages)
def test_a_message_of_another_type_is_refused(message: Message) -> None:
    others = [kind for kind in KINDS if not isinstance(message, kind)]
    with pytest.raises(FramingError, match="unexpected type"):
        decode(encode(message), *others)


@given(st.binary(max_size=200) | st.just(b"[" * 4000) | st.just(b"9" * 4000))
def test_any_bytes_are_a_message_or_our_error(line: bytes) -> None:
    for token in (None, TOKEN):
        with pytest.raises(FramingError):
            decode(line, *KINDS, token=token)


@pytest.mark.parametrize("value", [-1, 2**62, True, 1.0, "1", None])
@pytest.mark.parametrize("name", ["rows", "wire_bytes", "retries"])
def test_a_counter_that_is_no_count_is_refused(name: str, value: object) -> None:
    told = json.loads(encode(Report()))
    with pytest.raises(FramingError, match=name):
        decode(json.dumps({**told, name: value}).encode(), Report)


@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        (HELLO, "tags", None),
        (HELLO, "tags", ["odps-nb-a"] * 17),
        (HELLO, "part", -1),
        (Report(), "done", 1),
        (PLAN, "operation", "drop"),
        (PLAN, "operation", ["read"]),
        (PLAN, "type", "more"),
        (PLAN, "type", ["plan"]),
        (PLAN, "parts", -1),
        (PLAN, "rows", "400"),
        (PLAN, "title", None),
        (WRITE, "phase", "reading"),
        (WRITE, "phase", {}),
        (WRITE, "rows", 1.5),
    ],
)
def test_what_makes_no_sense_is_refused(message: Message, name: str, value: object) -> None:
    told = json.loads(encode(message))
    with pytest.raises(FramingError):
        decode(json.dumps({**told, name: value}).encode(), *KINDS)


def test_the_token_travels_in_a_pickle_and_in_no_repr() -> None:
    assert pickle.loads(pickle.dumps(TO)) == TO
    assert TOKEN not in repr(TO) + str(TO) + repr(HELLO)
