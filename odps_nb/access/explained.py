"""Checks the arguments of public functions by their signatures, and raises typed errors."""

from __future__ import annotations

import functools
import inspect
import numbers
import operator
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from odps_nb.errors import ArgumentError, shown
from odps_nb.terms import nearest

T = TypeVar("T")


def _is_count(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]  # arrays have the method, and raise
    except (TypeError, ValueError):
        return False
    return not _is_flag(value)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and value == value and not _is_flag(value)


_TEXT = (lambda value: isinstance(value, str), "a string")
_PATH = (lambda value: isinstance(value, os.PathLike), "a path")
# The check of a value and its name in errors, for each part of an annotation. A parameter with
# any other part, such as `Any`, is checked where it is used.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, ""),
    "bool": (_is_flag, "True or False"),
    "int": (_is_count, "a whole number"),
    "float": (_is_number, "a number"),
    "Mapping": (lambda value: isinstance(value, Mapping), "a dict"),
    "Callable": (callable, "a function"),
    "Path": _PATH,
    "os.PathLike": _PATH,
    **dict.fromkeys(("str", "Decimals", "DtypeBackend", "TextConversion"), _TEXT),
    **dict.fromkeys(("DecimalConversion", "ChartKind", "ChartAggregate", "ChartStep"), _TEXT),
}
_EXAMPLES = {"a whole number": "5", "a number": "1.5", "a string": "'…'", "a dict": "{'name': …}"}


def explained(public: T) -> T:
    """Decorator of a function, or of a class for its public methods: raise `ArgumentError`.

    The function then rejects unknown and missing arguments, and those of a wrong type where the
    annotation is simple, with a hint instead of a `TypeError`.
    """
    if not isinstance(public, type):
        return _explaining(public)  # type: ignore[arg-type, return-value]
    for name, member in list(vars(public).items()):
        if not name.startswith("_") and inspect.isfunction(member):
            setattr(public, name, _explaining(member))
    return public


def _explaining(function: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)
    names = list(signature.parameters)
    checks = {
        name: found
        for name, parameter in signature.parameters.items()
        if (found := _kinds_of(str(parameter.annotation)))
    }

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        if checks:
            for name, value in (*zip(names, args, strict=False), *given.items()):
                kinds = checks.get(name)
                if kinds and not any(fits(value) for fits, _ in kinds):
                    raise _misfit(name, value, [said for _, said in kinds if said])
        try:
            return function(*args, **given)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # raised inside the function
        raise _no_call(function, signature, args, given)

    return checked


def _kinds_of(annotation: str) -> list[tuple[Callable[[Any], bool], str]]:
    parts = re.sub(r"\[.*\]", "", annotation).split(" | ")
    return [_KINDS[part] for part in parts] if all(part in _KINDS for part in parts) else []


def _misfit(name: str, value: object, said: list[str]) -> ArgumentError:
    wanted = " or ".join(said)
    is_scalar = isinstance(value, (bool, int, float, str)) and said[0] != "a string"
    what = shown(value) if is_scalar else f"a {type(value).__name__}"
    return ArgumentError(
        f"{name} is {what}; it must be {wanted}",
        argument=name,
        hint=f"pass e.g. {name}={_EXAMPLES[said[0]]}" if said[0] in _EXAMPLES else f"pass {wanted}",
    )


def _no_call(
    function: Callable[..., Any], signature: inspect.Signature, args: Any, given: dict[str, Any]
) -> ArgumentError:
    call = ".".join(function.__qualname__.split(".")[-2:])
    known = [name for name in signature.parameters if name != "self"]
    listed = f"its arguments are: {', '.join(known)}" if known else "it has no arguments"
    for name in given.keys() - signature.parameters.keys():
        near = nearest(name, known)
        return ArgumentError(
            f"{call} has no argument {name}=",
            argument=name,
            hint=f"did you mean {near[0]}=?" if near else listed,
        )
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        wrong = str(error)
    if wrong.startswith("too many"):
        keyword = inspect.Parameter.KEYWORD_ONLY
        named = [one.name for one in signature.parameters.values() if one.kind is keyword]
        if named:
            listed = f"pass by keyword: {', '.join(f'{name}=…' for name in named)}"
    return ArgumentError(f"{call}: {wrong}", hint=listed)
