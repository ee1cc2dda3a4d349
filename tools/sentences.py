"""Draw random sentences of the project, to judge how clear its language is.

    python tools/sentences.py --seed 7 --count 300

Half of them are from docstrings and comments, a third from pages, the rest from messages and texts
on screen. Prints one sentence per line after its file and line, separated by tabs.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARES = {"docstring": 0.5, "page": 0.35, "message": 0.15}
#: The end of a sentence: punctuation before a space and a capital letter, a digit or a code span.
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z`*0-9])")
_CODE = re.compile(r"\\[\w(]|\(\?|^<|[{};]$")
#: Comments for linters and type checkers.
_LINTERS = re.compile(r"(noqa|type: ignore|pragma)[^#]*#?\s*")
_WORDS = re.compile(r"[A-Za-z]{2,}")

Sentence = tuple[str, int, str]


def split(text: str) -> Iterator[str]:
    """Yield the sentences of a text that have at least four words."""
    text = re.sub(r"^.*\n\s*-{3,}$", "", text, flags=re.MULTILINE)  # headings of numpydoc
    text = re.sub(r"^ *>>> (.*\n?)(\S.*\n?)*", "\n\n", text, flags=re.MULTILINE)
    text = re.sub(r"^[^\s-][^\n]*\n(?= {4})", "\n\n", text, flags=re.MULTILINE)  # parameters' names
    for paragraph in re.split(r"\n\s*\n|\n(?=\S+\n\s)", text):
        for sentence in _END.split(" ".join(paragraph.split())):
            if len(_WORDS.findall(sentence)) >= 4:
                yield sentence.strip()


def docstrings(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of docstrings and comments of a module."""
    source = path.read_text("utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            line = getattr(node, "lineno", 1)
            for sentence in split(text or ""):
                yield "docstring", line, sentence
    with tokenize.open(path) as file:
        found = [t for t in tokenize.generate_tokens(file.readline) if t.type == tokenize.COMMENT]
    comments: list[tuple[int, str]] = []
    below = None
    for token in found:
        text = _LINTERS.sub("", token.string.lstrip("#: "))
        if below == token.start and comments:
            comments[-1] = (comments[-1][0], f"{comments[-1][1]} {text}")
        else:
            comments.append((token.start[0], text))
        below = (token.start[0] + 1, token.start[1])
    for line, text in comments:
        for sentence in split(text):
            yield "docstring", line, sentence


def messages(path: Path) -> Iterator[Sentence]:
    """Yield the strings of a module that look like sentences: messages, hints, texts on screen."""
    tree = ast.parse(path.read_text("utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "…" for p in node.values)
            text = "".join(map(str, parts))
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs | inside
        ):
            text = node.value
        else:
            continue
        is_sql = text.lstrip().lower().startswith(("select ", "create ", "insert ", "update "))
        if " " in text and not is_sql and not _CODE.search(text):
            for sentence in split(text):
                yield "message", node.lineno, sentence


def pages(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a page or notebook, without code blocks, table rules and headings."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells)
    blank = lambda match: "\n" * match[0].count("\n")  # noqa: E731  # keeps line numbers
    text = re.sub(r"^```.*?^```$|<!--.*?-->", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    line = 1
    for paragraph in re.split(r"(\n\s*\n|\n(?=\s*[-*|\d]))", text):
        if not paragraph.lstrip().startswith(("#", "| -", "|-")):
            for cell in paragraph.split("|"):
                for sentence in split(cell.strip(" -*")):
                    yield "page", line, sentence
        line += paragraph.count("\n")


def every() -> Iterator[tuple[str, str, int, str]]:
    for path in sorted((ROOT / "odps_nb").rglob("*.py")):
        for kind, line, sentence in (*docstrings(path), *messages(path)):
            yield kind, str(path.relative_to(ROOT)), line, sentence
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    found = [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    for path in [*(ROOT / name for name in names), *found]:
        for kind, line, sentence in pages(path):
            yield kind, str(path.relative_to(ROOT)), line, sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    by_kind: dict[str, list[tuple[str, str, int, str]]] = {kind: [] for kind in SHARES}
    for found in every():
        by_kind[found[0]].append(found)
    for kind, share in SHARES.items():
        wanted = min(round(options.count * share), len(by_kind[kind]))
        for _, place, line, sentence in sorted(draw.sample(by_kind[kind], wanted)):
            print(kind, f"{place}:{line}", sentence, sep="\t")


if __name__ == "__main__":
    main()
