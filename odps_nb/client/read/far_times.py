"""Times that a read in nanoseconds cannot give, and what a read in microseconds says of them."""

from __future__ import annotations

from odps_nb.arrow.plain import FarTimeError
from odps_nb.errors import ConversionError, InvalidRequestError, OdpsNbError
from odps_nb.wire.calls.errors import is_time_overflow

__all__ = ["asks_for_micro", "refused_in_micro"]


def asks_for_micro(error: OdpsNbError) -> bool:
    """Whether a read in nanoseconds failed by a time that microseconds may hold."""
    if isinstance(error, InvalidRequestError):
        return is_time_overflow(f"{error.code} {error.message}")
    return isinstance(error, FarTimeError)


def refused_in_micro(error: OdpsNbError, what: str) -> ConversionError:
    """Return the error of a read that had microseconds already."""
    return ConversionError(
        f"the service cannot give a TIMESTAMP of {what} in microseconds either ({error.message})",
        source_type="timestamp",
        target_type="timestamp[us]",
        hint="leave the column out with columns=[…], or cast it to STRING by SQL",
    )
