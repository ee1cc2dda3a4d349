"""Checks whether data and tokens may be sent to the Storage API host that the service names.

A malicious or impersonated service can name any host. Requests are signed, so the secret key is
never sent, but rows, blobs, bearer tokens and STS tokens are.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from odps_nb.errors import ConfigError

_VENDOR = frozenset({"aliyun.com", "aliyun-inc.com", "alibabacloud.com"})
"""Domains of the vendor; an endpoint in one of them may return a Storage API host in another."""
_TRANSITION = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16", "2001::/32")))
"""Ranges of IPv6 addresses that embed an IPv4 address, which may be private."""
_SECOND_LEVEL = frozenset({"com", "co", "net", "org", "gov", "edu", "ac"})


def check_tunnel_host(found: str, *, endpoint: str, has_token: bool) -> None:
    """Raise unless requests may be sent to the Storage API address that ``endpoint`` returned.

    If requests carry a token (``has_token``), the address must be in the endpoint's domain.
    """
    theirs, ours = _host(found), _host(endpoint)
    if is_private(theirs):
        why = "" if is_private(ours) else ", which is in a private network"
    else:
        leaves = has_token and _domain(theirs) != _domain(ours)
        why = ", which is in another domain and would receive your token" if leaves else ""
    if why:
        raise ConfigError(
            f"{ours} names {theirs} as its Storage API host{why}",
            option="tunnel_endpoint",
            hint=f"if this is correct, pass tunnel_endpoint={found!r}; if not, check the endpoint",
        )


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".").lower()


def is_private(host: str) -> bool:
    """Return whether a host is this machine, or in a private network or domain."""
    address = _address(host)
    if address is not None:
        return not address.is_global or any(address in network for network in _TRANSITION)
    # Resolvers accept 127.1 and 0x7f.1 as addresses; no top-level domain begins with a digit.
    is_number = host.rpartition(".")[2][:1].isdigit()
    return is_number or "." not in host or host.endswith((".localhost", ".local", ".internal"))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _domain(host: str) -> str:
    """Return the probable registrable domain; the exact one would need a public suffix list."""
    if _address(host) is not None:
        return host
    labels = host.split(".")
    long = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    domain = ".".join(labels[-3 if long else -2 :])
    return "aliyun.com" if domain in _VENDOR else domain
