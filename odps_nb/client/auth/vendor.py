"""Reads settings of the vendor's other tools: variables, ``~/.aliyun/config.json`` and roles.

Names and formats are those of pyodps 0.13.2 (``odps/accounts.py``, ``ODPS.from_environments``) and
of the vendor's library ``alibabacloud-credentials`` 1.0.12, which fetches the keys of roles.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from odps_nb.client.auth.choice import Offer
from odps_nb.client.auth.sources import from_variables, stated, untrusted
from odps_nb.errors import ConfigError, a_type
from odps_nb.secret import Hidden, Secret, hidden

CONFIG = Path("~/.aliyun/config.json")
INSTALL = "pip install 'odps-nb[aliyun]'"
_ALIBABA = {
    "access_id": "ALIBABA_CLOUD_ACCESS_KEY_ID",
    "access_key": "ALIBABA_CLOUD_ACCESS_KEY_SECRET",
    "sts_token": "ALIBABA_CLOUD_SECURITY_TOKEN",
    "endpoint": "MAXCOMPUTE_ENDPOINT",
    "project": "MAXCOMPUTE_PROJECT",
}
_PYODPS = {
    "access_id": "ODPS_STS_ACCESS_KEY_ID",
    "access_key": "ODPS_STS_ACCESS_KEY_SECRET",
    "sts_token": "ODPS_STS_TOKEN",
    "project": "ODPS_PROJECT_NAME",
    "region": "ODPS_REGION_NAME",
}
_KEYS = ("access_id", "access_key", "sts_token")
_PYODPS_FILES = {
    "ODPS_STS_ACCOUNT_FILE": lambda text: json.loads(text),
    "ODPS_BEARER_TOKEN_FILE": lambda text: {"bearer_token": text.strip()},
}
_STATIC = {"access_id": "access_key_id", "access_key": "access_key_secret"}
_MODES = {"AK": _STATIC, "StsToken": {**_STATIC, "sts_token": "sts_token"}}
_OIDC = (
    "ALIBABA_CLOUD_ROLE_ARN",
    "ALIBABA_CLOUD_OIDC_PROVIDER_ARN",
    "ALIBABA_CLOUD_OIDC_TOKEN_FILE",
)
_URI, _ECS = "ALIBABA_CLOUD_CREDENTIALS_URI", "ALIBABA_CLOUD_ECS_METADATA"
_PRODUCT = Path("/sys/class/dmi/id/product_name")
"""Contains ``Alibaba Cloud ECS`` on ECS; cloud-init's DataSourceAliYun reads this file, too."""


class Fetched:
    """A credentials function that fetches keys from a file or a role; ``what`` names it."""

    def __init__(self, what: str, fetch: Callable[[], Mapping[str, Any]], hint: str) -> None:
        self.what, self.hint = what, hint
        self._fetch = fetch

    def __call__(self) -> Mapping[str, Any]:
        """Return current keys, as `CredentialSource` expects them."""
        return self._fetch()

    def __repr__(self) -> str:
        return f"<{self.what}>"


def from_alibaba_variables(environ: Mapping[str, str]) -> Offer:
    """Return the account in ``ALIBABA_CLOUD_ACCESS_KEY_ID`` and the variables that belong to it.

    The vendor's maxc-cli, MCP server and Go SDK read ``MAXCOMPUTE_ENDPOINT`` and
    ``MAXCOMPUTE_PROJECT`` along with them.
    """
    variables = dict(_ALIBABA)
    if "MAXCOMPUTE_PROJECT" not in environ:
        variables["project"] = "MAXCOMPUTE_DEFAULT_PROJECT"  # set by the MCP server
    return from_variables("environment (ALIBABA_CLOUD_…)", variables, environ)


def from_pyodps_variables(environ: Mapping[str, str]) -> Offer:
    """Return the settings that pyodps, but no other tool, reads from the environment.

    A file of credentials is read again before the credentials expire. As in pyodps, temporary keys
    take precedence over a file with a bearer token.
    """
    offer = from_variables("environment (pyodps)", _PYODPS, environ)
    has_keys = offer.settings.keys() >= {*_KEYS}
    for variable, parse in _PYODPS_FILES.items():
        path = environ.get(variable, "").strip()
        if path and not (has_keys and variable == "ODPS_BEARER_TOKEN_FILE"):
            settings = Hidden((k, v) for k, v in offer.settings.items() if k not in _KEYS)
            settings["credentials"] = _of_file(variable, path, parse)
            names = {**offer.names, "credentials": variable}
            return Offer(offer.source, settings, names)
    return offer


def _of_file(variable: str, path: str, parse: Callable[[str], Any]) -> Fetched:
    def fetch() -> Mapping[str, Any]:
        return Hidden(parse(Secret(Path(path).read_text(encoding="utf-8-sig"))))

    return Fetched(f"the file in {variable}", fetch, f"check that {path} exists and is current")


def from_config(environ: Mapping[str, str]) -> Offer:
    """Return the current profile of ``~/.aliyun/config.json``, the file of the vendor's CLI.

    A file that others can read or change is not used. A mode other than a key or an STS token needs
    the vendor's library, which fetches temporary keys.
    """
    source = str(CONFIG)
    try:
        path = CONFIG.expanduser()
        is_off = environ.get("ALIBABA_CLOUD_CLI_PROFILE_DISABLED", "").lower() == "true"
        if is_off or not path.is_file():
            return Offer(source, Hidden())
        document = Hidden(json.loads(path.read_bytes()))
        profiles = [entry for entry in document["profiles"] if isinstance(entry, dict)]
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        return Offer(source, Hidden(), problem="the file is unreadable or not in the CLI's format")
    profile_name = environ.get("ALIBABA_CLOUD_PROFILE") or document.get("current") or "default"
    profile = Hidden(next((entry for entry in profiles if entry.get("name") == profile_name), {}))
    if not profile:
        return Offer(source, Hidden(), problem=f"the file has no profile {profile_name!r}")
    source = f"{source}, profile {profile_name!r}"
    mode = str(profile.get("mode") or "AK")
    if mode in _MODES:
        names = _MODES[mode]
        settings = stated(Hidden((name, profile.get(key)) for name, key in names.items()))
    else:
        names = {"credentials": f"mode {mode}"}
        settings = Hidden(credentials=_of_mode(mode, profile, str(path), str(profile_name)))
    if region := profile.get("region_id"):
        settings, names = Hidden(settings | {"region": region}), {**names, "region": "region_id"}
    problem = untrusted(path) or ("" if mode in _MODES else _needs_library())
    return Offer(source, settings, names, problem)


def _of_mode(mode: str, profile: Mapping[str, Any], path: str, name: str) -> Fetched:
    def make() -> Any:
        if mode == "CredentialsURI":
            return _provider("URLCredentialsProvider")(uri=profile.get("credentials_uri"))
        return _provider("CLIProfileCredentialsProvider")(profile_name=name, profile_file=path)

    return _of_provider(
        f"profile {name!r} of {CONFIG} (mode {mode})", make, "run 'aliyun sts GetCallerIdentity'"
    )


def from_role(environ: Mapping[str, str]) -> Offer:
    """Return the role of this process: by OIDC, a credentials URI, or the ECS instance's RAM role.

    The vendor's library fetches and renews its keys when they are first needed.
    """
    if all(environ.get(name) for name in _OIDC):
        role, provider, token = (environ[name] for name in _OIDC)
        session = environ.get("ALIBABA_CLOUD_ROLE_SESSION_NAME") or "odps_nb"
        region = environ.get("ALIBABA_CLOUD_STS_REGION")
        fetched = _of_provider(
            "the OIDC role",
            lambda: _provider("OIDCRoleArnCredentialsProvider")(
                role_arn=role,
                oidc_provider_arn=provider,
                oidc_token_file_path=token,
                role_session_name=session,
                sts_region_id=region,
            ),
            f"check the role's trust policy and the token file in {_OIDC[2]}",
        )
        name = _OIDC[0]
    elif uri := environ.get(_URI):
        fetched = _of_provider(
            "the credentials URI",
            lambda: _provider("URLCredentialsProvider")(uri=uri),
            f"check that the address in {_URI} responds",
        )
        name = _URI
    elif environ.get(f"{_ECS}_DISABLED", "").lower() != "true" and (
        environ.get(_ECS) or _is_instance()
    ):
        fetched = _of_provider(
            "the RAM role of this ECS instance",
            lambda: _provider("EcsRamRoleCredentialsProvider")(
                role_name=environ.get(_ECS) or None,
                async_update_enabled=False,  # start no thread
            ),
            f"check that a RAM role is attached to the instance, or set {_ECS}_DISABLED=true",
        )
        name = _ECS if environ.get(_ECS) else "ECS instance"
    else:
        return Offer("role", Hidden())
    settings = Hidden(credentials=fetched)
    return Offer("role", settings, {"credentials": name}, _needs_library())


def from_pyodps(entry: Any, *, needs_key: bool) -> Hidden:
    """Return a pyodps ``ODPS`` object's settings, without importing pyodps.

    The key is copied; a provider of temporary keys is called whenever new keys are needed.
    """
    account = getattr(entry, "account", None)
    if account is None:
        raise ConfigError(
            f"{a_type(type(entry))} has no account of pyodps",
            option="source",
            hint="pass the ODPS object of pyodps, e.g. o of DataWorks",
        )
    token = Secret(getattr(account, "token", None) or "")
    application = getattr(entry, "app_account", None)
    settings = hidden(
        {
            "endpoint": entry.endpoint,
            "project": entry.project,
            # The public properties may send requests, so the private attributes are read.
            "schema": getattr(entry, "_schema", None),
            "tunnel_endpoint": getattr(entry, "_tunnel_endpoint", None),
            "region": getattr(entry, "region_name", None),
            "access_id": getattr(account, "access_id", None),
            "access_key": getattr(account, "secret_access_key", None),
            "sts_token": getattr(account, "sts_token", None),
            "app_id": getattr(application, "access_id", None),
            "app_key": getattr(application, "secret_access_key", None),
        }
    )
    if needs_key and (provider := getattr(account, "provider", None)) is not None:
        for name in _KEYS:
            settings.pop(name)
        settings["credentials"] = _of_provider(
            "the credential provider of the ODPS object", lambda: provider, "call it to see why"
        )
    elif settings["access_key"] is None and needs_key:
        if type(account).__name__ != "BearerTokenAccount" or not token:
            raise ConfigError(
                f"the account of this ODPS object ({type(account).__name__}) has no key",
                option="access_key",
                hint="pass credentials=odps_nb.AccessKey(…), StsToken(…) or BearerToken(…)",
            )
        settings["bearer_token"] = token
    return stated(settings)


def _is_instance() -> bool:
    try:
        return _PRODUCT.read_text(encoding="utf-8").strip() == "Alibaba Cloud ECS"
    except (OSError, UnicodeDecodeError):
        return False


def _needs_library() -> str:
    is_installed = importlib.util.find_spec("alibabacloud_credentials") is not None
    return "" if is_installed else f"needs the vendor's library: {INSTALL}"


def _provider(name: str) -> Any:
    from alibabacloud_credentials import provider

    return getattr(provider, name)


@contextlib.contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Drop a logger's records in the block: on an error, the library logs requests with tokens."""

    def drop(_: logging.LogRecord) -> bool:
        return False

    logger = logging.getLogger(name)
    logger.addFilter(drop)
    try:
        yield
    finally:
        logger.removeFilter(drop)


def _of_provider(what: str, make: Callable[[], Any], hint: str) -> Fetched:
    providers: list[Any] = []  # the provider caches and renews keys

    def fetch() -> Mapping[str, Any]:
        with _without_log("credentials"):
            if not providers:
                providers.append(make())
            ask = getattr(providers[0], "get_credential", None) or providers[0].get_credentials
            keys = ask()
        return hidden(
            {
                "access_id": keys.get_access_key_id(),
                "access_key": keys.get_access_key_secret(),
                "sts_token": keys.get_security_token(),
            }
        )

    return Fetched(what, fetch, hint)
