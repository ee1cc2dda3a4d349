"""Generates small video and audio files with PyAV, and a few pictures."""

from __future__ import annotations

import functools
import io
import struct

import av
import numpy as np
from PIL import Image

__all__ = ["files", "film", "psd", "sound"]


@functools.cache
def files() -> dict[str, bytes]:
    """Return the files by name."""
    return {
        "clip.mp4": film("mp4", "libx264"),
        "clip.mov": film("mov", "mpeg4"),
        "clip.webm": film("webm", "libvpx"),
        "clip.mkv": film("matroska", "libx264"),
        "clip.avi": film("avi", "mjpeg", pixels="yuvj420p"),
        "song.mp3": sound("mp3", "libmp3lame"),
        "song.ogg": sound("ogg", "libopus"),
        "song.flac": sound("flac", "flac"),
        "song.m4a": sound("ipod", "aac"),
        "call.amr": sound("amr", "libopencore_amrnb", rate=8000),
        "call.wav": sound("wav", "adpcm_ms", rate=8000),
        "call.au": sound("au", "pcm_mulaw", rate=8000),
        "song.aiff": sound("aiff", "pcm_s16be"),
        "song.aac": sound("adts", "aac"),
        "song.wma": sound("asf", "wmav2", rate=44_100, bits=64_000),
        "clip.wmv": film("asf", "wmv2"),
        "clip.ts": film("mpegts", "mpeg2video"),
        "clip.mpg": film("dvd", "mpeg2video"),
        "clip.flv": film("flv", "flv"),
        "clip.3gp": film("3gp", "mpeg4"),
        "photo.jp2": _picture("JPEG2000"),
        "photo.ppm": _picture("PPM"),
        "photo.dds": _picture("DDS"),
        "photo.qoi": _picture("QOI"),
        "photo.psd": psd(64, 48),
    }


def _picture(form: str) -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").resize((64, 48)).save(out, form)
    return out.getvalue()


def psd(width: int, height: int, *, channels: int = 3, layers: bytes = b"") -> bytes:
    """Return an uncompressed Photoshop picture with 8 bits per channel."""
    head = struct.pack(">4sH6xHIIHH", b"8BPS", 1, channels, height, width, 8, 3)
    lists = struct.pack(">III", 0, 0, len(layers)) + layers + bytes(2)
    plane = bytes(at * 255 // (width * height) for at in range(width * height))
    return head + lists + plane * channels


def film(
    container: str,
    codec: str,
    *,
    pixels: str = "yuv420p",
    dark: int = 0,
    frames: int = 24,
    title: str = "",
) -> bytes:
    """Return two seconds of 64 × 48 pixels, red on the left; ``dark`` frames are black at first."""
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        file.metadata.update({"title": title} if title else {})
        stream = file.add_stream(codec, rate=12)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
        stream.codec_context.thread_count = 1
        stream.codec_context.gop_size = 6
        for number in range(frames):
            picture = np.zeros((48, 64, 3), np.uint8)
            if number >= dark:
                picture[:, :32] = 200, 40, 40
                picture[:24, 32:] = 30, 30, 120 + number
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        file.mux(stream.encode())
    return out.getvalue()


def sound(
    container: str,
    codec: str,
    *,
    seconds: int = 2,
    rate: int = 48_000,
    bits: int | None = None,
    title: str = "",
) -> bytes:
    """Return a tone whose volume rises during the first half."""
    time = np.arange(seconds * rate) / rate
    tone = np.sin(time * 440 * 2 * np.pi) * np.minimum(1, time / seconds * 2) * 0.8
    whole = av.AudioFrame.from_ndarray(tone.astype(np.float32)[None], "flt", "mono")
    whole.sample_rate = rate
    out = io.BytesIO()
    with av.open(out, "w", format=container) as file:
        file.metadata.update({"title": title} if title else {})
        stream = file.add_stream(codec, rate=rate, layout="mono")
        if bits is not None:
            stream.codec_context.bit_rate = bits
        # open the encoder now, because only then is its frame size known
        stream.codec_context.open()
        cutter = av.AudioResampler(
            format=stream.format.name,
            layout="mono",
            rate=rate,
            frame_size=stream.codec_context.frame_size or 4096,
        )
        for frame in [*cutter.resample(whole), *cutter.resample(None)]:
            file.mux(stream.encode(frame))
        file.mux(stream.encode())
    return out.getvalue()
