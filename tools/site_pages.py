"""Stage the pages of the site: docs/, the pages at the top of the checkout, the notebooks.

In the sources, links are written for a code host. Here they are rewritten to the same target in
the site: another page, the page of a notebook, or the file itself as a download.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# files at the top of the checkout that are pages of the site, and their names there
TOP = {
    name: f"project/{name.lower()}"
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}
_LINK = re.compile(r"\[(?P<text>(?:(?!\n\s*\n)[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_BADGE = re.compile(r"\[?!\[(?P<text>[^\]]*)\]\(https?://[^)\s]*\)(?:\]\([^)\s]*\))?")
_FENCE = re.compile(r"^( *)(```+|~~~+)")
_TOCTREE = "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
_ORPHAN = "---\norphan: true\n---\n\n"
_FOLDERS = ("decisions", "howto", "tutorials")


def stage(target: Path, notebooks: dict[str, Path]) -> None:
    """Recreate ``target`` with every page; ``notebooks`` maps names to the files to show."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(DOCS)
        if path.is_dir() or name.parts[0] in ("_static", "conf.py") or "__pycache__" in name.parts:
            continue
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            place.write_text(page(f"docs/{name.as_posix()}", target), encoding="utf-8")
        else:
            shutil.copyfile(path, place)
    for name, staged in TOP.items():
        (target / staged).parent.mkdir(exist_ok=True)
        (target / staged).write_text(page(name, target), encoding="utf-8")
    for name, path in notebooks.items():
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_site_links(cell.source, f"notebooks/{name}", target)
        nbformat.write(notebook, target / "tutorials" / name)


def page(name: str, target: Path) -> str:
    """Return the text of a page, given by its path in the checkout, for the site."""
    text = with_site_links((ROOT / name).read_text(encoding="utf-8"), name, target)
    parts = Path(name).parts
    if parts[-1] == "index.md" and parts[-2] in _FOLDERS and "{toctree}" not in text:
        text += _TOCTREE
    if parts[:2] == ("docs", "results"):  # reachable by links, not in the navigation
        text = _ORPHAN + text
    return text


def with_site_links(text: str, name: str, target: Path) -> str:
    """Return the Markdown of ``name`` with links rewritten for the site, except in code."""
    inside, done = "", ""
    outside: list[str] = []  # lines since the last block of code; the text of a link may be wrapped

    def rewritten() -> str:
        part = "".join(outside)
        outside.clear()
        part = _BADGE.sub("", part)  # pages load no external pictures
        return _LINK.sub(lambda found: relinked(found, name, target), part)

    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line)
        if inside or fence:
            done += rewritten() + line
        else:
            outside.append(line)
        if fence and not inside:
            inside = fence[2]
        elif fence and line.strip() == inside:
            inside = ""
    return (done + rewritten()).rstrip("\n") + "\n"


def staged_name(name: str) -> str | None:
    """Return the path of a file of the checkout among the staged pages, or None."""
    if name in TOP:
        return TOP[name]
    if name.startswith("notebooks/") and name.endswith(".ipynb"):
        return f"tutorials/{Path(name).name}"
    folders = {"docs": "index.md", "notebooks": "tutorials/index.md"}
    folders |= {f"docs/{one}": f"{one}/index.md" for one in ("decisions", "howto", "reference")}
    if name in folders:
        return folders[name]
    return name.removeprefix("docs/") if name.startswith("docs/") else None


def relinked(found: re.Match[str], name: str, target: Path) -> str:
    path, mark, fragment = found["target"].partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return found[0]
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    if not (ROOT / wanted).exists():
        return found[0]  # a broken link, which Sphinx reports
    here = posixpath.dirname(staged_name(name) or name)
    staged = staged_name(wanted)
    if staged is None and (ROOT / wanted).is_dir():
        return f"{found['text']} (`{wanted}/`)"  # source folders have no page
    if staged is None:
        return f"[{found['text']}]({os.path.relpath(ROOT / wanted, target / here)})"  # downloaded
    return f"[{found['text']}]({posixpath.relpath(staged, here or '.')}{mark}{fragment})"
