"""The peer of the benchmarks: pyodps with the settings of a connection of ours."""

from __future__ import annotations

from typing import Any

from odps_nb.client.auth.profile import Profile


def pyodps_entry(profile: Profile) -> Any:
    """Return pyodps' entry object, which also reads DATETIME values before 1928."""
    from odps import ODPS, options

    options.allow_antique_date = True
    return ODPS(
        profile.access_id,
        profile.access_key,
        project=profile.project,
        endpoint=profile.endpoint,
        tunnel_endpoint=profile.tunnel_endpoint,
    )
