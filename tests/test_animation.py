"""The animation at the top of the README is there, moves, rests at its end and is small."""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image


def test_the_readme_begins_with_an_animation_that_is_small(repo: Path) -> None:
    text = (repo / "README.md").read_text("utf-8")
    said, name = re.findall(r"!\[(.*?)\]\((.*?)\)", text)[0]
    assert len(said) > 30  # for those who do not see it
    path = repo / name
    assert path.stat().st_size < 1_500_000
    with Image.open(path) as image:
        assert image.n_frames > 10
        image.seek(image.n_frames - 1)
        assert image.info["duration"] >= 3000
