"""Splits SQL text into statements and tokens, and provides a cursor over the tokens.

Uses sqlglot's Hive tokenizer without keywords, for statements that this package parses (DDL and
the head of an INSERT). Queries are passed to sqlglot as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, TypeVar

from odps_nb.local import errors

T = TypeVar("T")

MAX_SQL = 4 << 20
_VALUES = ("STRING", "IDENTIFIER", "NUMBER")
_NEAR = 0.75
_STATEMENTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "AS")
# Keywords of MaxCompute that sqlglot does not know.
_OWN_WORDS = """
    ARCHIVE AUTO BUCKETS CHANGEOWNER CLONE DISABLE ENABLE EXPORT HISTORY INSTANCES LIFECYCLE LIST
    LOAD MATERIALIZED MODEL OWNER PACKAGE PURGE READ RESOURCE RESOURCES RESTORE SMALLFILES TUNNEL
    UNDO UNLOAD
"""


@cache
def _keywords() -> frozenset[str]:
    """Return the words that can start a SQL statement or clause, in upper case.

    A word in this set is probably not a misspelling.
    """
    from sqlglot.dialects.hive import Hive

    known = (*Hive.Tokenizer.KEYWORDS, *Hive.Parser.PROPERTY_PARSERS, *Hive.Parser.ALTER_PARSERS)
    return frozenset(word for phrase in (_OWN_WORDS, *known) for word in phrase.upper().split())


@cache
def _tokenizer() -> Any:
    """Return a factory of tokenizers; threads must not share a tokenizer."""
    from sqlglot.dialects.hive import Hive

    changes = {
        "KEYWORDS": {},  # all words are treated alike
        "COMMANDS": set(),  # sqlglot would return the text after SHOW as one token
        "NUMERIC_LITERALS": {},
        "STRING_ESCAPES": ["\\", "'", '"'],  # doubled quotes are escapes, too
    }
    return partial(type("Tokenizer", (Hive.Tokenizer,), changes), dialect=Hive())


def _tokens(source: str) -> list[Any]:
    from sqlglot.errors import TokenError

    if len(source) > MAX_SQL:
        raise errors.parse_failed(
            f"the text has {len(source)} characters; the maximum is {MAX_SQL}"
        )
    try:
        tokens: list[Any] = _tokenizer()().tokenize(source)
    except TokenError:
        raise errors.parse_failed("unterminated string, name or comment") from None
    return tokens


def statements(source: str) -> list[Cursor]:
    """Split text at its semicolons, and drop comments and empty statements."""
    cursors: list[Cursor] = []
    group: list[Any] = []
    for token in _tokens(source):
        if token.token_type.name != "SEMICOLON":
            group.append(token)
        elif group:
            cursors.append(Cursor(source, group))
            group = []
    return [*cursors, Cursor(source, group)] if group else cursors


class Cursor:
    """A position in the tokens of one statement, or of a part of it.

    ``source`` is the text to which the positions in errors refer. ``tokens`` defaults to all tokens
    of the text. If the part has no tokens, ``end`` is the position of its end.
    """

    def __init__(self, source: str, tokens: list[Any] | None = None, end: int = 0) -> None:
        self._tokens = _tokens(source) if tokens is None else tokens
        self._text = source
        self._end = self._tokens[-1].end + 1 if self._tokens else end
        self._at = 0
        self._kind: list[str] = []
        self._is_named = False

    @property
    def place(self) -> int:
        """Position of the next token in the text."""
        return self._start(self._at)

    @property
    def rest(self) -> str:
        """The text starting at the next token."""
        return self._text[self.place : self._end]

    @property
    def placed(self) -> str:
        """The text with blanks in place of all consumed tokens, to preserve positions."""
        before = "".join(sign if sign == "\n" else " " for sign in self._text[: self.place])
        return before + self.rest

    def take(self, text: str) -> str:
        """Consume all tokens and return ``text``, which the caller built from them."""
        self._at = len(self._tokens)
        return text

    @property
    def words(self) -> tuple[str, ...]:
        """The next one or two tokens in upper case, up to the first that is not a word."""
        words = []
        for token in self._tokens[self._at : self._at + 2]:
            if token.token_type.name != "VAR" or not token.text.isalpha():
                break
            words.append(token.text.upper())
        return tuple(words)

    @property
    def line_and_column(self) -> tuple[int, int]:
        """Line and column of the next token, counted from 1."""
        return self._line_and_column(self._at)

    @property
    def at_end(self) -> bool:
        """Whether all tokens are consumed."""
        return self._at >= len(self._tokens)

    def peek(self, *words: str) -> bool:
        """Return whether the next tokens are these words or symbols."""
        upcoming = self._tokens[self._at : self._at + len(words)]
        return len(upcoming) == len(words) and all(
            token.token_type.name not in _VALUES and token.text.lower() == word
            for token, word in zip(upcoming, words, strict=True)
        )

    def accept(self, *words: str) -> bool:
        """Consume the next tokens if they are these words or symbols; return whether they were."""
        is_match = self.peek(*words)
        if is_match:
            self._at += len(words)
            if not self._is_named:
                self._kind += words
        return is_match

    def expect(self, *words: str) -> None:
        """Consume these words or symbols, or raise a parse error if the next tokens differ."""
        if not self.accept(*words):
            raise self.error(f"expected {' '.join(words).upper()}")

    def one_of(self, *words: str) -> str:
        """Consume and return one of these words, or raise a parse error for another token."""
        for word in words:
            if self.accept(word):
                return word
        raise self.unexpected(" or ".join(words).upper(), words)

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
        self._is_named = True
        return str(token.text)

    def dotted(self) -> tuple[str, ...]:
        """Consume a dotted name."""
        return self.listed(self.name, ".")

    def listed(self, read: Callable[[], T], sign: str = ",") -> tuple[T, ...]:
        """Call ``read`` one or more times, consuming ``sign`` between calls; return the results."""
        results = [read()]
        while self.accept(sign):
            results.append(read())
        return tuple(results)

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
        if token.token_type.name != "NUMBER" and (sign or token.token_type.name != "STRING"):
            raise self.error("expected a value", back=1, advice="write a number, or text in quotes")
        return f"{sign}{token.text}"

    def parenthesised(self) -> str:
        """Consume a balanced ``( … )`` and return the text inside."""
        start = self.place + 1
        self.inner()
        return self._text[start : self._tokens[self._at - 1].start]

    def inner(self) -> Cursor:
        """Consume a balanced ``( … )`` and return a cursor over its content."""
        self.expect("(")
        first, depth = self._at, 1
        while depth:
            depth += self._paren(self._next("a closing parenthesis"))
        last = self._at - 1
        return Cursor(self._text, self._tokens[first:last], self._tokens[last].start)

    def encloses(self, *words: str) -> bool:
        """Return whether the ``( … )`` after the next token contains one of these words."""
        depth = 1
        for token in self._tokens[self._at + 2 :]:
            depth += self._paren(token)
            if not depth:
                break
            if token.token_type.name not in _VALUES and token.text.lower() in words:
                return True
        return False

    def until(self, *words: str) -> str:
        """Consume and return text up to any of ``words`` outside ``( … )`` and ``CASE … END``."""
        start, depth, end = self.place, 0, self.place
        while not self.at_end and (depth or not any(self.peek(word) for word in words)):
            depth += 1 if self.peek("case") else -1 if self.peek("end") else 0
            token = self._next("more")
            end, depth = token.end + 1, depth + self._paren(token)
        if start == end:
            raise self.error("expected an expression")
        return self._text[start:end]

    def end(self) -> None:
        """Raise a parse error if tokens are left."""
        if self.words and self.words[0] in _keywords():
            raise self.lacks(self.words)
        if not self.at_end:
            raise self.error("unexpected text after the statement")

    def lacks(self, words: Sequence[str], *, known: Iterable[str] = ()) -> Exception:
        """Return the error for unsupported words; it suggests a similar word from ``known``."""
        near = get_close_matches(words[0], [*map(str.upper, known)], n=1, cutoff=_NEAR)
        if near and words[0] not in _keywords():
            return self.error(
                f"{words[0]} is not expected here",
                advice=f"check the spelling: did you mean {near[0]}?",
            )
        more = [w for w in words[1:] if w in _keywords() and w not in _STATEMENTS]
        # the kind of statement: at most two of the words before the object's name
        text, kind = " ".join([words[0], *more]), " ".join(self._kind[:2]).upper()
        if kind and " " in kind:
            text = f"{text} in {kind}"
        elif kind and not text.startswith(kind):
            text = f"{kind} {text}"
        return errors.lacks(text, is_sure=words[0] in _keywords(), at=self.line_and_column)

    def unexpected(self, expected: str, known: Iterable[str] = ()) -> Exception:
        """Return the error for the next token: unsupported words, or unexpected text."""
        if self.words:
            return self.lacks(self.words, known=known)
        return self.error(f"expected {expected}")

    def error(self, message: str, *, back: int = 0, advice: str = "") -> Exception:
        """Return a parse error at the position of the cursor."""
        at = self._at - back
        start = self._start(at)
        near = self._text[start : min(self._end, start + 20)].split("\n")[0]
        return errors.parse_failed(
            f"{message}, near {near!r}" if near else f"{message}, at the end",
            at=self._line_and_column(at),
            advice=advice,
        )

    def _start(self, at: int) -> int:
        return int(self._tokens[at].start) if at < len(self._tokens) else self._end

    def _line_and_column(self, at: int) -> tuple[int, int]:
        before = self._text[: self._start(at)]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1

    @staticmethod
    def _paren(token: Any) -> int:
        return {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)

    def _next(self, what: str) -> Any:
        if self.at_end:
            raise self.error(f"expected {what}")
        self._at += 1
        return self._tokens[self._at - 1]
