"""Previews apply colour profiles and gamma, and scale numeric images by their data."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin

from odps_nb.convert import blob_content, blob_conversion
from odps_nb.formats.shared import GRID, SINGLE
from odps_nb.notebook.preview.tile import tile
from tests.support.previews import Seen, Value, picture_in
from tests.support.profiles import (
    ADOBE,
    ADOBE_POWER,
    P3,
    SRGB,
    SWAPPED,
    grey_profile,
    meant,
    rgb_profile,
)

COLOURS = [
    *((0, 0, 0), (20, 20, 20), (128, 128, 128), (200, 200, 200), (255, 255, 255)),
    *((180, 60, 60), (60, 150, 60), (60, 60, 180), (230, 200, 120)),
]
SIDE = 16
PROFILES = {
    "Adobe RGB": (ADOBE, ADOBE_POWER),
    "Display P3": (P3, 2.2),
    "red and blue swapped": (SWAPPED, 2.2),
}


def pixels(colours=COLOURS):
    return np.array(colours, np.uint8).repeat(SIDE, 0)[None].repeat(SIDE, 0)


def saved(form, mode="RGB", **options):
    out = io.BytesIO()
    Image.fromarray(pixels()).convert(mode).save(out, form, **options)
    return out.getvalue()


def drawn(data, size=SINGLE):
    made = tile(Value(data), size=size)
    picture = picture_in(Seen(made.html))
    # pictures have no profile that a browser could apply again, and no original bytes
    assert not picture.info.keys() & {"icc_profile", "gamma", "exif"}
    return picture, made


def shown_colours(data, size=SINGLE):
    picture = drawn(data, size)[0].convert("RGB")
    middle = [picture.width * (2 * at + 1) // (2 * len(COLOURS)) for at in range(len(COLOURS))]
    return [picture.getpixel((x, picture.height // 2)) for x in middle]


def difference(found, wanted):
    return int(np.abs(np.array(found) - np.array(wanted)).max())


# -- profiles -------------------------------------------------------------------------------------


@pytest.mark.gate(8)
@pytest.mark.parametrize("size", [GRID, SINGLE], ids=["tile", "single"])
@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("PNG", {}),
        ("JPEG", {"quality": 100, "subsampling": 0}),
        ("WEBP", {"lossless": True}),
        ("TIFF", {}),
    ],
    ids=["PNG", "JPEG", "WebP", "TIFF"],
)
def test_a_picture_with_a_profile_has_the_correct_colours(form, options, name, size):
    data = saved(form, icc_profile=rgb_profile(*PROFILES[name]), **options)
    wanted = [meant(colour, *PROFILES[name]) for colour in COLOURS]
    assert difference(wanted, COLOURS) > 8
    assert difference(shown_colours(data, size), wanted) <= 3


@pytest.mark.parametrize("mode", ["L", "LA"])
def test_a_grey_picture_with_a_grey_profile_has_the_correct_levels(mode):
    data = saved("PNG", mode, icc_profile=grey_profile(1.0))
    greys = np.asarray(Image.fromarray(pixels()).convert("L"))[0, SIDE // 2 :: SIDE]
    assert difference(shown_colours(data), [meant((grey,) * 3, SRGB, 1.0) for grey in greys]) <= 3


def test_a_profile_does_not_change_transparency():
    picture = Image.fromarray(pixels()).convert("RGBA")
    picture.putalpha(100)
    out = io.BytesIO()
    picture.save(out, "PNG", icc_profile=rgb_profile(SWAPPED))
    found, _ = drawn(out.getvalue())
    assert found.getchannel("A").getextrema() == (100, 100)
    red, _, blue, _ = found.getpixel((5 * SIDE + 8, 8))
    assert blue > red + 90


@pytest.mark.parametrize(
    ("mode", "profile"),
    [
        ("RGB", b"no profile"),
        ("RGB", rgb_profile(ADOBE)[:200]),
        ("RGB", rgb_profile(ADOBE)[:132] + b"\xff" * 300),
        ("RGB", grey_profile(1.0)),
        ("RGB", rgb_profile(SWAPPED) + bytes(5 << 20)),
    ],
    ids=["none", "cut", "damaged", "of greys", "huge"],
)
def test_an_invalid_colour_profile_is_ignored(mode, profile):
    data = saved("TIFF", mode, icc_profile=profile)
    assert difference(shown_colours(data), COLOURS) <= 3
    assert drawn(data)[1].notes == ()


def test_an_animation_has_the_colours_of_its_profile():
    frames = [Image.fromarray(pixels(COLOURS[at:] + COLOURS[:at])) for at in (0, 1)]
    out = io.BytesIO()
    profile = rgb_profile(SWAPPED)
    frames[0].save(
        out, "WEBP", save_all=True, append_images=frames[1:], icc_profile=profile, lossless=True
    )
    found, made = drawn(out.getvalue())
    assert "animated" in made.text
    red, _, blue = found.convert("RGB").getpixel((5 * SIDE + 8, 8))
    assert blue > red + 90


# -- gamma of PNG ---------------------------------------------------------------------------------

SRGB_CHUNK = (b"sRGB", b"\0")


def gamma_chunk(gamma):
    return b"gAMA", struct.pack(">I", round(gamma * 100_000))


def primaries_chunk(primaries):
    numbers = (0.3127, 0.329, *(part for one in primaries for part in one))
    return b"cHRM", struct.pack(">8I", *(round(number * 100_000) for number in numbers))


def png(*chunks, **options):
    data = saved("PNG", **options)
    made = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    )
    return data[:33] + made + data[33:]


@pytest.mark.parametrize("gamma", [1.0, 0.55, 0.3])
def test_the_gamma_of_a_png_is_applied_to_its_colours(gamma):
    wanted = [meant(colour, SRGB, 1 / gamma) for colour in COLOURS]
    assert difference(shown_colours(png(gamma_chunk(gamma))), wanted) <= 3


def test_primaries_of_a_png_are_applied_with_a_gamma():
    gamma = gamma_chunk(1.0)
    wanted = [meant(colour, ADOBE, 1.0) for colour in COLOURS]
    assert difference(shown_colours(png(primaries_chunk(ADOBE), gamma)), wanted) <= 3
    assert difference(shown_colours(png(primaries_chunk(ADOBE))), COLOURS) == 0


@pytest.mark.parametrize(
    "chunks",
    [
        (SRGB_CHUNK, gamma_chunk(1.0)),
        (gamma_chunk(0.45455),),
        (gamma_chunk(0),),
        (primaries_chunk(((0.3, 0.0),) * 3), gamma_chunk(1.0)),
    ],
    ids=["sRGB", "that of sRGB", "zero", "primaries of no colour"],
)
def test_an_invalid_gamma_is_ignored(chunks):
    assert difference(shown_colours(png(*chunks)), COLOURS) == 0


def test_a_profile_takes_precedence_over_a_gamma():
    data = png(gamma_chunk(1.0), icc_profile=rgb_profile(SWAPPED))
    assert difference(shown_colours(data), [meant(colour, SWAPPED, 2.2) for colour in COLOURS]) <= 3


# -- conversions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [blob_content.as_picture, blob_conversion.picture])
def test_a_conversion_keeps_the_pixels_and_the_colour_profile(convert):
    profile = rgb_profile(ADOBE)
    made = convert(saved("PNG", icc_profile=profile), "image/png", max_pixels=10**6)
    assert np.array_equal(np.asarray(made), pixels())
    assert made.info["icc_profile"] == profile
    chunks = (SRGB_CHUNK, gamma_chunk(0.5), primaries_chunk(ADOBE))
    made = convert(png(*chunks), "image/png", max_pixels=10**6)
    assert np.array_equal(np.asarray(made), pixels())
    assert (made.info["srgb"], made.info["gamma"]) == (0, 0.5)
    assert made.info["chromaticity"] == (0.3127, 0.329, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06)
    made = convert(saved("PNG", transparency=COLOURS[0]), "image/png", max_pixels=10**6)
    assert made.convert("RGBA").getextrema()[3] == (0, 255)


# -- heights and measurements ---------------------------------------------------------------------


def heights(dtype=np.float32):
    rows = np.linspace(200, 1400, 40 * 60).reshape(40, 60)
    return rows.astype(dtype)


def tiff(values, nodata=None):
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    if nodata is not None:
        tags[42113] = nodata
    out = io.BytesIO()
    Image.fromarray(values).save(out, "TIFF", tiffinfo=tags)
    return out.getvalue()


@pytest.mark.parametrize(
    ("mark", "stated", "dtype", "says"),
    [
        (-9999, None, np.float32, "-9999"),
        (-9999, "-9999", np.float32, "-9999"),
        (-3.4028234663852886e38, "-3.4028234663852886e+38", np.float32, "-3.40282e+38"),
        (9.96921e36, None, np.float32, "9.96921e+36"),
        (np.nan, None, np.float32, "NaN"),
        (np.nan, "nan", np.float32, "NaN"),
        (-32768, None, np.int32, "-32768"),
        (300, "300", np.int32, "300"),
        (0, "0", np.uint16, "0"),
    ],
)
def test_pixels_without_data_are_transparent_and_the_others_use_the_full_scale(
    mark, stated, dtype, says
):
    values = heights(dtype)
    values[values == mark] += 1
    values[:10, :20] = mark
    low, high = values[10, 0], values[-1, -1]
    assert values[0, 20] < low
    low = values[0, 20]
    picture, made = drawn(tiff(values, stated))
    assert f"{low:.6g} to {high:.6g} · no data: {says}" in made.text
    assert picture.mode == "RGBA"
    assert picture.getpixel((4, 4))[3] == 0
    assert picture.getpixel((50, 4))[3] == 255
    assert picture.getpixel((24, 0))[0] < 20
    assert picture.getpixel((56, 39))[0] > 235


@pytest.mark.parametrize("form", ["TIFF", "PNG"])
def test_a_mask_has_no_pixels_without_data(form):
    values = np.zeros((40, 60), np.uint16)
    values[:, 30:] = 65535
    out = io.BytesIO()
    Image.fromarray(values).save(out, form)
    picture, made = drawn(out.getvalue())
    assert "0 to 65535" in made.text
    assert "no data" not in made.text
    assert picture.convert("RGBA").getextrema()[3] == (255, 255)


@pytest.mark.parametrize(
    "values",
    [
        heights() - 800,
        np.where(heights() > 800, 1, -1).astype(np.int32),
        np.where(np.arange(2400).reshape(40, 60), heights(), -9999).astype(np.float32),
    ],
    ids=["around zero", "two values", "once"],
)
def test_a_value_is_not_taken_for_missing_data_without_evidence(values):
    assert "no data" not in drawn(tiff(values))[1].text


def test_a_picture_of_only_missing_data_is_reported():
    made = tile(Value(tiff(np.full((40, 60), np.nan, np.float32))))
    assert "no pixel has data: all are NaN" in " ".join(made.notes)
