"""odps_nb returns the same blob data as pyodps if the data is correct, or raises an error."""

from __future__ import annotations

import io

import pytest
from odps.maxstorage.errors import MaxStorageError

from odps_nb.errors import FramingError, StateError
from odps_nb.stream_io import BlobDataIterator
from odps_nb.wire.blocks import encode_blocks
from tests.support.compat.blob_cases import (
    DOCUMENT,
    Case,
    PyodpsIterator,
    cases,
    document,
    framed,
    read_ours,
    read_theirs,
)

pytestmark = pytest.mark.compat

CASES = list(cases())
EVERY = pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])


@EVERY
@pytest.mark.parametrize("stream", [False, True], ids=["records", "streamed"])
def test_readers_of_odps_nb_return_data_or_raise_a_typed_error(case: Case, stream: bool) -> None:
    expected = case.ours
    if stream and case.count == 0 and expected == []:
        expected = [(b"", None)]  # for no blobs, the reader returns one empty read, as in pyodps
    result = read_ours(case, stream=stream)
    if isinstance(expected, type):
        assert isinstance(result, type)
        assert issubclass(result, expected)
    else:
        assert result == expected


@EVERY
def test_if_pyodps_returns_data_odps_nb_returns_the_same_or_raises_an_error(case: Case) -> None:
    theirs, ours = read_theirs(case, stream=False), read_ours(case, stream=False)
    if not isinstance(theirs, type) and not isinstance(ours, type):
        lost = [blob for blob in theirs if blob not in ours]
        assert theirs == ours or len(ours) > len(theirs) or lost == [(b"first ", None)]


def test_the_page_in_the_docs_states_the_results_of_both_libraries() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_after_an_error_pyodps_continues_and_odps_nb_raises_an_error() -> None:
    body = encode_blocks(b"\xff" * 8 + framed(b"one", b"two"))
    theirs = PyodpsIterator(io.BytesIO(body), expected_count=2)
    with pytest.raises(MaxStorageError):
        next(theirs)
    assert next(theirs).data.startswith(b'{"Checksum"')
    ours = BlobDataIterator(io.BytesIO(body), expected_count=2)
    with pytest.raises(FramingError):
        next(ours)
    with pytest.raises(StateError):
        next(ours)
