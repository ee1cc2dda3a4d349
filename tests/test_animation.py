"""The animation in the README exists, has frames, pauses at its end and is small."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image


def test_the_readme_has_a_small_animation(repo: Path) -> None:
    text = (repo / "README.md").read_text("utf-8")
    ((said, name),) = re.findall(r"!\[(.*?)\]\((.*?\.gif)\)", text)
    assert len(said) > 30  # alternative text
    path = repo / name
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as image:
        assert image.n_frames > 10
        image.seek(image.n_frames - 1)
        assert image.info["duration"] >= 3000
