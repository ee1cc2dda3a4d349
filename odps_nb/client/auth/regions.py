"""Derives endpoints from regions, and checks endpoints of the vendor before anything is sent.

Endpoints follow a pattern: ``https://service.{region}.maxcompute.aliyun.com/api`` is public, and
``https://service.{region}-vpc.maxcompute.aliyun-inc.com/api`` is reachable only from the region's
virtual private cloud (vendor's page *Endpoints*, March and June 2026).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from odps_nb.errors import ConfigError
from odps_nb.terms import did_you_mean

REGIONS = (
    *("cn-hangzhou", "cn-shanghai", "cn-beijing", "cn-zhangjiakou", "cn-wulanchabu"),
    *("cn-shenzhen", "cn-chengdu", "cn-hongkong", "ap-southeast-1", "ap-southeast-3"),
    *("ap-southeast-5", "ap-southeast-7", "ap-northeast-1", "ap-northeast-2", "eu-central-1"),
    *("eu-west-1", "us-west-1", "us-east-1", "na-south-1", "me-east-1", "me-central-1"),
    *("cn-hangzhou-finance", "cn-shanghai-finance-1", "cn-shenzhen-finance-1"),
    "cn-north-2-gov-1",
)
"""The regions on the vendor's page; newer regions are accepted as well."""
_PATTERNS = {
    "public": "https://service.{}.maxcompute.aliyun.com/api",
    "vpc": "https://service.{}-vpc.maxcompute.aliyun-inc.com/api",
}
_REGION = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+", re.ASCII)
_HOST = re.compile(
    r"(?P<what>service|dt)\.(?P<region>[a-z0-9-]+?)(-vpc|-intranet)?\.maxcompute"
    r"\.aliyun(-inc)?\.com",
    re.ASCII,
)
_FINDING = "find the region's id in the console, or pass endpoint="


def endpoint_of(settings: Mapping[str, Any]) -> str | None:
    """Return the endpoint that settings state, or that follows from their region; else ``None``."""
    if endpoint := settings.get("endpoint"):
        return str(endpoint).strip().rstrip("/")
    region = settings.get("region")
    return None if not region else derived(str(region), str(settings.get("network") or "public"))


def derived(region: str, network: str) -> str:
    """Return the endpoint of a region in the public network or in the region's VPC.

    Raises `ConfigError` for an unknown network, and for a region that resembles a known one.
    """
    pattern = _PATTERNS.get(network)
    if pattern is None:
        raise ConfigError(
            f"network is {network!r}; it must be 'public' or 'vpc'",
            option="network",
            hint="pass network='vpc' inside the region's VPC; omit it elsewhere",
        )
    numbers = re.compile(r"[0-9]+")
    known = {numbers.sub("", name) for name in REGIONS}
    if region not in REGIONS and numbers.sub("", region) not in known:
        near = did_you_mean(region, REGIONS, most=1, cutoff=0.8)
        if near or not _REGION.fullmatch(region):
            raise ConfigError(
                f"there is no region {region!r}", option="region", hint=near + _FINDING
            )
    return pattern.format(region)


def check_endpoint(endpoint: str, region: str | None) -> None:
    """Raise if an endpoint of the vendor cannot work, or is in another region than ``region``."""
    parts = urlsplit(endpoint)
    match = _HOST.fullmatch((parts.hostname or "").lower())
    if match is None:
        return
    right = f"{parts.scheme}://{parts.netloc.lower()}/api"
    if match["what"] == "dt":
        raise ConfigError(
            f"endpoint {endpoint} is the address of the tunnel, not of the service",
            option="endpoint",
            hint=f"pass endpoint={right.replace('//dt.', '//service.')!r}; the tunnel's address "
            "is found automatically",
        )
    if not parts.path.strip("/"):
        raise ConfigError(
            f"endpoint {endpoint} has no path", option="endpoint", hint=f"pass endpoint={right!r}"
        )
    if region is not None and region != match["region"] and match["region"] in REGIONS:
        raise ConfigError(
            f"region is {region!r}, but the endpoint is in {match['region']!r}",
            option="region",
            hint="pass only one of them, or both of the same region",
        )
