"""Every code block in README and docs is run by a test, or the page states why it is not."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import ROOT, Block, blocks, close_all, compiled

# The test that runs the blocks of a page in a language; each test checks the number of blocks.
RUN = {
    ("README.md", "python"): "tests/test_readme.py",
    ("docs/blobs-in-spark.md", "python"): "tests/versions/torch_spark.py",
    ("docs/coming-from-pyodps.md", "python"): "tests/test_sdk_pages.py",
    ("docs/learning-from-blobs.md", "python"): "tests/versions/torch_loader.py",
    ("docs/open-questions.md", "sh"): "tests/probe/test_cli.py",
    ("docs/previews.md", "python"): "tests/notebook/preview/test_installed_kind.py",
    ("docs/previews.md", "toml"): "tests/notebook/preview/test_installed_kind.py",
    ("docs/protocol.md", "json"): "tests/test_protocol_page.py",
    ("docs/protocol.md", "python"): "tests/test_protocol_page.py",
    ("docs/protocol.md", "xml"): "tests/test_protocol_page.py",
    ("docs/results/requests.md", ""): "tests/compat/test_same_requests.py",
}
SHOWN = {"text"}  # output, not code
RUN_HERE = {"python", "pycon", "toml"}  # on pages that no other test runs


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def is_not_run(block: Block) -> bool:
    """Return whether no test runs a block of code and the page states no reason."""
    name = str(block.page.relative_to(ROOT))
    return not (
        block.language in SHOWN
        or block.language.startswith("{")  # a directive of the site
        or block.reason
        or block.is_commands
        or (name, block.language) in RUN
        or block.language in RUN_HERE
        or (name.startswith("docs/howto/") and (block.language == "sh" or block.is_magics))
        or (name == "README.md" and block.is_magics)
        or _is_run_recipe(block)
    )


def _is_run_recipe(block: Block) -> bool:
    """Return whether a block is the keyring recipe, which another test runs."""
    return (
        "keyring set" in block.text and Path(__file__).with_name("test_keyring_recipe.py").exists()
    )


def every_block() -> Iterator[Block]:
    for page in pages():
        yield from blocks(page)


def test_every_block_is_run_or_states_why_not():
    assert not [block.place for block in every_block() if is_not_run(block)]


def run_block(block: Block, names: dict[str, object]) -> None:
    if block.language == "python":
        exec(compiled(block.text, block), names)
    elif block.language == "pycon":
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        parsed = doctest.DocTestParser().get_doctest(block.text, names, block.place, None, None)
        assert runner.run(parsed, clear_globs=False) == (0, len(parsed.examples)) != (0, 0)
    else:
        assert tomllib.loads(block.text)


def test_blocks_that_no_other_test_runs_work(empty_folder: Path) -> None:
    for page in pages():
        name, names = str(page.relative_to(ROOT)), dict[str, object]()
        for block in blocks(page):
            held = block.reason or name.startswith("docs/howto/") or (name, block.language) in RUN
            if block.language in RUN_HERE and not held:
                run_block(block, names)
        close_all(names)


@pytest.mark.parametrize(
    ("language", "text"),
    [("python", "1 / 0\n"), ("pycon", ">>> 1\n2\n"), ("pycon", "1\n"), ("toml", "a = \n")],
)
def test_a_block_that_does_not_work_fails_the_test(language, text):
    block = Block(page=ROOT / "docs" / "page.md", line=1, language=language, text=text)
    with pytest.raises((ZeroDivisionError, AssertionError, tomllib.TOMLDecodeError)):
        run_block(block, {})


def test_every_code_fence_belongs_to_a_block():
    for page in pages():
        fences = re.findall(r"^\s*```", page.read_text("utf-8"), re.MULTILINE)
        assert len(fences) == 2 * len(blocks(page)), f"a fence of {page.name} is indented or open"


@pytest.mark.parametrize(("page", "language"), RUN)
def test_the_test_listed_for_a_page_names_the_page(page, language):
    assert blocks(ROOT / page, language)
    test = (ROOT / RUN[page, language]).read_text("utf-8")
    modules = re.findall(r"^from (tests\.support\.[\w.]+) import", test, re.MULTILINE)
    modules += [f"tests.support.compat.{name}" for name in ("older_page", "noted") if name in test]
    files = [ROOT / f"{module.replace('.', '/')}.py" for module in modules]
    texts = [test, *(path.read_text("utf-8") for path in files if path.exists())]
    assert any(Path(page).name in text for text in texts)


def test_make_targets_and_extras_named_on_pages_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    checked = 0
    for line in (line for block in every_block() for line in block.text.splitlines()):
        if line.startswith("make "):
            assert line.split()[1] in targets, line
            checked += 1
        for named in re.findall(r"^pip install [\"']?odps-nb\[([\w,]+)\]", line):
            assert set(named.split(",")) <= extras, line
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("names", ["pandas-2", "oldest python-3.13 spark-3.5", "go java"])
def test_only_the_named_rows_of_versions_run(names):
    make = ["make", "--no-print-directory", "-n", "versions", f"NAMES={names}"]
    told = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = shlex.split(told.splitlines()[-1])
    nox = [sys.executable, *command[1:], "--list"]
    listed = subprocess.run(nox, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    chosen = re.findall(r"^\* (?:versions\((.+?)\)|([\w.-]+))", listed, re.MULTILINE)
    assert {row or name for row, name in chosen} == set(names.split())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("```python\nx = 1\n```\n", ("python", None)),
        ("text\n\n<!-- not run: needs a key -->\n```sh\nls\n```\n", ("sh", "needs a key")),
        ("<!-- not run: not beside it -->\n\n```\n%odps head t\n```\n", ("", None)),
    ],
)
def test_the_reason_for_not_running_a_block_is_in_the_line_above_it(tmp_path, source, found):
    page = tmp_path / "page.md"
    page.write_text(source, "utf-8")
    (block,) = blocks(page)
    assert (block.language, block.reason) == found
    assert source.splitlines()[block.line - 1].startswith("```")
