"""`Explorer`: the widget that ``explore()`` returns; it displays a `RowView`.

Pages, profiles and pictures are sent to the browser as messages; the saved notebook contains only
the static view. Requests from the browser contain numbers and strings, never code. All requests
change the same view, so their handlers are in one class.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from odps_nb.access.blob import iter_inspected
from odps_nb.access.paging.browsing import rows_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, CancelledError, OdpsNbError, visible
from odps_nb.notebook.explore.charts.chart import Chart, cost_text
from odps_nb.notebook.explore.charts.choice import choose
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import (
    typed_condition,
)
from odps_nb.notebook.explore.exports import (
    MEDIA_TYPES,
    ExportsRows,
    cell_code,
    file_kind,
    file_name,
    save_file,
    words_of,
    write_file,
)
from odps_nb.notebook.explore.messages import (
    MOST_WHERE,
    count_message,
    page_message,
    profile_message,
    table_message,
)
from odps_nb.notebook.explore.pages import Page
from odps_nb.notebook.explore.static import (
    LARGE,
    LARGE_BUDGET,
    MOST_PICTURES,
    Shown,
    first_found,
    shown_bundle,
    thumbnail,
    thumbnails,
)
from odps_nb.notebook.explore.view import RowView
from odps_nb.notebook.live.live_view import LiveView, in_kernel
from odps_nb.notebook.progress.browser import BrowserProgress
from odps_nb.schema import TypeCode
from odps_nb.terms import format_bytes

if TYPE_CHECKING:
    from odps_nb.access.row_forms import RowForms

MAX_SEARCH = 200
ASK_BYTES = 10 * 1024**3
"""A chart or a sort that would read more bytes than this needs confirmation."""
COUNT_BYTES = 1024**3
"""Matching rows are not counted if the SQL job is estimated to read more bytes than this."""
TELL_SECONDS = 0.2
"""Minimum seconds between two messages about the progress of a search."""
_REASON = 500  # maximum characters of the reason why rows were not counted
_NO_WIDGET = "run the cell again to page, filter or sort"


def explore(
    source: RowForms, *, rows: int = 100, sample: int = 64_000, seed: int | None = None
) -> Explorer:
    """Open the session of a read or a SQL result, and return an explorer for its rows."""
    return Explorer(RowView(rows_of(source), page_rows=rows, sample=sample, seed=seed))


class Explorer(ExportsRows, LiveView):
    """A notebook widget that pages through, filters, sorts and profiles remote rows.

    ``view`` gives access to the pages, the conditions and the profile without the widget.

    Examples
    --------
    >>> orders = odps.table("orders").explore()
    >>> orders.view.filter("quantity", low=9, high=12)
    >>> orders.code
    "odps.table('orders').read(where='quantity >= 9 and quantity <= 12')"
    >>> orders.close()
    """

    _script = Path(__file__).parent / "scripts" / "explorer.js"
    _scripts = (
        "filters.js",
        "columns.js",
        "grid.js",
        "profile.js",
        "sorting.js",
        "exports.js",
    )
    _task = "page"
    _cancelled: ClassVar = dict.fromkeys(("page", "profile", "chart", "download"), "cancelled")

    def __init__(self, view: RowView) -> None:
        self.view = view
        self._static: tuple[Page, str] | None = None
        self._chart: Chart | None = None
        self._drawn: Chart | None = None  # the last chart, even if the filter has changed since
        self._sized: Mapping[str, Any] = {}  # the last request that contains the width of a chart
        self._drawing = threading.Lock()  # keeps new and resized charts in order
        self._asked: Choice | None = None  # a choice whose sort the user has not yet confirmed
        self._reported_at = 0.0
        self._start = 0
        self._begun: dict[str, list[str | None]] = {}  # the filter of each running task
        self._names: set[str] = set()  # variable names already used in inserted cells
        view.tell_tested = self._tell_tested
        super().__init__()

    @property
    def code(self) -> str:
        """Python code that reads the selected rows."""
        return self.view.code

    def selected(self) -> RowForms:
        """Return a new read of the selected rows."""
        return self.view.selected()

    def close(self) -> None:
        """Cancel all reads and free memory; the static view stays. Idempotent."""
        super().close()
        self.view.close()

    def end(self) -> None:
        """Cancel all reads; also called when the interpreter exits."""
        super().end()
        self.view.stop()
        self.view.stop_profile()
        self.view.stop_export()

    def __repr__(self) -> str:
        return f"<Explorer of {self.view.about}>"

    # -- in a notebook --------------------------------------------------------------------------

    def _static_page(self) -> dict[str, str]:
        view = self.view
        # a filtered read may take a long time to find rows
        self._static = first_found(view) if view.all_rows is None else (view.page(0), "")
        return self._page_of(*self._static)

    def _update_static(self) -> None:
        if self._is_displayed and self._static is not None:
            self._show_static(self._page_of(*self._static))

    def _page_of(self, page: Page, note: str) -> dict[str, str]:
        view = self.view
        profile = view.profile if view.is_profiled else None
        pictures = thumbnails(view, page, most=MOST_PICTURES) if profile is not None else None
        shown = Shown(
            view=view,
            page=page,
            profile=profile,
            pictures=pictures,
            note=note,
            chart=self._chart,
            hint=_NO_WIDGET if in_kernel() else "",
        )
        return shown_bundle(shown)

    # -- requests from the browser --------------------------------------------------------------

    def _on_ready(self, _: Mapping[str, Any], buffers: object) -> None:
        self._send(table_message(self.view))
        page, note = self._static or (None, "")
        if page is not None and page.start == self._start and not note:
            # Without a thread, because Colab may drop messages that other threads send.
            self._send(page_message(self.view, page), page.data)
            self._send({"kind": "idle", "task": "page"})
        else:
            self._on_page({"start": self._start}, ())
        self._describe_and_count()

    def _on_page(self, content: Mapping[str, Any], _: object) -> None:
        start = int(content["start"])
        self._run("page", lambda token: self._send_page(start, token))

    def _send_page(self, start: int, token: CancelToken) -> None:
        self._reported_at = time.monotonic()
        if self.view.sorts_again(start):
            self._tell_busy("page", "sorting more rows: a SQL job is running")
        page = self.view.page(start, token)
        token.check()
        self._start = page.start
        self._send(page_message(self.view, page), page.data)

    def _choose(
        self, choice: Choice | Callable[[CancelToken], Choice], *, is_agreed: bool = False
    ) -> None:
        self.view.stop()  # cancel reads for the previous choice

        def work(token: CancelToken) -> None:
            self._reported_at, before = time.monotonic(), self.view.where
            chosen = choice if isinstance(choice, Choice) else choice(token)
            if chosen.order and not chosen.search:
                self._asked = chosen
                cost = self.view.sort_bytes(chosen)
                if not is_agreed and self._asks("page", cost):
                    return
                self._tell_busy("page", f"sorting: a SQL job is reading {format_bytes(cost)}")
            try:
                self.view.choose(chosen, token)
                self._send_page(0, token)
            except BaseException:
                self.view.undo(chosen)
                if not self.view.is_profiled:
                    self._describe_and_count()
                raise
            self._chart = None  # the old chart shows other rows
            if self.view.where != before or not self.view.is_profiled:
                self._static = (self.view.page(0, token), "")
                self._describe_and_count()

        self._run("page", work)

    def _on_agree(self, _: Mapping[str, Any], buffers: object) -> None:
        if self._asked is not None:
            self._choose(self._asked, is_agreed=True)

    def _asks(self, task: str, cost: int, reason: str = "") -> bool:
        """Ask the user to confirm a job that reads over `ASK_BYTES` or runs a query again.

        Return whether confirmation is needed.
        """
        if cost <= ASK_BYTES and not reason:
            return False
        self._send({"kind": "cost", "task": task, "text": cost_text(cost, reason)})
        return True

    def _tell_busy(self, task: str, text: str, share: float | None = None) -> None:
        self._send({"kind": "busy", "task": task, "text": text, "share": share})

    def _tell_tested(self, what: str, rows: int, total: int | None) -> None:
        now = time.monotonic()
        if now >= self._reported_at + TELL_SECONDS:
            self._reported_at = now
            rows = min(rows, total or rows)  # a read that restarts counts rows twice
            of, share = ("", None) if not total else (f" of {total:,}", rows / total)
            self._tell_busy("page", f"{what}: {rows:,}{of} rows", share)

    def _on_bar(self, content: Mapping[str, Any], _: object) -> None:
        column, bar = int(content["column"]), int(content["bar"])
        label, exclude = content.get("label"), bool(content.get("exclude"))
        self._choose(self.view.bar(column, bar, label=label, exclude=exclude))

    def _on_filter(self, content: Mapping[str, Any], _: object) -> None:
        condition = typed_condition(
            self.view.column_at(int(content["column"])),
            str(content["op"]),
            [str(text) for text in content["values"]],
            exclude=bool(content["exclude"]),
            below=bool(content["below"]),
            timezone=self.view.timezone,
        )
        changed = list(self.view.choice.conditions)
        if content["index"] is None:
            changed.append(condition)
        else:
            changed[self._place(content)] = condition
        conditions = tuple(dict.fromkeys(changed))
        self._choose(replace(self.view.choice, conditions=conditions))

    def _on_value(self, content: Mapping[str, Any], _: object) -> None:
        row, column, exclude = int(content["row"]), int(content["column"]), bool(content["not"])
        self._choose(partial(self.view.value, row, column, exclude=exclude))

    def _place(self, content: Mapping[str, Any]) -> int:
        """Return the index of the condition that a browser message refers to."""
        index, conditions = int(content["index"]), self.view.choice.conditions
        known = conditions[index : index + 1]
        if not known or visible(known[0].where)[:MOST_WHERE] != content["where"]:
            raise ArgumentError("the filters have changed; try again")
        return index

    def _on_unfilter(self, content: Mapping[str, Any], _: object) -> None:
        remaining = list(self.view.choice.conditions)
        del remaining[self._place(content)]
        self._choose(replace(self.view.choice, conditions=tuple(remaining)))

    def _on_clear(self, _: Mapping[str, Any], buffers: object) -> None:
        self._choose(Choice(order=self.view.choice.order))

    def _on_search(self, content: Mapping[str, Any], _: object) -> None:
        text = str(content["text"]).strip()
        if len(text) > MAX_SEARCH:
            raise ArgumentError(f"the search text is longer than {MAX_SEARCH} characters")
        self._choose(replace(self.view.choice, search=text))

    def _on_sort(self, content: Mapping[str, Any], _: object) -> None:
        column_at = self.view.column_at
        order = tuple((column_at(int(n)).name, bool(down)) for n, down in content["order"])
        self._choose(replace(self.view.choice, order=order))

    def _on_cancel(self, content: Mapping[str, Any], _: object) -> None:
        task = str(content["task"])
        self._stop(task)
        if task == "profile":
            self.view.stop_profile()
        elif task == "page":
            self.view.stop()
        elif task == "download":
            self.view.stop_export()

    # -- charts ---------------------------------------------------------------------------------

    def _on_chart(self, content: Mapping[str, Any], _: object) -> None:
        options = {
            name: content.get(name) or None for name in ("y", "kind", "agg", "color", "step")
        }
        choice = choose(self.view.columns, str(content["x"]), **options)
        is_agreed, self._sized = bool(content.get("agreed")), content

        def work(token: CancelToken) -> None:
            by_query = is_agreed
            if not is_agreed:
                cost, reason = self.view.chart_cost(choice, token)
                by_query = cost is not None
                if cost is not None and self._asks("chart", cost, reason):
                    return
            job = "a SQL job is running" if by_query else "reading the rows of the result"
            self._tell_busy("chart", f"drawing: {job}")
            chart = self.view.chart(choice, token, by_query=by_query)
            token.check()
            with self._drawing:
                self._chart = self._drawn = chart
                self._send(chart.message(self._sized))
            self._update_static()

        self._run("chart", work)

    def _on_resize(self, content: Mapping[str, Any], _: object) -> None:
        with self._drawing:
            self._sized = content
            if self._drawn is not None:
                self._send({"kind": "picture", "svg": self._drawn.picture(content)})

    # -- all rows -------------------------------------------------------------------------------

    def _on_download(self, content: Mapping[str, Any], _: object) -> None:
        kind, number = file_kind(str(content["file"])), int(content["number"])
        is_saved = bool(content.get("save"))

        def work(token: CancelToken) -> None:
            def send(data: bytes) -> None:
                self._send({"kind": "chunk", "number": number}, data)

            progress = BrowserProgress(self._send, self.view.stop_export, task="download")
            code, choice, rows = self.view.frame_code, self.view.choice, self.selected()
            name = file_name(self.view.title, kind, choice)
            about = {"number": number, "type": MEDIA_TYPES[kind], "code": visible(code)}
            if is_saved:
                written, path = save_file(rows, kind, name, progress=progress, cancel=token)
                about |= {"name": visible(str(path)), "saved": True}
            else:
                written = write_file(rows, kind, send, progress=progress, cancel=token)
                about |= {"name": name}
            about |= {"text": words_of(written), "size": written.size, "cut": written.is_cut}
            self._send({"kind": "file", **about})

        self._run("download", work)

    def _on_open(self, _: Mapping[str, Any], buffers: object) -> None:
        self._send({"kind": "open", "code": cell_code(self.view, self._names)})

    # -- profiles and cells ---------------------------------------------------------------------

    def _describe_and_count(self) -> None:
        """Start profiling and counting the matching rows if this has not been done yet."""
        if self.view.all_rows != 0:
            self._begin("profile", self._describe)
        if self.view.matching is None:
            self._begin("count", self._count)

    def _begin(self, task: str, work: Callable[[CancelToken], None]) -> None:
        """Start a task for the current filter, unless it is already running for that filter."""
        mine = [self.view.where]
        if self._begun.get(task) == mine:
            return
        self._begun[task] = mine

        def once(token: CancelToken) -> None:
            try:
                work(token)
            finally:
                if self._begun.get(task) is mine:
                    del self._begun[task]

        self._run(task, once)

    def _describe(self, token: CancelToken) -> None:
        if not self.view.is_profiled:
            self.view.describe(token)
        token.check()
        if not self.view.is_profiled:
            return  # the filter has changed; the task for the new filter is about to begin
        self._send(profile_message(self.view))
        self._send(count_message(self.view))
        self._update_static()
        self.view.prepare()

    def _count(self, token: CancelToken) -> None:
        try:
            self.view.count(COUNT_BYTES, token)
        except CancelledError:
            raise
        except OdpsNbError as error:  # the count is optional; the rows are already shown
            self._send({**count_message(self.view), "why": visible(str(error))[:_REASON]})
            return
        token.check()
        self._send(count_message(self.view))
        if self.view.is_profiled:  # the label of the profile contains the row count
            self._send(profile_message(self.view))

    def _on_profile(self, _: Mapping[str, Any], buffers: object) -> None:
        def work(token: CancelToken) -> None:
            progress = BrowserProgress(self._send, self.view.stop_profile, task="profile")
            self.view.describe_all(progress, token)
            self._send(profile_message(self.view))
            self._send(count_message(self.view))

        self._run("profile", work)

    def _on_cell(self, content: Mapping[str, Any], _: object) -> None:
        row, column = int(content["row"]), int(content["column"])

        def work(token: CancelToken) -> None:
            of, src = self.view.column_at(column), ""
            if of.type.code is TypeCode.BLOB:
                reference = self.view.reference(row, column, token)
                text, cut = "null", False
                if reference is not None:
                    blob = self.view.connection.blob(reference)
                    with closing(iter_inspected([blob], token)) as opened:
                        preview = thumbnail(next(opened), size=LARGE, budget=LARGE_BUDGET)
                    text, src = preview.text, preview.src
            else:
                text, cut = self.view.cell(row, column, token)
            fields = {"row": row, "column": column, "text": text, "cut": cut, "src": src}
            self._send({"kind": "cell", **fields})

        self._run("cell", work)

    def _on_copy(self, content: Mapping[str, Any], _: object) -> None:
        start, count = int(content["start"]), int(content["count"])
        columns = [int(number) for number in content["columns"]]

        def work(token: CancelToken) -> None:
            cells, cut = self.view.texts(start, count, columns, token)
            self._send({"kind": "copied", "cells": cells, "cut": cut})

        self._run("copy", work)

    def _on_blobs(self, content: Mapping[str, Any], _: object) -> None:
        cells = [(int(row), int(column)) for row, column in content["cells"]][:24]
        start = int(content["start"])

        def work(token: CancelToken) -> None:
            choice = self.view.choice
            page = self.view.page(start, token)
            previews = thumbnails(self.view, page, cells=cells, cancel=token)
            token.check()
            if self.view.choice is not choice:
                return  # the page now shows other rows
            updates = [
                [row, column, preview.src, preview.text]
                for (row, column), preview in previews.items()
            ]
            self._send({"kind": "blobs", "start": page.start, "cells": updates})

        self._run(f"blobs {cells[0]}" if cells else "blobs", work)
