"""Names of the settings of a profile, in groups."""

from __future__ import annotations

from odps_nb.client.options import OPTION_FIELDS

TEXT_CREDENTIALS = (
    "access_id",
    "access_key",
    "sts_token",
    "bearer_token",
    "app_id",
    "app_key",
    "credential_process",
)
APPLICATION = ("app_id", "app_key")
CREDENTIAL_FIELDS = (*TEXT_CREDENTIALS, "credentials")
PLACE_FIELDS = ("endpoint", "region", "network", "tunnel_endpoint")
PROJECT_FIELDS = ("project", "schema", "quota")
GENERAL_FIELDS = ("timezone", "api_version", "blob_cache", *OPTION_FIELDS)
"""Settings that belong neither to an account nor to an endpoint."""
FIELDS = (
    "endpoint",
    "project",
    *TEXT_CREDENTIALS,
    "schema",
    "tunnel_endpoint",
    "region",
    "network",
    "quota",
    *GENERAL_FIELDS,
)
NUMBERS: dict[str, tuple[type, ...]] = {
    "api_version": (int,),
    **{name: (int, float) for name in OPTION_FIELDS if name != "transfer"},
}
TEXTS = {*FIELDS} - {*NUMBERS, "network", "blob_cache", "transfer"}
"""Fields of `Profile` whose values are text."""
BLANKS = " \t\r\n\v\f\u00a0\u200b\u2060\u3000\ufeff"
"""Characters removed at both ends of a value, some invisible; copied text may contain them."""
