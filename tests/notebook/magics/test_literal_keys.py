"""A key in a cell causes one warning, however the key reaches the connection."""

from __future__ import annotations

import warnings

import pytest

KEY = "abcdefGHIJKL0123456789mnopqrst"
PLACE = 'endpoint="http://127.0.0.1:1/api", project="p"'
LITERAL = {
    "argument": f'odps_nb.connect({PLACE}, access_id="me", access_key="{KEY}")',
    "value": f'odps_nb.connect({PLACE}, credentials=odps_nb.AccessKey("me", "{KEY}"))',
    "token": f'odps_nb.connect({PLACE}, credentials=odps_nb.BearerToken("{KEY}"))',
    "profile": f'odps_nb.connect(odps_nb.Profile({PLACE}, access_id="me", access_key="{KEY}"))',
    "environment": f'import os; os.environ.update(ODPS_ACCESS_ID="me", ODPS_ACCESS_KEY="{KEY}")\n'
    f"odps_nb.connect({PLACE})",
    "pyodps": f'from odps import ODPS; o = ODPS("me", "{KEY}", "p", "http://127.0.0.1:1/api")\n'
    "odps_nb.connect(o)",
}


def warnings_of(shell, *cells: str) -> list[str]:
    """Run cells; return the displayed warnings, with the line of source code if known."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
    shown = [
        warnings.formatwarning(one.message, one.category, one.filename, one.lineno, one.line)
        for one in caught
    ]
    assert KEY not in "".join(shown)
    return [text.partition("OdpsNbWarning: ")[2] for text in shown]


@pytest.fixture
def user(shell, monkeypatch):
    monkeypatch.setenv("ODPS_ACCESS_ID", "")  # restored after a cell has set it
    monkeypatch.setenv("ODPS_ACCESS_KEY", "")
    shell.run_cell("import odps_nb", store_history=True).raise_error()
    return shell


@pytest.mark.parametrize("way", LITERAL)
def test_a_key_in_a_cell_causes_one_warning(user, way):
    (told,) = warnings_of(user, LITERAL[way], LITERAL[way])
    assert told.startswith("a cell contains the ")
    assert "getpass.getpass()" in told
    assert "a profile or a keyring" in told


def test_a_key_of_an_earlier_cell_is_found(user):
    (told,) = warnings_of(
        user,
        f'keys = odps_nb.AccessKey("me", "{KEY}")',
        f"odps_nb.connect({PLACE}, credentials=keys)",
    )
    assert "access_key" in told


def test_a_key_outside_of_cells_causes_no_warning(user):
    user.user_ns["typed"] = KEY  # as if entered by getpass
    assert not warnings_of(user, f'odps_nb.connect({PLACE}, access_id="me", access_key=typed)')
    short = f'odps_nb.connect({PLACE}, access_id="me", access_key="k")'
    assert not warnings_of(user, short)  # another use of the same text
