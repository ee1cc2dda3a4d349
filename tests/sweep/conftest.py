"""The tables and services that all jobs of the sweep use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.local.server.launch import LocalService, start
from tests.support.service.connecting import account_of
from tests.sweep.jobs import Way, World
from tests.sweep.profiles import by

Worlds = Callable[[Way], World]


@pytest.fixture(scope="module")
def worlds(_private_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    """A function that returns the `World` of a `Way`; a service starts when it is first needed."""
    with ExitStack() as stack:

        @cache
        def service(names: str) -> LocalService:
            return stack.enter_context(start(samples=False, options=("--services", names)))

        @cache
        def world(way: Way) -> World:
            steady = stack.enter_context(
                Connection(by(way.transfer, profile(service(way.services))))
            )
            made = World(steady, tmp_path_factory.mktemp("sweep"), way)
            made.furnish()
            return made

        yield world


def profile(service: LocalService) -> Profile:
    return Profile(**account_of(service))
