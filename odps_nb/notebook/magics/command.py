"""Declares subcommands: a function, its arguments, and whether it takes a cell."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from IPython.core import magic_arguments

if TYPE_CHECKING:
    from odps_nb.notebook.magics.context import Context

__all__ = ["Command", "argument", "parsed_as", "parser_of"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def parsed_as(name: str) -> Callable[[_Function], _Function]:
    """Give a function a parser made of the `argument` decorators below this one."""
    return cast(
        "Callable[[_Function], _Function]",
        magic_arguments.magic_arguments(name),  # type: ignore[no-untyped-call]  # IPython's own
    )


def argument(*names: str, **how: Any) -> Callable[[_Function], _Function]:
    """Add one argument, as ``argparse.ArgumentParser.add_argument`` would."""
    return cast(
        "Callable[[_Function], _Function]",
        magic_arguments.argument(*names, **how),  # type: ignore[no-untyped-call]  # IPython's own
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

    def option_strings(self) -> tuple[str, ...]:
        """Return the names of its options, long forms first."""
        shown = [a for a in parser_of(self.run)._actions if a.help is not argparse.SUPPRESS]
        found = [name for action in shown for name in action.option_strings]
        return tuple(sorted([*found, "--help"], key=lambda name: (not name.startswith("--"), name)))

    def divide(self, words: Sequence[str]) -> tuple[dict[str, str], argparse.Action | None]:
        """Return the arguments among some words, by metavar, and which action takes the next word.

        No action: all arguments are there. What is wrong with the words does not matter here.
        """
        parser = parser_of(self.run)
        arguments = [one for one in parser._actions if not one.option_strings]
        given: dict[str, str] = {}
        option: argparse.Action | None = None
        for word in words:
            if option is not None:
                option = None
            elif word.startswith("-"):
                option = None if "=" in word else parser._option_string_actions.get(word)
                option = None if option is None or option.nargs == 0 else option
            elif arguments:
                given[str(arguments.pop(0).metavar)] = word
        return given, option or next(iter(arguments), None)
