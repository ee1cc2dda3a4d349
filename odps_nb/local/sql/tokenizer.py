"""Tokens of a SQL text, with their places, and a cursor over them.

Enough for the statements that the service reads itself (DDL, and the head of an INSERT); queries
go to sqlglot as text. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from odps_nb.local import faults

__all__ = ["Cursor", "Token", "scan_sql", "split_statements"]

MAX_SQL = 4 << 20

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | `(?P<quoted>(?:[^`]|``)+)`
      | '(?P<single>(?:[^'\\]|\\.|'')*)'
      | "(?P<double>(?:[^"\\]|\\.|"")*)"
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)
      | (?P<word>[^\W\d]\w*|\d\w+)
      | (?P<sign><=>|<>|<=|>=|!=|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its kind (word, quoted, text, number, sign), value and place in the source."""

    kind: str
    value: str
    start: int
    end: int


def scan_sql(source: str) -> list[Token]:
    """Return the tokens of a text; comments and white space fall away."""
    if len(source) > MAX_SQL:
        raise faults.parse_failed(f"the text is longer than {MAX_SQL} characters")
    tokens = []
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "space":
            continue
        if kind in ("single", "double"):
            tokens.append(Token("text", _unescape(match[kind]), match.start(), match.end()))
        elif kind == "quoted":
            tokens.append(Token("quoted", match[kind].replace("``", "`"), *match.span()))
        else:
            assert kind is not None
            tokens.append(Token(kind, match[kind], *match.span()))
    return tokens


def split_statements(source: str) -> list[tuple[int, str]]:
    """Cut a script at its semicolons; give each statement with its place, empty ones not."""
    statements, start, last = [], None, 0
    for token in scan_sql(source):
        if token.kind == "sign" and token.value == ";":
            if start is not None:
                statements.append((start, source[start:last]))
            start = None
            continue
        if start is None:
            start = token.start
        last = token.end
    if start is not None:
        statements.append((start, source[start:last]))
    return statements


def _unescape(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        return _ESCAPED.get(match[1], match[1])

    return _ESCAPE.sub(one, text)


class Cursor:
    """Walks over the tokens of one statement."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._tokens = scan_sql(source)
        self._at = 0

    @property
    def rest(self) -> str:
        """The text from the next token on."""
        return "" if self.at_end else self.source[self._tokens[self._at].start :]

    @property
    def at_end(self) -> bool:
        """Whether all tokens are taken."""
        return self._at >= len(self._tokens)

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or signs."""
        some = self._tokens[self._at : self._at + len(words)]
        return len(some) == len(words) and all(
            token.kind in ("word", "sign") and token.value.lower() == word
            for token, word in zip(some, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        """Take these words or signs if they come next."""
        found = self.peek(*words)
        if found:
            self._at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Take these words or signs, which must come next."""
        if not self.accept(*words):
            raise self.error(f"expected {' '.join(words).upper()}")

    def nesting(self) -> int:
        """Take whatever comes next; say whether it opens (1) or closes (-1) something."""
        token = self._next("more")
        opens = {"(": 1, "<": 1, ")": -1, ">": -1}
        return opens.get(token.value, 0) if token.kind == "sign" else 0

    def name(self) -> str:
        """Take one identifier."""
        token = self._next("a name")
        if token.kind not in ("word", "quoted"):
            raise self.error("expected a name", back=1)
        return token.value

    def dotted(self) -> list[str]:
        """Take a name with dots."""
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        return parts

    def text(self) -> str:
        """Take a string."""
        token = self._next("a string")
        if token.kind != "text":
            raise self.error("expected a string", back=1)
        return token.value

    def value(self) -> str:
        """Take a string or number, as text; a minus sign may stand before a number."""
        sign = "-" if self.accept("-") else ""
        token = self._next("a value")
        if token.kind not in ("text", "number", "word"):
            raise self.error("expected a value", back=1)
        return sign + token.value

    def parenthesised(self) -> str:
        """Take a balanced ``( … )`` and return the text inside."""
        self.expect("(")
        start, depth = self._tokens[self._at - 1].end, 1
        while depth:
            token = self._next("a closing parenthesis")
            if token.kind == "sign":
                depth += {"(": 1, ")": -1}.get(token.value, 0)
        return self.source[start : self._tokens[self._at - 1].start]

    def until(self, *words: str) -> str:
        """Take what comes before one of these words or signs, outside of parentheses; its text."""
        start, depth, end = self._at, 0, self._at
        while not self.at_end and (depth or not any(self.peek(word) for word in words)):
            token = self._next("more")
            end = token.end
            if token.kind == "sign":
                depth += {"(": 1, ")": -1}.get(token.value, 0)
        if self._at == start:
            raise self.error("expected an expression")
        return self.source[self._tokens[start].start : end]

    def end(self) -> None:
        """Nothing may follow."""
        if not self.at_end:
            raise self.error("the statement goes on here unexpectedly")

    def error(self, message: str, *, back: int = 0) -> Exception:
        """Make a parse error that shows where the cursor is."""
        at = min(self._at - back, len(self._tokens) - 1)
        start = self._tokens[at].start if self._tokens else 0
        if self.at_end and not back:
            start = len(self.source)
        line = self.source.count("\n", 0, start) + 1
        column = start - (self.source.rfind("\n", 0, start) + 1) + 1
        near = self.source[start : start + 20].split("\n")[0]
        return faults.parse_failed(
            f"{message}, near {near!r}" if near else f"{message}, at the end",
            line=line,
            column=column,
        )

    def _next(self, what: str) -> Token:
        if self.at_end:
            raise self.error(f"expected {what}")
        self._at += 1
        return self._tokens[self._at - 1]
