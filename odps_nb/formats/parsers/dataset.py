"""HDF5 and netCDF-4: names, shapes, types and attributes of the first datasets.

The values of datasets are never read, so no HDF5 filter runs. Links are named but never followed,
so no other file is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.shared import Beginning, answer
from odps_nb.parsing.reasons import reason_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_OBJECTS: Final = 2_000  # maximum objects to visit
_SHOWN: Final = 60
_ATTRIBUTES: Final = 8  # maximum attributes to show for one object
_VALUES: Final = 8  # maximum number of values to show for one attribute
_SMALL: Final = 4_096  # maximum size in bytes of an attribute to read
_NETCDF: Final = ("_NCProperties", "_nc3_strict")
_HIDDEN: Final = frozenset(
    {
        *("CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid"),
        *("_Netcdf4Coordinates", *_NETCDF),
    }
)
_ERRORS: Final = (OSError, RuntimeError, ValueError, KeyError, TypeError)
"""Errors that h5py raises if an object is truncated, damaged, or of a type unknown to NumPy."""

try:
    import h5py
except ImportError:  # `parse` reports that h5py is missing
    h5py = None


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return a row for each dataset, and the attributes of the file.

    ``data`` is the beginning of the file; the option ``length`` is the size of the whole file.
    """
    if h5py is None:
        raise MissingDependencyError("reading HDF5 files needs h5py", extra="previews")
    with h5py.File(_Padded(data, options["length"]), "r") as file:
        return _read(file)


class _Padded(Beginning):
    """The beginning of a longer file; unread bytes are zeros."""

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        count = super().readinto(view)
        rest = len(view) - count
        view[count:] = bytes(rest)
        return len(view)


def _read(file: Any) -> tuple[dict[str, Any], bytes]:
    rows: list[tuple[str, ...]] = []
    count, complete = 0, True
    for name, member in _objects(file):
        if member is None:
            complete = False
        elif isinstance(member, h5py.Dataset | str):
            count += 1
            if len(rows) < _SHOWN:
                rows.append((name, *_described(member)))
    if not (rows or complete):
        raise UnshowableError("no dataset is described in the part that was read")
    is_netcdf = any(name in file.attrs for name in _NETCDF)
    fact = count_of(count, "dataset") if complete else "first datasets"
    facts = ["netCDF-4", fact] if is_netcdf else [fact]
    about = _attributes(file)
    heading = [about[0], " · ".join(("", *about[1:]))] if about else []
    return answer(facts, heading=heading, head=("name", "shape", "type", "attributes"), rows=rows)


def _objects(file: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the paths and objects of a file, a group before its members.

    A link is yielded as a string, and an unreadable object as ``None``. A final ``None`` means that
    there are too many objects. A group with several names is visited once.
    """
    waiting, seen = [("", file)], set()
    visited = 0
    while waiting:
        path, group = waiting.pop()
        inner = []
        try:
            address = h5py.h5o.get_info(group.id).addr
            names = [] if address in seen else list(group)
            seen.add(address)
        except _ERRORS:
            yield "", None
            continue
        for name in names:
            visited += 1
            if visited > _OBJECTS:
                yield "", None
                return
            inside = f"{path}/{name}" if path else name
            member = _member(group, name)
            if isinstance(member, h5py.Group):
                inner.append((inside, member))
            else:
                yield inside, member
        waiting += reversed(inner)


def _member(group: Any, name: str) -> Any:
    try:
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            return f"in another file: {link.filename}:{link.path}"
        if isinstance(link, h5py.SoftLink):
            return f"link to {link.path}"
        return group[name]
    except _ERRORS:
        return None


def _described(member: Any) -> tuple[str, str, str]:
    if isinstance(member, str):
        return "", member, ""
    try:
        shape = member.shape
        extents = "empty" if shape is None else " × ".join(f"{extent:,}" for extent in shape)
        about = "; ".join(_attributes(member))
        return extents or "scalar", _type_of(member), about
    except _ERRORS as error:
        return "", f"not decoded here: {reason_of(error)}", ""


def _type_of(dataset: Any) -> str:
    kind = dataset.dtype
    if h5py.check_string_dtype(kind) is not None:
        return "text"
    if (inner := h5py.check_vlen_dtype(kind)) is not None:
        return f"lists of {inner}"
    if names := h5py.check_enum_dtype(kind):
        return f"one of {', '.join(names)}"
    if kind.names:
        return ", ".join(kind.names)
    return str(kind)


def _attributes(item: Any) -> list[str]:
    names = (name for name in item.attrs if name not in _HIDDEN)
    texts = ((name, _attribute(item, name)) for name in names)
    return list(islice((f"{name}: {text}" for name, text in texts if text), _ATTRIBUTES))


def _attribute(item: Any, name: str) -> str:
    """Return a small value as a string; ``""`` for large values, references and unknown types."""
    try:
        stored = item.attrs.get_id(name)
        if stored.get_storage_size() > _SMALL:
            return ""
        value = item.attrs[name]
    except _ERRORS:
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if getattr(value, "shape", ()):
        more = ", …" if value.size > _VALUES else ""
        return ", ".join(str(entry) for entry in value.flat[:_VALUES]) + more
    return "" if isinstance(value, h5py.Empty | h5py.Reference) else str(value)
