"""The first bytes of blobs take few requests and transfer no more than needed."""

from __future__ import annotations

import contextlib

import pytest

from odps_nb.client.blob.streamed import iter_inspected
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import CancelledError, ChecksumError, NotFoundError, StateError
from odps_nb.http.retry import RetryPolicy
from tests.support.sockets.blob_answers import (
    asked,
    asked_refs,
    body_of,
    content,
    cut_at,
    number,
    reference,
    references,
    serve,
)
from tests.support.sockets.scripted import Service

LARGE = 7  # the number of a blob of 300,000 bytes


@contextlib.contextmanager
def first_bytes(refs, *steps, cancel=None, tries=2):
    """Read the first bytes of blobs; also return the service that received the requests."""
    retry = RetryPolicy(spread=0.0, max_attempts=tries)
    with (
        Service(ReadBlobs=list(steps) or [serve]) as service,
        service.client(retry=retry) as storage,
        contextlib.closing(iter_inspected(storage, refs, cancel=cancel)) as found,
    ):
        yield found, service


def head_of(n: int) -> tuple[int, str, str]:
    return len(content(n)), f"text/{n}", f"{n}.txt"


@pytest.mark.parametrize("count", [1, 2, 7])
def test_small_blobs_and_their_heads_take_one_request(count):
    with first_bytes(references(count)) as (found, service):
        for n, opened in enumerate(found):
            assert opened.known is None
            assert (opened.size, opened.mime_type, opened.file_name) == head_of(n)
            with opened.open() as file:
                assert file.read() == content(n)
                assert file.verified
            assert (opened.known.size, opened.known.mime_type) == head_of(n)[:2]
    assert asked_refs(service) == [list(range(count)) if count > 1 else [0, 0]]


def test_blobs_are_not_requested_before_they_are_needed():
    with first_bytes(references(3)) as (found, service):
        assert all("not requested" in repr(opened) for opened in found)
        assert service.seen == []


def test_a_large_blob_is_skipped_and_the_others_are_requested_again():
    with first_bytes([reference(n) for n in (5, LARGE, 3, 4)]) as (found, service):
        assert next(found).open().read() == content(5)
        large = next(found).open()
        assert large.read(1000) == content(LARGE)[:1000]
        assert next(found).open().read() == content(3)
        with pytest.raises(StateError):
            large.read(10**6)
        assert next(found).open().read() == content(4)
    assert asked_refs(service) == [[5, LARGE, 3, 4], [3, 4]]


def test_the_rest_of_a_small_blob_is_read_before_the_next_blobs_are_requested():
    with first_bytes([reference(n) for n in (5, 13, 3)]) as (found, service):
        assert [opened.open().read(10) for opened in found] == [content(n)[:10] for n in (5, 13, 3)]
    assert asked_refs(service) == [[5, 13, 3]]


def test_a_repeated_blob_is_requested_again():
    refs = [reference(n) for n in (1, 2, 2, 1, 3)]
    with first_bytes(refs) as (found, service):
        assert [opened.open().read() for opened in found] == [content(n) for n in (1, 2, 2, 1, 3)]
    assert asked_refs(service) == [[1, 2], [2, 1, 3]]


@pytest.mark.parametrize("place", [0, 1, 3])
def test_only_the_missing_blob_is_reported_as_missing(place):
    refs = references(4)
    refs[place] = reference(1234)
    with first_bytes(refs) as (found, _):
        for n, opened in enumerate(found):
            if n != place:
                assert opened.open().read() == content(n)
                continue
            for _ in range(2):
                with pytest.raises(NotFoundError) as caught:
                    opened.open()
            assert f"blob {place} in the list of references" in caught.value.notes


@pytest.mark.parametrize("bad", [0, 2, 4])
def test_only_the_damaged_blob_is_reported_as_damaged(bad):
    def step(line, seen) -> None:
        refs = asked(seen).references
        body = bytearray(body_of(refs))
        if reference(bad) in refs:
            body[10] ^= 4  # at the start of each response with the bad blob
        line.answer(bytes(body))

    with first_bytes(references(5), step, tries=4) as (found, _):
        for opened in found:
            n = number(opened.reference)
            if n != bad:
                assert opened.open().read() == content(n)
            else:
                with pytest.raises(ChecksumError):
                    opened.open()


def test_a_broken_connection_resumes_at_the_next_blob():
    refs = [reference(n) for n in (5, LARGE)]
    with first_bytes(refs, cut_at(0.5), serve) as (found, service):
        assert [opened.open().read() for opened in found] == [content(5), content(LARGE)]
    assert asked_refs(service) == [[5, LARGE], [LARGE, LARGE]]


def test_cancelling_ends_the_reading_of_first_bytes():
    token = CancelToken()
    with first_bytes(references(3), cancel=token) as (found, _):
        assert next(found).open().read() == content(0)
        token.cancel()
        with pytest.raises(CancelledError):
            next(found).open()
