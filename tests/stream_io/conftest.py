"""A transport for each test."""

from tests.http.conftest import transport

__all__ = ["transport"]
