"""The table of routes: each row says what is asked, what a key needs for it, and who answers.

`At` is a path with its method and query keys, `To` a request value that `odps_nb.wire` reads; both
carry the right. World local: a new request of the service is one row and its function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from starlette.responses import Response

from odps_nb.local.server.rights import Right
from odps_nb.wire.calls import WireRequest

__all__ = ["ALL", "Answer", "Asked", "At", "StreamAnswer", "To"]

ALL = ("GET", "POST", "PUT", "DELETE", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that may be answered: as it came, by whom, with the names in its path.

    ``base`` is scheme and host, ``body`` the file of an upload.
    """

    wire: WireRequest
    access_id: str
    base: str = ""
    path: Mapping[str, str] = field(default_factory=dict)
    body: Path | None = None

    @property
    def params(self) -> dict[str, str]:
        """The query; of equal names the later one wins."""
        return dict(self.wire.params)

    @property
    def upload(self) -> Path:
        """The body of an upload."""
        assert self.body is not None
        return self.body


class Answer(Protocol):
    """An answer value of `odps_nb.wire.calls`."""

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Return body and headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """A body that is made while it is sent."""

    chunks: Generator[bytes | memoryview, None, None]
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class At:
    """A path; ``right`` is that in the project of the path, ``None`` where none is named.

    ``keys`` are parameters of which one must be there; an upload has its body in a file.
    """

    paths: Sequence[str]
    right: Right | None
    answer: Callable[[Asked], Response | StreamAnswer | dict[str, Any]]
    methods: Sequence[str] = ("GET",)
    keys: frozenset[str] = frozenset()
    upload: bool = False


@dataclass(frozen=True, slots=True)
class To:
    """A request value; ``right`` is that in the project that it names, ``None`` for no project."""

    kind: type
    right: Right | None
    answer: Callable[[Any, Asked], Any]
