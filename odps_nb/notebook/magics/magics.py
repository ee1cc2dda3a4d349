"""The magics ``%odps`` and ``%%odps``: their settings, and the dispatch to subcommands."""

from __future__ import annotations

import dis
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from types import FrameType
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from traitlets import Bool, Enum, Float, Integer

from odps_nb.errors import CancelledError, OdpsNbError
from odps_nb.notebook.display.failures import FailureHook, UsageError
from odps_nb.notebook.magics import (
    completion,
    sidebar,  # noqa: F401  JupyterLab's sidebar calls it by name
)
from odps_nb.notebook.magics.arguments import (
    expanded,
    parse,
    refuse_keys,
    split_line,
    split_text,
    suggest,
    without_end,
)
from odps_nb.notebook.magics.commands import COMMANDS
from odps_nb.notebook.magics.context import Context
from odps_nb.notebook.magics.reading import RESULT_TYPES
from odps_nb.notebook.progress.operations import MAX_HZ, Operations, Options

# "%odps read?" shows the help of that subcommand; IPython would look for a variable. A line magic
# replaces "%%odps sql?", because a cell magic needs a body.
_HELP = re.compile(r"^\s*%?(?P<start>%odps\s+\w+)\s*\?{1,2}\s*$")
# Instructions after a call that discard, display or return its value.
_NOT_ASSIGNED = {"POP_TOP", "PRINT_EXPR", "CALL_INTRINSIC_1", "RETURN_VALUE"}


def _overview() -> str:
    lines = ["Work with MaxCompute tables and blobs in this notebook.", ""]
    for command in COMMANDS.values():
        mark = "%%odps" if command.cell == "required" else "%odps"
        lines.append(f"    {mark + ' ' + command.name:<16} {command.summary}")
    lines += [
        "",
        "%odps NAME? shows the help of a subcommand; %config OdpsMagics shows the settings.",
    ]
    return "\n".join(lines)


@magics_class
class OdpsMagics(Magics):
    """Settings of odps_nb in this notebook."""

    result_type = Enum(
        RESULT_TYPES, default_value="pandas", help="Result type of a read or query without -t."
    ).tag(config=True)
    limit = Integer(
        None,
        allow_none=True,
        min=1,
        help="Maximum rows that a read or query returns without -n; None: all.",
    ).tag(config=True)
    confirm_above = Integer(
        256 * 1024 * 1024,
        allow_none=True,
        min=1,
        help="Size in bytes above which %odps read requires -n, -w, --max-bytes or --all; "
        "None: no limit.",
    ).tag(config=True)
    sql_max_bytes = Integer(
        None,
        allow_none=True,
        min=1,
        help="Estimated bytes above which a SQL cell is not run; None: no limit, no estimate.",
    ).tag(config=True)
    progress = Enum(
        ("auto", "html", "text", "none"),
        default_value="auto",
        help="auto (a card in a notebook, a line in a terminal), html, text or none.",
    ).tag(config=True)
    refresh_hz = Float(
        MAX_HZ, min=0.1, max=MAX_HZ, help="Updates of a progress card per second; at most 5."
    ).tag(config=True)
    max_output_bytes = Integer(
        2 * 1024 * 1024, min=1024, help="Maximum bytes of previews in the output of one cell."
    ).tag(config=True)
    preview_rows = Integer(10, min=1, help="Rows that %odps head shows.").tag(config=True)
    traceback = Bool(default_value=False, help="Show full tracebacks of odps_nb errors.").tag(
        config=True
    )

    shell: Any  # an InteractiveShell, never None after __init__

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.operations = Operations()
        self.failures = FailureHook(shell, wants_traceback=lambda: bool(self.traceback))
        self.context = Context(self)
        self._matcher = completion.matcher(shell.Completer, self._complete)
        self._replaced: dict[str, Any] = {}

    def options(self) -> Options:
        """Return the current settings."""
        return Options(**{field.name: getattr(self, field.name) for field in fields(Options)})

    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def odps(
        self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None
    ) -> Any:
        """Work with MaxCompute tables and blobs; see the overview below."""
        local = (local_ns or {}) if cell is None else _caller_locals()
        try:
            with self.context.inside(local):
                return self._run(line, cell)
        except IPythonUsageError as error:
            raise UsageError(*error.args) from None

    def _run(self, line: str, cell: str | None) -> Any:
        bare, is_silent = without_end(line)
        name, *more = bare.split(None, 1) or [""]
        if not bare and cell is None and (original := self._replaced.get("line")) is not None:
            return original(line)  # in DataWorks, o = %odps returns a pyodps object
        if name in ("", "-h", "--help") or bare == "help":
            self.context.show_text(_overview())
            return None
        after = more[0] if more else ""
        if name == "help":
            name, after = after.split()[0], "--help"
        refuse_keys(line[len(bare) :].split())  # refuse keys even in a comment
        command = COMMANDS.get(name)
        if command is None:
            refuse_keys(after.split())
            near = suggest(name, COMMANDS) or "; %odps help lists them"
            raise UsageError(f"%odps has no subcommand {name!r}{near}")
        text = ""
        if command.takes_text:
            rest, text = split_text(after, command.run)
            is_silent = False  # here, a semicolon ends the SQL statement
        else:
            rest = split_line(after)
        if "--help" in rest or "-h" in rest:
            self.context.show_text(command.help())
            return None
        refuse_keys(rest)  # refuse typed keys; values of variables are not saved in the cell
        if cell is not None and command.cell == "never":
            raise UsageError(f"%%odps {name} takes no cell: write %odps {name} on one line")
        if text and (cell or "").strip():
            raise UsageError("write the query on the line or in the cell, not in both")
        args = parse(command.run, expanded(rest, self.context.variables))
        args.give = cell is None and _is_assigned()
        try:
            result = command.run(self.context, args, text or cell)
            return None if is_silent and not args.give else result
        except KeyboardInterrupt:
            what = f"{name} {getattr(args, 'table', '')}".rstrip()
            raise CancelledError(
                f"{what} was interrupted", hint="run the cell again to start over"
            ) from None

    # -- installed by %load_ext and removed by %unload_ext ------------------------------------

    def install(self) -> None:
        """Register the magics, completion, help and error hook; called once by `load`."""
        tables = self.shell.magics_manager.magics
        self._replaced = {kind: tables[kind].get("odps") for kind in ("line", "cell")}
        self.shell.register_magics(self)
        self.shell.Completer.custom_matchers.append(self._matcher)
        self.shell.input_transformers_cleanup.append(_help_line)
        self.failures.install()

    def uninstall(self) -> None:
        """Remove what `install` registered, and close the connection."""
        manager = self.shell.magics_manager
        for kind, before in self._replaced.items():
            manager.magics[kind].pop("odps", None)
            if before is not None:
                manager.magics[kind]["odps"] = before
        manager.registry.pop("OdpsMagics", None)
        for registered, item in (
            (self.shell.configurables, self),
            (self.shell.Completer.custom_matchers, self._matcher),
            (self.shell.input_transformers_cleanup, _help_line),
        ):
            registered[:] = [entry for entry in registered if entry is not item]
        self.failures.remove()
        self.context.close()

    def _complete(self, before: str, after: str) -> completion.Candidates | None:
        known = completion.Known(
            commands=COMMANDS,
            names=self.context.names,
            variables=lambda: [n for n in self.shell.user_ns if not n.startswith("_")],
            profiles=_profiles,
            names_of=self.context.names_of,
        )
        return completion.complete(before, known, after)


def load(ipython: Any) -> None:
    """Install the magics, completion and error hook in this IPython shell if not yet installed."""
    if "OdpsMagics" not in ipython.magics_manager.registry:
        OdpsMagics(ipython).install()


def unload(ipython: Any) -> None:
    """Remove what `load` installed, and close the connection opened by the magics."""
    magics = ipython.magics_manager.registry.get("OdpsMagics")
    if magics is not None:
        magics.uninstall()


def _profiles() -> tuple[str, ...]:
    from odps_nb.client.auth.sources import profile_names

    try:
        return profile_names(os.environ)
    except OdpsNbError:
        return ()  # completion ignores a broken profile file; %odps connect reports it


OdpsMagics.odps.__doc__ = _overview()


def _help_line(lines: list[str]) -> list[str]:
    """Turn ``%odps NAME?`` and ``%%odps NAME?`` into ``%odps NAME --help``."""
    if len(lines) == 1 and (match := _HELP.match(lines[0])):
        return [match["start"] + " --help\n"]
    return lines


def _is_assigned() -> bool:
    """Whether the code that runs a line magic uses its value, as in ``odps = %odps connect``.

    The source is not always known, for example in ``%%time``, so this inspects the bytecode.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "run_line_magic":
        frame = frame.f_back
    if frame is None or (frame := frame.f_back) is None:
        return False
    code, call = frame.f_code, frame.f_lasti
    after = next((step for step in dis.get_instructions(code) if step.offset > call), None)
    return after is not None and after.opname not in _NOT_ASSIGNED


def _caller_locals() -> Mapping[str, Any]:
    """Return the local variables of a cell magic's caller; IPython passes only the globals."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_name != "run_cell_magic":
        frame = frame.f_back
    while frame.f_back is not None and frame.f_code.co_name == "run_cell_magic":
        frame = frame.f_back
    return frame.f_locals
