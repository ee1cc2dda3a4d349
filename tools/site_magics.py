"""A Sphinx directive that documents every ``%odps`` subcommand from its argument parser."""

from __future__ import annotations

import argparse
import inspect
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from odps_nb.notebook.magics.arguments import Command, parser_of
from odps_nb.notebook.magics.commands import COMMANDS
from odps_nb.notebook.magics.magics import OdpsMagics


def spelled(action: argparse.Action) -> str:
    """Return an argument as a user types it: ``-n N, --limit N``."""
    name = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"`{name}`"
    return f"`{', '.join(f'{one} {name}'.strip() for one in action.option_strings)}`"


def plain(text: str) -> str:
    """Escape characters that are markup in Markdown."""
    return re.sub(r"([\\`*_\[\]<>{}|#~$])", r"\\\1", text)


def page_of(command: Command) -> str:
    """Return the section about a subcommand, in Markdown."""
    parser = parser_of(command.run)
    usage, _, _ = command.help().partition("\n\n")
    text = inspect.cleandoc(str(parser.description))
    shown = [one for one in parser._actions if one.help is not argparse.SUPPRESS]
    items = [f"- {spelled(action)}: {plain(str(action.help))}" for action in shown]
    return "\n".join(["```text", usage, "```", "", plain(text), "", *items])


class OdpsMagicsDirective(SphinxDirective):
    """One section per subcommand: usage, description, arguments."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for command in COMMANDS.values():
            mark = "%%odps" if command.cell == "required" else "%odps"
            section = nodes.section(ids=[f"odps-{command.name}"], names=[command.name])
            title = nodes.title("", "", nodes.literal(text=f"{mark} {command.name}"))
            section += [title, *self.parse_text_to_nodes(page_of(command))]
            found.append(section)
        return found


class OdpsSettingsDirective(SphinxDirective):
    """The settings of ``%config OdpsMagics``, with their defaults."""

    def run(self) -> list[nodes.Node]:
        items = [
            f"- `{name}`, by default `{trait.default_value!r}`: {plain(str(trait.help))}"
            for name, trait in sorted(OdpsMagics.class_own_traits(config=True).items())
        ]
        return self.parse_text_to_nodes("\n".join(items))


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("odps-magics", OdpsMagicsDirective)
    app.add_directive("odps-settings", OdpsSettingsDirective)
    return {"parallel_read_safe": True}
