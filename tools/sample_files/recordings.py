"""Generates sample audio and video; without PyAV (extra ``previews``), MP4 and MP3 are ``None``."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_RATE = 16_000
# "Ode to Joy", first line: (half tones above A4, beats)
_TUNE = (
    *((-5, 1), (-5, 1), (-4, 1), (-2, 1), (-2, 1), (-4, 1), (-5, 1), (-7, 1)),
    *((-9, 1), (-9, 1), (-7, 1), (-5, 1), (-5, 1.5), (-7, 0.5), (-7, 2)),
)


def _tone(half_tones: float, seconds: float) -> npt.NDArray[np.float64]:
    time = np.arange(int(seconds * _RATE)) / _RATE
    pitch = 440.0 * 2 ** (half_tones / 12)
    overtones = sum(np.sin(2 * math.pi * pitch * n * time) / n**2 for n in (1, 2, 3))
    fade = np.minimum(1, time * 80) * np.exp(-2.2 * time)
    tone: npt.NDArray[np.float64] = overtones * fade
    return tone


def _wav(samples: npt.NDArray[np.float64]) -> bytes:
    """Encode samples in [-1, 1] of shape (n,) or (n, channels) as coarse 16-bit PCM."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(_RATE)
        file.writeframes(((np.clip(samples, -1, 1) * 31).round().astype("<i2") * 1024).tobytes())
    return out.getvalue()


def melody() -> bytes:
    """WAV, mono: a well-known tune of five seconds."""
    return _wav(0.7 * np.concatenate([_tone(note, beats * 0.32) for note, beats in _TUNE]))


def chord() -> bytes:
    """WAV, stereo: a broken chord that pans from left to right."""
    notes = (-9, -5, -2, 3)
    length = int(2.0 * _RATE)
    both = np.zeros((length, 2))
    for number, note in enumerate(notes):
        start = int(number * 0.22 * _RATE)
        tone = _tone(note, 2.0)[: length - start]
        right = number / (len(notes) - 1)
        both[start:, 0] += tone * (1 - right) * 0.6
        both[start:, 1] += tone * right * 0.6
    return _wav(both)


def song() -> bytes | None:
    """MP3: the same tune; ``None`` without an encoder."""
    av = _pyav("libmp3lame")
    if av is None:
        return None
    tune = 0.7 * np.concatenate([_tone(note, beats * 0.32) for note, beats in _TUNE])
    whole = av.AudioFrame.from_ndarray(tune.astype(np.float32)[None], "flt", "mono")
    whole.sample_rate = _RATE
    out = io.BytesIO()
    with av.open(out, "w", format="mp3") as file:
        stream = file.add_stream("libmp3lame", rate=_RATE, layout="mono", bit_rate=32_000)
        stream.codec_context.open()  # sets the frame size of the encoder
        cutter = av.AudioResampler(
            format=stream.format.name,
            layout="mono",
            rate=_RATE,
            frame_size=stream.codec_context.frame_size,
        )
        for frame in (*cutter.resample(whole), *cutter.resample(None), None):
            file.mux(stream.encode(frame))
    return out.getvalue()


def clip() -> bytes | None:
    """MP4 (H.264): two seconds of moving gradients; ``None`` without an encoder."""
    av = _pyav("libx264")
    if av is None:
        return None
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as file:
        options = {"qp": "30", "preset": "veryfast"}  # "crf" is not deterministic
        stream = file.add_stream("libx264", rate=24, options=options)
        stream.width, stream.height, stream.pix_fmt = 320, 180, "yuv420p"
        stream.codec_context.thread_count = 1  # for deterministic output
        for picture in _drift(320, 180, frames=48):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    return out.getvalue()


def _drift(width: int, height: int, *, frames: int) -> Iterator[npt.NDArray[np.uint8]]:
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    across = {shift: np.sin((x + y) / 60 + shift) for shift in (0.0, 2.1, 4.2)}
    for frame in range(frames):
        turn = 2 * math.pi * frame / frames
        planes = [
            np.sin(x / 38 + turn) + np.cos(y / 29 - turn + shift) + across[shift]
            for shift in across
        ]
        yield (np.stack(planes, axis=-1) * 40 + 128).clip(0, 255).astype(np.uint8)


def _pyav(encoder: str) -> Any:
    """Return PyAV if it is installed and has that encoder, else ``None``."""
    try:
        import av

        av.Codec(encoder, "w")
    except (ImportError, ValueError):  # ValueError: unknown codec
        return None
    return av
