"""Reads a recording of what a process did to a folder, and says what a crash may leave of it.

The rules are those of POSIX, read strictly. A write or truncation lasts when its file has been
synced since. A name that was made, moved or removed lasts when its folder has been synced. Of all
the rest, any part may be there and any part missing, whatever its order.
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Call", "Disk", "Tree", "build", "calls_of", "read_tree"]

Tree = dict[str, bytes | None]
"""What is in a folder: path to content, `None` for a folder."""

_HEAD = struct.Struct("=cqII")
_NEWEST, _RANDOM = 4, 3


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call; ``end`` is its end in the recording."""

    kind: str
    path: str
    at: int
    data: bytes
    end: int

    @property
    def target(self) -> str:
        """Where a rename leads."""
        return self.data.decode()


def calls_of(recording: bytes) -> list[Call]:
    """Return the calls of a recording."""
    calls, start = [], 0
    while start + _HEAD.size <= len(recording):
        kind, at, path_size, data_size = _HEAD.unpack_from(recording, start)
        path_end = start + _HEAD.size + path_size
        path = recording[start + _HEAD.size : path_end].decode()
        start = path_end + data_size
        calls.append(Call(kind.decode(), path, at, recording[path_end:start], start))
    return calls


@dataclass(eq=False, slots=True)
class _Node:
    """A file or folder, whatever its name; ``content`` is what lasts."""

    is_folder: bool = False
    content: bytes = b""


@dataclass(eq=False, slots=True)
class _Change:
    """A change that may be lost: of a node's content, or of names in folders."""

    call: Call
    node: _Node
    folders: set[str] = field(default_factory=set)


class Disk:
    """A folder as calls change it, and what of it lasts."""

    def __init__(self) -> None:
        self._now: dict[str, _Node] = {"": _Node(is_folder=True)}
        self._lasting = dict(self._now)
        self._open: list[_Change] = []

    def do(self, call: Call) -> None:
        """Apply the next call."""
        if call.kind == "s":
            self._sync(call.path)
        elif call.kind in "wt":
            self._open.append(_Change(call, self._now[call.path]))
        elif call.kind in "cm":
            node = self._now[call.path] = _Node(is_folder=call.kind == "m")
            self._open.append(_Change(call, node, {_parent(call.path)}))
        elif call.kind == "u":
            self._open.append(_Change(call, self._now.pop(call.path), {_parent(call.path)}))
        else:
            node = self._now[call.target] = self._now.pop(call.path)
            assert not node.is_folder, "folders are never renamed"
            folders = {_parent(call.path), _parent(call.target)}
            self._open.append(_Change(call, node, folders))

    def _sync(self, path: str) -> None:
        node = self._now[path]
        if node.is_folder:
            named = {change.node for change in self._open if path in change.folders}
            done = [c for c in self._open if path in c.folders or (c.folders and c.node in named)]
        else:
            done = [c for c in self._open if c.node is node and not c.folders]
        contents = {node: bytearray(node.content) for node in {c.node for c in done}}
        _apply(done, self._lasting, contents)
        for changed, content in contents.items():
            changed.content = bytes(content)
        settled = set(map(id, done))
        self._open = [change for change in self._open if id(change) not in settled]

    def whole(self) -> Tree:
        """Return all of it: what a killed process leaves."""
        return self._tree(self._open)

    def after_power_loss(self, *, thorough: bool, seed: int = 0) -> Iterator[Tree]:
        """Yield what a power loss may leave: nothing unsynced, or only names.

        Thorough: also all of it, only data, all but one of the newest, one
        of them alone, a write torn in its middle, and a few at random.
        """
        unsynced = self._open
        yield self._tree([])
        yield self._tree([c for c in unsynced if c.folders])
        if not thorough:
            return
        yield self._tree(unsynced)
        yield self._tree([c for c in unsynced if not c.folders])
        for index in range(max(0, len(unsynced) - _NEWEST), len(unsynced)):
            yield self._tree([unsynced[index]])
            yield self._tree(unsynced[:index] + unsynced[index + 1 :])
        if unsynced and unsynced[-1].call.kind == "w":
            last = unsynced[-1]
            half = Call("w", last.call.path, last.call.at, last.call.data[: _torn(last)], 0)
            yield self._tree([*unsynced[:-1], _Change(half, last.node)])
        chance = random.Random(seed)
        for _ in range(_RANDOM if len(unsynced) > 1 else 0):
            yield self._tree([c for c in unsynced if chance.random() < 0.5])

    def _tree(self, kept: Sequence[_Change]) -> Tree:
        names = dict(self._lasting)
        contents: dict[_Node, bytearray] = {}
        _apply(kept, names, contents)
        tree: Tree = {}
        for path in sorted(names):  # a folder before what is in it
            node = names[path]
            if path and _parent(path) and tree.get(_parent(path), b"") is not None:
                continue  # its folder is gone
            if path:
                content = contents.get(node)
                whole = node.content if content is None else bytes(content)
                tree[path] = None if node.is_folder else whole
        return tree


def _apply(
    changes: Sequence[_Change], names: dict[str, _Node], contents: dict[_Node, bytearray]
) -> None:
    for change in changes:
        call, node = change.call, change.node
        if call.kind in "wt":
            content = contents.setdefault(node, bytearray(node.content))
            end = call.at + len(call.data)
            content.extend(bytes(max(0, end - len(content))))
            if call.kind == "w":
                content[call.at : end] = call.data
            else:
                del content[call.at :]
        elif call.kind in "cm":
            names[call.path] = node
        else:
            if names.get(call.path) is node:
                del names[call.path]
            if call.kind == "r":
                names[call.target] = node


def _torn(change: _Change) -> int:
    return len(change.call.data) // 2 // 512 * 512


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def build(tree: Tree, place: Path) -> None:
    """Make a folder of a tree; whatever was there is removed."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    for path, content in tree.items():
        if content is None:
            (place / path).mkdir(mode=0o700)
        else:
            (place / path).write_bytes(content)


def read_tree(place: Path) -> Tree:
    """Return what is in a folder, without what SQLite makes anew."""
    return {
        str(path.relative_to(place)): None if path.is_dir() else path.read_bytes()
        for path in sorted(place.rglob("*"))
        if not path.name.endswith("-shm")
    }
