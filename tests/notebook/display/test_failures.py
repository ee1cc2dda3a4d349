from __future__ import annotations

import gc
import sys

import pytest

from odps_nb.errors import CancelledError, NotFoundError, StateError
from odps_nb.notebook.display.failures import FailureHook, error_lines

CELL = """
from odps_nb.errors import NotFoundError
error = NotFoundError("table orders_x is not there", code="NoSuchObject", status=404,
                      request_id="R-1", hint="see %odps tables")
error.add_note("GET table orders_x")
raise error
"""
LINES = [
    "NotFoundError: table orders_x is not there",
    "where: GET table orders_x · code NoSuchObject · HTTP 404 · request id R-1",
    "to do: see %odps tables",
]


@pytest.fixture
def hook(shell):
    wanted = {"traceback": False}
    hook = FailureHook(shell, wants_traceback=lambda: wanted["traceback"])
    hook.install()
    wanted["hook"] = hook
    yield wanted
    hook.remove()


def plain(text: str) -> list[str]:
    for code in ("\x1b[1m", "\x1b[0m"):
        text = text.replace(code, "")
    return text.splitlines()


def test_an_error_has_three_lines(shell, hook, capsys):
    result = shell.run_cell(CELL)
    assert plain(capsys.readouterr().out) == LINES
    assert isinstance(result.error_in_exec, NotFoundError)
    assert not result.success


def test_errors_that_are_not_ours_keep_their_traceback(shell, hook, capsys):
    shell.run_cell("1 / 0")
    out = capsys.readouterr().out
    assert "Traceback" in out
    assert "ZeroDivisionError" in out


def test_an_option_shows_the_traceback(shell, hook, capsys):
    hook["traceback"] = True
    result = shell.run_cell(CELL)
    out = capsys.readouterr().out
    assert "Traceback" in out
    assert "raise error" in out
    assert isinstance(result.error_in_exec, NotFoundError)


def test_tb_shows_the_traceback_of_the_last_error(shell, hook, capsys):
    shell.run_cell(CELL)
    capsys.readouterr()
    shell.run_cell("%tb")
    assert "raise error" in capsys.readouterr().out
    assert isinstance(sys.last_value, NotFoundError)


BIG = """
import weakref
from odps_nb.errors import NotFoundError
class Big: pass
refs = []
def fail():
    big = Big()
    refs.append(weakref.ref(big))
    raise NotFoundError("table orders_x is not there")
fail()
"""


def test_the_last_traceback_is_kept_as_text_without_its_frames(shell, hook):
    assert hook["hook"].last_traceback() is None
    shell.run_cell(BIG)
    shell.run_cell("1 / 0")
    gc.collect()
    assert shell.user_ns["refs"][0]() is None
    text = hook["hook"].last_traceback()
    assert text.startswith("Traceback")
    assert "in fail" in text
    assert "NotFoundError: table orders_x is not there" in text


def test_an_exception_hook_of_another_library_still_runs(shell, capsys):
    seen = []
    shell.set_custom_exc(
        (KeyError,), lambda self, kind, error, tb, tb_offset=None: seen.append(kind)
    )
    hook = FailureHook(shell, wants_traceback=lambda: False)
    hook.install()
    shell.run_cell("{}['x']")
    assert seen == [KeyError]
    shell.run_cell(CELL)
    assert plain(capsys.readouterr().out) == LINES
    hook.remove()
    assert shell.custom_exceptions == (KeyError,)
    shell.run_cell("{}['x']")
    assert seen == [KeyError, KeyError]


def test_unloading_does_not_remove_a_hook_that_was_installed_later(shell):
    hook = FailureHook(shell, wants_traceback=lambda: False)
    hook.install()
    shell.set_custom_exc((KeyError,), lambda self, kind, error, tb, tb_offset=None: None)
    hook.remove()
    assert shell.custom_exceptions == (KeyError,)


def test_unloading_restores_tracebacks(shell, capsys):
    hook = FailureHook(shell, wants_traceback=lambda: False)
    hook.install()
    hook.remove()
    hook.remove()
    shell.run_cell(CELL)
    assert "Traceback" in capsys.readouterr().out


def test_a_long_or_malicious_text_becomes_one_bounded_line():
    error = CancelledError("a\nb\x1b[2J\x07" + "x" * 10_000, hint="c\r\nd")
    lines = error_lines(error)
    assert len(lines) == 2
    assert lines[0].startswith(r"CancelledError: a b\x1b[2J\x07x")
    assert len(lines[0]) <= 600
    assert lines[1] == "to do: c d"
    assert all(line.isprintable() for line in lines)


def test_an_error_without_a_place_has_two_lines(shell, hook, capsys):
    shell.run_cell(
        "from odps_nb.errors import StateError\nraise StateError('closed', hint='open it')"
    )
    assert plain(capsys.readouterr().out) == ["StateError: closed", "to do: open it"]
    assert error_lines(StateError("closed"))[0] == "StateError: closed"
