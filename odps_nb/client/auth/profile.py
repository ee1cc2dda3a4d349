"""`Profile`: a connection's endpoint, project and credentials as an immutable value."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from odps_nb.client.auth import sources, vendor
from odps_nb.client.auth.accounts import Account, CredentialsLike
from odps_nb.client.auth.choice import Offer, SourceReport, is_complete, overridden
from odps_nb.client.auth.fields import BLANKS, CREDENTIAL_FIELDS, FIELDS, TEXT_CREDENTIALS, TEXTS
from odps_nb.client.auth.regions import check_endpoint, endpoint_of
from odps_nb.client.auth.renewal import CredentialSource, from_process
from odps_nb.client.auth.resolution import missing, resolve
from odps_nb.client.auth.shapes import check_shapes, check_text
from odps_nb.client.blob_cache import cache_limit
from odps_nb.client.options import OPTION_FIELDS, ClientOptions
from odps_nb.client.transfer import TransferChoice
from odps_nb.errors import ArgumentError, ConfigError, a_type
from odps_nb.filters.literals import zone_of
from odps_nb.secret import SECRET_NAMES, Hidden, hidden, hides_secrets
from odps_nb.terms import TableName, TransferMode, did_you_mean

if TYPE_CHECKING:
    from odps_nb.wire.signing import Credentials


_URL = re.compile(
    r"https?://([\w.-]+|\[[0-9a-f:.]+(%\w+)?\])(:(?P<port>[0-9]{1,5}))?(/[^\s?#\\\x00-\x1f\x7f]*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Profile:
    """A connection's endpoint, project and credentials. Immutable; secrets are never shown.

    Parameters
    ----------
    endpoint
        Base URL for REST requests, e.g. ``https://service.cn-hangzhou.maxcompute.aliyun.com/api``.
    project, schema
        Default project and schema for table names.
    access_id, access_key, sts_token, bearer_token
        Either an id and a key (with an STS token if they are temporary), or a bearer token.
    app_id, app_key
        Key pair of an application that acts for the user. Both key pairs sign each request.
    credential_process
        Command line of a program that prints the keys as JSON. It runs without a shell when keys
        are needed, and again before they expire. See `odps_nb.client.auth.renewal`.
    credentials
        Replaces the credential fields above: a value such as `odps_nb.AccessKey` or
        `odps_nb.StsToken`, or a function that returns the keys as a mapping.
    tunnel_endpoint
        Base URL of the Storage API and the tunnel. ``None``: fetched from the service when first
        needed.
    region
        Region of the service. If set, signature version 4 is used (``docs/protocol.md`` 2.3).
    quota
        Name of the quota that requests use.
    timezone
        Time zone for showing DATETIME and TIMESTAMP and for interpreting naive times, e.g.
        ``Asia/Shanghai``. ``None``: times are shown in UTC, without a time zone.
    api_version
        Storage API version, 2 or 3.
    blob_cache
        Maximum size of the disk cache for opened blobs, e.g. ``20 GB``; ``off`` disables it.
        Default (``None``): 4 GiB. See `odps_nb.Blob.open`.
    client_options
        Retries, time-outs and connections. In the environment and in profile files, each option
        has its own setting.
    name
        Name in the profile file, if the profile comes from there.

    Raises
    ------
    ConfigError
        A setting is missing or conflicts with another; ``option`` names the setting.

    Examples
    --------
    >>> from odps_nb.client.auth.profile import Profile
    >>> Profile(endpoint="http://127.0.0.1:1/api", project="p", access_id="me", access_key="s")
    Profile(endpoint='http://127.0.0.1:1/api', project='p', access_id='…', access_key=<hidden>)
    """

    endpoint: str
    project: str
    access_id: str | None = None
    access_key: str | None = field(default=None, repr=False)
    sts_token: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    app_id: str | None = None
    app_key: str | None = field(default=None, repr=False)
    credential_process: str | None = field(default=None, repr=False)
    credentials: CredentialsLike | None = field(default=None, repr=False)
    schema: str | None = None
    tunnel_endpoint: str | None = None
    region: str | None = None
    quota: str | None = None
    timezone: str | None = None
    api_version: int = 2
    blob_cache: str | None = None
    client_options: ClientOptions = ClientOptions()  # noqa: RUF009  a frozen value
    name: str | None = None
    _source: CredentialSource | None = field(init=False, repr=False, compare=False, default=None)
    transfer: TransferChoice = field(init=False, repr=False, compare=False)
    """The services that transfer rows, as found by all clients of this profile in this process."""

    def __post_init__(self) -> None:
        if isinstance(self.credentials, Account):
            self._expand(self.credentials)
        for setting in fields(self):
            value = getattr(self, setting.name, None)
            if isinstance(value, str):
                unset = None if setting.default is MISSING else setting.default
                value = type(value)(value.strip(BLANKS)) or unset
                object.__setattr__(self, setting.name, value)
            if value is not None and setting.name in TEXTS:
                check_text(setting.name, value)
        lacking = [option for option in ("endpoint", "project") if not getattr(self, option)]
        object.__setattr__(self, "_source", self._make_source())
        account = Hidden((name, getattr(self, name)) for name in TEXT_CREDENTIALS)
        if self._source is None and not is_complete(account):
            lacking += _absent(account, ("access_id", "access_key"))
        if lacking:
            raise missing(lacking, None, {})
        check_shapes(account)
        for option in ("endpoint", "tunnel_endpoint"):
            if (url := getattr(self, option)) is not None:
                object.__setattr__(self, option, _checked_url(option, url))
        check_endpoint(self.endpoint, self.region)
        self._check_options()
        choice = TransferChoice(TransferMode(self.client_options.transfer))
        object.__setattr__(self, "transfer", choice)
        TableName(project=self.project, schema=self.schema, table="t")  # raises for invalid names

    def _check_options(self) -> None:
        if bool(self.app_id) != bool(self.app_key):
            raise ConfigError(
                "an application needs both an id and a key",
                option="app_id",
                hint="set ODPS_APP_ID and ODPS_APP_KEY, or pass app=odps_nb.AccessKey(id, key) in "
                "credentials=",
            )
        if self.timezone is not None:
            _check_zone(self.timezone)
        if self.api_version not in (2, 3):
            raise ConfigError(
                f"api_version is {self.api_version!r}; it must be 2 or 3",
                option="api_version",
                hint="pass api_version=2 or api_version=3",
            )
        object.__setattr__(self, "api_version", int(self.api_version))  # may be 2.0
        cache_limit(self.blob_cache)
        if not isinstance(self.client_options, ClientOptions):
            raise ConfigError(
                f"client_options is {a_type(type(self.client_options))}, not ClientOptions",
                option="client_options",
                hint="pass odps_nb.ClientOptions(…)",
            )

    def _expand(self, account: Account) -> None:
        """Set the credential fields from a ``credentials`` value."""
        if any(getattr(self, name) for name in CREDENTIAL_FIELDS if name != "credentials"):
            raise _excluded()
        object.__setattr__(self, "credentials", None)
        for name, value in account._as_settings().items():
            object.__setattr__(self, name, value)

    def _make_source(self) -> CredentialSource | None:
        has_keys = any((self.access_id, self.access_key, self.sts_token, self.bearer_token))
        command, ask = self.credential_process, self.credentials
        if sum(map(bool, (has_keys, command, ask))) > 1:
            raise _excluded()
        if ask is not None:
            if isinstance(ask, Account | type) or not callable(ask):
                raise ConfigError(
                    "credentials must be a function or a credentials object",
                    option="credentials",
                    hint="pass odps_nb.AccessKey(…), StsToken(…), BearerToken(…), "
                    "CredentialProcess(…), or a function that returns the keys",
                )
            return CredentialSource(ask, getattr(ask, "what", "the credentials function"))
        if command:
            return CredentialSource(lambda: from_process(command), "the credential process")
        return None

    @property
    def keys(self) -> Credentials:
        """Current credentials for signing; reading them may call a function or run a program."""
        from odps_nb.wire.signing import Credentials

        account = Hidden({"access_id": "", "access_key": "", **self._account()})
        return Credentials(**account, region=self.region, app_id=self.app_id, app_key=self.app_key)

    def _renew(self, expired: Credentials) -> bool:
        """Fetch new keys in place of ``expired``; return whether there are any."""
        if self._source is None:
            return False
        if self.keys == expired:  # otherwise, another thread has renewed them
            self._source.expire()
        return self.keys != expired

    def _account(self) -> Mapping[str, str]:
        if self._source is not None:
            return self._source.get()
        names = ("access_id", "access_key", "sts_token", "bearer_token")
        named = Hidden((name, getattr(self, name)) for name in names)
        return Hidden((name, value) for name, value in named.items() if value)

    def table(self, text: str | TableName) -> TableName:
        """Return a table's full name; project and schema default to those of the profile."""
        if isinstance(text, TableName):
            return text
        return TableName.parse(text, project=self.project, schema=self.schema)

    def _short_name(self, table: TableName) -> str:
        """Return the shortest text from which `table` returns this name."""
        texts = (table.table, f"{table.project}.{table.table}", str(table))
        return next(text for text in texts if self.table(text) == table)

    def as_options(self) -> dict[str, str]:
        """Return all settings as text for a Spark reader's options, **secrets included**.

        Temporary keys are copied and not renewed later. Spark sends a DataFrame reader's options to
        tasks without showing them in plans or the UI. Never pass secrets in SQL ``OPTIONS (…)`` or
        ``spark.conf``, because both are shown.
        """
        named = Hidden({**self.as_settings(), **self._account()})
        named |= {"app_id": self.app_id, "app_key": self.app_key}
        return {key: str(value) for key, value in named.items() if value is not None}

    def as_settings(self) -> dict[str, str]:
        """Return all settings except the credentials, as text."""
        apart = (*CREDENTIAL_FIELDS, "client_options", "_source", "transfer")
        named = {
            setting.name: getattr(self, setting.name)
            for setting in fields(self)
            if setting.name not in apart
        }
        settings = {key: str(value) for key, value in named.items() if value is not None}
        return settings | self.client_options.as_settings()

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Profile:
        """Create a profile from a result of `as_options`, ignoring unknown keys and letter case."""
        known = {*FIELDS, "name"}
        options = Hidden(options)
        return cls._of(
            hidden((key.lower(), options[key]) for key in options if key.lower() in known)
        )

    @classmethod
    @hides_secrets
    def resolve(
        cls,
        name: str | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        **keywords: Any,
    ) -> Profile:
        """Create a profile from arguments, a profile file, the environment and other sources.

        The sources, in order of precedence: keyword arguments; the profile that ``name`` or
        ``ODPS_PROFILE`` names, else the file's default; ``ODPS_*`` variables; the keyring;
        ``ALIBABA_CLOUD_*`` variables; those of pyodps; ``~/.aliyun/config.json``; a role (OIDC,
        credentials URI, ECS). See ``docs/howto/keys-and-profiles.md``. All credentials come from
        one source, so that those of two accounts are never mixed; a source with a different
        endpoint or account from the one in use supplies only general settings.

        Parameters
        ----------
        name
            Name of a profile in ``~/.config/odps_nb/profiles.toml`` or in the file that
            ``ODPS_NB_PROFILES`` names.
        environ
            Environment variables. Default: those of this process.
        keywords
            Fields of `Profile`; ``None`` has no effect, and ``""`` removes the value of a source.
            ``network`` (``"public"`` or ``"vpc"``) selects the endpoint of a ``region`` if there is
            no ``endpoint``.

        Raises
        ------
        ConfigError
            The profile is unknown (the hint lists the existing names), a keyword is unknown, or a
            setting is missing (the hint lists what was found, but not used).
        """
        return cls._resolved(name, hidden(keywords), environ)

    @classmethod
    def _resolved(
        cls,
        name: str | None,
        keywords: Mapping[str, Any],
        environ: Mapping[str, str] | None = None,
        *,
        first: Offer | None = None,
    ) -> Profile:
        """Create a profile as `resolve` does; only the arguments take precedence over ``first``."""
        env = Hidden(os.environ if environ is None else environ)
        for key in keywords.keys() - {*FIELDS, "credentials", "client_options"}:
            raise ConfigError(
                f"unknown setting {key!r}",
                option=key,
                hint=f"settings are: {', '.join(FIELDS)}",
            )
        profile_name, choice = resolve(name, sources.trimmed(keywords), env, first=first)
        settings = choice.settings
        known = Hidden(settings | {"endpoint": endpoint_of(settings)})
        lacking = _absent(known, ("endpoint", "project"))
        if not lacking and not choice.has_account:
            lacking = _absent(known, ("access_id", "access_key"))
        if lacking:
            raise missing(lacking, choice, env)
        return cls._of(settings, name=profile_name)

    @staticmethod
    def _findings(name: str | None) -> list[SourceReport]:
        """Return the names of the settings in each source; see `resolve`."""
        _, choice = resolve(name, Hidden(), Hidden(os.environ), everything=True)
        return choice.findings

    @classmethod
    @hides_secrets
    def from_pyodps(cls, entry: Any, **keywords: Any) -> Profile:
        """Create a profile from a pyodps ``ODPS`` object; keyword arguments take precedence.

        The current key is copied, unless a credential provider renews it. If pyodps reads new
        temporary keys from a file, the profile keeps the old ones.
        """
        overrides = sources.trimmed(hidden(keywords))
        settings = vendor.from_pyodps(entry, needs_key=not overrides.get("credentials"))
        return cls._of(overridden(settings, overrides))

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any], source: str, name: str | None) -> Profile:
        """Create a profile from another process's settings and the credentials of this process.

        ``source`` describes the settings in errors; ``name`` is the profile to read, if any.
        """
        first = Offer(source, sources.stated(settings))
        return cls._resolved(name, Hidden(), first=first)

    def _changed(self, overrides: Mapping[str, Any]) -> Profile:
        """Return a copy with other settings; never mix two accounts (see `overridden`)."""
        names = (setting.name for setting in fields(self) if setting.init)
        old = Hidden((name, value) for name in names if (value := getattr(self, name)) is not None)
        return type(self)._of(overridden(old, sources.trimmed(overrides)))

    @classmethod
    def _of(cls, settings: Mapping[str, Any], **more: Any) -> Profile:
        values = sources.trimmed({**settings, **more})
        if not values.get("region"):  # an empty region overrides that of a source
            values.pop("region", None)
        network = values.pop("network", None)
        if not values.get("endpoint"):
            # Signature version 2 is accepted in every region, so derive only the endpoint.
            values["endpoint"] = endpoint_of({**values, "network": network})
            values.pop("region", None)
        elif network is not None:
            raise ConfigError(
                "network applies to a region without an endpoint",
                option="network",
                hint="pass region= and network=, or only endpoint=",
            )
        lacking = _absent(values, ("endpoint", "project"))
        if lacking:
            raise missing(lacking, None, {})
        if (version := values.get("api_version")) is not None:  # text in files and variables
            versions = {"2": 2, "3": 3}
            values["api_version"] = versions.get(str(version), version)
        single = {key: values.pop(key) for key in OPTION_FIELDS if key in values}
        values.setdefault("client_options", ClientOptions.from_settings(single))
        return cls(**values)

    def __repr__(self) -> str:
        shown = []
        for setting in fields(self):
            value = getattr(self, setting.name, None)
            if value is None or setting.name in ("_source", "transfer"):
                continue
            if setting.name == "credentials":
                shown.append("credentials=<function>")
            elif setting.name in SECRET_NAMES:
                shown.append(f"{setting.name}=<hidden>")
            elif setting.name == "access_id":  # the id alone cannot sign requests
                start = str(value)[:4] if len(str(value)) > 8 else ""  # may not be text
                shown.append(f"access_id={start + '…'!r}")
            elif value != setting.default:
                shown.append(f"{setting.name}={value!r}")
        return f"Profile({', '.join(shown)})"

    def __reduce_ex__(self, _: Any) -> Any:
        raise ConfigError(
            "a profile contains keys and is never pickled",
            hint="send the profile's name, or pass Profile.as_options() to a Spark reader",
        )

    def __copy__(self) -> Profile:
        return self

    def __deepcopy__(self, _: Any) -> Profile:
        return self


def _explained(make: Callable[..., None]) -> Callable[..., None]:
    """Decorator of the constructor: hide secrets, and raise `ConfigError` for wrong arguments."""
    known = tuple(inspect.signature(make).parameters)[1:]

    @functools.wraps(make)
    def making(self: Profile, *args: Any, **kwargs: Any) -> None:
        kwargs = hidden({"endpoint": None, "project": None, **kwargs})  # checked by Profile
        unknown = next(iter(kwargs.keys() - {*known}), None)
        if args or unknown is not None:
            del args  # a traceback may show them, and one may be a key
            raise ConfigError(
                f"Profile has no argument {unknown}="
                if unknown
                else "Profile takes no arguments without a keyword",
                option=unknown or "endpoint",
                hint=(unknown and did_you_mean(unknown, known, "{}=", most=1))
                or f"its arguments are: {', '.join(known)}",
            )
        make(self, **kwargs)

    return making


Profile.__init__ = _explained(Profile.__init__)  # type: ignore[method-assign]


def _excluded() -> ConfigError:
    return ConfigError(
        "keys, credentials and credential_process cannot be combined",
        option="credentials",
        hint="pass only one of them",
    )


def _absent(settings: Mapping[str, Any], options: tuple[str, ...]) -> list[str]:
    return [option for option in options if not settings.get(option)]


def _check_zone(name: str) -> None:
    try:
        zone_of(name)
    except ArgumentError as error:
        raise ConfigError(str(error), option="timezone", hint=error.hint) from None


def _checked_url(option: str, url: str) -> str:
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"] or 1) < 65536:
        del url, match  # both may contain a secret, and tracebacks may show locals
        host = "dt" if option == "tunnel_endpoint" else "service"
        path = "" if option == "tunnel_endpoint" else "/api"
        raise ConfigError(
            f"{option} must be an http(s) URL with a valid host name and port, without a user "
            "name, password, query or fragment",
            option=option,
            hint=f"write e.g. https://{host}.cn-hangzhou.maxcompute.aliyun.com{path}",
        )
    url = url.rstrip("/")
    if option == "tunnel_endpoint" and url.lower().endswith("/api"):
        raise ConfigError(
            f"tunnel_endpoint {url} ends with /api, which is the path of the service only",
            option=option,
            hint="omit tunnel_endpoint (the client requests it from the service), or remove /api",
        )
    return url
