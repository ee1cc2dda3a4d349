"""Lines between tasks and driver: whatever the bytes, values or our errors."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import FramingError, LimitExceededError
from odps_nb.spark.progress.messages import (
    MAX_LINE,
    Figures,
    Hello,
    LineBuffer,
    Report,
    ReportTo,
    decode_hello,
    decode_report,
    encode_hello,
    encode_report,
)

TOKEN = "5a" * 16
TO = ReportTo("127.0.0.1", 1234, TOKEN, 3)
HELLO = Hello(
    source=3, execution="12", tags=("odps-nb-a",), stage=5, partition=1, attempt=17, part=1
)

counts = st.integers(0, 2**62 - 1)
figures = st.builds(
    Figures,
    rows=counts,
    items=counts,
    wire_bytes=counts,
    decoded_bytes=counts,
    complete_bytes=counts,
    verified_bytes=counts,
    retries=counts,
    resumes=counts,
    done=st.booleans(),
)


@given(figures, st.text(), st.text())
def test_figures_come_back_as_they_were_and_texts_cut(
    told: Figures, event: str, request: str
) -> None:
    line = encode_report(Report(figures=told, event=event, request=request))
    assert len(line) <= MAX_LINE
    found = decode_report(line.rstrip(b"\n"))
    assert found.figures == told
    assert event.startswith(found.event)
    assert request.startswith(found.request)


@given(st.lists(figures, max_size=5), st.lists(st.integers(1, 50)))
def test_lines_are_the_same_however_the_bytes_are_cut(told: list[Figures], cuts: list[int]) -> None:
    stream = b"".join(encode_report(Report(figures=one)) for one in told)
    buffer, lines = LineBuffer(), []
    for cut in cuts:
        lines += buffer.feed(stream[:cut])
        stream = stream[cut:]
    lines += [
        line
        for start in range(0, len(stream), 1000)
        for line in buffer.feed(stream[start : start + 1000])
    ]
    assert [decode_report(line).figures for line in lines] == told


def test_a_hello_comes_back_and_needs_the_token() -> None:
    line = encode_hello(TO, HELLO).rstrip(b"\n")
    assert decode_hello(line, TOKEN) == HELLO
    for other in ("", "5a" * 15, "00" * 16):
        with pytest.raises(FramingError, match="token"):
            decode_hello(line, other)
    shown: Any
    for shown in (None, 5, "", "\ud800", ["5a" * 16]):
        with pytest.raises(FramingError, match="token"):
            decode_hello(json.dumps({**json.loads(line), "token": shown}).encode(), TOKEN)


@given(st.binary(max_size=200) | st.just(b"[" * 4000) | st.just(b"9" * 4000))
def test_any_bytes_are_a_report_or_our_error(line: bytes) -> None:
    for decode in (decode_report, lambda one: decode_hello(one, TOKEN)):
        with pytest.raises(FramingError):
            decode(line)


@pytest.mark.parametrize("value", [-1, 2**62, True, 1.0, "1", None])
@pytest.mark.parametrize("name", ["rows", "wire_bytes", "retries"])
def test_a_figure_that_is_no_count_is_refused(name: str, value: object) -> None:
    told = json.loads(encode_report(Report(figures=Figures())))
    with pytest.raises(FramingError, match=name):
        decode_report(json.dumps({**told, name: value}).encode())


def test_a_line_without_end_is_refused_before_it_is_kept() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * (MAX_LINE - 1))
    with pytest.raises(LimitExceededError) as caught:
        buffer.feed(b"x")
    assert caught.value.limit == MAX_LINE


def test_the_token_travels_in_a_pickle_and_in_no_repr() -> None:
    assert pickle.loads(pickle.dumps(TO)) == TO
    assert TOKEN not in repr(TO) + str(TO) + repr(HELLO)
