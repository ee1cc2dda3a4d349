"""PySpark 3.5: functions that need 4.0 raise an error that says so; all others work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspark
import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError, MissingDependencyError

NEEDS = {
    "attach": lambda: odps_nb.spark.attach(Any, None, "orders"),
    "options": lambda: odps_nb.spark.options("a profile"),
    "register": lambda: odps_nb.spark.register(Any),
}
REST = {
    "blob_map": lambda: odps_nb.spark.blob_map(Any, None, "content", lambda _: None, "n int"),
    "explain_sql": lambda: odps_nb.spark.explain_sql(Any, None, "select 1"),
    "read": lambda: odps_nb.spark.read(Any, None, "orders"),
    "sql": lambda: odps_nb.spark.sql(Any, None, "select 1"),
    "with_blobs": lambda: odps_nb.spark.with_blobs(Any, None, "content"),
    "write": lambda: odps_nb.spark.write(Any, None, "orders"),
}


@pytest.fixture(autouse=True)
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "3.5.6")


@pytest.mark.parametrize("name", NEEDS)
def test_functions_that_need_python_data_sources_name_an_alternative(name: str) -> None:
    with pytest.raises(MissingDependencyError) as caught:
        NEEDS[name]()
    assert caught.value.message == (
        f"odps_nb.spark.{name} needs PySpark 4.0 or newer, which has Python data sources, but "
        "PySpark 3.5 is installed"
    )
    assert "odps_nb.spark.read, sql and write, and foreachBatch" in str(caught.value.hint)


def test_a_remote_session_names_the_required_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)
    with pytest.raises(MissingDependencyError, match=r"remote Spark session needs PySpark 4\.0"):
        odps_nb.spark.session(remote="sc://127.0.0.1:15002")


@pytest.mark.parametrize("call", REST.values(), ids=REST)
def test_all_other_functions_check_their_arguments(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError, match="is of type"):
        call()


def test_the_lists_of_functions_contain_the_complete_public_interface() -> None:
    assert {*NEEDS, *REST, "NEW_BLOB", "session"} == {*odps_nb.spark.__all__}
