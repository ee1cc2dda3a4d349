"""The error classes: their hierarchy, details, pickling, reprs, and the lines that users see."""

from __future__ import annotations

import ast
import builtins
import copy
import copyreg
import inspect
import pickle
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb import errors
from odps_nb.errors import (
    ChecksumError,
    ConversionError,
    FramingError,
    MissingDependencyError,
    NotFoundError,
    OdpsNbError,
    QueryError,
    ServiceError,
    StateError,
    ThrottledError,
    explain,
)
from odps_nb.terms import BlobReference

KINDS = [
    kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind)
    and issubclass(kind, Exception)
    and not issubclass(kind, Warning)
    and not name.startswith("_")
]
TREE = {
    "OdpsNbError": "Exception",
    "ProtocolError": "OdpsNbError",
    "ChecksumError": "ProtocolError",
    "TruncatedError": "ProtocolError",
    "FramingError": "ProtocolError",
    "OversizeError": "ProtocolError",
    "LimitExceededError": "OdpsNbError",
    "TransportError": "OdpsNbError",
    "ConnectError": "TransportError",
    "CertificateError": "ConnectError",
    "RequestTimeoutError": "TransportError",
    "BrokenStreamError": "TransportError",
    "ServiceError": "OdpsNbError",
    "InvalidRequestError": "ServiceError",
    "AccessDeniedError": "ServiceError",
    "NotFoundError": "ServiceError",
    "NoStorageApiError": "ServiceError",
    "ConflictError": "ServiceError",
    "SessionExpiredError": "ServiceError",
    "ThrottledError": "ServiceError",
    "ServerFaultError": "ServiceError",
    "QueryError": "ServiceError",
    "ArgumentError": "OdpsNbError",
    "MissingKeyError": "ArgumentError",
    "PositionError": "ArgumentError",
    "ConversionError": "OdpsNbError",
    "ConfigError": "OdpsNbError",
    "MissingDependencyError": "ConfigError",
    "CancelledError": "OdpsNbError",
    "StateError": "OdpsNbError",
}

PACKAGES = ("access", "client", "notebook/magics", "notebook/progress", "spark", "torch")

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def full(kind: type[Any]) -> Any:
    """One error with a value for every detail."""
    return kind("what failed", **{name: f"<{name}>" for name in kind.fact_names})


def test_the_class_hierarchy_is_as_documented() -> None:
    assert {kind.__name__: kind.__mro__[1].__name__ for kind in KINDS} == TREE
    assert {*TREE, "OdpsNbWarning", "explain", "visible"} == set(errors.__all__)
    for name in TREE:
        assert name in (errors.__doc__ or "")


@every_kind
def test_every_error_class_has_a_one_line_description(kind: type[Any]) -> None:
    assert (kind.__doc__ or "").strip().endswith(".")


@every_kind
def test_an_error_survives_pickling_with_message_details_and_notes(kind: type[Any]) -> None:
    error = full(kind)
    error.add_note("split 4")
    error.add_note("table p.t")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        back = pickle.loads(pickle.dumps(error, protocol))
        assert type(back) is kind
        assert back.message == str(back) == "what failed"
        assert back.notes == ("split 4", "table p.t")
        for name in kind.fact_names:
            assert getattr(back, name) == f"<{name}>"


@pytest.fixture(params=["alone", "beside pyodps"])
def _reducers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run tests with and without the pickle functions that pyodps registers for every exception."""
    table = {k: v for k, v in copyreg.dispatch_table.items() if not issubclass(k, BaseException)}
    monkeypatch.setattr(copyreg, "dispatch_table", table)
    monkeypatch.setattr(copy, "dispatch_table", table)
    if request.param == "beside pyodps":
        from odps.lib.tblib import pickling_support

        pickling_support.install()
        assert errors.OdpsNbError in table


@every_kind
@pytest.mark.usefixtures("_reducers")
def test_a_copied_error_is_a_separate_object(kind: type[Any]) -> None:
    error = full(kind)
    error.add_note("one")
    for other in (copy.copy(error), copy.deepcopy(error)):
        other.add_note("two")
        assert (type(other), other.notes, error.notes) == (kind, ("one", "two"), ("one",))


@every_kind
def test_details_of_an_error_are_none_by_default(kind: type[Any]) -> None:
    error = kind("x")
    assert "hint" in kind.fact_names
    assert [getattr(error, name) for name in kind.fact_names] == [None] * len(kind.fact_names)
    assert error.notes == ()


@every_kind
def test_an_unknown_detail_raises_a_type_error(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__} has no facts named \\['colour'\\]"):
        kind("x", colour="red")


@every_kind
def test_the_repr_of_an_error_is_short_and_names_class_message_and_details(kind: type[Any]) -> None:
    assert repr(full(kind)).startswith(f"{kind.__name__}('what failed'")
    assert "hint='<hint>'" in repr(full(kind))
    assert repr(kind("x")) == f"{kind.__name__}('x')"
    huge = kind("m" * 10**5, **dict.fromkeys(kind.fact_names, "f" * 10**5))
    assert len(repr(huge)) < 2500


def test_a_state_error_is_an_odps_nb_error_and_a_runtime_error() -> None:
    with pytest.raises(OdpsNbError, match="the connection is closed"):
        raise StateError("the connection is closed")
    assert issubclass(StateError, RuntimeError)


#: Built-in errors that the public packages raise: a Python protocol requires the error, or a caller
#: in the package catches it.
BUILT_IN = {
    "__init__.py": "AttributeError",
    "html.py": "ValueError",  # a mistake in a renderer of this package
    "explained.py": "AttributeError TypeError",  # as Python raises them for missing methods
    "types.py": "AttributeError",
    "torch/datasets.py": "TypeError",  # len() of a dataset with an unknown length
    "access/engines/expression.py": "LookupError",  # caught: not pushed down
    "client/blob/seekable.py": "ValueError",  # as file objects raise them
    "client/blob/upload.py": "OSError",  # caught: becomes an ArgumentError that names the file
    "spark/__init__.py": "AttributeError",
    "spark/reading/casting.py": "KeyError",  # cannot happen
    "spark/reading/task.py": "IndexError",  # as sequences raise them
}


def test_public_functions_raise_only_odps_nb_errors() -> None:
    root = Path(errors.__file__).parent
    found: dict[str, set[str]] = {}
    for path in (*root.glob("*.py"), *(p for one in PACKAGES for p in (root / one).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            raised = node.exc if isinstance(node, ast.Raise) else None
            raised = raised.func if isinstance(raised, ast.Call) else raised
            kind = getattr(builtins, raised.id, None) if isinstance(raised, ast.Name) else None
            if inspect.isclass(kind) and kind is not AssertionError:
                found.setdefault(path.relative_to(root).as_posix(), set()).add(kind.__name__)
    del found["errors.py"]  # a detail that an error does not have
    del found["child_process.py"]  # both callers catch it
    assert found == {name: set(kinds.split()) for name, kinds in BUILT_IN.items()}


def test_notes_are_shown_with_the_traceback() -> None:
    with pytest.raises(FramingError) as caught:
        raise_with_note()
    assert caught.value.__notes__ == ["frame 3"]
    error = NotFoundError("no table", code="NoSuchTable", request_id="R1")
    error.add_note("table p.t")
    error.hint = "did you mean orders?"  # a higher layer may set it later
    assert "".join(traceback.format_exception(error)).endswith(
        "NotFoundError: no table\ntable p.t\ncode NoSuchTable · request id R1\n"
        "to do: did you mean orders?\n"
    )


def test_notes_written_back_by_a_library_are_not_repeated() -> None:
    error = NotFoundError("no table", code="NoSuchTable", hint="look")
    error.add_note("table p.t")
    error.__notes__ = [*error.__notes__, "and one more"]
    assert error.notes == ("table p.t", "and one more")
    assert len(error.__notes__) == 4


def test_the_traceback_of_a_script_ends_with_hint_and_request_id() -> None:
    script = (
        "from odps_nb.errors import AccessDeniedError\n"
        "raise AccessDeniedError('no right', request_id='R1', hint='ask the owner')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.splitlines()[-3:] == [
        "odps_nb.errors.AccessDeniedError: no right",
        "request id R1",
        "to do: ask the owner",
    ]


def raise_with_note() -> None:
    error = FramingError("bad length")
    error.add_note("frame 3")
    raise error


texts = st.text().map(errors.visible)


@given(texts, st.lists(texts, max_size=3), st.none() | texts)
def test_any_error_text_survives_pickling(message: str, notes: list[str], hint: str | None) -> None:
    error = ChecksumError(message, hint=hint, expected=message, actual=2**70, block=0)
    for note in notes:
        error.add_note(note)
    back = pickle.loads(pickle.dumps(error))
    assert (back.message, back.notes, back.hint, back.expected, back.actual, back.block) == (
        message,
        tuple(notes),
        hint,
        message,
        2**70,
        0,
    )


# -- the lines that users see -----------------------------------------------------------------


def test_an_explanation_states_the_error_its_place_and_the_remedy() -> None:
    error = NotFoundError(
        "table p.t is not there",
        status=404,
        code="NoSuchTable",
        request_id="r-1",
        hint="odps.tables() lists the tables",
    )
    error.add_note("while opening a read session")
    assert explain(error) == [
        "NotFoundError: table p.t is not there",
        "where: while opening a read session · code NoSuchTable · HTTP 404 · request id r-1",
        "to do: odps.tables() lists the tables",
    ]


def test_an_explanation_omits_unknown_parts() -> None:
    assert explain(ConversionError("does not fit")) == ["ConversionError: does not fit"]
    assert explain(StateError("closed", hint="open it again")) == [
        "StateError: closed",
        "to do: open it again",
    ]
    empty_note = ThrottledError("slow down")
    empty_note.add_note("")
    assert explain(empty_note) == ["ThrottledError: slow down"]


@pytest.mark.parametrize("number", [
    0x00, 0x1B, 0x7F, 0x85, 0xAD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x180E, 0x200B, 0x200C,
    0x200D, 0x200F, 0x2028, 0x202E, 0x2060, 0x206A, 0x2800, 0x3164, 0xD800, 0xFE0F, 0xFEFF, 0xFFA0,
    0xFFF9, 0x1D173, 0xE0041, 0xE0100,
])  # fmt: skip
def test_invisible_characters_in_a_name_are_escaped(number: int) -> None:
    seen = errors.visible(f"a{chr(number)}b")
    assert seen.isascii()
    assert seen.isprintable()
    assert f"{number:02x}" in seen


@pytest.mark.parametrize("text", ["👨‍👩‍👧", "می‌خواهم", "❤️‍🔥", "1️⃣", "葛󠄀"])
def test_joiners_in_scripts_and_emoji_are_kept(text: str) -> None:
    assert errors.visible(text) == text


@given(st.text())
def test_escaped_text_is_not_escaped_again(text: str) -> None:
    assert errors.visible(errors.visible(text)) == errors.visible(text)


def test_an_error_of_another_library_is_explained_in_one_line() -> None:
    assert explain(ValueError("x")) == ["ValueError: x"]


@every_kind
def test_an_explanation_has_at_most_three_lines(kind: type[Any]) -> None:
    lines = explain(full(kind))
    assert 2 <= len(lines) <= 3
    assert lines[-1] == "to do: <hint>"


def test_an_argument_error_is_also_a_value_error() -> None:
    error = errors.ArgumentError("limit is -1", argument="limit", hint="omit it")
    assert isinstance(error, (errors.OdpsNbError, ValueError))
    assert not isinstance(error, errors.ServiceError)
    with pytest.raises(ValueError, match="not a blob reference"):
        BlobReference.from_text("!")


def test_an_oversized_response_is_a_protocol_error_and_a_limit_error() -> None:
    assert not issubclass(errors.LimitExceededError, errors.ProtocolError)
    assert issubclass(errors.OversizeError, errors.ProtocolError)
    assert issubclass(errors.OversizeError, errors.LimitExceededError)


def test_the_error_for_a_missing_library_names_the_package_to_install() -> None:
    error = MissingDependencyError(
        "pyspark is not installed", extra="spark", hint="pip install 'odps-nb[spark]'"
    )
    assert (error.extra, error.option) == ("spark", None)


def test_service_errors_contain_the_details_that_support_needs() -> None:
    wanted = {"status", "code", "request_id", "retry_after"}
    assert all(wanted <= set(kind.fact_names) for kind in KINDS if issubclass(kind, ServiceError))
    assert issubclass(QueryError, ServiceError)
