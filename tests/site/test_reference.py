"""The reference contains every public name, error, environment variable and page."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
from site_pages import with_site_links

from odps_nb.client.auth.fields import FIELDS
from odps_nb.notebook.magics.commands import COMMANDS
from tests.support.signatures import PUBLIC, TYPES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

_VARIABLE = re.compile(r"""["'`](ODPS_[A-Z][A-Z_]*[A-Z])\b""")


def documented() -> set[str]:
    pages = "\n".join(path.read_text("utf-8") for path in REFERENCE.glob("*.md"))
    return set(re.findall(r"^\.\. auto\w+:: (\S+)", pages, re.MULTILINE))


@pytest.mark.parametrize("module", [*PUBLIC, TYPES])
def test_every_public_name_is_on_a_page_of_the_reference(module: str) -> None:
    names = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
    assert names - documented() - {*PUBLIC, TYPES} == set()


def test_the_page_of_errors_says_what_to_do_about_each_error() -> None:
    page = (REFERENCE / "errors.md").read_text("utf-8")
    classes = [name for name in importlib.import_module("odps_nb.errors").__all__ if name[0] < "a"]
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE))
    assert len(classes) > 20
    assert [name for name in classes if len(rows.get(name, "")) < 10] == []


def test_every_environment_variable_is_on_the_page_of_settings() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "odps_nb").rglob("*.py")]
    read = {name for source in sources for name in _VARIABLE.findall(source)}
    read |= {f"ODPS_{name.upper()}" for name in FIELDS}
    assert {"ODPS_NB_PROFILES", "ODPS_NB_SPARK_KEYS", "ODPS_TIMEZONE"} <= read
    page = (REFERENCE / "settings.md").read_text("utf-8")
    assert read - set(re.findall(r"`(ODPS_[A-Z_]+)`", page)) == set()


def test_the_page_of_magics_lists_every_subcommand_with_a_summary() -> None:
    assert "{odps-magics}" in (REFERENCE / "magics.md").read_text("utf-8")
    assert [name for name, command in COMMANDS.items() if not command.summary] == []


def test_every_page_of_docs_is_in_a_table_of_contents() -> None:
    """Sphinx also reports this, but only `make docs` runs it."""
    listed: set[str] = set()
    for name in ("index", "start", "guides", "internals", "reference/index"):
        page = (DOCS / f"{name}.md").read_text("utf-8")
        for body in re.findall(r"```\{toctree\}\n(.*?)```", page, re.DOTALL):
            folder = "reference/" if name.startswith("reference/") else ""
            listed |= {f"{folder}{line}" for line in body.split("\n") if line and line[0] != ":"}
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    globbed = re.compile(r"(decisions|howto|results|tutorials)/")
    assert {page for page in pages if not globbed.match(page)} - listed == {"index"}


def test_the_examples_of_the_page_of_errors_show_actual_output() -> None:
    done = doctest.testfile(str(REFERENCE / "errors.md"), module_relative=False)
    assert done.attempted > 0
    assert done.failed == 0


def test_links_are_rewritten_also_across_lines_and_not_in_code(tmp_path: Path) -> None:
    code = "```python\nrows[0](docs/a.md)\n```\n"
    text = f"See [where\nto](docs/scale.md#plan), [x].\n\n{code}\n[one](docs/filters.md)\n"
    made = with_site_links(text, "README.md", tmp_path)
    linked = f"See [where\nto](../scale.md#plan), [x].\n\n{code}\n[one](../filters.md)\n"
    assert made == linked
