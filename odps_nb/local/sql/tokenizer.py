"""Splits SQL text into statements and tokens, with a cursor over them.

Uses sqlglot's Hive tokenizer without keywords, for the statements that the service parses itself
(DDL, and the head of an INSERT); queries go to sqlglot as text. Pure.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from odps_nb.local import faults

__all__ = ["Cursor", "statements"]

MAX_SQL = 4 << 20
_VALUES = ("STRING", "IDENTIFIER", "NUMBER")


@cache
def _tokenizer() -> Any:
    """Return a factory of tokenizers, one per thread."""
    from sqlglot.dialects.hive import Hive

    changes = {
        "KEYWORDS": {},  # every word is a word
        "COMMANDS": set(),  # sqlglot would take the rest of a SHOW for one text
        "NUMERIC_LITERALS": {},
        "STRING_ESCAPES": ["\\", "'", '"'],  # a doubled quote is one, too
    }
    return partial(type("Tokenizer", (Hive.Tokenizer,), changes), dialect=Hive())


def _tokens(source: str) -> list[Any]:
    from sqlglot.errors import TokenError

    if len(source) > MAX_SQL:
        raise faults.parse_failed(f"the text is longer than {MAX_SQL} characters")
    try:
        found: list[Any] = _tokenizer()().tokenize(source)
    except TokenError:
        raise faults.parse_failed("unterminated string, name or comment") from None
    return found


def statements(source: str) -> list[Cursor]:
    """Split a script at its semicolons; drops comments and empty statements."""
    found, group = [], []
    for token in _tokens(source):
        if token.token_type.name != "SEMICOLON":
            group.append(token)
        elif group:
            found.append(Cursor(source, group))
            group = []
    return [*found, Cursor(source, group)] if group else found


class Cursor:
    """Walks over the tokens of one statement."""

    def __init__(self, source: str, tokens: list[Any] | None = None) -> None:
        self._tokens = _tokens(source) if tokens is None else tokens
        self._text = source  # of the whole script
        self._first = self._tokens[0].start if self._tokens else 0
        self._end = self._tokens[-1].end + 1 if self._tokens else len(source)
        self._at = 0

    @property
    def place(self) -> int:
        """Position of the next token in the text."""
        return self._end if self.at_end else int(self._tokens[self._at].start)

    @property
    def rest(self) -> str:
        """The text from the next token on."""
        return self._text[self.place : self._end]

    @property
    def at_end(self) -> bool:
        """Whether all tokens are consumed."""
        return self._at >= len(self._tokens)

    def peek(self, *words: str) -> bool:
        """Return whether the next tokens are these words or signs."""
        some = self._tokens[self._at : self._at + len(words)]
        return len(some) == len(words) and all(
            token.token_type.name not in _VALUES and token.text.lower() == word
            for token, word in zip(some, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        """Consume these words or signs if they come next; return whether they did."""
        found = self.peek(*words)
        if found:
            self._at += len(words)
        return found

    def expect(self, *words: str) -> None:
        """Consume these words or signs, which must come next."""
        if not self.accept(*words):
            raise self.error(f"expected {' '.join(words).upper()}")

    def nesting(self) -> int:
        """Consume any token; return 1 if it opens a bracket, -1 if it closes one, else 0."""
        token = self._next("more")
        opens = {"(": 1, "<": 1, ")": -1, ">": -1}
        return opens.get(token.text, 0) if token.token_type.name not in _VALUES else 0

    def name(self) -> str:
        """Consume one identifier."""
        token = self._next("a name")
        if token.token_type.name not in ("VAR", "IDENTIFIER") or not token.text:
            raise self.error("expected a name", back=1)
        return str(token.text)

    def dotted(self) -> list[str]:
        """Consume a dotted name."""
        parts = [self.name()]
        while self.accept("."):
            parts.append(self.name())
        return parts

    def text(self) -> str:
        """Consume a string."""
        token = self._next("a string")
        if token.token_type.name != "STRING":
            raise self.error("expected a string", back=1)
        return str(token.text)

    def value(self) -> str:
        """Consume a string or number as text; a number may have a minus sign."""
        sign = "-" if self.accept("-") else ""
        token = self._next("a value")
        if token.token_type.name not in ("STRING", "NUMBER", "VAR"):
            raise self.error("expected a value", back=1)
        return f"{sign}{token.text}"

    def parenthesised(self) -> str:
        """Consume a balanced ``( … )`` and return the text inside."""
        self.expect("(")
        start, depth, end = self._tokens[self._at - 1].end + 1, 1, 0
        while depth:
            end, depth = self.place, depth + self._paren(self._next("a closing parenthesis"))
        return self._text[start:end]

    def until(self, *words: str) -> str:
        """Consume up to one of these words or signs, outside of parentheses; return the text."""
        start, depth, end = self.place, 0, self.place
        while not self.at_end and (depth or not any(self.peek(word) for word in words)):
            token = self._next("more")
            end, depth = token.end + 1, depth + self._paren(token)
        if start == end:
            raise self.error("expected an expression")
        return self._text[start:end]

    def end(self) -> None:
        """Check that no tokens are left."""
        if not self.at_end:
            raise self.error("unexpected text after the statement")

    def error(self, message: str, *, back: int = 0) -> Exception:
        """Return a parse error at the position of the cursor."""
        text = self._text[self._first : self._end]
        at = self._at - back
        start = (self._tokens[at].start if at < len(self._tokens) else self._end) - self._first
        line = text.count("\n", 0, start) + 1
        column = start - (text.rfind("\n", 0, start) + 1) + 1
        near = text[start : start + 20].split("\n")[0]
        return faults.parse_failed(
            f"{message}, near {near!r}" if near else f"{message}, at the end",
            line=line,
            column=column,
        )

    @staticmethod
    def _paren(token: Any) -> int:
        return {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)

    def _next(self, what: str) -> Any:
        if self.at_end:
            raise self.error(f"expected {what}")
        self._at += 1
        return self._tokens[self._at - 1]
