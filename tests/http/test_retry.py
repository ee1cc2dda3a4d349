"""The retry policy depends on the call and the failure, and never waits past its deadline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import (
    AccessDeniedError,
    BrokenStreamError,
    CancelledError,
    ChecksumError,
    ConflictError,
    ConnectError,
    FramingError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    RequestTimeoutError,
    ServerFaultError,
    SessionExpiredError,
    ThrottledError,
    TruncatedError,
)
from odps_nb.http.retry import RetryPolicy

POLICY = RetryPolicy()
LASTING = FramingError("x")
LASTING.lasts = True
OVERFLOW = "ODPS-0422214: Read data failed - RuntimeTimestamp data overflow"


def decide(error: BaseException, *, idempotent: bool = True, attempt: int = 1) -> float | None:
    return POLICY.decide(attempt, error, idempotent=idempotent, elapsed=0.0)


@pytest.mark.parametrize(
    ("error", "when_idempotent", "otherwise"),
    [
        (ConnectError("x", request_sent=False), True, True),
        (BrokenStreamError("x", request_sent=False), True, True),
        (BrokenStreamError("x", request_sent=True), True, False),
        (BrokenStreamError("x"), True, False),
        (RequestTimeoutError("x", request_sent=True), True, False),
        (ThrottledError("x", status=429), True, True),
        (ServerFaultError("x", status=503), True, False),
        (ServerFaultError("x", status=501), False, False),
        (InvalidRequestError("x", status=408), True, False),
        (NotFoundError("x", status=408), False, False),
        (InvalidRequestError(OVERFLOW, status=408), False, False),
        (InvalidRequestError(OVERFLOW, status=409, retry_after=1.0), False, False),
        (TruncatedError("x"), True, False),
        (ChecksumError("x"), True, False),
        (FramingError("x"), True, False),
        (LASTING, False, False),
        (InvalidRequestError("x", status=400), False, False),
        (AccessDeniedError("x", status=403), False, False),
        (NotFoundError("x", status=404), False, False),
        (ConflictError("x", status=409), False, False),
        (SessionExpiredError("x", status=404), False, False),
        (LimitExceededError("x"), False, False),
        (CancelledError("x"), False, False),
        (KeyboardInterrupt(), False, False),
        (ValueError("x"), False, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_call_and_failure_determine_whether_to_retry(error, when_idempotent, otherwise):
    assert (decide(error) is not None) is when_idempotent
    assert (decide(error, idempotent=False) is not None) is otherwise


def test_waits_double_up_to_the_maximum():
    waits = [decide(ServerFaultError("x"), attempt=n) for n in range(1, 7)]
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4]
    patient = RetryPolicy(max_attempts=5000, cap=5.0)
    assert patient.decide(3000, ServerFaultError("x"), idempotent=True, elapsed=0) == 5.0


def test_the_number_of_attempts_is_limited():
    assert decide(ServerFaultError("x"), attempt=6) is not None
    assert decide(ServerFaultError("x"), attempt=7) is None
    assert decide(ConnectError("x", request_sent=False), attempt=4) is None
    never = RetryPolicy(max_attempts=1, connect_attempts=1)
    assert never.decide(1, ThrottledError("x"), idempotent=True, elapsed=0) is None


def test_the_wait_requested_by_the_server_is_respected():
    assert decide(ThrottledError("x", retry_after=30.0)) == 30.0
    assert decide(ThrottledError("x", retry_after=0.0)) == 0.2


def test_a_wait_past_the_deadline_ends_the_retries():
    assert decide(ThrottledError("x", retry_after=POLICY.deadline + 1)) is None
    assert (
        POLICY.decide(1, ThrottledError("x"), idempotent=True, elapsed=POLICY.deadline - 0.1)
        is None
    )


@given(
    attempt=st.integers(1, 200),
    elapsed=st.floats(0, 1000),
    chance=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 500),
)
def test_waits_are_never_negative_and_end_before_the_deadline(attempt, elapsed, chance, asked):
    wait = POLICY.decide(
        attempt,
        ThrottledError("x", retry_after=asked),
        idempotent=True,
        elapsed=elapsed,
        chance=chance,
    )
    assert wait is None or 0 <= wait <= POLICY.deadline - elapsed
    assert wait is None or asked is None or wait >= asked


def test_the_repr_of_a_retry_policy_shows_its_settings():
    assert repr(RetryPolicy(max_attempts=3)).startswith("RetryPolicy(max_attempts=3, ")


def test_a_policy_with_one_attempt_does_not_retry_a_refused_connection():
    once = RetryPolicy(max_attempts=1)
    assert once.decide(1, ConnectError("no"), idempotent=True, elapsed=0.0) is None
