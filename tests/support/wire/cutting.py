"""Ways to divide bytes, for tests that the result does not depend on the division."""

from itertools import pairwise

from hypothesis import strategies as st

CUTS = st.lists(st.integers(0, 10_000), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Return ``data`` in pieces, divided at ``places``; some may be empty."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


def every(data: bytes, step: int) -> list[bytes]:
    """Return ``data`` in pieces of ``step`` bytes."""
    return [data[at : at + step] for at in range(0, len(data), step)]


def pattern(size: int) -> bytes:
    """Return bytes that do not repeat from block to block."""
    return bytes((index * 31 + index // 251) % 256 for index in range(size))
