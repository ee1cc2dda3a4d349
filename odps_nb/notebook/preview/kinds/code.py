"""Source code and Markdown: the first lines, coloured; never drawn as a page.

The text itself tells its language: marks that a line of it begins with. What has too few of them
stays a plain text. Words are told apart in the process aside.
"""

from __future__ import annotations

import re
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.display.html import MONO, Html, element, escape, join, scroller
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, count_of
from odps_nb.notebook.preview.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.notebook.preview.kinds import text
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError

__all__ = ["KIND"]

_JUDGED: Final = 16_384  # characters
_LINES: Final = 400
_LINE: Final = 400


def _language(mime: str, label: str, *aliases: str) -> Format:
    return Format(mime=mime, label=label, aliases=(*aliases, "text/plain"))


_MARKDOWN = _language("text/markdown", "Markdown", "text/x-markdown")
# what a program may begin with (#!), then marks of lines: of how many kinds there must be two
_LANGUAGES: Final = (
    (
        _language("text/x-python", "Python", "application/x-python", "text/x-script.python"),
        r"python\d*(?:\.\d+)?",
        r"[rR]?\"\"\"|(?:from [\w.]+ )?import [\w.* ,()]+$|def \w+\(|async def \w+\(|class \w+.*:$"
        r"|@\w[\w.]*(?:\(.*)?$|if __name__ ==|(?:if|for|while|with|try|else)\b.*:$",
    ),
    (
        _language("application/x-sh", "Shell", "text/x-sh", "text/x-shellscript"),
        r"(?:ba|da|k|z)?sh",
        r"(?:export|source|alias) \S+|(?:if|elif) \[|fi$|done$|esac$|\w+\(\) ?\{$|echo ",
    ),
    (
        _language("text/javascript", "JavaScript", "application/javascript", "text/typescript"),
        r"(?:node|deno|bun)",
        r"import .+ from ['\"].+['\"]|(?:export )?(?:const|let|var) [\w{\[][^=]*= "
        r"|(?:export )?(?:default )?(?:async )?function\*? ?\w*\(|module\.exports\b"
        r"|(?:export )?(?:default )?class \w+.*\{$|\}\);?$|['\"]use strict['\"]",
    ),
    (
        _language("application/sql", "SQL", "text/x-sql"),
        r"(?!)",
        r"(?i:(?:create|alter|drop) (?:or replace )?(?:table|view|function|index)\b"
        r"|insert (?:into|overwrite)\b|select\b|with \w+ as \(|from [\w.`\"]+|where\b"
        r"|(?:left |inner )?join\b|(?:group|order) by\b)",
    ),
    (
        _language("text/x-java", "Java", "text/x-java-source"),
        r"(?!)",
        r"package [\w.]+;|import (?:static )?[\w.*]+;|(?:public|private|protected|final|abstract)\b"
        r".*[{;]$|@\w+(?:\(.*)?$",
    ),
    (
        _language("text/x-go", "Go"),
        r"(?!)",
        r"package \w+$|import (?:\(|\")|func (?:\(\w+ \*?\w+\) )?\w+\(.*\{$"
        r"|type \w+ (?:struct|interface)",
    ),
    (
        _language("text/rust", "Rust", "text/x-rust"),
        r"(?!)",
        r"use [\w:{}*, ]+;|(?:pub )?(?:fn|struct|enum|trait|mod) \w+|impl\b.*\{$|#!?\[\w+|let mut ",
    ),
    (
        _language("text/x-c++", "C++", "text/x-c", "text/x-csrc", "text/x-chdr", "text/x-c++src"),
        r"(?!)",
        r"#include [<\"]|#(?:define|ifndef|ifdef|pragma)\b|using namespace|namespace \w+"
        r"|(?:static |inline |const )*(?:int|void|double|float|char|bool|auto)[ *&]+\w+\(.*|\};?$"
        r"|template ?<|typedef ",
    ),
)
_KNOWN: Final = tuple(
    (format, re.compile(rf"#!.{{0,60}}\b{program}\b"), re.compile(rf"\s{{0,24}}(?:{marks})"))
    for format, program, marks in _LANGUAGES
)
# of these marks there must be two
_MARKDOWN_MARKS: Final = tuple(
    re.compile(mark, re.MULTILINE)
    for mark in (
        r"^# \S.{0,300}\n\s*\n",
        r"^#{2,6} \S.{0,300}\n\s*\n",
        r"^(?:```|~~~)",
        r"^\|[ :|-]{3,200}\|$",
        r"\w\]\([^)\s]{1,300}\)",
        r"\*\*[^*\n]{1,200}\*\*",
        r"^(?:===|---)+$",
        r"`[^`\n]{1,200}`",
    )
)
# Pygments' names
_LEXERS: Final = {"Shell": "bash", "C++": "cpp"}
_COLOURS: Final = {
    "word": "color:#a04cf2",
    "text": "color:#178a43",
    "number": "color:#2b76ea",
    "comment": "opacity:0.75;font-style:italic",
    "name": "color:#c2570c",
    "title": "font-weight:bold",
}


def _recognise(head: Head) -> Format | None:
    lines = head.text[:_JUDGED].splitlines()[:_LINES]
    first = lines[0][:100] if lines else ""
    for format, program, _ in _KNOWN:
        if program.match(first):
            return format
    counts = [
        (len({match[0].split(" ")[0].split("(")[0] for match in found}), len(found), format)
        for format, _, marks in _KNOWN
        if (found := [match for line in lines if (match := marks.match(line[:_LINE]))])
    ]
    kinds, count, best = max(counts, key=lambda one: one[:2], default=(0, 0, None))
    if kinds >= 2 and count * 12 >= len(lines):
        return best
    marks = sum(1 for mark in _MARKDOWN_MARKS if mark.search(head.text, 0, _JUDGED))
    return _MARKDOWN if marks >= 2 else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    source = text_of(excerpt, format)
    lines = source.splitlines()
    shown = "\n".join(line[: _LINE + 1] for line in lines[: size.lines])
    language = _LEXERS.get(format.label, format.label.lower())
    try:
        parsed = parse("code", shown.encode("utf-8", "replace"), size, language=language)
    except (UnshowableError, MissingDependencyError):
        return text.draw(excerpt, format, size, name=name)
    body = join((_line(row) for row in parsed.rows("rows")), "\n")
    inner = element(
        "pre",
        body,
        attributes={"dir": "auto"},
        style="margin:0;padding:8px 10px;white-space:pre-wrap;overflow-wrap:anywhere;"
        f"background:none;color:inherit;{MONO}",
    )
    fact = count_of(len(lines), "line") if excerpt.whole else "first lines"
    box = scroller("div", inner, label=f"text of {name}", style=size.box)
    return Drawing(html=box, facts=(fact,))


def _line(row: tuple[str, ...]) -> Html:
    """Return a line of pairs: the class of a word, and the word."""
    return join(
        element("span", word, style=_COLOURS[kind]) if kind in _COLOURS else escape(word)
        for kind, word in zip(row[::2], row[1::2], strict=False)
    )


KIND = Kind(
    name="code",
    formats=(_MARKDOWN, *(format for format, _, _ in _LANGUAGES)),
    draw=_draw,
    recognise=_recognise,
    precedence=TEXTS + 40,  # after what has a structure of its own
)
