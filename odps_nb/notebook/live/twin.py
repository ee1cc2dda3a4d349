"""Shows a static view, and beside it the widget that stands in its place while it is alive.

Two outputs: one with both would show "model not found" when a trusted notebook is reopened without
its kernel, and nothing in an export.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.display import output

_NO_MODEL = (
    ".jp-OutputArea-child:has(.{}) + .jp-OutputArea-child:not(:has(.odps-x)) {{display:none}}"
)


def in_kernel() -> bool:
    """Whether this is a Jupyter kernel, which can have widgets."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def close_widget(widget: Any) -> None:
    """Take a widget out of the browser and of the kernel's list of widgets, whole.

    A widget has widgets of its own for its layout and its style, which stay on that list when it
    is closed alone.
    """
    parts = [getattr(widget, name, None) for name in ("layout", "style")]
    for one in (widget, *(part for part in parts if part is not None)):
        one.close()


class Twin:
    """The static view of one widget: an output with a name, by which the widget hides it."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self._shown = False

    def begin(self) -> None:
        """Let the next `show` display it in the current cell, also if another cell has it."""
        self._shown = False

    def show(self, bundle: Mapping[str, str]) -> None:
        """Display the static view, or replace it where it is displayed."""
        # The widget hides it while it is there itself (common.js): by this class. And where a
        # trusted notebook is reopened, "model not found" in the next output says nothing.
        mark = f"odps-nb-{self.id}"
        style = f"<style>{_NO_MODEL.format(mark)}</style>"
        made = dict(bundle)  # whose HTML is of `html.bundle` already
        made["text/html"] = f'<div class="{mark}">{style}{bundle.get("text/html", "")}</div>'
        if self._shown:
            output.replace(made, display_id=self.id)
        else:
            self._shown = True
            output.show(made, display_id=self.id)

    def show_widget(self, widget: Any, text: str) -> None:
        """Display the widget; ``text`` stands in its place in untrusted and exported notebooks."""
        bundle = widget._repr_mimebundle_()
        bundle = bundle[0] if isinstance(bundle, tuple) else bundle
        output.show({**bundle, "text/plain": text})


@cache
def widget_class(script: Path, *texts: str) -> Any:
    """Return the anywidget of a script, which has a style sheet of its name beside it.

    Its state is the script, ``static_id`` (the name of the static view), and ``texts``, which have
    nothing of the data. The functions and the look that all our widgets share are put before its
    own.

    Raises
    ------
    MissingDependencyError
        Without anywidget.
    """
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise MissingDependencyError(
            "this view needs anywidget", extra="notebook", hint="pip install 'odps-nb[notebook]'"
        ) from None
    common = Path(__file__).parent

    def together(ending: str) -> str:
        parts = (common / f"common.{ending}", script.with_suffix(f".{ending}"))
        return "\n".join(part.read_text(encoding="utf-8") for part in parts)

    state = {name: traitlets.Unicode("").tag(sync=True) for name in ("static_id", *texts)}
    parts = {"_esm": together("js"), "_css": together("css")}
    # By the name of the class anywidget knows which style sheet of a page is whose.
    return type(f"{script.stem.title()}Widget", (anywidget.AnyWidget,), {**state, **parts})


class LiveView:
    """A static view and the widget beside it, which is made when it is first asked for.

    A view of its own has a ``_script``, and does in `receive` what messages of the browser ask
    for. Nothing that came from the service is widget state: it goes to the browser as messages.
    """

    _script: ClassVar[Path]

    def __init__(self) -> None:
        self._twin = Twin()
        self._widget: Any = None

    def widget(self) -> Any:
        """Return the anywidget.

        Raises
        ------
        MissingDependencyError
            Without anywidget.
        """
        if self._widget is None:
            texts = self._texts()
            self._widget = widget_class(self._script, *texts)(static_id=self._twin.id, **texts)
            self._widget.on_msg(lambda _, content, buffers: self.receive(content, buffers))
        return self._widget

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Do what a message of the browser asks for; returns at once, never raises."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop what it does, and free what it holds; the static view stays. Idempotent."""
        self.end()
        widget, self._widget = self._widget, None
        if widget is not None:
            close_widget(widget)

    def end(self) -> None:
        """Stop, called when the interpreter exits."""
        raise NotImplementedError

    def _texts(self) -> Mapping[str, str]:
        """Return the texts of the widget's state, which have nothing of the data."""
        return {}

    def _send(self, message: Mapping[str, Any], *buffers: bytes) -> None:
        if self._widget is not None:
            self._widget.send(dict(message), list(buffers))
