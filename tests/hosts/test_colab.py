"""Colab: the install replaces nothing that its kernel needs, and everything works in that kernel.

``colab.txt`` lists the packages of Colab's image. The nightly tests install them into
``build/hosts/colab``, then odps_nb, and run cells there. PyPI does not have the image's
``google-colab``: set ``ODPS_NB_COLAB`` to a folder that contains ``google/colab`` (a checkout of
``googlecolab/colabtools``) to run its kernel; otherwise, ipykernel's own kernel runs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LINES = Path(__file__).with_name("colab.txt").read_text("utf-8").splitlines()
HAS = dict(line.partition(" ")[0].split("==") for line in LINES if not line.startswith("#"))
PINNED = {line.partition("==")[0] for line in LINES if line.endswith("# pinned")}
REPLACED = {"pillow", "sqlglot", "urllib3"}
"""Packages that pip replaces there: too old for SQL, or with known vulnerabilities."""
COLAB = os.environ.get("ODPS_NB_COLAB", "")
KERNEL = (
    "google.colab._kernel import Kernel" if COLAB else "ipykernel.ipkernel import IPythonKernel"
)
CELLS = {
    "import": "import odps_nb",
    "load": "%load_ext odps_nb\nodps = %odps connect",
    "local": "%odps connect local",
    "sql": "%%odps sql\nselect status, count(*) as n from orders group by status",
    "read": "%odps read orders -n 5 -o frame",
    "explore": 'odps.table("orders").explore()',
    "blobs": 'odps.table("media").blobs("content", limit=4)',
    "chart": 'odps.table("orders").chart("status")',
    "settings": "%config OdpsMagics.progress = 'text'",
    "whole": "%odps read orders -p ds=2024-01-01 -c id",
    "help": "%odps read?",
    "unload": "%unload_ext odps_nb",
}


def requirements() -> dict[str, Requirement]:
    """Return the requirements of ``odps-nb[notebook]``, the documented installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = project["dependencies"] + project["optional-dependencies"]["notebook"]
    return {canonicalize_name(one.name): one for one in map(Requirement, lines)}


def test_the_requirements_allow_all_packages_of_colab_except_three_unpinned_packages() -> None:
    needs = requirements()
    shared = needs.keys() & HAS.keys()
    assert {name for name in shared if HAS[name] not in needs[name].specifier} == REPLACED
    assert not REPLACED & PINNED
    assert needs.keys() - HAS.keys() == {"crc32c", "lz4"}  # Colab's image lacks these packages


Run = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def installed() -> tuple[Path, dict[str, str]]:
    """The Python of an environment with Colab's packages and odps_nb, and the packages replaced."""
    folder = ROOT / "build" / "hosts" / "colab"
    python = folder / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    pins = [f"{name}=={version}" for name, version in HAS.items()]
    kernel = ["httplib2", "ipython-genutils", "pexpect"]  # imported by google.colab
    subprocess.run([*pip, "install", "-q", *pins, *kernel], check=True)
    before = _versions(pip)
    subprocess.run([*pip, "install", "-q", "-e", f"{ROOT}[notebook]"], check=True)
    changed = {k: v for k, v in _versions(pip).items() if k in before and before[k] != v}
    subprocess.run([*pip, "install", "-q", "-e", f"{ROOT}[notebook,local]"], check=True)
    return python, changed


def _versions(pip: list[str]) -> dict[str, str]:
    command = [*pip, "list", "--format=json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return {canonicalize_name(one["name"]): one["version"] for one in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def run(installed: tuple[Path, dict[str, str]], service: Any) -> Iterator[Run]:
    """Return a function that runs a cell in Colab's kernel and returns its messages."""
    manager = KernelManager(kernel_name="python3")
    assert manager.kernel_spec is not None
    launch = (
        f"from ipykernel.kernelapp import IPKernelApp; from {KERNEL} as Kernel; "
        "IPKernelApp.launch_instance(kernel_class=Kernel)"
    )
    argv = [str(installed[0]), "-X", "frozen_modules=off", "-c", launch, "-f", "{connection_file}"]
    manager.kernel_spec.argv = argv
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "ODPS_"))}
    keys = {name: getattr(service, name) for name in ("endpoint", "project")}
    keys |= {name: getattr(service, name) for name in ("access_id", "access_key")}
    own = {f"ODPS_{name.upper()}": value for name, value in keys.items()}
    manager.start_kernel(env={**kept, **own, "PYTHONPATH": COLAB})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)

        def cell(code: str) -> list[dict[str, Any]]:
            shown: list[dict[str, Any]] = []
            reply = client.execute_interactive(code, timeout=300, output_hook=shown.append)
            assert reply["content"]["status"] == "ok", reply["content"]
            return shown

        yield cell
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_pip_replaces_only_the_three_expected_packages(
    installed: tuple[Path, dict[str, str]],
) -> None:
    assert installed[1].keys() == REPLACED


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_every_magic_works_in_the_kernel_of_colab(run: Run) -> None:
    shown = {name: run(code) for name, code in CELLS.items()}
    for name, messages in shown.items():
        assert not [one["content"] for one in messages if one["msg_type"] == "error"], name
        assert not [one for one in messages if one["content"].get("name") == "stderr"], name
    for name in ("sql", "explore", "blobs", "chart"):
        bundles = [one["content"]["data"] for one in shown[name] if "data" in one["content"]]
        assert any("text/html" in one for one in bundles), name
        assert any("application/vnd.jupyter.widget-view+json" in one for one in bundles), name
    assert run("get_ipython().__class__.__module__, __import__('IPython').__version__")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_tab_completes_in_the_kernel_of_colab(run: Run) -> None:
    run("%load_ext odps_nb\n%odps connect")
    run("%odps read orders -n 1 -q")
    tab = "print([get_ipython().complete(None, line)[1] for line in {}])"
    lines = ["%odps ex", "%odps read orders --colu", "df = %odps read ord"]
    (said,) = [m["content"]["text"] for m in run(tab.format(lines)) if m["msg_type"] == "stream"]
    assert re.fullmatch(r"\[\['explore'\], \['--columns'\], \['orders'.*\]\]\n", said), said
