"""Makes the helper modules of this directory importable (importlib mode adds no path)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
