"""The page for users of pyodps: every name is listed, every block runs, with equal results."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import older_pyodps
import pytest

import odps_nb
from tests.support.compat import older_page
from tests.support.compat.sdk_names import names_of

pytestmark = pytest.mark.compat

MAXSTORAGE = "odps.maxstorage"


@pytest.fixture
def entry(service: Any, odps: Any) -> Iterator[Any]:
    """The variables that the blocks use; the table that they create is dropped afterwards."""
    from odps import ODPS

    yield ODPS(
        service.access_id, service.access_key, project=service.project, endpoint=service.endpoint
    )
    odps.drop_table("visits", if_exists=True)


@pytest.fixture(scope="module")
def older(run_older: Callable[..., list[dict[str, Any]]], service: Any) -> list[dict[str, Any]]:
    return run_older(older_page.__name__, service)


def run(block: str, entry: Any) -> dict[str, Any]:
    names: dict[str, Any] = {"entry": entry}
    exec(block, names)
    if hasattr(names.get("odps"), "close"):
        names["odps"].close()
    return names


def mentioned(text: str) -> set[str]:
    """Return the words in code spans and in headings."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", text) + re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {word for span in spans for word in re.findall(r"\w+", span)}


def sections(heading: str) -> dict[str, set[str]]:
    parts = re.split(r"^### ", older_page.part(heading), flags=re.MULTILINE)
    return {part.splitlines()[0]: mentioned(part) for part in parts[1:]}


@pytest.mark.nightly
def test_the_page_maps_every_name_of_the_older_classes(older: list[dict[str, Any]]) -> None:
    version, classes, _ = older
    assert version == {"pyodps": older_pyodps.VERSION}
    there = sections(older_page.PART)
    classes["CrcStrippingStream"] = classes.pop("_CRCStrippingStream")
    assert classes.keys() == there.keys() - {"Common to all classes"}
    missing = {
        f"{kind}.{name}" for kind, names in classes.items() for name in {*names} - there[kind]
    }
    assert not missing


def test_the_page_maps_every_name_of_maxstorage() -> None:
    import odps.maxstorage as sdk

    there = mentioned(older_page.part(MAXSTORAGE))
    assert not [name for name in sdk.__all__ if name not in there]
    missing = {
        f"{kind}.{name}"
        for kind in sdk.__all__
        for name in names_of(getattr(sdk, kind), arguments=kind == "MaxStorageClient")
        if name not in there
    }
    assert not missing


def test_classes_of_odps_nb_have_the_names_that_the_page_lists() -> None:
    import odps_nb.stream_io as ours

    row = re.compile(r"^\| `([a-z]\w+)\(.*?\| (same|different|not available)", re.MULTILINE)
    checked = 0
    for part in re.split(r"^### ", older_page.part(older_page.PART), flags=re.MULTILINE)[1:]:
        kind = getattr(ours, part.splitlines()[0], None)
        for name, verdict in row.findall(part):
            assert hasattr(kind, name) == (verdict != "not available"), (kind, name)
            checked += 1
    assert checked > 30


def test_odps_nb_names_on_the_page_exist() -> None:
    paths = set(re.findall(r"`(odps_nb(?:\.\w+)+)", older_page.PAGE.read_text("utf-8")))
    assert paths
    for path in paths:
        assert reduce(getattr, path.split(".")[1:], importlib.import_module("odps_nb")), path


def test_blocks_for_the_older_module_have_equal_results_before_and_after(
    older: list[dict[str, Any]], entry: Any
) -> None:
    before, after = older_page.blocks(older_page.PART)
    assert len(before) == len(after) == 2
    rows, sizes = (run(block, entry) for block in after)
    assert older[2] == {"rows": rows["rows"], "sizes": sizes["sizes"]}
    assert rows["rows"] > 100
    assert len(sizes["sizes"]) > 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_blocks_for_pyodps_have_equal_results_before_and_after(entry: Any) -> None:
    before, after = older_page.blocks(MAXSTORAGE)
    assert len(before) == len(after) == 2
    calls = [blocks[0] for blocks in older_page.blocks("Common calls")]
    pairs = [*zip(before, after, strict=True), tuple(calls)]
    for name, (one, other) in zip(("rows", "sizes", "counts"), pairs, strict=True):
        found = run(one, entry)[name]
        assert found == run(other, entry)[name]
        assert found


def test_calls_that_the_page_compares_exist_in_both_libraries() -> None:
    import odps
    from odps.models import Instance
    from odps.models import Table as TheirTable

    theirs = {"entry": odps.ODPS, "table": TheirTable, "instance": Instance, "odps": odps}
    ours = {"odps": odps_nb.Connection, "table": odps_nb.Table, "result": odps_nb.Result}
    rows = re.findall(r"^\| (`.+) \| (.+) \|$", older_page.part("Common calls"), re.MULTILINE)
    assert len(rows) > 10
    for cells in rows:
        for cell, known in zip(cells, (theirs, ours), strict=True):
            for name, attribute in re.findall(r"\b(\w+)\.(\w+)", re.sub(r'"[^"]*"', '""', cell)):
                assert hasattr(known[name], attribute), cell
