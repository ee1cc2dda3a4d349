"""Rejects credentials that were passed as the wrong setting, before anything is sent.

An access id is sent with each request and may be shown; a key is never sent or shown. If they are
swapped, the key would be sent as the id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden, Unusable

_ID = re.compile(r"(LTAI|STS\.|TMP\.)\w*", re.ASCII)
"""How the vendor's access ids begin: those of long-lived keys, temporary keys and sessions."""
_KEY = re.compile(r"[A-Za-z0-9]{30}", re.ASCII)
"""The form of the vendor's long-lived access keys."""
NO_NAME = re.compile(rf"\s*({_ID.pattern}|{_KEY.pattern}|.*://.*)\s*", re.ASCII | re.DOTALL)
"""Matches text that cannot be the name of a profile and may contain a key."""
_MAX_ID = 24
"""Maximum length of the access id of a long-lived key."""
_PAIRS = (("access_id", "access_key"), ("app_id", "app_key"))


def check_text(name: str, value: object) -> None:
    """Raise `ConfigError` if a setting is not text, or is in quotes; show no value."""
    if not isinstance(value, str):
        kind = value.kind if isinstance(value, Unusable) else type(value)
        raise ConfigError(
            f"{name} is of type {kind.__name__}; it must be text",
            option=name,
            hint=f"pass {name} as a string",
        )
    if value[:1] in ("'", '"') and value[-1] == value[0] and name != "credential_process":
        raise ConfigError(
            f"{name} begins and ends with a quote",
            option=name,
            hint="remove the quotes: 'docker run --env-file' and 'set' of Windows keep them",
        )


def check_shapes(account: Mapping[str, str | None]) -> None:
    """Raise `ConfigError` if credentials are swapped, or if a temporary key lacks its token.

    ``account`` has fields of `Profile`. The error shows no value.
    """
    known = Hidden((name, value or "") for name, value in account.items())
    token = known.get("sts_token", "")
    for id_name, key_name in _PAIRS:
        key_id, key = known.get(id_name, ""), known.get(key_name, "")
        if _ID.match(key) or (0 < len(key) <= _MAX_ID and _KEY.fullmatch(key_id)):
            raise _misplaced(key_name, f"{id_name} and {key_name} seem to be swapped")
        if key and key in (key_id, token):
            same = id_name if key == key_id else "sts_token"
            raise _misplaced(key_name, f"{same} and {key_name} are the same")
    for name in ("sts_token", "bearer_token"):
        if _ID.match(known.get(name, "")):
            raise _misplaced(name, f"{name} looks like an access id")
    _check_token(known.get("access_id", ""), has_key=bool(known.get("access_key")), token=token)


def _check_token(access_id: str, *, has_key: bool, token: str) -> None:
    if access_id.startswith("STS.") and has_key and not token:
        raise ConfigError(
            "access_id begins with STS., so its key is temporary and needs its token",
            option="sts_token",
            hint="pass credentials=odps_nb.StsToken(id, key, token), or set ODPS_STS_TOKEN",
        )
    if access_id.startswith("LTAI") and token:
        raise ConfigError(
            "access_id begins with LTAI, so its key is long-lived and has no token, but a token "
            "is set as well",
            option="sts_token",
            hint="remove the token (sts_token, ODPS_STS_TOKEN), or use the id and key that were "
            "issued with it",
        )


def _misplaced(option: str, what: str) -> ConfigError:
    return ConfigError(
        f"{what}; nothing was sent",
        option=option,
        hint="check which value is which: access ids begin with LTAI, or with STS. if temporary",
    )
