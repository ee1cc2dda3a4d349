"""Makes helper modules of this folder and of others importable (importlib mode adds no path)."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "http"), str(HERE.parent / "compat")]
