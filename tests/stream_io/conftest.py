"""Makes ``raw_streams`` and the raw-socket ``peers`` importable (importlib mode adds no path)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "http")]
