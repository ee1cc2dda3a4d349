"""Generates sample pictures: each function returns the bytes of one image file."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

_Pixels = npt.NDArray[np.uint8]
_Plane = npt.NDArray[np.float64]


def encode(image: Image.Image, form: str, **options: Any) -> bytes:
    """Return ``image`` as a file of the Pillow format ``form``."""
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def _few_colours(pixels: _Pixels) -> Image.Image:
    return Image.fromarray(pixels).quantize(64, dither=Image.Dither.NONE)


def _palette(value: _Plane, phase: tuple[float, float, float]) -> _Pixels:
    """Colour a plane of numbers with three shifted cosines (smooth, periodic)."""
    waves = [0.5 + 0.5 * np.cos(2 * math.pi * (value + shift)) for shift in phase]
    return (np.stack(waves, axis=-1) * 255).astype(np.uint8)


def _grid(width: int, height: int, span: float) -> npt.NDArray[np.complex128]:
    x = np.linspace(-span, span, width)
    y = np.linspace(-span * height / width, span * height / width, height)
    grid: npt.NDArray[np.complex128] = x[None, :] + 1j * y[:, None]
    return grid


def _escape_times(
    z: npt.NDArray[np.complex128], c: npt.NDArray[np.complex128] | complex, rounds: int
) -> _Plane:
    """Return smooth escape times of z → z² + c; 0 for points that do not escape."""
    times = np.zeros(z.shape)
    z = z.copy()
    alive = np.ones(z.shape, dtype=bool)
    for step in range(rounds):
        z[alive] = z[alive] ** 2 + (c if isinstance(c, complex) else c[alive])
        gone = alive & (np.abs(z) > 16)
        times[gone] = step + 1 - np.log2(np.log(np.abs(z[gone])) / math.log(16))
        alive &= ~gone
    return times


def mandelbrot() -> bytes:
    """PNG: the edge of the Mandelbrot set."""
    c = _grid(480, 360, 0.009) + complex(-0.7463, 0.1102)
    times = _escape_times(np.zeros_like(c), c, 260)
    pixels = _palette(np.sqrt(times) / 6, (0.55, 0.45, 0.30))
    pixels[times == 0] = (12, 10, 30)
    return encode(_few_colours(pixels), "PNG")


def julia() -> bytes:
    """WebP: a Julia set."""
    times = _escape_times(_grid(480, 360, 1.6), complex(-0.8, 0.156), 120)
    pixels = _palette(np.sqrt(times) / 9, (0.0, 0.15, 0.30))
    return encode(Image.fromarray(pixels), "WEBP", quality=70)


def _mountain_image(width: int, height: int) -> Image.Image:
    rng = np.random.default_rng(7)
    down = np.linspace(0, 1, height)[:, None, None]
    sky = (1 - down) * np.array([38, 42, 110]) + down * np.array([255, 168, 110])
    pixels = np.repeat(sky, width, axis=1)
    y, x = np.mgrid[0:height, 0:width]
    sun = np.exp(-(((x - width * 0.68) ** 2 + (y - height * 0.45) ** 2) / (height * 0.16) ** 2))
    pixels += sun[:, :, None] * np.array([90, 80, 40])
    for layer in range(5):
        share = layer / 4
        line = np.zeros(width)
        for octave in range(1, 6):
            turn = rng.uniform(0, 2 * math.pi)
            line += np.sin(np.linspace(0, 3.1 * 2**octave, width) + turn) / 2**octave
        ridge = height * (0.50 + 0.11 * layer) - line * height * 0.07
        colour = (1 - share) * np.array([140, 104, 140]) + share * np.array([18, 22, 44])
        pixels[y > ridge[None, :]] = colour
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def mountains() -> bytes:
    """JPEG: hills at dusk, 960 × 640."""
    return encode(_mountain_image(960, 640), "JPEG", quality=88)


def sideways() -> bytes:
    """JPEG: the same hills stored rotated, with the EXIF orientation to rotate them back."""
    turned = _mountain_image(600, 400).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6  # "turn 90° clockwise to show"
    return encode(turned, "JPEG", quality=85, exif=exif)


def waves() -> bytes:
    """JPEG: interference of three waves."""
    grid = _grid(480, 360, 6)
    value = sum(np.sin(3 * np.abs(grid - place)) for place in (2 + 1j, -3 + 0.5j, 0.5 - 2.5j))
    return encode(
        Image.fromarray(_palette(value / 6 + 0.5, (0.60, 0.50, 0.42))), "JPEG", quality=70
    )


def voronoi() -> bytes:
    """PNG: cells around random points, like stained glass."""
    rng = np.random.default_rng(11)
    points = rng.uniform(0, 1, (60, 2)).astype(np.float32) * (320, 240)
    y, x = np.mgrid[0:240, 0:320]
    far = np.hypot(x[..., None] - points[:, 0], y[..., None] - points[:, 1])
    first, second = np.moveaxis(np.partition(far, 1)[..., :2], -1, 0)
    colours = _palette(rng.uniform(0, 1, 60), (0.0, 0.33, 0.6)).astype(float)
    pixels = colours[far.argmin(axis=-1)] * np.clip((second - first) / 9, 0.05, 1)[..., None]
    return encode(_few_colours(pixels.astype(np.uint8)), "PNG")


def prism() -> bytes:
    """PNG with transparency: a colour wheel that fades outwards."""
    grid = _grid(240, 240, 1.0)
    pixels = np.zeros((240, 240, 4), dtype=np.uint8)
    pixels[..., :3] = _palette(np.angle(grid) / (2 * math.pi), (0.0, 0.333, 0.667))
    radius = np.abs(grid)
    ring = np.clip((1 - radius) * 4, 0, 1) * np.clip((radius - 0.18) * 8, 0, 1)
    pixels[..., 3] = (ring * 255).astype(np.uint8)
    return encode(Image.fromarray(pixels), "PNG")


def terrain() -> bytes:
    """PNG of 16-bit greys: heights of a landscape."""
    rng = np.random.default_rng(3)
    frequency = np.hypot(np.fft.fftfreq(300)[:, None], np.fft.fftfreq(400)[None, :])
    frequency[0, 0] = 1
    noise = rng.normal(size=(300, 400)) + 1j * rng.normal(size=(300, 400))
    heights = np.fft.ifft2(noise / frequency**1.9).real
    heights = (heights - heights.min()) / (heights.max() - heights.min())
    steps = (heights * 127).astype(np.uint16) * 516  # few distinct values compress well
    return encode(Image.fromarray(steps), "PNG")


def heat_map() -> bytes:
    """Lossless WebP: orders by hour and weekday."""
    hours = np.arange(24)
    busy = np.exp(-(((hours - 11) / 4) ** 2)) + 0.8 * np.exp(-(((hours - 20) / 2) ** 2))
    heat = busy * np.random.default_rng(5).uniform(0.55, 0.95, (7, 1))
    cells = np.array([240, 249, 255]) - np.kron(heat, np.ones((30, 22)))[..., None] * (205, 150, 90)
    return encode(Image.fromarray(cells.clip(0, 255).astype(np.uint8)), "WEBP", lossless=True)


def bar_chart() -> bytes:
    """PNG: a chart of orders per day."""
    image = Image.new("RGB", (560, 360), "#ffffff")
    draw = ImageDraw.Draw(image)
    draw.text((28, 20), "Orders per day", "#0f172a", ImageFont.load_default(20))
    for number, value in enumerate((231, 243, 248, 252, 260, 284, 279, 251)):
        left, top = 70 + number * 58, 310 - value * 0.78
        colour = "#f97316" if number in (5, 6) else "#2563eb"
        draw.rounded_rectangle((left, top, left + 38, 310), 5, fill=colour)
        draw.text((left + 4, 318), f"{number + 1} Jan", "#334155", ImageFont.load_default(13))
    return encode(_few_colours(np.asarray(image)), "PNG")


def print_colours() -> bytes:
    """JPEG in CMYK, the colour space of printing."""
    ramp = np.linspace(0, 255, 400, dtype=np.uint8)
    pixels = np.zeros((240, 400, 4), dtype=np.uint8)
    for ink in range(4):
        pixels[ink * 60 : ink * 60 + 60, :, ink] = ramp
    return encode(Image.frombytes("CMYK", (400, 240), pixels.tobytes()), "JPEG", quality=90)


def bitmap() -> bytes:
    """BMP: rings of a moiré pattern."""
    radius = np.abs(_grid(200, 150, 9))
    pixels = _palette((np.sin(radius**2) + 1) / 4, (0.0, 0.1, 0.2))
    return encode(_few_colours(pixels), "BMP")


def _animated(frames: list[Image.Image], form: str, **options: Any) -> bytes:
    return encode(frames[0], form, save_all=True, append_images=frames[1:], loop=0, **options)


def kaleidoscope() -> bytes:
    """Animated WebP: a Julia set in eight frames with rotating colours."""
    times = np.sqrt(_escape_times(_grid(200, 200, 1.4), complex(-0.8, 0.156), 60)) / 4
    turns = [_palette(times + step / 8, (0.0, 0.2, 0.45)) for step in range(8)]
    return _animated([Image.fromarray(turn) for turn in turns], "WEBP", duration=160, quality=30)


def spinner() -> bytes:
    """Animated GIF: a rotating arc."""
    frames = []
    for step in range(12):
        frame = Image.new("P", (200, 200), 0)
        frame.putpalette([15, 23, 42, 78, 220, 250])
        box = (40, 40, 160, 160)
        ImageDraw.Draw(frame).arc(box, 30 * step, 30 * step + 270, fill=1, width=16)
        frames.append(frame)
    return _animated(frames, "GIF", duration=90, disposal=2)


def life() -> bytes:
    """Animated GIF: Conway's game of life."""
    rng = np.random.default_rng(23)
    cells = rng.random((30, 40)) < 0.3
    frames = []
    for _ in range(8):
        big = np.kron(cells, np.ones((8, 8), dtype=np.uint8)).astype(np.uint8)
        frame = Image.frombytes("P", (320, 240), big.tobytes())
        frame.putpalette([12, 18, 32, 74, 222, 128])
        frames.append(frame)
        near = sum(
            np.roll(cells, (dy, dx), (0, 1)).astype(int)
            for dy in (-1, 0, 1)
            for dx in (-1, 0, 1)
            if (dy, dx) != (0, 0)
        )
        cells = (near == 3) | (cells & (near == 2))
    return _animated(frames, "GIF", duration=200)


def bomb() -> bytes:
    """PNG of 144 million black pixels in about 17 KB: a viewer must check sizes before decoding."""
    return encode(Image.new("1", (12_000, 12_000)), "PNG")


def page(title: str, number: int, total: int) -> bytes:
    """PNG: a page of a document, with greeked lines and a figure."""
    rng = np.random.default_rng([len(title), number])
    image = Image.new("RGB", (340, 440), "#fffdf8")
    draw = ImageDraw.Draw(image)
    draw.text((30, 26), title, "#1e293b", ImageFont.load_default(19))
    draw.line((30, 56, 310, 56), "#cbd5e1", 2)
    top = 72
    for paragraph in range(3):
        for line in range(5):
            end = 310 if line < 4 else int(rng.integers(120, 280))
            draw.rounded_rectangle((30, top, end, top + 6), 3, fill="#d6dbe3")
            top += 14
        top += 12
        if paragraph == number % 2:
            points = [(30 + k * 28, top + 60 - int(rng.integers(5, 55))) for k in range(11)]
            draw.line(points, fill="#2563eb", width=3, joint="curve")
            top += 78
    draw.text((150, 412), f"{number} / {total}", "#64748b", ImageFont.load_default(12))
    return encode(_few_colours(np.asarray(image)), "PNG")
