"""The profiles of clients: by a transfer service, and through a proxy."""

from __future__ import annotations

import dataclasses

from odps_nb.client.auth.profile import Profile
from odps_nb.terms import TransferMode

__all__ = ["by", "with_faults"]


def by(transfer: TransferMode, profile: Profile) -> Profile:
    """Return the profile with this choice of transfer services."""
    options = dataclasses.replace(profile.client_options, transfer=transfer.value)
    return dataclasses.replace(profile, client_options=options)


def with_faults(profile: Profile, url: str) -> Profile:
    """Return the profile with ``url`` in place of the service's own."""
    assert profile.tunnel_endpoint is not None
    endpoint = url + profile.endpoint[len(profile.tunnel_endpoint.rstrip("/")) :]
    return dataclasses.replace(profile, endpoint=endpoint, tunnel_endpoint=url)
