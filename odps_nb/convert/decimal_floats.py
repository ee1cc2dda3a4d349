"""Converts Arrow decimals to the nearest floats and back (without pandas)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

if TYPE_CHECKING:
    import pandas as pd

_DIGITS = 15  # a decimal with at most 15 digits is the shortest text of its nearest float64


def as_floats(values: Any) -> Any:
    """Convert decimals to the nearest float64. Arrow's own cast may be off by one bit."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([as_floats(chunk) for chunk in values.chunks], pa.float64())
    floats = _short_floats(values)
    return values.cast(pa.string()).cast(pa.float64()) if floats is None else floats


def from_floats(values: Any, kind: pa.DataType) -> Any:
    """Convert floats to a decimal type via their shortest text."""
    return values.cast(pa.string()).cast(kind)


def surviving_floats(values: pa.Array) -> pa.Array | None:
    """Return decimals as float64 if `from_floats` can restore all of them, else ``None``."""
    floats = _short_floats(values)
    if floats is None:
        floats = values.cast(pa.string()).cast(pa.float64())
        try:
            if not from_floats(floats, values.type).equals(values):
                return None
        except pa.ArrowInvalid:
            return None
    return floats


def decimal_note(schema: pa.Schema, frame: pd.DataFrame) -> str:
    """Return a note on the dtypes of DECIMAL columns; empty if there are no such columns."""
    floats: list[str] = []
    exact: list[str] = []
    for field, dtype in zip(schema, frame.dtypes, strict=True):
        if pt.is_decimal(field.type):
            (floats if dtype.kind == "f" else exact).append(field.name)
    notes = [f"DECIMAL as float64: {_some(floats)}"] if floats else []
    notes += [f"DECIMAL kept exact; float64 would round: {_some(exact)}"] if exact else []
    return " · ".join(notes)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 4 else ""
    return ", ".join(names[:3] if more else names) + more


def _short_floats(values: pa.Array) -> pa.Array | None:
    """Convert decimals to floats by one division; ``None`` if a value has more than 15 digits."""
    ends = pc.min_max(values).as_py().values()
    whole_digits = max((end.adjusted() + 1 for end in ends if end), default=0)
    scale = min(values.type.scale, _DIGITS - max(whole_digits, 0))
    if scale < 0:
        return None
    try:
        short = values.cast(pa.decimal128(_DIGITS, scale))
    except pa.ArrowInvalid:
        return None
    whole = short.view(pa.decimal128(_DIGITS, 0)).cast(pa.int64())
    return pc.divide(whole.cast(pa.float64()), 10.0**scale)
