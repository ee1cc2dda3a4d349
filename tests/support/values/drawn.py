"""Strategies: types, values that fit them, and values that do not (see `rules`)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.support.values.rules import (
    BARE_DECIMAL,
    BITS,
    DAY,
    FIRST,
    FIRST_DAY,
    LAST,
    LAST_DAY,
    NEAR,
    NESTED,
    SECOND,
    TEXTS,
    TIMES,
    Day,
    Kind,
    Misfit,
    Moment,
    Pairs,
    Span,
    array,
    exact,
    mapping,
    members,
    stored,
)

MS = 10**6
MAX_SINGLE = 3.4028234663852886e38
DECIMALS = [(), (1, 0), (1, 1), (5, 2), (18, 2), (38, 0), (38, 10), (38, 30), (38, 38), (39, 1),
            (60, 20), (76, 0), (76, 38), (76, 76)]  # fmt: skip
PLAIN = [*BITS, "float", "double", "boolean", "string", "json", "binary", "date", *TIMES,
         "interval_day_time", "interval_year_month"]  # fmt: skip
MEMBERS = ["alpha", "beta_2", "gamma"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)

_decimals = st.sampled_from(DECIMALS).map(lambda numbers: Kind("decimal", numbers))
leaves = (
    st.sampled_from(PLAIN).map(Kind)
    | _decimals
    | st.builds(Kind, st.sampled_from(["char", "varchar"]), st.sampled_from([(1,), (3,)]))
)
keys = st.sampled_from(["string", "int", "bigint", "date", "datetime"]).map(Kind) | _decimals


def _over(inner: SearchStrategy[Kind]) -> SearchStrategy[Kind]:
    struct = st.lists(inner, min_size=1, max_size=3).map(
        lambda parts: members(*zip(MEMBERS, parts, strict=False))
    )
    return inner.map(array) | st.builds(mapping, keys, inner) | struct


nested = _over(leaves) | _over(_over(leaves)) | _over(_over(_over(leaves)))
kinds = leaves | nested


def _near(low: int, high: int, *edges: int) -> SearchStrategy[int]:
    """Integers in a range: its ends, values next to zero and other edges, and any others."""
    found = {low, low + 1, high, high - 1, -1, 0, 1, *edges}
    return st.sampled_from(sorted(e for e in found if low <= e <= high)) | st.integers(low, high)


EDGES = [
    FIRST, LAST // MS * MS, -1, 0, 1, MS, -MS, SECOND, -SECOND, DAY, -DAY,
    -1 * DAY - 1, 2**31 * SECOND, -(2**31) * SECOND, 253402214400 * SECOND, 951782400 * SECOND,
    NEAR[0], NEAR[-1], NEAR[0] // MS * MS + MS, NEAR[-1] // MS * MS, 1659099540588 * MS,
]  # fmt: skip


def _instants(kind: Kind, *, far: bool) -> SearchStrategy[int]:
    """Nanoseconds of times; far: in microseconds, in the years 1 to 9999."""
    if kind.name == "datetime":
        step, low, high = MS, FIRST, LAST
    elif far:
        step, low, high = 1000, FIRST, LAST
    else:
        step, low, high = 1, NEAR[0] + DAY, NEAR[-1] - DAY  # a zone may shift them by a day
    units = st.sampled_from([step, SECOND, DAY]).flatmap(
        lambda unit: st.integers(-(-low // unit), high // unit).map(lambda count: count * unit)
    )
    edges = sorted(e for e in EDGES if low <= e <= high and not e % step)
    return st.sampled_from([low - low % -step, high - high % step, *edges]) | units


def _decimal_values(precision: int, scale: int) -> SearchStrategy[Decimal]:
    top = 10**precision - 1
    edges = [10 ** (precision - 1), -(10 ** (precision - 1)), 10**scale, 5, -top // 3]
    return _near(-top, top, *edges).map(lambda unscaled: exact(unscaled, scale))


def values(kind: Kind, *, far: bool = False) -> SearchStrategy[Any]:
    """Values that fit a leaf; ``far``: times may be in any year, in microseconds."""
    name = kind.name
    if name in BITS:
        bound = 2 ** (BITS[name] - 1)
        return _near(-bound, bound - 1, 2**53, 2**53 + 1, 10**15)
    if name == "float":
        edges = [MAX_SINGLE, -MAX_SINGLE, 1e-45, -0.0, 0.1, 2.0**24, 16777217.0]
        singles = st.floats(width=32, allow_nan=False)
        return st.sampled_from(edges) | singles | st.floats(-MAX_SINGLE, MAX_SINGLE)
    if name == "double":
        edges = [0.1, -0.0, 5e-324, 2.0**53, 1e15, float("inf"), 1e300]
        return st.sampled_from(edges) | st.floats(allow_nan=False)
    if name == "decimal":
        return _decimal_values(*(kind.numbers or BARE_DECIMAL))
    if name == "date":
        return _near(FIRST_DAY, LAST_DAY, 11016, 24855, -25567).map(Day)
    if name in TIMES:
        return _instants(kind, far=far).map(Moment)
    if name == "interval_day_time":
        return _near(-100_000 * DAY, 100_000 * DAY, SECOND, -SECOND, MS, 1001, DAY).map(Span)
    if name in ("char", "varchar"):
        longest = kind.numbers[0]
        return st.sampled_from(["é" * longest, "𝄞" * longest]) | TEXT.map(lambda t: t[:longest])
    return {
        "boolean": st.booleans(),
        "string": st.sampled_from(["", "\0", "𝄞", " a ", "NaN", "1", "é" * 300]) | TEXT,
        "json": st.sampled_from(['{"a": [1, null]}', "null", "[]", '"𝄞"']),
        "binary": st.sampled_from([b"", b"\0", b"\xff\xfe", b"\xc3"]) | st.binary(max_size=6),
        "interval_year_month": _near(-119_999, 119_999),
    }[name]


def cells(kind: Kind, *, far: bool = False, null: bool = True) -> SearchStrategy[Any]:
    """Values that fit, at any depth, with nulls and empty values at each level."""
    found: SearchStrategy[Any]
    if kind.name == "array":
        found = st.lists(cells(kind.part("element"), far=far), max_size=3)
    elif kind.name == "map":
        key, value = kind.part("key"), cells(kind.part("value"), far=far)
        pairs = st.tuples(cells(key, far=far, null=False), value)
        found = st.lists(pairs, max_size=3, unique_by=lambda pair: stored(key, pair[0])).map(Pairs)
    elif kind.name == "struct":
        found = st.fixed_dictionaries({name: cells(part, far=far) for name, part in kind.parts})
    else:
        found = values(kind, far=far)
    return found | st.none() if null else found


# -- values that do not fit -----------------------------------------------------------------------

_numbers: list[Any] = [0, 1, 1659099540588, 1.0, 0.99, 19.99, Decimal("1.25"), Decimal(7)]
_texts: list[Any] = ["", "1", "2024-01-01", "true", b"1"]
_moments: list[Any] = [Moment(0), Moment(86_399 * SECOND), Moment(DAY + 1), Moment(DAY, 28_800)]
_things: list[Any] = [
    *_numbers, True, False, *_texts, Day(0), Day(19_783), *_moments, Span(0), Span(5 * SECOND),
]  # fmt: skip
_shapes: list[Any] = [[1], {"alpha": 1}]


def _too_large(kind: Kind) -> list[Any]:
    name = kind.name
    if name in BITS or name == "interval_year_month":
        bound = 2 ** (BITS.get(name, 64) - 1)
        integers: list[Any] = [bound, -bound - 1, 2**63, -(2**63) - 1, 2**64 - 1]
        if name in BITS:  # only integers can be numbers of months
            integers += [float(2 * bound), 1e300, float("inf"), Decimal(bound)]
        return [*integers, -0.5, 1.5]
    if name == "float":
        return [2**24 + 1, -(2**24) - 1, 2**63 - 1, 1e39, 3.5e38, -1e300]
    if name == "double":
        return [2**53 + 1, -(2**53) - 1, 2**63 - 1]
    if name == "date":
        return [Moment(n) for n in (1, -1, SECOND, DAY + 3600 * SECOND)]
    if name == "datetime":
        return [Moment(n) for n in (1, -1, 1000, MS + 1, DAY - 1000)]
    if name == "timestamp_ntz":
        return [Moment(n, ahead) for n in (0, DAY) for ahead in (0, 28_800)]
    if name == "interval_day_time":
        return [Span(2**63 // 1000 * 1000 + 1000), Span(-110_000 * DAY)]
    if name in ("char", "varchar"):
        longer = kind.numbers[0] + 1
        return ["a" * longer, "𝄞" * longer, ("é" * longer).encode(), "\ud800", b"\xff"]
    return ["\ud800", b"\xff", b"a\xc3"] if name in TEXTS else []


def _decimal_misfits(precision: int, scale: int) -> SearchStrategy[Any]:
    whole = precision - scale
    found: SearchStrategy[Any]
    edges: list[Any] = [
        exact(10**precision, scale), exact(-(10**precision), scale), exact(1, scale + 1),
        exact(10 ** (precision + 1) - 1, scale + 1), 10**whole, -(10**whole), 1e30, 1e40, 1e-40,
        Decimal("1E+100"), Decimal("1E-100"), float("inf"),
    ]  # fmt: skip
    over = st.integers(10**precision, 10**76).map(lambda n: exact(n, scale))
    below = st.integers(1, 10**precision).map(lambda n: exact(10 * n + 1, scale + 1))
    found = st.sampled_from(edges) | over | below | st.integers(10**whole, 10**76)
    if whole < 38:  # rescaling overflows 128 bits to few digits
        wraps = [Decimal(turns * 2**128 // 10**scale + 1) for turns in (1, -1, 2, 7)]
        found |= st.sampled_from([one for one in wraps if abs(one) >= 10**whole] or edges)
    return found


def misfits(kind: Kind) -> SearchStrategy[Any]:
    """Single values that do not fit a type, whatever it is."""
    wrong = [one for one in [*_things, *_shapes] if _misfits(kind, one)]
    if kind.name == "interval_year_month":  # it is not specified whether 7.0 months fit
        wrong = [one for one in wrong if not isinstance(one, (float, Decimal))]
    found = st.sampled_from(wrong)
    if edges := [one for one in _too_large(kind) if _misfits(kind, one)]:
        found |= st.sampled_from(edges)
    if kind.name == "decimal":
        found |= _decimal_misfits(*(kind.numbers or BARE_DECIMAL))
    if kind.name in BITS:
        found |= st.floats(-100, 100) | st.decimals(-100, 100, places=3)
    return found.filter(lambda one: _misfits(kind, one))


def _misfits(kind: Kind, value: Any) -> bool:
    if (kind.name, type(value)) in (("array", list), ("map", dict)):
        return False  # whether a list or dict fits depends on its items
    try:
        stored(kind, value)
    except Misfit:
        return True
    return False


@st.composite
def planted(draw: DrawFn, kind: Kind, path: tuple[str, ...] = ()) -> tuple[Any, ...]:
    """Draw a cell that contains one value that does not fit.

    Returns ------- tuple The cell, the bad value, the type that it does not fit, and the path to
    it.
    """
    if kind.name not in NESTED or draw(st.integers(0, 5)) == 0:
        bad = draw(misfits(kind))
        return bad, bad, kind, path
    if kind.name == "array":
        element = kind.part("element")
        inner, *rest = draw(planted(element, (*path, "element")))
        before, after = draw(st.tuples(*[st.lists(cells(element), max_size=2)] * 2))
        return [*before, inner, *after], *rest
    if kind.name == "map":
        key, value = kind.part("key"), kind.part("value")
        which = draw(st.integers(0, 4))
        if which == 0:
            return Pairs([(None, draw(cells(value)))]), None, key, path
        if which < 3:
            inner, *rest = draw(planted(value, (*path, "value")))
            return Pairs([(draw(cells(key, null=False)), inner)]), *rest
        inner, *rest = draw(planted(key, (*path, "key")))
        return Pairs([(inner, draw(cells(value)))]), *rest
    name, part = draw(st.sampled_from(kind.parts))
    whole = draw(cells(kind, null=False))
    if draw(st.integers(0, 4)) == 0:
        return {**whole, "stranger": 1}, "stranger", kind, path
    inner, *rest = draw(planted(part, (*path, name)))
    return {**whole, name: inner}, *rest
