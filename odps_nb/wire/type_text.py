"""Parses and formats MaxCompute type text and column lists (``docs/protocol.md`` section 3.11).

Invalid text from a user raises `ArgumentError` with the position. Invalid text from the service
becomes an `UnknownType`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from odps_nb.errors import ArgumentError
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    LengthType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TypeCode,
    UnknownType,
    VectorType,
)
from odps_nb.terms import did_you_mean, shorten

MAX_DEPTH = 32  # the service allows 20 levels
MAX_TEXT = 2**20
MAX_CHAR, MAX_VARCHAR, MAX_PRECISION = 255, 65535, 76  # 76 is the maximum of decimal256
MAX_VECTOR = 65536  # no source documents the limit

_T = TypeCode
_COMPOSITE = {_T.DECIMAL, _T.CHAR, _T.VARCHAR, _T.ARRAY, _T.MAP, _T.STRUCT, _T.VECTOR, _T.UNKNOWN}
_PRIMITIVES = {code.name.lower(): code for code in TypeCode if code not in _COMPOSITE}
_TYPE_NAMES = [code.name.lower() for code in TypeCode if code is not TypeCode.UNKNOWN]
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
# Hive and MaxCompute also read names such as 2id without back-quotes, but 2, 10L, 1e5 are numbers.
_BARE_NAME = re.compile(
    rf"{_PLAIN_NAME.pattern}|(?![0-9]+(?:l|s|y|d|bd|e[0-9]+)?\Z)[0-9a-z_]+", re.IGNORECASE
)
_TOKEN = re.compile(
    r"""(?:\s|--[^\n]*|/\*.*?\*/)*+(?:
        (?P<word>\w+)
      | `(?P<quoted>(?:[^`]|``)+)`
      | '(?P<single>(?:[^'\\]|\\.)*)'
      | "(?P<double>(?:[^"\\]|\\.)*)"
      | (?P<sign>[<>(),:])
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0", "\\": "\\\\", "'": "\\'"}


def parse_type(text: str) -> OdpsType:
    """Parse type text, ignoring case, e.g. ``MAP<string, decimal(10,2)>``.

    Raises `ArgumentError` if the text is not a type; the message contains the position.
    """
    parser = _Parser(text)
    found = parser.type(0)
    parser.expect_end()
    return found


def read_type(text: str | None) -> OdpsType:
    """Parse type text from the service; unreadable text becomes an `UnknownType`.

    ``None`` or empty text becomes an `UnknownType` with the text ``unknown``. Inside ARRAY, MAP or
    STRUCT, only the unreadable part is unknown.
    """
    if not (text and text.strip()):
        return UnknownType("unknown")
    try:
        parser = _Parser(text, keeps_unknown=True)
        found = parser.type(0)
        parser.expect_end()
    except ArgumentError:
        return UnknownType(text)
    return found


def parse_columns(text: str) -> tuple[Column, ...]:
    """Parse a column list: ``id bigint not null, amount decimal(18,2) comment 'x'``."""
    parser = _Parser(text)
    columns = [parser.column()]
    while parser.skip_sign(","):
        columns.append(parser.column())
    parser.expect_end()
    seen: set[str] = set()
    for column in columns:
        if column.name.casefold() in seen:
            raise parser.error(f"column {column.name!r} occurs twice")
        seen.add(column.name.casefold())
    return tuple(columns)


def format_type(type_: OdpsType) -> str:
    """Format a type as the service does: lower case, no spaces, names quoted if needed."""
    if isinstance(type_, DecimalType):
        if type_.precision is None:
            return "decimal"
        return f"decimal({type_.precision},{type_.scale or 0})"
    if isinstance(type_, LengthType):
        return f"{type_.code.name.lower()}({type_.length})"
    if isinstance(type_, ArrayType):
        return f"array<{format_type(type_.element)}>"
    if isinstance(type_, MapType):
        return f"map<{format_type(type_.key)},{format_type(type_.value)}>"
    if isinstance(type_, StructType):
        inner = ",".join(f"{_quote(f.name)}:{format_type(f.type)}" for f in type_.fields)
        return f"struct<{inner}>"
    if isinstance(type_, VectorType):
        return f"vector({format_type(type_.element)},{type_.length})"
    if isinstance(type_, UnknownType):
        return type_.text
    return type_.code.name.lower()


def format_columns(columns: Iterable[Column]) -> str:
    r"""Format a column list for ``CREATE TABLE``; `parse_columns` parses it back.

    Names are back-quoted and comments escaped, which prevents SQL injection.
    """
    return ", ".join(_format_column(column) for column in columns)


def format_text(text: str) -> str:
    """Format text as a quoted and escaped SQL string literal."""
    return "'" + "".join(_ESCAPED.get(char, char) for char in text) + "'"


def _format_column(column: Column) -> str:
    parts = [_quote(column.name, always=True), format_type(column.type)]
    if not column.nullable:
        parts.append("not null")
    if column.comment:
        parts.append(f"comment {format_text(column.comment)}")
    return " ".join(parts)


def _quote(name: str, *, always: bool = False) -> str:
    if not always and _PLAIN_NAME.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "word" | "quoted" | "string" | "sign" | "end"
    text: str
    start: int


class _Parser:
    """Recursive-descent parser with one token of look-ahead; depth and length are limited."""

    def __init__(self, text: str, *, keeps_unknown: bool = False) -> None:
        self._text, self._keeps_unknown = text, keeps_unknown
        if len(text) > MAX_TEXT:
            raise self.error(f"it is longer than {MAX_TEXT} characters")
        self._token = self._scan(0)

    def error(self, problem: str, *, hint: str | None = None) -> ArgumentError:
        return ArgumentError(
            f"cannot read type text {shorten(self._text, 80)!r}: {problem}",
            code="InvalidArgument",
            hint=hint or "write e.g. bigint, decimal(18,2), array<string>, struct<a:int,b:blob>",
        )

    def column(self) -> Column:
        name = self._name("a column name", _BARE_NAME)
        type_ = self.type(0)
        nullable, comment = True, ""
        if self._skip_word("not"):
            if not self._skip_word("null"):
                raise self._unexpected("null")
            nullable = False
        elif self._skip_word("null"):
            nullable = True
        if self._skip_word("comment"):
            comment = self._take("string", "a comment in quotes")
        return Column(name=name, type=type_, nullable=nullable, comment=comment)

    def type(self, depth: int) -> OdpsType:
        if depth > MAX_DEPTH:
            raise self.error(f"it is nested deeper than {MAX_DEPTH} levels")
        start = self._token.start
        word = self._take("word", "a type").lower()
        if word in _PRIMITIVES:
            return PrimitiveType(_PRIMITIVES[word])
        if word == "decimal":
            return self._decimal()
        if word in ("char", "varchar"):
            limit = MAX_CHAR if word == "char" else MAX_VARCHAR
            self._expect_sign("(")
            length = self._integer(1, limit, f"a length of {word}")
            self._expect_sign(")")
            return LengthType(TypeCode[word.upper()], length)
        if word in ("array", "map", "struct"):
            return self._nested(word, depth + 1)
        if word == "vector":
            return self._vector()
        if self._keeps_unknown:
            return self._unknown(start)
        hint = did_you_mean(word, _TYPE_NAMES, "{}", most=1).rstrip() or None
        raise self.error(f"{word!r} is not a type", hint=hint)

    def skip_sign(self, sign: str) -> bool:
        if self._token.kind == "sign" and self._token.text == sign:
            self._advance()
            return True
        return False

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise self._unexpected("the end")

    def _decimal(self) -> DecimalType:
        if not self.skip_sign("("):
            return DecimalType()
        precision = self._integer(1, MAX_PRECISION, "a precision")
        scale = self._integer(0, precision, "a scale") if self.skip_sign(",") else 0
        self._expect_sign(")")
        return DecimalType(precision, scale)

    def _vector(self) -> VectorType:
        """Parse ``(float, 4)``, or ``<float, 4>`` as pyodps writes it."""
        close = ">" if self.skip_sign("<") else ")"
        if close == ")":
            self._expect_sign("(")
        element = self._take("word", "float or double").lower()
        if element not in ("float", "double"):
            raise self.error(f"{element!r} is not a VECTOR element type; use float or double")
        self._expect_sign(",")
        length = self._integer(1, MAX_VECTOR, "a number of elements")
        self._expect_sign(close)
        return VectorType(PrimitiveType(TypeCode[element.upper()]), length)

    def _unknown(self, start: int) -> UnknownType:
        """Skip bracketed text after the type name; return the name and this text unchanged."""
        open_signs: list[str] = []
        end = self._before
        while self._token.kind == "sign" or (open_signs and self._token.kind != "end"):
            sign = self._token.text if self._token.kind == "sign" else ""
            if sign in ("<", "("):
                open_signs.append(sign)
            elif open_signs and sign == {"<": ">", "(": ")"}[open_signs[-1]]:
                open_signs.pop()
            elif not open_signs:
                break
            self._advance()
            end = self._before
        return UnknownType(self._text[start:end])

    def _nested(self, word: str, depth: int) -> OdpsType:
        self._expect_sign("<")
        found: OdpsType
        if word == "array":
            found = ArrayType(self.type(depth))
        elif word == "map":
            key = self.type(depth)
            self._expect_sign(",")
            found = MapType(key, self.type(depth))
        else:
            found = self._struct(depth)
        self._expect_sign(">")
        return found

    def _struct(self, depth: int) -> StructType:
        fields, seen = [], set()
        while True:
            name = self._name("a field name")
            self._expect_sign(":")
            fields.append(StructField(name, self.type(depth)))
            if name.casefold() in seen:
                raise self.error(f"field {name!r} occurs twice")
            seen.add(name.casefold())
            if self._skip_word("comment"):
                self._take("string", "a comment in quotes")
            if not self.skip_sign(","):
                return StructType(tuple(fields))

    def _name(self, what: str, bare: re.Pattern[str] = _PLAIN_NAME) -> str:
        if self._token.kind == "quoted":
            return self._take("quoted", what)
        name = self._take("word", what)
        if not bare.fullmatch(name):
            raise self.error(f"{name!r} is not {what}")
        return name

    def _integer(self, low: int, high: int, what: str) -> int:
        word = self._take("word", what)
        if not (word.isascii() and word.isdigit() and len(word) <= 9 and low <= int(word) <= high):
            raise self.error(f"{word!r} is not {what} ({low} to {high})")
        return int(word)

    def _expect_sign(self, sign: str) -> None:
        if not self.skip_sign(sign):
            raise self._unexpected(f"{sign!r}")

    def _skip_word(self, word: str) -> bool:
        if self._token.kind == "word" and self._token.text.lower() == word:
            self._advance()
            return True
        return False

    def _take(self, kind: str, what: str) -> str:
        if self._token.kind != kind:
            raise self._unexpected(what)
        text = self._token.text
        self._advance()
        return text

    def _advance(self) -> None:
        self._token = self._scan(self._next)

    def _unexpected(self, wanted: str) -> ArgumentError:
        got = repr(self._token.text[:40]) if self._token.kind != "end" else "the end"
        return self.error(f"expected {wanted} at character {self._token.start}, found {got}")

    def _scan(self, start: int) -> _Token:
        match = _TOKEN.match(self._text, start)
        if match is None:
            at = len(self._text) - len(self._text[start:].lstrip())
            raise self.error(f"unexpected {self._text[at]!r} at character {at}")
        self._before, self._next = start, match.end()
        group = kind = match.lastgroup or "end"
        text = match[group]
        if kind == "quoted":
            text = text.replace("``", "`")
        elif kind in ("single", "double"):
            kind, text = "string", re.sub(r"\\(.)", _unescape, text, flags=re.DOTALL)
        return _Token(kind, text, match.start(group))


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], match[1])
