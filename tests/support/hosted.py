"""Stand-ins for functions of hosted notebooks, so that a page's recipes can run.

They imitate only the calls: Colab's ``userdata.get``, Kaggle's ``get_secret``, and ``getpass``,
which would wait for a user. Their secrets are the keys of the profile that the page names
``local``.
"""

from __future__ import annotations

import contextlib
import getpass
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def hosted(names: Mapping[str, Any], text: str) -> Iterator[None]:
    """Provide the stand-ins that a page's text imports while its code runs with these variables."""

    def secret(name: str) -> str:
        return str(getattr(names["local"], name.removeprefix("ODPS_").lower()))

    class UserSecretsClient:
        def get_secret(self, label: str) -> str:
            return secret(label)

    colab = _module("google.colab", userdata=_module("google.colab.userdata", get=secret))
    kaggle = _module("kaggle_secrets", UserSecretsClient=UserSecretsClient)
    with contextlib.ExitStack() as stack:
        if "from google.colab import" in text:
            stack.enter_context(_importable(colab))
        if "from kaggle_secrets import" in text:
            stack.enter_context(_importable(kaggle))
        if "from getpass import" in text:
            asked = getpass.getpass
            stack.callback(setattr, getpass, "getpass", asked)
            getpass.getpass = lambda prompt="", stream=None: secret("ODPS_ACCESS_KEY")
        yield


def _module(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(contents)
    return module


@contextlib.contextmanager
def _importable(module: ModuleType) -> Iterator[None]:
    names = module.__name__.split(".")
    package = [_module(names[0])] if len(names) > 1 and not _is_there(names[0]) else []
    added = [*package, module]
    kept = {one.__name__: sys.modules.get(one.__name__) for one in added}
    sys.modules.update((one.__name__, one) for one in added)
    try:
        yield
    finally:
        for name, before in kept.items():
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before


def _is_there(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True
