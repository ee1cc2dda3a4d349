"""A preview has the same colours as the picture itself in Chromium."""

import base64

import numpy as np
import pytest

from odps_nb.formats.shared import SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.notebook.preview.test_colours import (
    PROFILES,
    SRGB_CHUNK,
    gamma_chunk,
    png,
    primaries_chunk,
    saved,
)
from tests.support.previews import Seen, Value
from tests.support.profiles import ADOBE, SRGB, grey_profile, rgb_profile

pytestmark = pytest.mark.browser

PIXELS = """async (source) => {
  const image = new Image(); image.src = source; await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.width; canvas.height = image.height;
  const drawn = canvas.getContext("2d"); drawn.drawImage(image, 0, 0);
  return Array.from(drawn.getImageData(0, 0, image.width, image.height).data);
}"""
PICTURES = {
    "no profile": png(),
    **{f"PNG, {name}": png(icc_profile=rgb_profile(*of)) for name, of in PROFILES.items()},
    "JPEG": saved(
        "JPEG", icc_profile=rgb_profile(*PROFILES["Display P3"]), quality=100, subsampling=0
    ),
    "greys": saved("PNG", "L", icc_profile=grey_profile(1.0)),
    "greys with a profile of colours": saved("PNG", "L", icc_profile=rgb_profile(ADOBE)),
    "colours with a profile of greys": saved("PNG", icc_profile=grey_profile(1.0)),
    "gamma": png(gamma_chunk(0.55)),
    "gamma of sRGB": png(gamma_chunk(0.45455)),
    "gamma and primaries": png(primaries_chunk(ADOBE), gamma_chunk(1.0)),
    "gamma and primaries of sRGB": png(primaries_chunk(SRGB), gamma_chunk(0.45455)),
    "primaries alone": png(primaries_chunk(ADOBE)),
    "sRGB and gamma": png(SRGB_CHUNK, gamma_chunk(1.0)),
}


@pytest.mark.nightly
def test_a_preview_has_the_same_colours_as_the_picture_in_chromium(context):
    page = context.new_page()
    apart = {}
    for name, data in PICTURES.items():
        (preview,) = Seen(tile(Value(data), size=SINGLE).html).values("src")
        kind = "image/png" if data.startswith(b"\x89PNG") else "image/jpeg"
        original = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        ours, theirs = (np.array(page.evaluate(PIXELS, one)) for one in (preview, original))
        assert ours.shape == theirs.shape
        apart[name] = int(np.abs(ours - theirs).max())
    assert {name: far for name, far in apart.items() if far > 3} == {}
    assert apart["no profile"] == 0
