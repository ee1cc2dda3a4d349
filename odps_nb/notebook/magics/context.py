"""State shared by the subcommands: connection, variables and output."""

from __future__ import annotations

import builtins
import keyword
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from odps_nb.client.calls.progress import ProgressListener
from odps_nb.errors import ConfigError, StateError, a_type, visible
from odps_nb.explained import expanded
from odps_nb.html import bundle, escape
from odps_nb.notebook.display import output
from odps_nb.notebook.live.live_view import in_kernel
from odps_nb.notebook.magics.arguments import suggest
from odps_nb.notebook.magics.completion import Lookup, NameCache

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.notebook.magics.magics import OdpsMagics

PLACE = ("project", "schema", "timezone", "root", "region", "network")
"""Arguments of ``%odps connect`` that are those of `odps_nb.connect`."""
_OF_IPYTHON = frozenset({"In", "Out", "_", "exit", "get_ipython", "quit"})
PATIENCE = 0.6
"""Maximum seconds that the first Tab waits for names; JupyterLab gives up after one second."""


class Context:
    """Connection, variables and output of the magics in one kernel.

    It owns the connection that ``%odps connect`` opened, and the name caches. ``owned`` says
    whether to close the connection when another one replaces it. ``cache`` contains the names for
    completion and the sidebar, and is ``None`` until there is a connection.
    """

    def __init__(self, magics: OdpsMagics) -> None:
        self.shell, self.operations, self.options = magics.shell, magics.operations, magics.options
        self.last_traceback = magics.failures.last_traceback
        self._connection: Connection | None = None
        self._origin: tuple[str | None, ...] = ()
        self.owned = False
        # by folder and project; the first connection has started the service
        self._services: dict[tuple[str | None, str | None], list[Connection]] = {}
        self._released = False
        self.cache: NameCache | None = None
        self._console: tuple[StorageClient, str | None] | None = None
        self._others: tuple[Connection, NameCache] | None = None
        # magics may run in several threads
        self._scope, self._lock = threading.local(), threading.RLock()

    # -- the connection -----------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection of ``%odps connect``, else the only one in a variable, else a new one."""
        with self._lock:  # another thread may be connecting
            if self._connection is None:
                self._choose()
        assert self._connection is not None  # set by use()
        return self._connection

    def _choose(self) -> None:
        from odps_nb.access.connection import Connection

        named = ((n, value) for n, value in self.variables.items() if n[0] != "_")
        connections = {n: value for n, value in named if isinstance(value, Connection)}
        if len({id(value) for value in connections.values()}) == 1:
            name, connection = next(iter(connections.items()))
            self.use(connection, owned=False, origin=(name,))
        else:
            self.use(_from_settings(self.variables), owned=True)

    def use(
        self, connection: Connection, *, owned: bool, origin: tuple[str | None, ...] = ()
    ) -> None:
        """Use this connection from now on; ``origin`` holds the arguments of ``%odps connect``."""
        self._let_go()
        self._connection, self.owned, self._origin = connection, owned, origin
        self.cache = NameCache(_names_of(connection), patience=PATIENCE)
        self.cache.prefetch()  # so that the first Tab can offer the tables

    def opening(self, connection: Connection, name: str) -> str:
        """Return code that assigns this connection, or an equivalent one, to the variable ``name``.

        Return ``""`` if ``%odps connect`` did not create the connection.
        """
        if connection is not self._connection:
            return ""
        target, *options = self._origin or (None,)
        settings = {
            name: value for name, value in zip(PLACE, options, strict=False) if value is not None
        }
        if target == "local":  # a second embedded service would have different tables
            switches = "".join(f' --{name} "{value}"' for name, value in settings.items())
            return f"{name} = %odps connect local{switches}\n"
        if target is not None and self.variables.get(target) is connection:
            return f"{name} = {target}\n"
        arguments = [f"{name}={value!r}" for name, value in settings.items()]
        if target is not None:
            key = "endpoint" if "://" in target else "source"
            is_variable = is_source(self.variables.get(target))
            arguments.insert(0, target if is_variable else f"{key}={target!r}")
        return f"import odps_nb\n{name} = odps_nb.connect({', '.join(arguments)})\n"

    def transfer_line(self) -> str:
        """Return the service that transfers the connection's rows, and why; sends no request.

        Return ``""`` if there is no connection yet.
        """
        if self._connection is None:
            return ""
        line = f"service for rows: {self._connection.transfer}"
        reason = self._connection._transfers.reason
        return f"{line} ({' '.join(reason.split())})" if reason else line

    def local(self, options: Mapping[str, Any]) -> Connection:
        """Return a connection to an embedded service, which is started if necessary.

        There is one service for each folder and project. It keeps its tables until the kernel ends,
        also if other connections are used meanwhile, or until its first connection is closed.
        """
        import odps_nb

        root = options.get("root")
        key = (root and str(expanded(root).resolve()), options.get("project"))
        known = self._services.get(key, ())
        service = known[0]._service if known else None
        refused = options.keys() & {"region", "network"}  # by connect()
        if refused or service is None or not service.is_running:
            self._services[key] = [odps_nb.connect("local", **options)]
        schema, timezone = options.get("schema"), options.get("timezone")
        opened = self._services[key]
        for one in opened:
            given = one.profile.schema, one.profile.timezone
            if given == (schema, timezone) and not one.closed:
                return one
        opened.append(opened[0]._changed(schema=schema, timezone=timezone))
        return opened[-1]

    def release(self) -> None:
        """Let the user close the current connection, and an embedded service with it."""
        self.owned, self._released = False, True

    def names(self, kind: str, of: str) -> Sequence[str]:
        """Return names for completion (see `Lookup`), or no names if there is no connection."""
        return () if self.cache is None else self.cache.look_up(kind, of)

    def show_page(self, instance_id: str) -> None:
        """Display the URL of the SQL instance's web page, if the service has such pages."""
        from odps_nb.client.sql.result import console_of, job_page

        storage = self.connection._storage
        if self._console is None or self._console[0] is not storage:
            self._console = storage, console_of(storage)
        if (console := self._console[1]) is not None:
            self.show_text(f"job: {job_page(storage, console, instance_id)}")

    def names_of(self, variable: str) -> tuple[Lookup, str] | None:
        """Return the names of the connection in a variable; for a table, also the table's name."""
        from odps_nb.access.connection import Connection
        from odps_nb.access.table import Table

        value, table = self.shell.user_ns.get(variable), ""
        if isinstance(value, Table):
            table = str(value.name)
            value = value.connection
        if not isinstance(value, Connection):
            return None
        if value is self._connection:
            return self.names, table
        if self._others is None or self._others[0] is not value:
            if self._others is not None:
                self._others[1].close()
            try:
                self._others = value, NameCache(_names_of(value), patience=PATIENCE)
            except StateError:  # the connection is closed
                return None
        return self._others[1].look_up, table

    def close(self) -> None:
        """Close the name caches, the connection if it is owned, and services. Idempotent."""
        self._let_go()
        for connections in [] if self._released else self._services.values():
            for one in connections:
                one.close()
        if self._others is not None:
            self._others[1].close()
            self._others = None

    def _let_go(self) -> None:
        if self.cache is not None:
            self.cache.close()
        if self._connection is not None and self.owned:
            self._connection.close()
        self._connection, self.owned, self.cache = None, False, None

    # -- the user's variables -----------------------------------------------------------------

    @contextmanager
    def inside(self, local: Mapping[str, Any]) -> Iterator[None]:
        """Make the local variables of the calling scope visible in this thread during one call."""
        before, self._scope.names = self._local, local
        try:
            yield
        finally:
            self._scope.names = before

    @property
    def _local(self) -> Mapping[str, Any]:
        names: Mapping[str, Any] = getattr(self._scope, "names", {})
        return names

    @property
    def variables(self) -> Mapping[str, Any]:
        """The user's variables, local ones first, without IPython's own (``open``, …)."""
        hidden, known = self.shell.user_ns_hidden, vars(builtins)
        return {
            name: value
            for name, value in {**self.shell.user_ns, **self._local}.items()
            if hidden.get(name, self) is not value and not (name in known and callable(value))
        }

    def variable(self, name: str) -> Any:
        """Return a variable's value, or raise a one-line error that suggests a similar name."""
        known = self.variables
        if name not in known:
            shown = [key for key in known if not key.startswith("_")]
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

    def check_output(self, name: str | None, *, connects: bool = False) -> None:
        """Raise ``UsageError`` if a result must not be assigned to the variable ``name``.

        A result never replaces a module, and only another connection (``connects``) replaces a
        connection.
        """
        if name is None:
            return
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"-o {name}: not a valid variable name")
        if name in vars(builtins) or name in _OF_IPYTHON or name.startswith("__"):
            raise UsageError(f"-o {name}: this name belongs to Python or IPython; pass another one")
        from odps_nb.access.connection import Connection

        held = self.shell.user_ns.get(name)
        if isinstance(held, ModuleType if connects else (ModuleType, Connection)):
            kind = "module" if isinstance(held, ModuleType) else "connection"
            raise UsageError(f"-o {name}: this variable holds {a_type(kind)}; pass another name")

    # -- the output ---------------------------------------------------------------------------

    def listener(
        self, *, quiet: bool = False, on_cancel: Callable[[], None] | None = None
    ) -> ProgressListener:
        """Return a listener that shows progress as a card, as a line, or not at all."""
        from odps_nb.notebook.progress.cards import CardListener
        from odps_nb.notebook.progress.line import LineListener

        options = self.options()
        if quiet:
            options = replace(options, progress="none")
        if in_kernel() or options.progress == "html":
            return CardListener(options=options, on_cancel=on_cancel)
        return LineListener(options=options, on_cancel=on_cancel)

    def lasting_listener(
        self, title: str, *, quiet: bool, on_cancel: Callable[[], None]
    ) -> ProgressListener:
        """Return a listener for an operation that outlives its cell; a terminal shows nothing."""
        from odps_nb.notebook.progress.cards import CardListener

        listener = self.listener(quiet=quiet or not in_kernel(), on_cancel=on_cancel)
        if isinstance(listener, CardListener):
            listener.place(*title.split(" ", 1))
        return listener

    @staticmethod
    def show_text(text: str) -> None:
        """Display plain text."""
        output.show({"text/plain": visible(text)})

    @staticmethod
    def show_note(text: str) -> None:
        """Display a line of small text."""
        style = "font-size:85%;opacity:.75"
        output.show(bundle(f'<div style="{style}">{escape(text)}</div>', text))


def is_source(value: object) -> bool:
    """Return whether `odps_nb.connect` accepts a variable's value: a profile or a pyodps object."""
    from odps_nb.access.connect import is_pyodps_entry
    from odps_nb.client.auth.profile import Profile

    return isinstance(value, Profile) or is_pyodps_entry(value)


def _from_settings(variables: Mapping[str, Any]) -> Connection:
    """Connect as `odps_nb.connect` does without arguments."""
    import odps_nb
    from odps_nb.access.connect import is_pyodps_entry

    try:
        return odps_nb.connect()
    except ConfigError as error:
        if error.option not in ("endpoint", "project", "access_id"):
            raise
        ready = [name for name, value in variables.items() if is_pyodps_entry(value)]
        first = f"run %odps connect {ready[0]}, which holds a pyodps object; " if ready else ""
        first += "run %odps connect local to try the magics without an account; "
        raise ConfigError(
            f"no connection yet: {error.message}", option=error.option, hint=f"{first}{error.hint}"
        ) from None


def _names_of(connection: Connection) -> Lookup:
    """Return the function that `NameCache` calls in its thread to fetch names."""
    # Load the modules now: an import in the thread could deadlock with another import.
    connection._storage  # noqa: B018

    def fetch(kind: str, table: str) -> list[str]:
        if kind == "tables":
            return [str(name) for name in connection.tables()]
        if kind == "columns":
            return list(connection.table(table).schema.names)
        return [str(spec) for spec in connection.table(table).partitions() if spec.has_name]

    return fetch
