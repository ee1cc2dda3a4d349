"""The state that subcommands share: connection, variables, output.

One per loaded extension. Owns the connection that ``%odps connect`` opened and the cache of names
for completion; `close` closes both.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from odps_nb.client.calls.progress import ProgressListener
from odps_nb.errors import ConfigError, NotFoundError, OdpsNbError, StateError, visible
from odps_nb.notebook.display import output
from odps_nb.notebook.display.html import bundle, escape
from odps_nb.notebook.magics.arguments import suggest
from odps_nb.notebook.magics.completion import Names
from odps_nb.notebook.magics.names import NameCache
from odps_nb.notebook.magics.options import Options
from odps_nb.notebook.magics.status import Operations

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.client.calls.storage import StorageClient

PATIENCE = 0.6
"""Seconds that a first Tab waits for names; JupyterLab gives up after one."""


class Context:
    """Connection, variables and output of the magics of one kernel."""

    def __init__(
        self,
        *,
        shell: Any,
        operations: Operations,
        options: Callable[[], Options],
        last_traceback: Callable[[], str | None],
    ) -> None:
        self.shell, self.operations, self.options = shell, operations, options
        self.last_traceback = last_traceback
        self._connection: Connection | None = None
        self._origin: tuple[str | None, ...] = ()
        self._owned = False
        self._names: NameCache | None = None
        self._console: tuple[StorageClient, str | None] | None = None
        self._others: tuple[Connection, NameCache] | None = None
        self._local: Mapping[str, Any] = {}

    # -- the connection -----------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection of the last ``%odps connect``; made from the environment if none was."""
        if self._connection is None:
            self.use(_from_settings(), owned=True)
        assert self._connection is not None  # set by use()
        return self._connection

    @property
    def connected(self) -> bool:
        """Whether there is a connection already."""
        return self._connection is not None

    def use(
        self, connection: Connection, *, owned: bool, origin: tuple[str | None, ...] = ()
    ) -> None:
        """Use this connection from now on; an owned one is closed when another replaces it.

        ``origin`` is the arguments of ``%odps connect``, for `is_alive`.
        """
        self._let_go()
        self._connection, self._owned, self._origin = connection, owned, origin
        self._names = NameCache(_Names(connection), patience=PATIENCE)
        self._names.prefetch()  # so that the first Tab already knows the tables

    def is_alive(self, origin: tuple[str | None, ...]) -> bool:
        """Whether the current connection has the same arguments and still works."""
        if self._connection is None or self._origin != origin:
            return False
        try:
            self._connection.tables("odps_nb_*")
        except OdpsNbError:
            return False
        return True

    def give_away(self) -> None:
        """Do not close the connection: the user has it in a variable now."""
        self._owned = False

    def suggest_table(self, error: NotFoundError, name: str) -> None:
        """Add the most similar table name to the hint, if one is known without a request."""
        if error.code == "NoSuchTable" and "did you mean" not in (error.hint or ""):
            near = suggest(name, self.names().tables()).removeprefix("; ")
            error.hint = " ".join(part for part in (near, error.hint) if part) or None

    def table(self, name: str) -> Table:
        """Return a table; makes no request."""
        return self.connection.table(name)

    def names(self) -> Names:
        """Return the names for completion; none without a connection."""
        return self._names if self._names is not None else _NO_NAMES

    def cache(self) -> NameCache:
        """Return the cache behind `names`, for the sidebar; connects if that was not done."""
        self.connection  # noqa: B018  makes the cache, too
        assert self._names is not None  # set by use()
        return self._names

    def show_page(self, instance_id: str) -> None:
        """Display the address of the page of a SQL instance, where the service has such pages."""
        from odps_nb.client.sql.job_page import console_of, job_page

        storage = self.connection.storage
        if self._console is None or self._console[0] is not storage:
            self._console = storage, console_of(storage)
        if (console := self._console[1]) is not None:
            self.show_text(f"job: {job_page(storage, console, instance_id)}")

    def tables_of(self, variable: str) -> Sequence[str] | None:
        """Return the table names of a connection in a variable; ``None`` if it holds none."""
        from odps_nb.access.connection import Connection

        value = self.shell.user_ns.get(variable)
        if not isinstance(value, Connection):
            return None
        if value is self._connection and self._names is not None:
            return self._names.tables()
        if self._others is None or self._others[0] is not value:
            if self._others is not None:
                self._others[1].close()
            try:
                self._others = value, NameCache(_Names(value), patience=PATIENCE)
            except StateError:  # it is closed
                return None
        return self._others[1].tables()

    def close(self) -> None:
        """Close the connection, if it is owned, and the caches of names. Idempotent."""
        self._let_go()
        if self._others is not None:
            self._others[1].close()
            self._others = None

    def _let_go(self) -> None:
        if self._names is not None:
            self._names.close()
        if self._connection is not None and self._owned:
            self._connection.close()
        self._connection, self._owned, self._names = None, False, None

    # -- the user's variables -----------------------------------------------------------------

    @contextmanager
    def inside(self, local: Mapping[str, Any]) -> Iterator[None]:
        """Make local variables of the calling scope visible during one call."""
        before, self._local = self._local, local
        try:
            yield
        finally:
            self._local = before

    @property
    def variables(self) -> Mapping[str, Any]:
        """The user's variables: those of the calling scope, then those of the notebook.

        What IPython itself put there (``open``, ``exit``, …) is left out.
        """
        theirs, known = self.shell.user_ns_hidden, vars(builtins)
        return {
            name: value
            for name, value in {**self.shell.user_ns, **self._local}.items()
            if theirs.get(name, self) is not value and not (name in known and callable(value))
        }

    def variable(self, name: str) -> Any:
        """Return the value of a variable, or raise a one-line error with the most similar name."""
        known = self.variables
        if name not in known:
            shown = [one for one in known if not one.startswith("_")]
            raise UsageError(f"there is no variable {name!r}{suggest(name, shown)}")
        return known[name]

    def deliver(self, value: Any, *, into: str | None, note: str = "") -> Any:
        """Assign a result to the variable ``into``, or return it to be displayed."""
        if into is None:
            return value
        self.shell.user_ns[into] = value
        if note:
            self.show_note(f"{into} ← {note}")
        return None

    @staticmethod
    def check_output(name: str | None) -> None:
        """Raise ``UsageError`` if ``name`` cannot be a variable."""
        if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
            raise UsageError(f"-o {name}: not a valid variable name")

    # -- the output ---------------------------------------------------------------------------

    def listener(
        self, *, quiet: bool = False, on_cancel: Callable[[], None] | None = None
    ) -> ProgressListener:
        """Return a listener that shows progress as a card, as a line, or not at all."""
        from dataclasses import replace

        from odps_nb.notebook.progress.cards import CardListener
        from odps_nb.notebook.progress.line import LineListener

        options = self.options()
        if quiet:
            options = replace(options, progress="none")
        in_kernel = getattr(self.shell, "kernel", None) is not None
        if in_kernel or options.progress == "html":
            return CardListener(options=options, on_cancel=on_cancel)
        return LineListener(options=options, on_cancel=on_cancel)

    def lasting_listener(
        self, title: str, *, quiet: bool, on_cancel: Callable[[], None]
    ) -> ProgressListener:
        """Return a listener for an operation that continues after its cell.

        A terminal shows no progress then: the line would overwrite the next prompt.
        """
        from odps_nb.notebook.progress.cards import CardListener

        in_kernel = getattr(self.shell, "kernel", None) is not None
        listener = self.listener(quiet=quiet or not in_kernel, on_cancel=on_cancel)
        if isinstance(listener, CardListener):
            listener.place(*title.split(" ", 1))
        return listener

    @staticmethod
    def show(value: Any) -> None:
        """Display a value that has a MIME bundle."""
        output.show(value._repr_mimebundle_())

    @staticmethod
    def show_text(text: str) -> None:
        """Display plain text."""
        output.show({"text/plain": visible(text)})

    @staticmethod
    def show_note(text: str) -> None:
        """Display a line in small type."""
        style = "font-size:85%;opacity:.75"
        output.show(bundle(f'<div style="{style}">{escape(text)}</div>', text))


def _from_settings() -> Connection:
    """Connect as environment and profile file say."""
    import odps_nb

    try:
        return odps_nb.connect()
    except ConfigError as error:
        if error.option != "endpoint":
            raise
        raise ConfigError(
            "no connection yet",
            option="endpoint",
            hint="try %odps connect local, or set ODPS_ENDPOINT and ODPS_PROJECT",
        ) from None


class _Names:
    """Names from a connection, for `NameCache` (called in its thread)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Made here, with all that it imports: in the thread it could meet another's import.
        self._storage = connection.storage

    def tables(self) -> list[str]:
        return [str(name) for name in self._connection.tables()]

    def columns(self, table: str) -> list[str]:
        return list(self._connection.table(table).schema.names)

    def partitions(self, table: str) -> list[str]:
        found = self._connection.table(table).partitions()
        return [str(spec) for spec in found if spec.has_name]


class _NoNames:
    def tables(self) -> tuple[str, ...]:
        return ()

    def columns(self, table: str) -> tuple[str, ...]:
        return ()

    def partitions(self, table: str) -> tuple[str, ...]:
        return ()


_NO_NAMES = _NoNames()
