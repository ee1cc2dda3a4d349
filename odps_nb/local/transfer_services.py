"""Services that transfer rows, and how they refuse the requests of accounts that lack them.

The Storage API must be enabled for a tenant, and exists only in some regions (vendor's manual,
*Overview of open storage*). How the real service refuses a request is not known, so
`odps_nb.local.forms.Forms` offers several forms.
"""

from __future__ import annotations

from collections.abc import Callable

from odps_nb.errors import ConfigError, ServiceError
from odps_nb.local import errors

SERVICES = ("storage", "storage-v1", "tunnel")
"""The Storage API in versions 2 and 3, in version 1, and the tunnel."""
NO_PATH = (
    "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1></body></html>"
)
"""The page that a gateway returns for a path that it does not know."""

_NAMES = {"storage": "open storage", "storage-v1": "open storage", "tunnel": "the tunnel"}
_REFUSALS: dict[str, Callable[[str, str], ServiceError]] = {
    "not-found": lambda name, quota: errors.no_such("The requested resource does not exist."),
    "no-permission": lambda name, quota: errors.forbidden(f"{name} is not enabled for this tenant"),
    "quota": lambda name, quota: errors.invalid(f"the quota {quota!r} does not support {name}"),
    "region": lambda name, quota: errors.invalid(f"{name} is not supported in this region"),
}


def parse_services(text: str) -> frozenset[str]:
    """Parse a comma-separated list of services; raise `ConfigError` for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SERVICES]
    if unknown or not names:
        raise ConfigError(
            f"unknown service {unknown[0]!r}" if unknown else "no service is named",
            option="services",
            hint=f"choose from {', '.join(SERVICES)}",
        )
    return frozenset(names)


def refusal(service: str, form: str, quota: str) -> ServiceError:
    """Return the error for a request to a service that the account lacks (not for `NO_PATH`)."""
    return _REFUSALS[form](_NAMES[service], quota)
