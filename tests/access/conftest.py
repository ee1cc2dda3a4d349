"""Makes the peers of ``tests/http`` importable, with their fixtures for certificates."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "http"))
