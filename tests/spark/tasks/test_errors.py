"""Errors of odps_nb that are raised through Spark."""

from __future__ import annotations

import dataclasses
import pickle
from typing import TYPE_CHECKING

import pytest

from odps_nb import errors
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.errors import ConversionError, OdpsNbError, SessionExpiredError, ThrottledError
from odps_nb.spark.tasks.credentials import TaskProfile, profile_of
from odps_nb.spark.tasks.errors import for_spark, from_spark, task_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROFILE = Profile(
    endpoint="http://127.0.0.1:1/api", project="demo", access_id="me", access_key="very-secret"
)


def _story(error: OdpsNbError) -> str:
    return f"Traceback (most recent call last):\n  File …\nodps_nb.errors.{_line(error)}\n"


def _line(error: OdpsNbError) -> str:
    return f"{type(error).__name__}: {error}"


def test_notes_request_id_and_hint_become_text_before_an_error_leaves_a_task() -> None:
    error = ThrottledError("too many requests", status=429, request_id="R1", hint="wait")
    error.add_note("split 3")
    assert str(for_spark(error)) == (
        "too many requests\nwhere: split 3 · HTTP 429 · request id R1\nto do: wait"
    )


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n.endswith("Error")])
def test_every_error_is_restored_with_its_type(name: str) -> None:
    kind = getattr(errors, name)
    error = kind("it failed: badly", hint="do this")
    error.add_note("split 3 of demo.orders")
    back = from_spark(RuntimeError(_story(for_spark(error))))
    assert type(back) is kind
    assert (back.message, back.hint) == ("it failed: badly", "do this")
    assert back.notes == ("split 3 of demo.orders",)


def test_java_frames_after_the_text_of_an_error_are_omitted() -> None:
    text = _story(for_spark(ConversionError("no", hint="cast it")))
    back = from_spark(RuntimeError(text + "\n\tat org.apache.spark.X.y(X.scala:1)\n"))
    assert (str(back), back and back.hint) == ("no", "cast it")


def test_errors_of_other_libraries_are_unchanged() -> None:
    assert from_spark(RuntimeError("ZeroDivisionError: division by zero")) is None
    assert from_spark(RuntimeError("odps_nb.errors.Invented: x")) is None
    with pytest.raises(ZeroDivisionError), task_errors("split 1"):
        _ = 1 / 0


def test_the_hint_of_an_expired_session_is_to_read_again() -> None:
    with (
        pytest.raises(SessionExpiredError, match="to do: read the table again"),
        task_errors("split 1", expired="read the table again"),
    ):
        raise SessionExpiredError("the session is over")


@pytest.mark.spark
def test_an_error_of_a_task_reaches_the_driver_without_java_frames(spark: SparkSession) -> None:
    def fail(batches: object) -> object:
        with task_errors("split 1 of demo.orders", expired="read the table again"):
            raise SessionExpiredError("the session is over", request_id="R1")
        yield

    with pytest.raises(Exception, match="the session is over") as caught:
        spark.range(1).mapInArrow(fail, "a int").collect()
    assert "java" not in str(caught.value).lower()
    back = from_spark(caught.value)
    assert isinstance(back, SessionExpiredError)
    assert back.hint == "read the table again"
    assert back.notes == ("split 1 of demo.orders · request id R1",)


def test_a_task_profile_contains_the_keys_and_never_shows_them() -> None:
    known = dataclasses.replace(PROFILE, tunnel_endpoint="http://127.0.0.1:2")
    with StorageClient(known) as storage:
        task = TaskProfile.of(storage)
    again = pickle.loads(pickle.dumps(task))
    assert again == task
    assert again.profile == known
    assert "very-secret" not in repr(task) + str(task) + f"{task}"
    assert "demo" in repr(task)


def test_a_profile_is_used_unchanged_or_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in PROFILE.as_options().items():
        monkeypatch.setenv(f"ODPS_{key.upper()}", value)
    assert profile_of(PROFILE) is PROFILE
    assert profile_of(None) == PROFILE
