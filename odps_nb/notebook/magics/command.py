"""Declares subcommands: a function, its arguments, and whether it takes a cell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from IPython.core import magic_arguments

if TYPE_CHECKING:
    from odps_nb.notebook.magics.context import Context

_Function = TypeVar("_Function", bound=Callable[..., Any])


#: Gives a function a parser made of the `argument` decorators below this one.
parsed_as: Callable[[str], Callable[[_Function], _Function]] = magic_arguments.magic_arguments
#: Adds one argument, as `argparse.ArgumentParser.add_argument` would.
argument: Callable[..., Callable[[_Function], _Function]] = magic_arguments.argument


def together(*decorators: Callable[[Any], Any]) -> Callable[[_Function], _Function]:
    """Return a decorator that applies some of them, the last one first."""

    def decorate(function: _Function) -> _Function:
        for one in reversed(decorators):
            function = one(function)
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
    "-w", "--where", metavar="FILTER", help="Only rows like this; :name binds a value."
)


def parser_of(function: Callable[..., Any]) -> argparse.ArgumentParser:
    """Return the parser that `parsed_as` made."""
    return function.parser  # type: ignore[attr-defined,no-any-return]  # set by magic_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One subcommand; ``run`` was decorated with `parsed_as`."""

    name: str
    run: Callable[[Context, argparse.Namespace, str | None], Any]
    cell: Literal["never", "optional", "required"] = "never"
    takes_text: bool = False
    """Whether the text of the cell may stand on the line instead, after the options."""
    lines: tuple[list[str], ...] = ()
    """First words with which a command that requires a cell stands on a line alone."""

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return str(parser_of(self.run).description).strip().splitlines()[0]

    def help(self) -> str:
        """Return usage, description and options as text."""
        text = parser_of(self.run).format_help()
        usage, _, body = text.removeprefix("::\n\n  %").partition("\n\n")
        mark = "%%" if self.cell == "required" else "%"
        return f"{mark}{usage}\n\n{body}".rstrip()

    def option(self, name: str) -> argparse.Action | None:
        """Return the option with a name such as ``-c``."""
        return parser_of(self.run)._option_string_actions.get(name)

    def takes_value(self, option: str) -> bool:
        """Whether a value follows an option; an unknown one may have one."""
        action = self.option(option)
        return action is None or action.nargs != 0

    def positionals(self) -> list[str]:
        """Return the names of its positional arguments."""
        return [one.dest for one in parser_of(self.run)._actions if not one.option_strings]

    def given(self, words: Sequence[str]) -> list[str]:
        """Return the words that are neither options nor their values."""
        found: list[str] = []
        skip = False
        for word in words:
            if not skip and not word.startswith("-"):
                found.append(word)
            skip = not skip and word.startswith("-") and "=" not in word and self.takes_value(word)
        return found

    def option_strings(self) -> tuple[str, ...]:
        """Return the names of its options, long forms first."""
        shown = [a for a in parser_of(self.run)._actions if a.help is not argparse.SUPPRESS]
        found = [name for action in shown for name in action.option_strings]
        return tuple(sorted([*found, "--help"], key=lambda name: (not name.startswith("--"), name)))
