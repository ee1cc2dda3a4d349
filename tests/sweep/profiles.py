"""The profile of a client whose requests go through a proxy."""

from __future__ import annotations

from odps_nb.client.auth.profile import Profile

__all__ = ["troubled"]


def troubled(profile: Profile, url: str) -> Profile:
    """Return the profile with ``url`` in place of the service's own."""
    rest = {key: value for key, value in profile.as_options().items() if key != "api_version"}
    endpoint = url + profile.endpoint[len(profile.tunnel_endpoint.rstrip("/")) :]
    return Profile(**{**rest, "endpoint": endpoint, "tunnel_endpoint": url})
