"""Generates sample audio and video.

WAV needs nothing. MP4 and MP3 need ``ffmpeg`` on the machine; without it (or without the
encoder) the functions return ``None`` and the sample is left out.
"""

from __future__ import annotations

import io
import math
import shutil
import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["chord", "clip", "melody", "song"]

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
    """Encode samples of shape (n,) or (n, channels) in [-1, 1] as 16-bit PCM."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(_RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32000).astype("<i2").tobytes())
    return out.getvalue()


def melody() -> bytes:
    """WAV, mono: a well-known tune of five seconds."""
    return _wav(0.7 * np.concatenate([_tone(note, beats * 0.32) for note, beats in _TUNE]))


def chord() -> bytes:
    """WAV, stereo: a broken chord that walks from left to right."""
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
    """MP3 of the tune, if an encoder is at hand."""
    return _ffmpeg(
        melody(), ["-f", "wav", "-i", "pipe:0", "-c:a", "libmp3lame", "-b:a", "48k"], "mp3"
    )


def clip() -> bytes | None:
    """MP4 (H.264): two seconds of drifting light, if an encoder is at hand."""
    width, height, frames = 320, 180, 48
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    across = {shift: np.sin((x + y) / 60 + shift) for shift in (0.0, 2.1, 4.2)}
    raw = bytearray()
    for frame in range(frames):
        turn = 2 * math.pi * frame / frames
        planes = [
            np.sin(x / 38 + turn) + np.cos(y / 29 - turn + shift) + across[shift]
            for shift in across
        ]
        pixels = (np.stack(planes, axis=-1) * 40 + 128).clip(0, 255).astype(np.uint8)
        raw += pixels.tobytes()
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", "24"]
    coding = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "30", "-movflags", "+faststart"]
    return _ffmpeg(bytes(raw), [*source, "-i", "pipe:0", *coding], "mp4")


def _ffmpeg(data: bytes, arguments: list[str], form: str) -> bytes | None:
    program = shutil.which("ffmpeg")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"out.{form}"
        # bitexact and one thread: the same bytes each time on the same machine
        steady = [
            "-threads",
            "1",
            "-fflags",
            "+bitexact",
            "-flags",
            "+bitexact",
            "-map_metadata",
            "-1",
        ]
        command = [program, "-v", "error", "-nostdin", *arguments, *steady, "-f", form, str(target)]
        try:
            subprocess.run(command, input=data, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return None
        return target.read_bytes()
