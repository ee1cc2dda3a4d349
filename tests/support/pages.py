"""Find the code blocks of Markdown pages, run them in order, and compare their output.

``python -m tests.support.pages docs/howto/errors.md`` runs a page as a new user would, in an empty
folder and with an empty home; with ``--write``, it writes the outputs into the page.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odps_nb.errors import explain
from tests.support.hosted import hosted

ROOT = Path(__file__).parents[2]
SETTINGS = ("ODPS_", "ALIBABA_CLOUD_", "MAXCOMPUTE_")
"""How the names of the environment variables begin that contain settings."""
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+?) -->\n)?"
    r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# ids and the address of the embedded service
VARYING = re.compile(
    r"\b(?:[0-9A-F]{24}|[0-9a-f]{32}|\d{17}\w{8,14}|http://127\.0\.0\.1:\d{4,}/api)\b"
)
COLOURS = re.compile(r"\x1b\[\d*m")
COMMAND = ("make ", "pip install ", "odps-nb ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its text, the line of its fence, and the reason if it is not run."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None = None

    @property
    def is_commands(self) -> bool:
        """Whether each line is a command of odps_nb, make or pip."""
        return all(line.startswith(COMMAND) for line in self.text.splitlines() if line)

    @property
    def is_magics(self) -> bool:
        return self.language == "" and self.text.startswith("%")

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the fenced blocks of a page, or those of one language."""
    text = page.read_text("utf-8")
    found = [
        Block(
            page=page,
            line=text.count("\n", 0, match.end("reason") + 5 if match["reason"] else match.start())
            + 1,
            language=match["language"],
            text=match["text"],
            reason=match["reason"],
        )
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if language is None or block.language == language]


def compiled(code: str | ast.Module, block: Block) -> Any:
    """Compile a block, or a part of one, so that tracebacks name the page."""
    return compile(code, block.place, "exec")


# -- pages that show their output -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The output of a block, and the output that the page shows."""

    block: Block
    came: str
    told: str

    @property
    def ok(self) -> bool:
        """Whether the two are equal; a ``…`` on the page matches anything."""
        parts = (re.escape(part) for part in self.told.split("…"))
        return re.fullmatch(".*?".join(parts), self.came, re.DOTALL) is not None


def show_page(
    page: Path,
    names: dict[str, Any],
    *,
    magics: Callable[[str, dict[str, Any]], str],
    command: Callable[[list[str]], str],
) -> Iterator[Shown]:
    """Run every block of a page as cells, and yield the results.

    A block is followed by a ``text`` block with its output: the printed text, the value of its last
    line, or its error as a notebook shows it. Without a ``text`` block, there must be no output.
    """
    found = blocks(page)
    with hosted(names, page.read_text("utf-8")):
        yield from _shown(found, names, magics, command)


def _shown(
    found: list[Block],
    names: dict[str, Any],
    magics: Callable[[str, dict[str, Any]], str],
    command: Callable[[list[str]], str],
) -> Iterator[Shown]:
    for block, after in zip(found, [*found, None][1:], strict=True):
        if block.language == "text" or block.reason is not None:
            continue
        if block.language == "python":
            came = cell(block, names)
        elif block.is_magics:
            came = magics(block.text, names)
        elif block.language == "sh":
            came = "".join(command(line.split()[1:]) for line in block.text.splitlines())
        else:
            continue
        told = after.text if after is not None and after.language == "text" else ""
        yield Shown(block=block, came=tidied(came), told=tidied(told))


def tidied(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def cell(block: Block, names: dict[str, Any]) -> str:
    """Run a block as a cell; return its output, the value of its last line, and its error."""
    tree = ast.parse(block.text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(compiled(tree, block), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), block.place, "eval"), names)  # noqa: S307
                if value is not None:
                    print(repr(value))
        except Exception as error:  # noqa: BLE001  it is what the page shows
            print("\n".join(explain(error)))
    return said.getvalue()


@contextlib.contextmanager
def empty_home(folder: Path) -> Iterator[Path]:
    """Work in an empty folder, with an empty home and no settings, as a new user does."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    before, kept = Path.cwd(), dict(os.environ)
    for name in [
        name for name in os.environ if name.startswith(("ODPS_", "ALIBABA_CLOUD_", "MAXCOMPUTE_"))
    ]:
        del os.environ[name]
    own = {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "XDG_CACHE_HOME": home / ".cache"}
    os.environ.update({name: str(path) for name, path in own.items()})
    os.chdir(work)
    try:
        yield work
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(kept)


def close_all(names: Mapping[str, Any]) -> None:
    """Close the connections that a page left open."""
    from odps_nb.access.connection import Connection

    for value in names.values():
        if isinstance(value, Connection):
            value.close()


@contextlib.contextmanager
def shell() -> Iterator[Callable[[str, dict[str, Any]], str]]:
    """A shell that runs magics in a namespace and returns their output as text."""
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    made: list[InteractiveShell] = []

    def run(text: str, names: dict[str, Any]) -> str:
        if not made:
            InteractiveShell.clear_instance()
            one = InteractiveShell.instance(config=config, user_ns=names)
            one.display_pub = CapturingDisplayPublisher(shell=one)
            made.append(one)
        publisher = made[0].display_pub
        publisher.outputs.clear()
        with capture_output(display=False) as said:
            made[0].run_cell(text, store_history=False)
        texts = [output["data"].get("text/plain", "") for output in publisher.outputs]
        printed = COLOURS.sub("", re.sub(r"^Out\[\d+\]: ?", "", said.stdout))
        return "\n".join([printed + said.stderr, *texts])

    try:
        yield run
    finally:
        for one in made:
            registry = one.magics_manager.registry
            if "OdpsMagics" in registry:
                registry["OdpsMagics"].uninstall()
            one.restore_sys_module_state()
            InteractiveShell.clear_instance()


def command_line(words: list[str]) -> str:
    """Run ``odps-nb`` in this process; return its output."""
    from odps_nb.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        main(words)
    return said.getvalue()


def rewritten(page: Path, found: list[Shown]) -> str:
    """Return the text of a page with outdated outputs replaced."""
    text = page.read_text("utf-8")
    for one in found:
        if one.ok:
            continue
        lines = text.splitlines(keepends=True)
        before = len(page.read_text("utf-8").splitlines()) - len(lines)
        end = one.block.line - before + one.block.text.count("\n") + 1
        head, rest = "".join(lines[:end]), "".join(lines[end:])
        rest = re.sub(r"\A\s*```text\n.*?^```\n", "", rest, count=1, flags=re.DOTALL | re.MULTILINE)
        shown = f"\n```text\n{VARYING.sub('…', one.came)}\n```\n" if one.came else ""
        text = head + shown + ("" if rest.startswith("\n") else "\n") + rest
    return text


def main(words: list[str]) -> int:
    pages = [Path(word).resolve() for word in words if word != "--write"]
    wrong = 0
    for page in pages:
        names: dict[str, Any] = {}
        with tempfile.TemporaryDirectory() as folder, empty_home(Path(folder)), shell() as magics:
            found = list(show_page(page, names, magics=magics, command=command_line))
            close_all(names)
        for one in found:
            if not one.ok:
                wrong += 1
                print(f"{one.block.place}\n{one.came}\n-- the page says\n{one.told}")
        if "--write" in words:
            page.write_text(rewritten(page, found), "utf-8")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
