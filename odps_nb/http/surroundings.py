"""Proxy and certificate settings from environment variables, for each server.

The requests library reads these variables, but reports invalid values with unhelpful errors that
may contain a proxy's password. They are therefore validated here before anything is sent.
"""

from __future__ import annotations

import ipaddress
import os
import threading
from pathlib import Path
from urllib.parse import urlsplit

import requests
from requests.utils import select_proxy
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden, Secret

_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # in the order in which requests checks them


class ProxyEnvironment:
    """Proxy and certificate settings, looked up once per server; thread-safe. Must be closed."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._lock = threading.Lock()
        self._found: dict[tuple[str, str], Hidden] = {}  # the values may contain a proxy's password

    def of(self, url: str) -> Hidden:
        """Return ``proxies``, ``verify`` and ``cert`` in the form that requests' adapter expects.

        Raises `ConfigError` if a variable holds an invalid proxy address or a certificate path that
        does not exist.
        """
        parts = urlsplit(url)
        key = (parts.scheme, parts.netloc)
        with self._lock:
            settings = self._found.get(key)
        if settings is None:
            settings = self._look(url, parts.hostname or "")
            with self._lock:
                self._found[key] = settings
        return settings

    def _look(self, url: str, host: str) -> Hidden:
        settings = Hidden(self._session.merge_environment_settings(url, {}, True, None, None))
        settings.pop("stream")
        if is_loopback(host):
            settings["proxies"] = {}  # a proxy would connect to its own machine, not to this one
        # requests reads "user:password@host" without a scheme as an address with the scheme "user"
        settings["proxies"] = Hidden(
            (name, Secret(value if "://" in value or name == "no" else f"http://{value}"))
            for name, value in settings["proxies"].items()
            if value
        )
        _check_proxy(Secret(select_proxy(url, settings["proxies"]) or ""), url)
        if isinstance(settings["verify"], str) and not Path(settings["verify"]).exists():
            name = next((bundle for bundle in _BUNDLES if os.environ.get(bundle)), _BUNDLES[0])
            raise ConfigError(
                f"{name} is set to {settings['verify']}, which does not exist",
                option=name,
                hint="set it to a PEM file of certificates, or unset it",
            )
        return settings

    def close(self) -> None:
        """Close requests' session. Idempotent."""
        self._session.close()


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_proxy(proxy: Secret, url: str) -> None:
    if not proxy or _is_address(proxy):
        return
    option = "HTTPS_PROXY" if url.lower().startswith("https:") else "HTTP_PROXY"
    raise ConfigError(
        f"{option} (or ALL_PROXY) is not the address of an HTTP proxy",
        option=option,
        hint="write e.g. http://user:password@proxy.example:3128 (special characters as %40), "
        "unset it, or name this host in NO_PROXY",
    )


def _is_address(proxy: Secret) -> bool:
    try:
        parts = parse_url(proxy)
    except LocationParseError:  # the exception's message may contain a password
        return False
    is_cut = "@" in f"{parts.path}{parts.query}{parts.fragment}"  # cut by /, ? or # in a password
    return bool(parts.host) and parts.scheme in ("http", "https") and not is_cut
