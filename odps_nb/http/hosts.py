"""`Host`: the host of a request, with its name in messages and hints for connection errors."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from enum import Enum
from urllib.parse import urlsplit

from odps_nb.http.surroundings import is_loopback

CHECK_PROXY = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY in the environment"
TUNNEL_HINT = (
    "pass this address as tunnel_endpoint= and the address https://service.…/api as endpoint=: "
    "a host whose name begins with dt. serves only rows"
)
_SLOW_HINT = (
    "try again; if the network or the service is always this slow, connect with "
    "client_options=odps_nb.ClientOptions(read_timeout=…, deadline=…)"
)


class Role(Enum):
    """What a host serves; the value is its name in messages."""

    SERVICE = "the service"  # control plane requests, and possibly rows as well
    STORAGE = "the storage host"  # only rows: Storage API and tunnel
    SERVER = "the server"  # unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host of a request; ``place`` is its name and port.

    Parameters
    ----------
    answered
        Whether the host has responded to this client before.
    service_answered
        Whether the service, which may be another host, has responded to this client before.
    """

    place: str
    scheme: str = "http"
    role: Role = Role.SERVER
    answered: bool = True
    service_answered: bool = False

    @classmethod
    def of(cls, url: str, role: Role = Role.SERVER) -> Host:
        """Return the host of a URL."""
        parts = urlsplit(url)
        return cls(place=parts.netloc or url, scheme=parts.scheme, role=role)

    def having_answered(self) -> Host:
        """Return the host after a response."""
        return self if self.answered else replace(self, answered=True)

    def __str__(self) -> str:
        between = " " if self.role is Role.STORAGE else " at "
        return f"{self.role.value}{between}{self.place}"

    @property
    def named(self) -> str:
        """Role, name and port, for use after "at" or "of" in a message."""
        return f"{self.role.value} {self.place}"

    @property
    def option(self) -> str:
        """The setting that names the host."""
        return "tunnel_endpoint" if self.role is Role.STORAGE else "endpoint"

    @property
    def is_tunnel_as_endpoint(self) -> bool:
        """Whether the endpoint's host name is that of a tunnel."""
        return self.role is not Role.STORAGE and self.place.lower().startswith("dt.")

    def hint_if_unknown(self) -> str:
        """Return the hint if the host name cannot be resolved."""
        return self._hint("check the host name in the endpoint, and the VPN")

    def hint_if_unreached(self) -> str:
        """Return the hint if no connection can be opened."""
        return self._hint("check the endpoint, VPN and firewall")

    def hint_if_silent(self) -> str:
        """Return the hint if the host accepts connections but does not respond."""
        return _SLOW_HINT if self.answered else self.hint_if_unreached()

    def _hint(self, check: str) -> str:
        proxy = self._hint_of_proxy()
        if self.role is Role.STORAGE:
            if not self.service_answered:
                check = "check tunnel_endpoint=, VPN and firewall"
            elif self.answered:
                check = f"check the network, VPN and firewall: rows come from {self.place}"
            else:
                return (
                    f"check whether only the VPC can reach {self.place}: the service responds, but "
                    "rows come from this host; pass tunnel_endpoint= with the public address, or "
                    f"run in the VPC{proxy}"
                )
        return (TUNNEL_HINT if self.is_tunnel_as_endpoint else check) + proxy

    def _hint_of_proxy(self) -> str:
        """Return advice on proxies if the environment names none and the host is not local."""
        name = f"{self.scheme.upper()}_PROXY"
        names = (name, name.lower(), "ALL_PROXY", "all_proxy")
        host = urlsplit(f"//{self.place}").hostname or ""
        if is_loopback(host) or any(os.environ.get(variable) for variable in names):
            return ""
        return f"; if this network needs a proxy, set {name}"
