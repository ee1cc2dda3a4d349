from __future__ import annotations

import asyncio
import threading

import pytest

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import CancelledError, StateError
from odps_nb.notebook.progress.background import BackgroundResult


def no_threads_left() -> bool:
    for thread in threading.enumerate():
        if thread.name == "odps-nb-background":
            thread.join(10)
    return not [t for t in threading.enumerate() if t.name == "odps-nb-background"]


def wait_for_cancel(token: CancelToken) -> None:
    while not token.wait(0.05):
        pass
    token.check()


def test_the_result_is_the_return_value_of_the_function():
    handle = BackgroundResult("read orders", lambda: 42, cancel=CancelToken().cancel)
    assert handle.result() == 42
    assert handle.done()
    assert handle.result(timeout=0) == 42
    assert repr(handle) == "<read orders: done>"
    assert no_threads_left()


def test_cancelling_ends_the_function_with_a_cancelled_error():
    token = CancelToken()
    handle = BackgroundResult("read orders", lambda: wait_for_cancel(token), cancel=token.cancel)
    assert repr(handle) == "<read orders: running>"
    assert not handle.done()
    handle.cancel()
    handle.cancel()
    with pytest.raises(CancelledError):
        handle.result(timeout=10)
    assert repr(handle) == "<read orders: cancelled>"
    assert no_threads_left()


def test_the_error_of_a_wait_that_times_out_says_that_the_operation_still_runs():
    token = CancelToken()
    handle = BackgroundResult("read orders", lambda: wait_for_cancel(token), cancel=token.cancel)
    with pytest.raises(StateError, match="read orders is still running"):
        handle.result(timeout=0.05)
    handle.cancel()
    assert no_threads_left()


def test_any_error_of_the_function_is_raised_to_the_caller():
    handle = BackgroundResult("read orders", lambda: 1 / 0, cancel=CancelToken().cancel)
    with pytest.raises(ZeroDivisionError):
        handle.result()
    assert repr(handle) == "<read orders: failed, ZeroDivisionError>"


def test_a_background_handle_can_be_awaited():
    async def wait() -> int:
        return await BackgroundResult("read orders", lambda: 42, cancel=CancelToken().cancel)

    assert asyncio.run(wait()) == 42
    assert no_threads_left()
