"""Source code and Markdown: the first lines with syntax highlighting; never rendered.

A language is recognised by typical line beginnings. A file with too few such lines is treated as
plain text.
"""

from __future__ import annotations

import re
from os.path import splitext
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.drawing import Drawing, Excerpt, text_box
from odps_nb.formats.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.parsing import parse
from odps_nb.formats.shared import Size
from odps_nb.html import Html, element, escape, join
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_JUDGED: Final = 16_384  # characters to examine
_LINES: Final = 400
_LINE: Final = 400


def _language(mime: str, label: str, *aliases: str) -> Format:
    return Format(mime, label, aliases=(*aliases, "text/plain"))


_MARKDOWN = _language("text/markdown", "Markdown", "text/x-markdown")
_RST_TEXT = _language(
    "text/x-rst", "reStructuredText", "text/prs.fallenstein.rst", "text/restructured"
)
# for each language: a pattern for the #! line, and one for typical lines (two lines must match)
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
        _language("text/x-cmake", "CMake"),
        r"(?!)",
        r"(?i:cmake_minimum_required|project|find_package|include|set|option|end(?:if|foreach|macro"
        r"|function)|add_(?:library|executable|subdirectory)|target_\w+) ?\(",
    ),
    (
        _language("text/x-c", "C", "text/x-csrc", "text/x-chdr", "text/x-c++", "text/x-c++src"),
        r"(?!)",
        r"#include [<\"]|#(?:define|ifndef|ifdef|pragma)\b|using namespace|namespace \w+"
        r"|(?:static |inline |const )*(?:int|void|double|float|char|bool|auto)[ *&]+\w+\(.*|\};?$"
        r"|template ?<|typedef ",
    ),
)
_C: Final = _LANGUAGES[-1][0]
_C_PLUS_PLUS: Final = _language("text/x-c++", "C++", "text/x-c++src", *_C.aliases[:2], _C.mime)
# words, outside comments, that exist in C++ but not in C
_NOT_C: Final = re.compile(
    r"^[^\S\n]*+(?:using |namespace\b|template ?<|class \w+|(?:public|private|protected):"
    r"|#include <[a-z_]+>)|^[^/*\n]*\bstd::",
    re.MULTILINE,
)
# a reStructuredText directive, target or role; such text would also match Markdown patterns
_RST: Final = re.compile(
    r"^\s{0,8}\.\. (?:[\w:-]+::|_[^\n:]{1,80}:|\|\w)|^[^\n]{0,300}:\w+:`[^`\n]+`"
    r"|^[^\n]{0,300}::\n[ \t]*\n[ \t]+\S",
    re.MULTILINE,
)
# first lines that rule out reStructuredText: a comment, Markdown heading or fence, or string
_NO_TITLE: Final = ("#", "`", "---", '"', "'", 'r"')
# assignments, as in programs and settings, but not in prose
_SETTING: Final = re.compile(r"^\w+ = (?:[\[({'\"\d]|True\b|False\b|None\b)", re.MULTILINE)
# a header field (RFC 5322) of a message or of package metadata; the body may contain any text
_FIELD: Final = re.compile(r"[A-Z][A-Za-z-]*: \S")
# a decorator, or the name of a FASTQ sequence; different names count as one kind of mark
_WORD: Final = re.compile(r"^@\S*")
# lines of code outside fenced blocks; Markdown has few, and comments of code may look like Markdown
_FENCED: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE_LINE: Final = re.compile(
    r"[ \t]{0,24}(?:\S.*[;{}]|end|(?://|/\*|\*/).*|@\w+.*|(?:using|import|function|struct|def|public"
    r"|private|module|namespace|return|local|if|else)\b[^.]*)\s*"
)
_MUCH_CODE: Final = 0.25
_KNOWN: Final = tuple(
    (format, re.compile(rf"#!.{{0,60}}\b{program}\b"), re.compile(rf"\s{{0,24}}(?:{marks})"))
    for format, program, marks in _LANGUAGES
)
# languages by file ending; the ending decides if the text has a mark of that language
_BY_ENDING: Final = {
    **dict.fromkeys((".py", ".pyi", ".pyx"), "Python"),
    **dict.fromkeys((".js", ".mjs", ".ts", ".jsx", ".tsx"), "JavaScript"),
    **{".sh": "Shell", ".sql": "SQL", ".java": "Java", ".go": "Go", ".rs": "Rust", ".c": "C"},
}
# endings of languages that are not recognised, although their text has marks of other languages
_MARKDOWN_ENDINGS: Final = (".md", ".markdown")
_OTHERS: Final = (
    ".cs",
    ".d",
    ".dart",
    ".groovy",
    ".jl",
    ".kt",
    ".pl",
    ".rb",
    ".rq",
    ".ru",
    ".swift",
)
ENDINGS: Final = frozenset((*_BY_ENDING, *_OTHERS))
"""Endings of file names of programs."""
_SPARQL: Final = re.compile(r"(?im)\bwhere\s*\{|^[^\S\n]*+(?:prefix|base) \S*:")
# rules of a Makefile, and comments and lists of Lisp
_NOT_MARKDOWN: Final = re.compile(
    r"^[\w.%$(){}/-][\w.%$(){}/ -]*:[^=\n]*\n\t|^;;|^\(\w+ ", re.MULTILINE
)
# two of these patterns must match, one of them among the first five (the others are less specific)
_OWN_MARKS: Final = 5
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
# Pygments' lexer names
_LEXERS: Final = {"Shell": "bash", "C++": "cpp", "reStructuredText": "rst"}
_COLOURS: Final = {
    "word": "color:#a04cf2",
    "text": "color:#178a43",
    "number": "color:#2b76ea",
    "comment": "opacity:0.75;font-style:italic",
    "name": "color:#c2570c",
    "title": "font-weight:bold",
}


def _recognise(head: Head) -> Format | None:
    ending = splitext(head.name)[1].lower()  # noqa: PTH122  # faster, for many files
    text = head.text[:_JUDGED]
    lines = text.splitlines()[:_LINES]
    first = lines[0][:100] if lines else ""
    for format, program, _ in _KNOWN:
        if program.match(first):
            return format
    if ending in _OTHERS or (len(lines) > 2 and all(map(_FIELD.match, lines[:2]))):
        return None
    language = None if ending in _MARKDOWN_ENDINGS else _by_marks(text, lines, ending)
    if language is not None:
        return _C_PLUS_PLUS if language is _C and _NOT_C.search(text) else language
    if not first.startswith(_NO_TITLE) and _RST.search(text):
        return _RST_TEXT
    return _MARKDOWN if _is_markdown(text, ending) else None


def _by_marks(text: str, lines: list[str], ending: str) -> Format | None:
    """Return the language of ``ending`` if a mark fits it, else the language with most marks."""
    counts = [
        (
            len(
                {_WORD.sub("@", match[0].split()[0]).split("(")[0].rstrip(";") for match in matches}
            ),
            len(matches),
            format,
        )
        for format, _, marks in _KNOWN
        if (matches := [match for line in lines if (match := marks.match(line[:_LINE]))])
    ]
    named = next((entry[2] for entry in counts if entry[2].label == _BY_ENDING.get(ending)), None)
    if named is not None or not counts:
        return named
    kinds, count, best = max(counts, key=lambda entry: entry[:2])
    is_sparql = best.label == "SQL" and _SPARQL.search(text)
    return best if kinds >= 2 and count * 12 >= len(lines) and not is_sparql else None


def _is_markdown(text: str, ending: str) -> bool:
    is_other = len(_SETTING.findall(text)) >= 2 or _NOT_MARKDOWN.search(text)
    if is_other and ending not in _MARKDOWN_ENDINGS:
        return False
    marks = [bool(mark.search(text)) for mark in _MARKDOWN_MARKS]
    if sum(marks) < 2 or not any(marks[:_OWN_MARKS]):
        return False
    lines = [line for line in _FENCED.sub("", text).splitlines() if line.strip()]
    code = sum(bool(_CODE_LINE.fullmatch(line[:_LINE])) for line in lines)
    return ending in _MARKDOWN_ENDINGS or code <= _MUCH_CODE * len(lines)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    source = text_of(excerpt, format)
    lines = source.splitlines()
    shown = "\n".join(shorten(line, _LINE) for line in lines[: size.lines])
    language = _LEXERS.get(format.label, format.label.lower())
    try:
        parsed = parse("code", shown.encode("utf-8", "replace"), size, language=language)
    except (UnshowableError, MissingDependencyError):
        return text.draw(excerpt, format, size, name=name)
    body = join((_line(row) for row in parsed.rows("rows")), "\n")
    html = text_box(body, size, label=f"text of {name}")
    fact = count_of(len(lines), "line") if excerpt.whole else "first lines"
    return Drawing(html=html, facts=(fact,))


def _line(row: tuple[str, ...]) -> Html:
    """Return the markup of a line; ``row`` contains each token's class followed by its text."""
    return join(
        element("span", word, style=_COLOURS[kind]) if kind in _COLOURS else escape(word)
        for kind, word in zip(row[::2], row[1::2], strict=False)
    )


KIND = Kind(
    name="code",
    formats=(_MARKDOWN, _RST_TEXT, _C_PLUS_PLUS, *(format for format, _, _ in _LANGUAGES)),
    draw=_draw,
    recognise=_recognise,
    precedence=TEXTS + 40,  # tried after formats with a recognisable structure
)
