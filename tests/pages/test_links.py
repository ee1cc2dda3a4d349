"""Every link in README, docs and notebooks that stays in the repository has a target."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from tests.support.pages import ROOT

INLINE = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)")
DEFINED = re.compile(r"^ {0,3}\[[^\]]+\]: <?(\S+?)>?$", re.MULTILINE)
ATTRIBUTE = re.compile(r"<(?:a|img|source|video)\s[^>]*?(?:href|src|srcset)=[\"']([^\"'\s]+)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def sources() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    for folder in ("docs", "benchmarks", "binder", "notebooks"):
        yield from sorted((ROOT / folder).rglob("*.md"))
    yield from sorted((ROOT / "notebooks").glob("*.ipynb"))


@cache
def markdown(path: Path) -> str:
    """Return the Markdown in a file: for a notebook, its text cells."""
    text = path.read_text("utf-8")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def links(text: str) -> list[str]:
    """Return the targets of links and pictures, except those in code."""
    text = CODE.sub(lambda match: "" if match[0].startswith("```") else "code", text)
    return [found for kind in (INLINE, DEFINED, ATTRIBUTE) for found in kind.findall(text)]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: headings as GitHub and GitLab spell them, and HTML ids."""
    found: dict[str, int] = {}
    named = set(re.findall(r"<\w+ (?:id|name)=[\"']([^\"']+)", text))
    named |= set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for heading in re.findall(
        r"^#{1,6} +(.+?)(?: +#*)?$",
        re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE),
        re.MULTILINE,
    ):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        named.add(f"{slug}-{number}" if number else slug)
    return named


def problem(path: Path, link: str) -> str | None:
    """Return the problem of a link; ``None`` if its target exists or is on another host."""
    if re.match(r"[a-z][a-z0-9+.-]*:", link) or link.startswith("//"):
        return None
    place, _, anchor = unquote(link).partition("#")
    target = (path.parent / place).resolve() if place else path
    if not target.exists():
        return f"{link}: there is no such file"
    if not target.is_relative_to(ROOT):
        return f"{link}: outside of the repository"
    if anchor and target.suffix in (".md", ".ipynb") and anchor not in anchors(markdown(target)):
        return f"{link}: no such heading"
    return None


def test_every_link_has_a_target() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in sources()
        for link in links(markdown(path))
        if (found := problem(path, link))
    ]
    assert not wrong


def test_links_are_found_and_dead_links_are_detected() -> None:
    there = {link for path in sources() for link in links(markdown(path))}
    assert len([link for link in there if not link.startswith("http")]) > 60
    page = ROOT / "docs" / "page.md"
    text = "[a](types-and-times.md#new-tables) ![b](no.png) [c](#none) `[d](none)`\n[e]: no.md\n"
    assert links(text) == ["types-and-times.md#new-tables", "no.png", "#none", "no.md"]
    found = [problem(page, link) for link in links(text) if link != "#none"]
    assert [bool(one) for one in found] == [False, True, True]
    assert problem(page, "types-and-times.md#none") == "types-and-times.md#none: no such heading"
    assert problem(page, "../../elsewhere.md") is not None


def test_headings_become_anchors_as_on_github_and_gitlab() -> None:
    text = "# `odps-nb probe`: ask\n## A [link](x.md) & more\n## Twice\n## Twice\n```\n# no\n```\n"
    assert anchors(text) == {"odps-nb-probe-ask", "a-link--more", "twice", "twice-1"}
