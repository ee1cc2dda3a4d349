"""The types of the fixtures `new_name` and `new_table`."""

from __future__ import annotations

from collections.abc import Callable

NewName = Callable[[str], str]
NewTable = Callable[[str], str]
