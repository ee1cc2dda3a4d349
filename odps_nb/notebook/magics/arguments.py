"""Declares subcommands and arguments, and parses command lines with one-line error messages."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from IPython.core import magic_arguments
from IPython.core.error import UsageError
from IPython.utils.text import DollarFormatter

from odps_nb.access.partitions import parse_choices
from odps_nb.errors import ArgumentError
from odps_nb.terms import PartitionSpec, did_you_mean, parse_bytes

if TYPE_CHECKING:
    from odps_nb.notebook.magics.context import Context

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SECRET = re.compile(r"^-+[^=]*(access[-_]?(id|key)|secret|passw|token|credential)", re.IGNORECASE)
_USERINFO = re.compile(r"^\w+://[^/\s]*@")
_PIECE = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|(?P<comment>(?<!\S)\#.*)|.""", re.DOTALL
)
# A word in quotes, an option, or a value in quotes after a comparison.
_COMPARED = re.compile(r"""'[^']*'|"[^"]*"|(?<!\S)-[\w-]+=?|([<>=])('[^'"]*')""")
_OPTION = re.compile(r"\s*(--?[A-Za-z][\w-]*)")
_WORD = re.compile(r"""\s*(=?(?:"[^"]*"|'[^']*'|\S+))""")
_LATE_OPTION = re.compile(r"\s(--?[A-Za-z][\w-]*)(?:[\s=]+[^\s'\"]+)?$")

#: Attaches an argument parser, built from the `argument` decorators, to a function.
parsed_as: Callable[[str], Callable[[_Function], _Function]] = magic_arguments.magic_arguments
#: Adds one argument, as `argparse.ArgumentParser.add_argument` would.
argument: Callable[..., Callable[[_Function], _Function]] = magic_arguments.argument


def together(*decorators: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Return a decorator that applies several decorators, starting with the last one."""

    def decorate(function: _Function) -> _Function:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


TABLE = argument("table", metavar="TABLE", help="table, project.table or project.schema.table.")
PARTITIONS = argument(
    "-p",
    "--partition",
    metavar="KEY=VALUE",
    action="append",
    help="Partitions: ds=2024-01-01, ds>=2024-01-01 or latest; may be repeated.",
)
WHERE = argument(
    "-w", "--where", metavar="FILTER", help="Row filter; :name inserts a variable's value."
)


def parser_of(function: Callable[..., Any]) -> argparse.ArgumentParser:
    """Return the parser that `parsed_as` attached to a function."""
    return function.parser  # type: ignore[attr-defined,no-any-return]  # set by magic_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One subcommand; ``run`` must be decorated with `parsed_as`."""

    name: str
    run: Callable[[Context, argparse.Namespace, str | None], Any]
    cell: Literal["never", "optional", "required"] = "never"
    takes_text: bool = False
    """Whether the text may be on the line, after the options, instead of in the cell."""

    @property
    def summary(self) -> str:
        """The first line of the command's help."""
        return str(parser_of(self.run).description).strip().splitlines()[0]

    def help(self) -> str:
        """Return the usage, description and options as text."""
        text = parser_of(self.run).format_help()
        usage, _, body = text.removeprefix("::\n\n  %").partition("\n\n")
        mark = "%%" if self.cell == "required" else "%"
        return f"{mark}{usage}\n\n{body}".rstrip()

    def option(self, name: str) -> argparse.Action | None:
        """Return the option with this name (such as ``-c``), or ``None``."""
        return parser_of(self.run)._option_string_actions.get(name)

    def takes_value(self, option: str) -> bool:
        """Whether a value follows an option; ``True`` for unknown options."""
        action = self.option(option)
        return action is None or action.nargs != 0

    def positionals(self) -> list[str]:
        """Return the names of the positional arguments."""
        return [action.dest for action in parser_of(self.run)._actions if not action.option_strings]

    def given(self, words: Sequence[str]) -> list[str]:
        """Return the words that are neither options nor option values."""
        arguments: list[str] = []
        skip = False
        for word in words:
            if not skip and not word.startswith("-"):
                arguments.append(word)
            skip = not skip and word.startswith("-") and "=" not in word and self.takes_value(word)
        return arguments

    def option_strings(self) -> tuple[str, ...]:
        """Return the names of the options, long forms first."""
        names = list(parser_of(self.run)._option_string_actions)
        return tuple(sorted([*names, "--help"], key=lambda name: (not name.startswith("--"), name)))


def split_line(line: str) -> list[str]:
    """Split a line into words as a shell does, but keep backslashes and quotes of compared values.

    >>> split_line("orders -w \\"note = 'a b'\\" -p ds>'2030'")
    ['orders', '-w', "note = 'a b'", '-p', "ds>'2030'"]
    """
    line = _COMPARED.sub(lambda match: f'{match[1]}"{match[2]}"' if match[2] else match[0], line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.escape = True, "", ""
    try:
        return list(lexer)
    except ValueError:
        raise UsageError("a quote is not closed: write -w \"status = 'paid'\"") from None


def without_end(line: str) -> tuple[str, bool]:
    """Strip a trailing ``# comment`` and ``;``; return the line and whether it had a ``;``.

    >>> without_end("orders -w 'a = \\"#1\\"' -q;  # the first")
    ('orders -w \\'a = "#1"\\' -q', True)
    """
    content = ""
    for piece in _PIECE.finditer(line):
        if piece["comment"]:
            break
        content += piece[0]
    content = content.rstrip()
    bare = content.rstrip("; \t")
    return bare, bare != content


def split_text(line: str, command: Callable[..., Any]) -> tuple[list[str], str]:
    """Split a line into a command's options and the text after them."""
    known = parser_of(command)._option_string_actions
    words: list[str] = []
    place = 0
    while option := _OPTION.match(line, place):
        words.append(option[1])
        place = option.end()
        action = known.get(option[1])
        if (action is not None and action.nargs == 0) or not (value := _WORD.match(line, place)):
            continue
        if action is not None or value[1].startswith("="):
            words += split_line(value[1].removeprefix("="))
            place = value.end()
    text = line[place:].strip()
    late = _LATE_OPTION.search(text)
    if late and late[1] in known:
        raise UsageError(f"write {late[1]} before the query, not after it")
    return words, text


def expanded(words: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """Replace ``{expression}``, ``$name`` and ``${name}`` in words with their values.

    Other line magics of IPython do the same. A value stays one word. A filter (``-w``) does not
    change, because ``:name`` inserts quoted values there.
    """
    formatter, replaced = DollarFormatter(), []
    is_filter = False
    for word in words:
        if not is_filter and not word.startswith(("-w", "--where=")) and set("{$") & set(word):
            try:
                word = formatter.vformat(word.replace("${", "{"), [], dict(variables))
            except NameError as error:
                near = suggest(error.name or "", [k for k in variables if not k.startswith("_")])
                raise UsageError(f"{word}: there is no variable {error.name!r}{near}") from None
            except Exception as error:  # noqa: BLE001  an expression may raise any
                raise UsageError(f"{word}: {error}; write {{{{ for a brace") from None
        replaced.append(word)
        is_filter = word in ("-w", "--where")
    return replaced


def parse(command: Callable[..., Any], words: list[str]) -> argparse.Namespace:
    """Parse the words of one subcommand, or raise a one-line ``UsageError``.

    Error messages never repeat unrecognised values in full, because they might be keys.
    """
    refuse_keys(words)
    parser = parser_of(command)
    parser.allow_abbrev = False
    args, rest = parser.parse_known_args(words)
    if not rest:
        return args
    unknown = rest[0].partition("=")[0] or "="
    if unknown.startswith("-"):
        known = [name for action in parser._actions for name in action.option_strings]
        raise UsageError(f"{parser.prog} has no option {unknown}{suggest(unknown, known)}")
    if (getattr(args, "columns", None) or "").endswith(","):
        raise UsageError(
            f"unexpected argument {unknown!r}; write the columns as a,b without spaces"
        )
    if getattr(args, "where", None) is not None:
        raise UsageError(f'unexpected argument {unknown!r}; quote the filter: -w "amount > 10"')
    if set("[](") & set("".join(words)):
        raise UsageError(
            f"unexpected argument {unknown!r}; to pass an expression, assign it to a variable first"
        )
    raise UsageError(f"unexpected argument {unknown!r}; see %{parser.prog}?")


def refuse_keys(words: Iterable[str]) -> None:
    """Raise ``UsageError`` if a line contains keys or tokens; the message does not repeat them."""
    for word in words:
        if _SECRET.match(word) or _USERINFO.match(word):
            raise UsageError(
                "cells are saved, so a cell must not contain keys: remove the key, and set "
                "ODPS_ACCESS_ID and ODPS_ACCESS_KEY in the environment, or use a profile file or "
                "a keyring"
            )


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` if one of ``known`` is similar, otherwise ``""``."""
    meant = did_you_mean(word, known, "{}", most=1).rstrip()
    return meant and f"; {meant}"


def parse_columns(text: str | None) -> list[str] | None:
    """Parse column names written as ``a,b,c``; return ``None`` (all columns) for ``None``."""
    if text is None:
        return None
    names = [name.strip().strip("`") for name in text.split(",")]
    if not all(names):
        raise UsageError(f"-c {text}: write the columns as a,b,c without spaces")
    return names


def parse_partition(text: str | None) -> PartitionSpec | None:
    """Parse ``-p key=value[,key=value]`` for a command that accepts one partition."""
    try:
        return PartitionSpec.of(text) if text else None
    except ArgumentError as error:
        raise UsageError(f"-p: {error}; {error.hint}") from None


def parse_partitions(texts: list[str] | None) -> list[str] | None:
    """Validate each ``-p`` of a read (a spec, a range or ``latest``); ``None`` means all."""
    try:
        parse_choices(texts)
    except ArgumentError as error:
        raise UsageError(f"-p: {error}; {error.hint}") from None
    return texts or None


def parse_size(text: str) -> int:
    """Parse ``512MiB``, ``1.5 GB`` or a plain number of bytes."""
    size = parse_bytes(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512MB or 1GiB")
    return size


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above zero")
    return int(text)
