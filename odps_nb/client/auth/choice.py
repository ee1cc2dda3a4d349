"""Chooses one account and one place (endpoint, project) among the settings of several sources.

Credentials of two accounts are never mixed: all credentials come from one source, and a source with
a different endpoint or account from the chosen one supplies only general settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odps_nb.client.auth.accounts import Account
from odps_nb.client.auth.fields import (
    APPLICATION,
    CREDENTIAL_FIELDS,
    GENERAL_FIELDS,
    PLACE_FIELDS,
    PROJECT_FIELDS,
)
from odps_nb.client.auth.regions import endpoint_of
from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden, Secret

_WHOLE = ("credential_process", "credentials")
_ACCOUNT = ("access_id", "bearer_token", *_WHOLE)
"""Settings that identify an account; a key or an STS token alone identifies none."""
OVERRIDDEN = "already set by an earlier source"
"""The reason shown for a setting that an earlier source also has."""


@dataclass(frozen=True, slots=True, repr=False)
class Offer:
    """The settings found in one source.

    ``names`` maps settings to the names that the user wrote, for example ``ODPS_ACCESS_ID``.
    ``problem``: why none of these settings is used.
    """

    source: str
    settings: Hidden
    names: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one source contains, without values: names of settings that were used or not used.

    ``unused`` pairs each name with the reason.
    """

    source: str
    used: tuple[str, ...]
    unused: tuple[tuple[str, str], ...]

    def reasons(self) -> list[str]:
        """Return one text for each reason: the names of the unused settings, and the reason."""
        names: dict[str, list[str]] = {}
        for name, why in self.unused:
            names.setdefault(why, []).append(name)
        return [f"{', '.join(group)} ({why})" if group[0] else why for why, group in names.items()]


class SettingsChoice:
    """Collects settings from offers by precedence; ``arguments`` come first."""

    def __init__(self, arguments: Hidden) -> None:
        self.arguments = arguments
        self.has_profile: bool = False
        """Whether one of the sources is a profile of the profile file."""
        self.findings: list[SourceReport] = []
        self._found, self._account, self._application = Hidden(), Hidden(), Hidden()

    @property
    def settings(self) -> Hidden:
        """The chosen settings, arguments included."""
        chosen = overridden(Hidden(self._found | self._account), self.arguments)
        if _is_function(self.arguments.get("credentials")):
            chosen = Hidden(self._application | chosen)
        return chosen

    @property
    def has_place(self) -> bool:
        """Whether the endpoint and the project are known."""
        chosen = self.settings
        return bool(chosen.get("project") and endpoint_of(chosen))

    @property
    def has_account(self) -> bool:
        """Whether the credentials are complete."""
        return is_complete(self.settings)

    def take(self, offer: Offer) -> None:
        """Add the settings that can be combined with earlier offers, and record the others."""
        conflict = offer.problem or self._conflict(offer.settings)
        accepted = set() if offer.problem else self._fill(offer.settings, GENERAL_FIELDS)
        if not conflict:
            accepted |= self._take_place(offer.settings) | self._take_account(offer.settings)
        used, unused = [], []
        for name in offer.settings:
            shown = offer.names.get(name, name)
            if name in accepted:
                used.append(shown)
            else:
                unused.append((shown, conflict or self._reason(name, offer.settings)))
        if used or unused or offer.problem:
            if not unused and offer.problem:
                unused.append(("", offer.problem))
            self.findings.append(SourceReport(offer.source, tuple(used), tuple(unused)))

    def _fill(self, offered: Mapping[str, Any], names: Iterable[str]) -> set[str]:
        accepted = {name for name in names if name in offered and name not in self._found}
        self._found.update((name, offered[name]) for name in accepted)
        return accepted

    def _conflict(self, offered: Mapping[str, Any]) -> str:
        """Return why the offer's endpoint or account cannot be combined with the chosen one."""
        ours, theirs = _endpoint(self._found), _endpoint(offered)
        if ours and offered.get("endpoint") and ours != theirs:
            return "this source has a different endpoint from the one in use"
        if _has_account(offered) and self._account and not _same(self._account, offered):
            return "this source has a different account from the one in use"
        return ""

    def _take_place(self, offered: Mapping[str, Any]) -> set[str]:
        """Take endpoint and tunnel from one source; schema and quota only for the same project."""
        ours, theirs = _endpoint(self._found), _endpoint(offered)
        is_place = theirs if not ours else offered.get("endpoint") and theirs == ours
        accepted = (
            self._fill(offered, PLACE_FIELDS) if is_place or self._names_endpoint() else set()
        )
        project = offered.get("project")
        if project in (None, self._found.get("project", project)):
            accepted |= self._fill(offered, PROJECT_FIELDS)
        return accepted

    def _names_endpoint(self) -> bool:
        """Whether only the arguments name an endpoint; a tunnel endpoint may be added to it."""
        return bool(_endpoint(self.arguments)) and not _endpoint(self._found)

    def _take_account(self, offered: Mapping[str, Any]) -> set[str]:
        if not _has_account(offered):
            if not self._application and all(offered.get(name) for name in APPLICATION):
                self._application = Hidden((name, offered[name]) for name in APPLICATION)
            return set()
        access_id = self.arguments.get("access_id")
        if is_complete(self._account) or offered.get("access_id", access_id) != (
            access_id or offered.get("access_id")
        ):
            return set()
        theirs = Hidden((name, offered[name]) for name in CREDENTIAL_FIELDS if name in offered)
        added = theirs.keys() - self._account.keys()
        self._account = Hidden(theirs | self._account)
        return added

    def _reason(self, name: str, offered: Mapping[str, Any]) -> str:
        if name in self._found or name in self._account:
            return OVERRIDDEN
        if name in ("region", "network") and _endpoint(offered) is None:
            return "no endpoint is known for this region and network"
        if name in CREDENTIAL_FIELDS:
            return "it comes without an access id, so its account is unknown"
        return "it belongs to a different endpoint or project"


def overridden(base: Mapping[str, Any], arguments: Mapping[str, Any]) -> Hidden:
    """Return the settings in ``base`` overridden by ``arguments``; never mix two accounts.

    A new account in the arguments replaces all credentials; a new endpoint replaces region, network
    and tunnel. A key alone is used with the access id in ``base``; with only the same id, the key
    is kept.

    Raises `ConfigError` if the arguments contain a token without its id and key.
    """
    merged = Hidden(base)
    named = {name for name in CREDENTIAL_FIELDS if arguments.get(name)}
    if named == {"sts_token"}:
        raise ConfigError(
            "sts_token was passed without the access id and key that were issued with it",
            option="sts_token",
            hint="pass credentials=odps_nb.StsToken(id, key, token)",
        )
    if named == {"access_key"}:
        left = {"access_id"}
    elif named <= {*APPLICATION} or (
        named == {"access_id"} and base.get("access_id") == arguments["access_id"]
    ):
        left = set(CREDENTIAL_FIELDS)
    else:
        left = set(APPLICATION) if _is_function(arguments.get("credentials")) else set()
    for name in {*CREDENTIAL_FIELDS} - left:
        merged.pop(name, None)
    if arguments.get("endpoint"):
        same = bool(base.get("endpoint")) and _endpoint(base) == _endpoint(arguments)
        lost = PLACE_FIELDS if base.get("endpoint") else ("region", "network")
        for name in () if same else lost:
            merged.pop(name, None)
    return Hidden({**merged, **arguments})


def is_complete(account: Mapping[str, Any]) -> bool:
    """Return whether settings contain an account that can sign requests.

    With an access id, the key is needed even if there is a bearer token: as in pyodps, keys take
    precedence over a bearer token.
    """
    needed = "access_key" if account.get("access_id") else "bearer_token"
    return any(account.get(name) for name in (*_WHOLE, needed))


def _has_account(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(name) for name in _ACCOUNT)


def _same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    shared = [name for name in CREDENTIAL_FIELDS if ours.get(name) and theirs.get(name)]
    return any(name in _ACCOUNT for name in shared) and all(
        ours[name] == theirs[name] for name in shared
    )


def _endpoint(settings: Mapping[str, Any]) -> str | None:
    try:
        endpoint = endpoint_of(settings)
    except ConfigError:  # an invalid region may be unused, or is reported later
        return None
    return None if endpoint is None else endpoint.lower()


def _is_function(credentials: object) -> bool:
    return credentials is not None and not isinstance(credentials, (Account, Secret))
