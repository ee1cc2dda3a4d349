"""Forms of answers where the evidence about the real service is weak.

Each field of :class:`Forms` names one such form: its default is the likelier one, the other is
chosen when the service is started (``odps-nb serve --form NAME=VALUE``), so that tests run both.
The client takes both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from odps_nb.errors import ConfigError

__all__ = ["Forms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """Forms that the service sends; every field lists its values, the first is the default.

    ``time_zone`` is the zone in the Arrow type of DATETIME and TIMESTAMP columns of a read
    (evidence 151: there is one, its name is not shown). ``strings`` is how STRING, CHAR, VARCHAR,
    JSON and BINARY of a read are sent, and ``timestamps`` how TIMESTAMP and TIMESTAMP_NTZ are
    (evidence 173: sessions of version 1 could ask for the other form).
    """

    time_zone: Literal["UTC", "Asia/Shanghai", "none"] = "UTC"
    strings: Literal["plain", "dictionary"] = "plain"
    timestamps: Literal["plain", "struct"] = "plain"

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Forms:
        """Return the forms of texts such as ``time_zone=none``; ``ConfigError`` for a wrong one."""
        choices = {name: get_args(kind) for name, kind in get_type_hints(cls).items()}
        given: dict[str, Any] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if value not in choices.get(name, ()):
                raise ConfigError(
                    f"there is no form {text!r}", option="form", hint=f"choose of {cls.describe()}"
                )
            given[name] = value
        return cls(**given)

    @classmethod
    def describe(cls) -> str:
        """Return all forms and their values in one line, for ``--help``."""
        hints = get_type_hints(cls)
        return "; ".join(f"{one.name}={'|'.join(get_args(hints[one.name]))}" for one in fields(cls))
