"""`connect`: creates a connection from a profile, settings, or the embedded service."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.arguments import explains_arguments, warn_of_exposed_keys
from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ConfigError, a_type
from odps_nb.secret import hidden

if TYPE_CHECKING:
    from odps_nb.client.auth.accounts import CredentialsLike
    from odps_nb.client.options import ClientOptions


@explains_arguments
def connect(
    source: str | Profile | Any = None,
    *,
    root: str | Path | None = None,
    endpoint: str | None = None,
    tunnel_endpoint: str | None = None,
    project: str | None = None,
    schema: str | None = None,
    access_id: str | None = None,
    access_key: str | None = None,
    credentials: CredentialsLike | None = None,
    region: str | None = None,
    network: str | None = None,
    quota: str | None = None,
    timezone: str | None = None,
    api_version: int | None = None,
    blob_cache: str | None = None,
    client_options: ClientOptions | None = None,
    transfer: str | None = None,
) -> Connection:
    """Return a connection; send a request only to start the embedded service.

    Parameters
    ----------
    source
        A string selects the profile with that name in ``~/.config/odps_nb/profiles.toml``.
        Default: the file's default profile, ``ODPS_*`` variables, the keyring, and the sources of
        the vendor's other tools, in this order (see `Profile.resolve`). ``"local"`` starts the
        embedded service in a child process, which exits when the connection is closed or the
        interpreter exits. A `Profile` or a pyodps ``ODPS`` object supplies its settings.
    root
        The folder that stores the tables of ``"local"``. Default: a temporary folder.
    endpoint, tunnel_endpoint, project, schema, access_id, access_key, quota, api_version
        Settings that override those of the source; see `odps_nb.Profile`. A new access id replaces
        all credentials; a new endpoint also replaces the region and the tunnel endpoint.
    region, network
        Instead of ``endpoint``: a region such as ``"cn-hangzhou"``, and ``"public"`` (default) or
        ``"vpc"``. With an endpoint, ``region`` selects signature version 4.
    credentials
        Instead of ``access_id`` and ``access_key``: an `odps_nb.AccessKey` (with an application),
        `odps_nb.StsToken`, `odps_nb.BearerToken` or `odps_nb.CredentialProcess`. Alternatively, a
        function that returns the keys as a mapping; it is called again before the keys expire.
        These credentials replace those of ``source``.
    timezone
        Time zone, e.g. ``"Asia/Shanghai"``, for DATETIME, TIMESTAMP and naive times. Default: UTC.
    blob_cache
        Size of the disk cache of opened blobs, e.g. ``"20 GB"``, or ``"off"``. Default: 4 GiB, in
        the platform's cache folder; see `odps_nb.Blob.open`.
    client_options
        Retries, time-outs and connection limits. They replace all client options from the
        environment and the profile; see `odps_nb.ClientOptions`.
    transfer
        Which services transfer rows: ``"auto"``, ``"storage"`` or ``"tunnel"``. Overrides the
        option of the same name in ``client_options``.

    Raises
    ------
    ConfigError
        A setting is missing or unknown, or an id and a key seem to be swapped. The hint lists
        keywords, environment variables and profile names, and settings that were not used.
    MissingDependencyError
        ``"local"`` requires the ``local`` extra, which is not installed.

    Examples
    --------
    >>> import odps_nb
    >>> odps_nb.connect(
    ...     endpoint="http://127.0.0.1:1/api", project="p", access_id="me", access_key="secret"
    ... )
    <Connection to p at http://127.0.0.1:1/api>
    """
    arguments = {key: value for key, value in locals().items() if key not in _APART}
    settings = hidden((key, value) for key, value in arguments.items() if value is not None)
    if source == "local":
        return _local(root, settings, transfer)
    if root is not None:
        raise ConfigError(
            "root applies only to the embedded service",
            option="root",
            hint='write connect("local", root=…)',
        )
    profile = _by(transfer, _profile(source, settings))
    warn_of_exposed_keys(profile)
    return Connection(profile)


_APART = ("source", "root", "transfer")


def _by(transfer: str | None, profile: Profile) -> Profile:
    if transfer is None:
        return profile
    options = dataclasses.replace(profile.client_options, transfer=transfer)
    return dataclasses.replace(profile, client_options=options)


def _profile(source: Any, settings: Mapping[str, Any]) -> Profile:
    if source is None or isinstance(source, str):
        return Profile.resolve(source, **settings)
    if isinstance(source, Profile):
        return source._changed(settings)
    if is_pyodps_entry(source):
        return Profile.from_pyodps(source, **settings)
    raise ConfigError(
        f"cannot connect with {a_type(type(source))}",
        option="source",
        hint="pass the name of a profile, 'local', a Profile, or a pyodps ODPS object",
    )


def is_pyodps_entry(value: object) -> bool:
    """Return whether this is a pyodps ``ODPS`` object, without importing pyodps."""
    return any(
        kind.__name__ == "ODPS" and kind.__module__.split(".")[0] == "odps"
        for kind in type(value).__mro__
    )


_LOCAL = {"project", "schema", "timezone", "api_version", "blob_cache", "client_options"}


def _local(
    root: str | Path | None, settings: Mapping[str, Any], transfer: str | None
) -> Connection:
    for option in settings.keys() - _LOCAL:
        raise ConfigError(
            f"{option} does not apply to the embedded service",
            option=option,
            hint="omit it, or connect without 'local'",
        )
    from odps_nb.local.server.launch import start

    service = start(root, project=settings.get("project"))
    try:
        profile = Profile(
            endpoint=service.endpoint,
            tunnel_endpoint=service.tunnel_endpoint,
            access_id=service.access_id,
            access_key=service.access_key,
            **{"project": service.project, **settings},
        )
    except BaseException:
        service.stop()
        raise
    return Connection(_by(transfer, profile), service=service)
