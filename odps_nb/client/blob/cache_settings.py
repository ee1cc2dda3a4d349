"""Where blobs are cached and how many: ``blob_cache`` of a profile, and the platform's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odps_nb.client.blob.cache import BlobCache
from odps_nb.errors import ConfigError

if TYPE_CHECKING:
    from odps_nb.client.auth.profile import Profile

__all__ = ["DEFAULT_LIMIT", "cache_limit", "open_cache"]

DEFAULT_LIMIT = 4 << 30
"""Bytes of cached blobs where nothing else is said."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,3})?)\s*([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)


def cache_limit(stated: str | None) -> int:
    """Return how many bytes a setting allows: ``off``, ``20 GB``, ``512 MiB``; 0 for off.

    Raises
    ------
    ConfigError
        It is neither.

    Examples
    --------
    >>> cache_limit("20 GB"), cache_limit("1 MiB"), cache_limit("off")
    (20000000000, 1048576, 0)
    """
    if stated is None:
        return DEFAULT_LIMIT
    text = str(stated).strip()
    if text.lower() == "off":
        return 0
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"blob_cache {text!r} is neither a size nor 'off'",
            option="blob_cache",
            hint='write e.g. "20 GB", or "off" to keep no blobs on disk',
        )
    unit = _UNITS[match[2].lower()]
    if match[3]:
        unit = 1 << (10 * list(_UNITS).index(match[2].lower()))
    return int(float(match[1]) * unit)


def open_cache(profile: Profile, environ: Mapping[str, str] | None = None) -> BlobCache | None:
    """Return the cache of a profile, or ``None`` when it is off; touches no disk.

    ``ODPS_NB_CACHE_DIR`` names another folder than that of the platform.
    """
    limit = cache_limit(profile.blob_cache)
    if not limit:
        return None
    stated = (os.environ if environ is None else environ).get("ODPS_NB_CACHE_DIR")
    if stated:
        folder = Path(stated)
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("odps_nb", appauthor=False)
    return BlobCache(folder / "blobs", (profile.endpoint, profile.project), limit=limit)
