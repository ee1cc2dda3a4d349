"""Shows a static view, and a widget that hides it while the kernel responds.

The view and the widget are separate outputs, for reasons that docs/decisions/notebook.md lists for
each host.
"""

from __future__ import annotations

import contextvars
import re
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from odps_nb.access.displayed import DisplayedLive
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.convert.loaded import loaded
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    MissingDependencyError,
    OdpsNbError,
    StateError,
    explain,
    visible,
)
from odps_nb.html import escape
from odps_nb.lifetime import end_at_exit, start_thread
from odps_nb.notebook.display import output

_NO_MODEL = (
    ".jp-OutputArea-child:has(.{}) + .jp-OutputArea-child:not(:has(.odps-x)) {{display:none}}"
)
_UNNEEDED = re.compile(r"^[ \t]*(//.*|/\*.*\*/)[ \t]*\n|^[ \t]+", re.MULTILINE)
# Errors raised by reading a malformed message from the browser.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def in_kernel() -> bool:
    """Whether this process is a Jupyter kernel, which supports widgets."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


@cache
def widget_class(script: Path, parts: tuple[str, ...], *texts: str) -> Any:
    """Return the anywidget class for a script and the style sheet of the same name.

    The widget's state is the script, ``static_id`` (the name of the static view) and the strings
    named ``texts``; none of it is user data. ``common.js``, the scripts named ``parts`` and their
    style sheets are prepended to this script and style sheet, without comment lines and
    indentation. A style sheet is optional.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise MissingDependencyError(
            "this view needs anywidget", extra="notebook", hint="pip install 'odps-nb[notebook]'"
        ) from None
    scripts = (Path(__file__).with_name("common.js"), *map(script.with_name, parts), script)

    def together(ending: str) -> str:
        files = [path.with_suffix(f".{ending}") for path in scripts]
        text = "\n".join(file.read_text(encoding="utf-8") for file in files if file.exists())
        return _UNNEEDED.sub("", text)  # saved notebooks contain the script of each view

    state = {name: traitlets.Unicode("").tag(sync=True) for name in ("static_id", *texts)}
    code = {"_esm": together("js"), "_css": together("css")}
    # anywidget identifies a widget's style sheet by the class name.
    return type(f"{script.stem.title()}Widget", (anywidget.AnyWidget,), {**state, **code})


def widget_bundle(widget: Any, text: str) -> dict[str, Any]:
    """Return the MIME bundle that displays a widget; hosts without widgets show ``text``."""
    bundle = widget._repr_mimebundle_()
    return {**(bundle[0] if isinstance(bundle, tuple) else bundle), "text/plain": text}


class LiveView(DisplayedLive):
    """A static view and its widget, whose requests are handled in threads.

    A subclass defines ``_static_page``, ``_script``, the names of the scripts that it uses
    (``_scripts``), and a method ``_on_NAME(content, buffers)`` for each request NAME of that
    script. Work runs as named tasks: a new task cancels a running one with the same name. Data from
    the service is never widget state; it is sent to the browser as messages. A subclass calls this
    ``__init__`` last, because `end` may be called as soon as it returns.
    """

    _script: ClassVar[Path]
    _scripts: ClassVar[tuple[str, ...]] = ()
    _task: ClassVar[str]
    """Name of the task to which the error for a malformed request is attributed."""
    _cancelled: ClassVar[Mapping[str, str]] = {}
    """Text to show for a cancelled task, by name; other tasks show nothing."""
    _no_widget: ClassVar[str] = ""
    """Text that untrusted and exported notebooks show instead of the widget; default: the repr."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex  # display id of the static view
        self._is_displayed = False
        self._widget: Any = None
        self._lock = threading.Lock()
        self._tokens: dict[str, CancelToken] = {}
        self._closed = False
        end_at_exit(self)

    def widget(self) -> Any:
        """Return the anywidget; raises `MissingDependencyError` if anywidget is not installed."""
        # marimo closes the connection of a widget when the cell that displays it runs again
        if getattr(getattr(self._widget, "comm", None), "_closed", False):
            output.close_widget(self._widget)
            self._widget = None
        if self._widget is None:
            texts = self._texts()
            self._widget = widget_class(self._script, self._scripts, *texts)(
                static_id=self._id, **texts
            )
            self._widget.on_msg(lambda _, content, buffers: self.receive(content, buffers))
        return self._widget

    def _live_view(self) -> LiveView:
        return self

    def show(self) -> None:
        """Display the static page, and in a kernel the widget; raises the errors of the page.

        A closed view has no widget, because nothing would answer its requests.
        """
        self._is_displayed = False  # display a new output, perhaps in another cell
        self._show_static(self._static_page())
        if in_kernel() and not self._closed:
            self._show_widget()

    def show_in_kernel(self) -> None:
        """Display the view in a kernel; elsewhere, IPython then displays the static page."""
        if not in_kernel():
            raise NotImplementedError
        self.show()

    def in_marimo(self) -> Any:
        """Return the static page and the widget for marimo, which its user has imported."""
        marimo: Any = loaded("marimo")
        parts = (marimo.Html(self._marked(self._repr_html_())), *self._widget_parts(marimo.Html))
        return marimo.vstack(parts, gap=0)

    def in_panel(self) -> Any:
        """Return the static page and the widget for Panel, which its user has imported."""
        panel: Any = loaded("panel")
        page = panel.pane.HTML(self._marked(self._repr_html_()))
        parts = (page, *map(panel.panel, self._widget_parts(panel.pane.HTML)))
        for part in parts:
            part.sizing_mode = "stretch_width"
        return panel.Column(*parts, sizing_mode="stretch_width")

    def _widget_parts(self, html: Callable[[str], Any]) -> tuple[Any, ...]:
        """Return the widget; without anywidget, ``html`` of a line that says what to install."""
        if self._closed:
            return ()
        try:
            return (self.widget(),)
        except MissingDependencyError as error:
            return (html(str(escape(f"{error}: {error.hint}"))),)

    def _marked(self, html: str) -> str:
        """Return the static page as an element that the widget finds and hides (common.js)."""
        return f'<div class="odps-nb-{self._id}">{html}</div>'

    def _show_static(self, bundle: Mapping[str, str]) -> None:
        """Display the static view, or replace it if it is already displayed."""
        # The live widget hides elements of this class (common.js). When a trusted notebook is
        # reopened, the style hides the next output, which says "model not found".
        mark = f"odps-nb-{self._id}"
        style = f"<style>{_NO_MODEL.format(mark)}</style>"
        mime_bundle = dict(bundle)  # `html.bundle` has already wrapped its HTML
        mime_bundle["text/html"] = self._marked(style + bundle.get("text/html", ""))
        if self._is_displayed:
            output.replace(mime_bundle, display_id=self._id)
        else:
            self._is_displayed = True
            output.show(mime_bundle, display_id=self._id)

    def _show_widget(self) -> None:
        """Display the widget; untrusted and exported notebooks show ``_no_widget`` instead.

        Without anywidget, the static view stays, with a line that says what to install.
        """
        try:
            output.show(widget_bundle(self.widget(), self._no_widget or repr(self)))
        except MissingDependencyError as error:
            output.show({"text/plain": f"{error}: {error.hint}"})

    def close(self) -> None:
        """Cancel all work and free memory; the static view stays. Idempotent."""
        self.end()
        widget, self._widget = self._widget, None
        if widget is not None:
            output.close_widget(widget)

    def end(self) -> None:
        """Cancel all work permanently; also called when the interpreter exits. Idempotent."""
        with self._lock:
            self._closed, tokens = True, list(self._tokens.values())
        for token in tokens:
            token.cancel()

    def __reduce__(self) -> Any:
        raise StateError(
            "a view cannot be pickled, because it belongs to this process",
            hint="pickle what it shows, such as the result of to_pandas(), and create a new view",
        )

    def __copy__(self) -> LiveView:
        return self

    def __deepcopy__(self, _: Any) -> LiveView:
        return self

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Handle a message from the browser; returns immediately, never raises."""
        if not isinstance(content, Mapping):
            return
        try:
            act = getattr(self, f"_on_{content.get('do')}", None)
            if act is not None:
                act(content, buffers)
        except OdpsNbError as error:
            self._tell_error(self._task, error)
        except _MALFORMED:
            message = "the kernel cannot read this request of the browser"
            hint = "reload the page, and run the cell again"
            self._tell_error(self._task, ArgumentError(message, hint=hint))

    def _texts(self) -> Mapping[str, str]:
        """Return the strings of the widget's state by name; they contain no user data."""
        return {}

    def _send(self, message: Mapping[str, Any], *buffers: bytes) -> None:
        if self._widget is not None:
            self._widget.send(dict(message), list(buffers))

    def _about(self, task: str) -> Mapping[str, Any]:
        """Return additional items for the message that reports the end of a task."""
        return {}

    def _tell_error(self, task: str, error: BaseException) -> None:
        """Report the error that ended a task to the browser; called in the thread of the task."""
        text: str | None = str(error)
        if isinstance(error, CancelledError):
            text = self._cancelled.get(task)
        elif isinstance(error, OdpsNbError):
            text = " ".join(explain(error))
        if text is not None:
            message = {"kind": "problem", "task": task, "text": visible(text)[:1000]}
            self._send({**message, **self._about(task)})

    def _tell_end(self, task: str) -> None:
        """Report the end of a task to the browser."""
        self._send({"kind": "idle", "task": task, **self._about(task)})

    # -- work in threads --------------------------------------------------------------------------

    def _run(self, task: str, work: Callable[[CancelToken], None]) -> None:
        """Start a task, and cancel a running one with the same name."""
        token = CancelToken()
        with self._lock:
            if self._closed:
                return
            before, self._tokens[task] = self._tokens.get(task), token
        if before is not None:
            before.cancel()
        context = contextvars.copy_context()  # ipykernel stores the current cell in it
        thread = threading.Thread(
            target=lambda: context.run(self._work, task, work, token),
            name=f"odps-nb-{task}",
            daemon=True,
        )
        start_thread(thread)

    def _stop(self, task: str) -> None:
        """Cancel a task."""
        with self._lock:
            token = self._tokens.get(task)
        if token is not None:
            token.cancel()

    def _work(self, task: str, work: Callable[[CancelToken], None], token: CancelToken) -> None:
        error: BaseException | None = None
        try:
            token.check()
            work(token)
        except Exception as caught:  # noqa: BLE001  # the view reports the error
            error = caught
        with self._lock:
            is_last = self._tokens.get(task) is token and not self._closed
            if is_last:
                del self._tokens[task]
        if is_last and error is not None:
            self._tell_error(task, error)
        if is_last:
            self._tell_end(task)
