"""The end of cells in a real shell."""

from __future__ import annotations

import threading

from IPython.core.interactiveshell import InteractiveShell

from odps_nb.notebook.display.output import after_cell


def test_each_cell_reports_its_error_until_the_callback_is_removed(
    shell: InteractiveShell,
) -> None:
    ends: list[tuple[BaseException | None, threading.Thread]] = []
    remove = after_cell(lambda error: ends.append((error, threading.current_thread())))
    shell.run_cell("1 + 1")
    shell.run_cell("raise KeyboardInterrupt")
    remove()
    remove()
    shell.run_cell("1 + 1")
    assert [error is not None and type(error) for error, _ in ends] == [False, KeyboardInterrupt]
    assert {thread for _, thread in ends} == {threading.main_thread()}


def test_outside_of_a_notebook_no_callback_is_called() -> None:
    InteractiveShell.clear_instance()
    after_cell(lambda _: None)()
