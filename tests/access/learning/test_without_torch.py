"""Without torch, `odps_nb.torch` names the package to install before it sends a request."""

from __future__ import annotations

import sys

import pytest

import odps_nb
from odps_nb.errors import MissingDependencyError


def test_without_torch_the_error_says_what_to_install(odps, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    table = odps.table("there_is_none")
    for call in (
        lambda: odps_nb.torch.rows(table),
        lambda: odps_nb.torch.blobs(table),
        lambda: odps_nb.torch.loader(None),
    ):
        with pytest.raises(MissingDependencyError) as caught:
            call()
        assert caught.value.extra == "torch"
        assert "odps-nb[torch]" in caught.value.hint
