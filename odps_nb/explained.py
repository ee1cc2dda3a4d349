"""Checks arguments against the signatures of public functions, and raises typed errors."""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import os
import re
import sys
from collections.abc import Callable, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from odps_nb.errors import ArgumentError, a_type, shown
from odps_nb.terms import did_you_mean

T = TypeVar("T")


class Instructive:
    """Base class whose errors for missing methods and columns say what to call instead."""

    _instead: ClassVar[Mapping[str, str]]
    """Hints on what to call; a key has space-separated names of attributes that the class lacks.

    ``[]`` stands for a subscript with one or several names, ``[:]`` for any other subscript, and
    ``frame`` for any attribute of a pandas DataFrame.
    """

    if not TYPE_CHECKING:  # hidden from type checkers, which otherwise would accept unknown names

        def __getattr__(self, name: str) -> Any:
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(message + self._advice(name), name=name, obj=self)

        def __getitem__(self, key: object) -> Any:
            named = "[]" if isinstance(key, str) or (isinstance(key, list) and key) else "[:]"
            raise TypeError(
                f"{type(self).__name__!r} object has no items{self._advice(named, key)}"
            )

    def _advice(self, name: str, key: object = None) -> str:
        pandas = sys.modules.get("pandas")
        of_frame = not name.startswith("_") and hasattr(getattr(pandas, "DataFrame", None), name)
        for names, advice in self._instead.items():
            if name in names.split() or (names == "frame" and of_frame):
                several = key if isinstance(key, list) else [key]
                return f": {advice.format(name=name, key=shown(key), names=shown(several))}"
        return ""


_LONG = 2**63


def _is_count(value: object) -> bool:
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # arrays may raise
    except (TypeError, ValueError):
        return False
    return not _is_flag(value) and -_LONG <= number < _LONG


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _is_flag_or_text(value: object) -> bool:
    return _is_flag(value) or isinstance(value, str)


def _is_number(value: object) -> bool:
    if not isinstance(value, numbers.Real) or _is_flag(value):
        return False
    try:
        return float(value) == value
    except OverflowError:
        return False


def _are_names(value: Any) -> bool:
    """Whether an object is a list, a Series or another sized, ordered collection of strings."""
    return _are(lambda item: isinstance(item, str), value)


def _are(fits: Callable[[Any], bool], value: Any) -> bool:
    if isinstance(value, (str, bytes, set, frozenset)) or not isinstance(value, Sized):
        return False
    try:
        return all(map(fits, value))  # type: ignore[call-overload]
    except TypeError:  # not a collection, such as an array without dimensions
        return False


def _named(name: str) -> Callable[[object], bool]:
    return lambda value: any(kind.__name__ == name for kind in type(value).__mro__)


def _is_path(value: object) -> bool:
    try:
        return b"\0" not in os.fsencode(value)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        return False


def expanded(path: str | os.PathLike[str]) -> Path:
    """Return a path in which ``~`` is replaced by the home folder."""
    if path == "":  # for `Path`, this is the current folder
        raise ArgumentError("the path is empty", hint="pass '.' for the current folder")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # there is no such user
        raise ArgumentError(f"{path} cannot be found: {error}", hint="pass the full path") from None
    except TypeError:
        raise _misfit("path", path, ["a path"]) from None


_TEXT = (lambda value: isinstance(value, str), "a string")
_PATH = (lambda value: isinstance(value, (str, os.PathLike)) and _is_path(value), "a path")
# For each part of an annotation: the check of a value, and the description of valid values in
# errors. A parameter with any other part, such as `Any`, is checked where it is used.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, ""),
    "bool": (_is_flag, "True or False"),
    "int": (_is_count, "a whole number"),
    "float": (_is_number, "a number"),
    "Mapping": (lambda value: isinstance(value, Mapping), "a dict"),
    "Callable": (callable, "a function"),
    "Sequence[str]": (_are_names, "a list of names"),
    "Sequence[int]": (partial(_are, _is_count), "a list of positions"),
    "Overwrite": (_is_flag_or_text, "False, True, 'partitions' or 'all'"),
    "Compression": (_named("Enum"), ""),
    "WriteSessionRef": (_named("WriteSessionRef"), "the handle of a session"),
    "Choice": (_named("Choice"), "a Choice"),
    "ChartChoice": (_named("ChartChoice"), "a ChartChoice"),
    "Path": _PATH,
    "os.PathLike": _PATH,
    **dict.fromkeys(("str", "Decimals", "DtypeBackend", "TextConversion"), _TEXT),
    **dict.fromkeys(
        ("DecimalConversion", "TimeConversion", "ChartKind", "ChartAggregate", "ChartStep"), _TEXT
    ),
}
# Converts values such as NumPy scalars to Python's types.
_PLAIN: dict[str, Callable[[Any], object]] = {"int": operator.index, "bool": bool}
_SCALARS = ("True or False", "a whole number", "a number")
_EXAMPLES = {
    "a list of positions": "[0, 1]",
    "a list of names": "['name', …]",
    "a whole number": "5",
    "a number": "1.5",
    "a string": "'…'",
    "a Choice": "dataclasses.replace(view.choice, search='…')",
    "a dict": "{'name': …}",
}


def explained(public: T) -> T:
    """Decorator of a function, or of a class's public methods, for errors in calls.

    Unknown and missing arguments, and arguments of a wrong type if the annotation is simple, raise
    an `ArgumentError` with a hint instead of a `TypeError`.
    """
    if not isinstance(public, type):
        return _explaining(public)  # type: ignore[arg-type, return-value]
    for name, member in list(vars(public).items()):
        if not name.startswith("_") and inspect.isfunction(member):
            setattr(public, name, _explaining(member))
    return public


def explained_init(public: T) -> T:
    """Decorator of a class: its constructor rejects unknown and missing arguments with a hint."""
    setattr(public, "__init__", _explaining(public.__init__, typed=False))  # type: ignore[misc]  # noqa: B010
    return public


def _explaining(function: Callable[..., Any], *, typed: bool = True) -> Callable[..., Any]:
    signature = inspect.signature(function)
    names = list(signature.parameters)
    checks = {
        name: accepted
        for name, parameter in signature.parameters.items()
        if typed and (accepted := _kinds_of(str(parameter.annotation)))
    }

    def check(name: str, value: Any) -> Any:
        for kind in (kinds := checks.get(name, ())):
            if _KINDS[kind][0](value):
                return _PLAIN[kind](value) if kind in _PLAIN else value
        if kinds:
            raise _misfit(
                name, value, [description for kind in kinds if (description := _KINDS[kind][1])]
            )
        return value

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        checked_ones = (check(name, value) for name, value in zip(names, args, strict=False))
        args = (*checked_ones, *args[len(names) :])
        kwargs = {name: check(name, value) for name, value in kwargs.items()}
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # raised inside the function, not by the call
        raise _no_call(function, signature, args, kwargs)

    return checked


def _kinds_of(annotation: str) -> list[str]:
    """Return the parts of an annotation; an empty list if a part cannot be checked."""
    lists = re.sub(r"Sequence\[(str|int)\]", r"Sequence{\1}", annotation)
    plain = re.sub(r"\[.*\]", "", lists).replace("{", "[").replace("}", "]")
    parts = plain.split(" | ")
    if "Path" in parts or "os.PathLike" in parts:
        parts.remove("str")  # checked as a path
    return parts if all(part in _KINDS for part in parts) else []


def _misfit(name: str, value: object, descriptions: list[str]) -> ArgumentError:
    expected = " or ".join(descriptions)
    if isinstance(value, int) and abs(value) >= _LONG:
        expected += " below 2**63"
    is_scalar = isinstance(value, (bool, int, float, str)) and descriptions[0] in _SCALARS
    in_list = isinstance(value, str) and descriptions[0] == "a list of names"
    example = f"[{shown(value)}]" if in_list else _EXAMPLES.get(descriptions[0])
    what = shown(value) if is_scalar else f"of type {type(value).__name__}"
    if isinstance(value, (list, tuple)):
        what = f"{a_type(type(value))} of {', '.join(sorted({type(v).__name__ for v in value}))}"
    return ArgumentError(
        f"{name} is {what}; it must be {expected}",
        argument=name,
        hint=f"pass e.g. {name}={example}" if example else f"pass {expected}",
    )


def _no_call(
    function: Callable[..., Any], signature: inspect.Signature, args: Any, kwargs: dict[str, Any]
) -> ArgumentError:
    call = ".".join(function.__qualname__.split(".")[-2:]).removesuffix(".__init__")
    known = [name for name in signature.parameters if name != "self"]
    listed = f"its arguments are: {', '.join(known)}" if known else "it has no arguments"
    for name in kwargs.keys() - signature.parameters.keys():
        meant = did_you_mean(name, known, "{}=", most=1).rstrip()
        return ArgumentError(
            f"{call} has no argument {name}=",
            argument=name,
            hint=meant or listed,
        )
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        wrong = str(error)
    if wrong.startswith("too many"):
        keyword = inspect.Parameter.KEYWORD_ONLY
        named = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.kind is keyword
        ]
        if named:
            listed = f"pass by keyword: {', '.join(f'{name}=…' for name in named)}"
    return ArgumentError(f"{call}: {wrong}", hint=listed)
