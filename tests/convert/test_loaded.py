"""`loaded` returns a library only after its import has ended."""

from __future__ import annotations

import builtins
import importlib
import sys
import threading

from odps_nb.convert.loaded import loaded


def test_a_library_that_another_thread_is_importing_is_used_after_the_import(tmp_path, monkeypatch):
    begun, go_on, found = threading.Event(), threading.Event(), []
    (tmp_path / "half_imported.py").write_text("import builtins\nbuiltins.half()\nWHOLE = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(builtins, "half", lambda: (begun.set(), go_on.wait()), raising=False)
    importing = threading.Thread(target=importlib.import_module, args=("half_imported",))
    importing.start()
    begun.wait()
    asking = threading.Thread(
        target=lambda: found.append(hasattr(loaded("half_imported"), "WHOLE"))
    )
    asking.start()
    go_on.set()
    importing.join()
    asking.join()
    assert found == [True]
    del sys.modules["half_imported"]


def test_loaded_imports_no_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "this", raising=False)
    assert loaded("this") is None
    assert "this" not in sys.modules
    monkeypatch.setitem(sys.modules, "this", None)  # blocked, as in processes without pandas
    assert loaded("this") is None
