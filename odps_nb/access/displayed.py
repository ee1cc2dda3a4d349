"""Base classes of objects that notebooks and web apps show."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from odps_nb.convert.loaded import loaded
from odps_nb.errors import OdpsNbError
from odps_nb.html import failed_page

if TYPE_CHECKING:
    from odps_nb.notebook.live.live_view import LiveView


class DisplayedText:
    """Base class of objects that every host shows as the text of their repr."""

    __slots__ = ()

    def __panel__(self) -> Any:
        panel: Any = loaded("panel")
        return panel.pane.HTML(f"<pre>{escape(repr(self))}</pre>")  # Panel would not escape it


class Displayed:
    """Base class of objects that a notebook shows as a static page of HTML and text.

    IPython asks for `_repr_mimebundle_`, marimo and others for `_repr_html_`, and Panel for
    `__panel__`. If the page cannot be created, the error is shown in its place, because hosts hide
    exceptions or show a long traceback.
    """

    __slots__ = ()

    @abstractmethod
    def _static_page(self) -> Mapping[str, str]:
        """Return the page as ``text/html`` without scripts, and as ``text/plain``."""

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, str]:
        try:
            return self._static_page()
        except OdpsNbError as error:
            return failed_page(self, error)

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def __panel__(self) -> Any:
        panel: Any = loaded("panel")  # without this method, Panel would treat a table as a file
        return panel.pane.HTML(self._repr_html_(), sizing_mode="stretch_width")


class DisplayedLive(Displayed):
    """Base class of objects that also have a live view, which each host shows in its own way."""

    __slots__ = ()

    @abstractmethod
    def _live_view(self) -> LiveView:
        """Return the live view, whose widget replaces its static page."""

    def _ipython_display_(self) -> None:
        self._live_view().show_in_kernel()

    def _display_(self) -> Any:
        return self._live_view().in_marimo()

    def __panel__(self) -> Any:
        return self._live_view().in_panel()
