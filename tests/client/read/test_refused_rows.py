"""An error of the service has its code and message, and is not retried."""

from __future__ import annotations

import gzip

import pytest

from odps_nb.client.read.splits import iter_split
from odps_nb.errors import InvalidRequestError, NotFoundError, ServiceError
from odps_nb.terms import RowRangeSplit
from odps_nb.wire.calls import HTTP_CODINGS
from odps_nb.wire.calls.errors import encode_error_json
from odps_nb.wire.codings import encoder
from tests.support.sockets.read_sessions import SESSION, serve_rows
from tests.support.sockets.scripted import Service, fail, ids, ipc, numbers, raw

OVERFLOW = "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"
DOCUMENT = encode_error_json("ODPS-0422214", OVERFLOW, "r")
UNKNOWN = encode_error_json("Odd", "an odd reason", "r")
EMPTY = ipc(numbers(0, 0))


def refused(step) -> ServiceError:
    """Return the error of a split that is requested once."""
    with Service(ReadRows=[step]) as service, service.client() as storage:
        with pytest.raises(ServiceError) as caught:
            list(iter_split(storage, SESSION, RowRangeSplit(20, 60)))
        assert len(service.calls["ReadRows"]) == 1
    return caught.value


@pytest.mark.parametrize("body", [DOCUMENT, EMPTY[:-8] + DOCUMENT], ids=["alone", "after schema"])
@pytest.mark.parametrize("status", [200, 400, 408, 409, 500, 503])
def test_a_time_overflow_is_not_retried(status: int, body: bytes) -> None:
    """Evidence 152: the status of this code is unknown."""
    body = body if status == 200 else DOCUMENT
    error = refused(raw(body, status, **{"Retry-After": "1"}))
    assert (type(error), error.message) == (InvalidRequestError, OVERFLOW)


@pytest.mark.parametrize("body", [UNKNOWN, EMPTY[:-8] + UNKNOWN], ids=["alone", "after schema"])
def test_an_unknown_error_code_in_place_of_rows_is_shown(body: bytes) -> None:
    error = refused(raw(body))
    assert (type(error), error.code, error.message) == (ServiceError, "Odd", "an odd reason")


def test_an_error_after_some_rows_is_raised_unchanged() -> None:
    with Service(ReadRows=[raw(ipc(numbers(20, 40))[:-8] + UNKNOWN)]) as service:
        with service.client() as storage:
            batches = iter_split(storage, SESSION, RowRangeSplit(20, 60))
            assert ids([next(batches), next(batches)]) == list(range(20, 40))
            with pytest.raises(ServiceError, match="an odd reason"):
                next(batches)
        assert len(service.calls["ReadRows"]) == 1


def test_a_server_error_in_place_of_rows_is_retried() -> None:
    fault = encode_error_json("InternalServerError", "try later", "r")
    steps = [raw(fault), raw(EMPTY[:-8] + fault), serve_rows]
    with Service(ReadRows=steps) as service, service.client() as storage:
        assert ids(iter_split(storage, SESSION, RowRangeSplit(20, 60))) == list(range(20, 80))


@pytest.mark.parametrize("coding", ["gzip", *HTTP_CODINGS])
@pytest.mark.parametrize("status", [400, 500])
def test_an_error_in_a_content_coding_is_read(status: int, coding) -> None:
    name = HTTP_CODINGS.get(coding, "gzip")
    squeeze = encoder(coding) if name != "gzip" else None
    body = squeeze.feed(DOCUMENT) + squeeze.finish() if squeeze else gzip.compress(DOCUMENT)
    error = refused(raw(body, status, **{"Content-Encoding": name}))
    assert (type(error), error.message) == (InvalidRequestError, OVERFLOW)


def test_an_error_whose_table_name_contains_timeout_is_not_retried() -> None:
    """Evidence 162: the word causes a retry only if the code alone does not decide."""
    error = refused(fail(404, "NoSuchTable", "Table not found: p.otstimeout_log"))
    assert type(error) is NotFoundError
