"""Reads settings from the environment, the profile file, the keyring and pyodps.

Errors show no secret.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odps_nb.client.auth.choice import Offer
from odps_nb.client.auth.fields import BLANKS, FIELDS, NUMBERS
from odps_nb.client.auth.shapes import NO_NAME
from odps_nb.errors import ConfigError
from odps_nb.secret import SECRET_NAMES, Hidden, Secret, forget_locals, hidden
from odps_nb.terms import did_you_mean

KEYRING_SERVICE = "odps_nb"


def trimmed(settings: Mapping[str, Any]) -> Hidden:
    """Return the settings that are not ``None``, without blanks around text."""
    named = Hidden(
        (name, value.strip(BLANKS) if isinstance(value, str) else value)
        for name, value in settings.items()
    )
    return hidden((name, value) for name, value in named.items() if value is not None)


def stated(settings: Mapping[str, Any]) -> Hidden:
    """Return the settings that are neither ``None`` nor empty, without blanks around text."""
    named = trimmed(settings)
    return hidden((name, value) for name, value in named.items() if value != "")


def from_variables(source: str, variables: Mapping[str, str], environ: Mapping[str, str]) -> Offer:
    """Return the settings in environment variables; ``variables`` maps settings to their names."""
    settings = stated(Hidden((name, environ.get(key)) for name, key in variables.items()))
    return Offer(source, settings, variables)


def from_environment(environ: Mapping[str, str]) -> Offer:
    """Return the settings in ``ODPS_ENDPOINT``, ``ODPS_PROJECT``, …"""
    variables = {name: f"ODPS_{name.upper()}" for name in FIELDS}
    if "ODPS_STS_ACCESS_KEY_ID" in environ:  # the token belongs to this id, see `vendor`
        del variables["sts_token"]
    return from_variables("environment", variables, environ)


def profile_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the profile file: ``ODPS_NB_PROFILES``, or the default."""
    path_text = environ.get("ODPS_NB_PROFILES")
    folder = Path(environ.get("XDG_CONFIG_HOME") or "~/.config")
    path = Path(path_text) if path_text else folder / "odps_nb" / "profiles.toml"
    try:
        return path.expanduser()
    except RuntimeError as error:  # the user has no home folder
        raise ConfigError(
            f"{path} cannot be found: {error}",
            option="profile",
            hint="set ODPS_NB_PROFILES to the full path",
        ) from None


def profile_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the profile names in file order; empty if there is no file."""
    document = _load(profile_file(environ)) or {}
    return tuple(k for k, v in document.items() if isinstance(v, dict))


def from_file(name: str | None, environ: Mapping[str, str]) -> tuple[str | None, Offer]:
    """Return the name and settings of one of the file's profiles.

    The default is the profile that the file's ``default`` names, else ``[default]``, else none.
    """
    path = profile_file(environ)
    document = _load(path)
    if document is None:
        if name is None:
            problem = "the file of ODPS_NB_PROFILES does not exist"
            return None, Offer(
                str(path), Hidden(), problem=problem if environ.get("ODPS_NB_PROFILES") else ""
            )
        _check_name(name)
        raise ConfigError(
            f"there is no profile {name!r}: the file {path} does not exist",
            option="profile",
            hint=f"add a table [{name}] with endpoint and project to that file, or pass "
            "endpoint=, project=, access_id= and access_key=",
        )
    if name is None:
        default = document.get("default")
        name = default if isinstance(default, str) else "default" if default else None
        if name is None:
            return None, Offer(str(path), Hidden())
    if not isinstance(document.get(name), dict):
        _check_name(name)
        names = [key for key, value in document.items() if isinstance(value, dict)]
        known = ", ".join(names) if names else "none"
        raise ConfigError(
            f"there is no profile {name!r} in {path}",
            option="profile",
            hint=did_you_mean(name, names) + f"the file contains these profiles: {known}",
        )
    settings = _checked(name, hidden(document[name]), path)
    return name, Offer(f"profile {name!r} in {path}", settings)


def _check_name(name: str) -> None:
    """Raise an error that hides an unknown name if the name may be a key."""
    if NO_NAME.fullmatch(name):
        raise ConfigError(
            "the text in place of a profile's name looks like an id, a key or a URL",
            option="profile",
            hint="pass the name of a profile, or set ODPS_PROFILE to it; pass settings by keyword",
        )


def _load(path: Path) -> dict[str, Any] | None:
    """Return the profile file's content, or ``None`` if there is no file."""
    import tomllib

    try:
        if not path.is_file():
            return None
        return Hidden(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        # The parser's message contains line and column, but never the line's text.
        forget_locals(error)
        raise ConfigError(
            f"{path} is not a valid TOML file: {error}",
            option="profile",
            hint='write tables such as [work] with lines such as endpoint = "https://…"',
        ) from None
    except OSError as error:  # for example, the parent folder is not accessible
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            option="profile",
            hint="check the permissions of the file and its folders, or set ODPS_NB_PROFILES to "
            "another file",
        ) from None


def _checked(name: str, table: dict[str, Any], path: Path) -> Hidden:
    for key in table:
        if key not in FIELDS:
            raise ConfigError(
                f"profile {name!r} in {path} has an unknown setting {key!r}",
                option=key,
                hint=did_you_mean(key, FIELDS) + f"settings are: {', '.join(FIELDS)}",
            )
        if not isinstance(table[key], NUMBERS.get(key, (str,))):
            raise ConfigError(
                f"profile {name!r} in {path}: {key} has the wrong type",
                option=key,
                hint=f"put text in quotes; only {', '.join(NUMBERS)} are numbers",
            )
    if _is_open(path) and any(table.get(secret) for secret in SECRET_NAMES):
        raise ConfigError(
            f"{path} contains keys, but other users of this machine can read it",
            option="profile",
            hint=f"run chmod 600 {path}",
        )
    if why := _is_foreign(path):
        raise ConfigError(
            f"profiles are not read from {path}: {why}",
            option="profile",
            hint="make sure that you own the file and its folder, and run chmod go-w on both",
        )
    return stated(table)


def untrusted(path: Path) -> str:
    """Return why a file with keys is not used (others can read or change it), or ``""``."""
    if _is_open(path):
        return f"other users of this machine can read it: run chmod 600 {path}"
    return _is_foreign(path) or ""


def _is_open(path: Path) -> bool:
    return os.name == "posix" and bool(path.stat().st_mode & 0o077)


def _is_foreign(path: Path) -> str | None:
    """Return why the file is not trusted: another user owns it, or can change or replace it.

    A profile can name any host, and any program to run (``credential_process``).
    """
    if os.name != "posix":
        return None
    for location in (path, path.parent):
        status = location.stat()
        if status.st_uid not in (os.geteuid(), 0):
            return f"{location} belongs to another user"
        write_bits = stat.S_IWOTH
        if status.st_gid != status.st_uid:  # a group with the user's id is private, as on Debian
            write_bits |= stat.S_IWGRP
        sticky = location is not path and status.st_mode & stat.S_ISVTX
        if status.st_mode & write_bits and not sticky:
            return f"other users can write to {location}"
    return None


def from_keyring(name: str | None, access_id: str | None) -> Offer:
    """Return the id and key from the system keyring; no settings if there is no entry.

    ``keyring set odps_nb:<profile> <access id>`` creates the entry; without a profile, the service
    name is ``odps_nb``. Some keyrings cannot find an entry without the id.
    """
    service = f"{KEYRING_SERVICE}:{name}" if name else KEYRING_SERVICE
    source = f"keyring, entry {service}"
    try:
        import keyring
        import keyring.errors
    except ImportError:
        return Offer(source, Hidden())
    try:
        settings = _of_keyring(keyring.get_credential(service, access_id), access_id)
        return Offer(source, settings)
    except keyring.errors.NoKeyringError:
        return Offer(source, Hidden())
    except Exception as error:  # noqa: BLE001  a keyring may raise anything
        forget_locals(error)
        error_name = type(error).__name__
    raise ConfigError(  # without the cause, whose message may contain a secret
        f"the keyring cannot be opened: {error_name}",
        option="access_key",
        hint="unlock it and try again, run 'keyring get' to see the error, or pass the key itself",
    )


def _of_keyring(credential: Any, access_id: str | None) -> Hidden:
    if credential is None or not (
        key := Secret(credential.password or "")
    ):  # this may open the keyring
        return Hidden()
    return hidden({"access_id": credential.username or access_id, "access_key": key})
