"""A connection with a time zone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import odps_nb
from odps_nb import Connection


@pytest.fixture(scope="module")
def in_shanghai(profile) -> Iterator[Connection]:
    settings = {"endpoint": profile.endpoint, "project": profile.project}
    with odps_nb.connect(
        **settings,
        access_id=profile.access_id,
        access_key=profile.access_key,
        timezone="Asia/Shanghai",
    ) as found:
        yield found
