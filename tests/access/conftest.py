"""Makes the peers of ``tests/http`` and ``tests/client`` importable."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("client", "http"):
    sys.path.insert(0, str(Path(__file__).parent.parent / folder))
