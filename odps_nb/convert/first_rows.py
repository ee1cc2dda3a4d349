"""`FirstRows`: a data frame that a notebook shows with one line per row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd


class FirstRows(pd.DataFrame):
    """A data frame with its own HTML; its copies, slices, pickles and results are plain."""

    _internal_names = [*pd.DataFrame._internal_names, "_shown_by"]  # type: ignore[attr-defined]  # noqa: RUF012
    _internal_names_set = frozenset(_internal_names)
    _shown_by: Callable[[pd.DataFrame], str] | None = None

    def _repr_html_(self) -> str | None:
        if self._shown_by is None:
            return pd.DataFrame(self)._repr_html_()  # type: ignore[operator, no-any-return]
        return self._shown_by(self)

    def __reduce__(self) -> Any:  # a plain DataFrame can be unpickled without this package
        return pd.DataFrame, (pd.DataFrame(self),)

    @classmethod
    def of(cls, frame: pd.DataFrame, shown_by: Callable[[pd.DataFrame], str]) -> FirstRows:
        """Return the same rows, displayed by a function."""
        rows = cls(frame)
        rows._shown_by = shown_by
        return rows
