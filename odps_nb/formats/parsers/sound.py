"""Audio: duration, sampling rate, channels, and loudness over time, decoded by FFmpeg."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from odps_nb.formats.parsers.containers import DECODERS, FAILURES, opened
from odps_nb.formats.shared import OTHER_CODEC, answer, length_of
from odps_nb.parsing.reasons import ENDS_EARLY, refusal_of
from odps_nb.parsing.values import UnshowableError

if TYPE_CHECKING:
    import numpy.typing as npt
    from av.audio.stream import AudioStream
    from av.container import InputContainer

    Samples = npt.NDArray[np.float32]  # one channel, from -1 to 1
    Levels = npt.NDArray[np.float32]  # minimum and maximum of each column

#: Columns of the waveform drawing.
COLUMNS: Final = 240
_SHORT: Final = 30  # seconds; shorter files are decoded whole
_MOST: Final = 6_000_000  # maximum samples, for any rate that the file states
_MOMENT: Final = 9216  # samples decoded per point of a longer file; an MP3 starts with silent ones
#: Formats that do not state their duration, and for which FFmpeg guesses one.
_COUNTED: Final = ("audio/amr", "audio/aac")
#: Formats that state it, so that a shorter sound is truncated; see `ends_early` for others.
_STATED: Final = ("audio/flac", "audio/basic", "audio/mp4")
_TOLERANCE: Final = 0.1  # seconds
_STATED_IN_MP3: Final = re.compile(rb"(?:Xing|Info)\0\0\0[\x01\x03\x05\x07\x09\x0b\x0d\x0f]")


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return facts and the minimum and maximum level of each waveform column; 128 is silence."""
    if not options.get("whole", True):
        return answer(stated(data, options["mime"], options["length"]))
    length, hertz, channels, levels, codec, note = _decoded(data, options["mime"])
    if not len(levels) or not hertz:
        raise UnshowableError("no sound inside")
    facts = [length, *_form(hertz, channels), *(name for name in codec if name != "PCM")]
    numbers = np.clip(np.nan_to_num(levels), -1, 1) * 127 + 128
    return answer(facts, numbers.astype(np.uint8).tobytes(), note=note)


def _form(hertz: int, channels: int) -> tuple[str, str]:
    named = {1: "mono", 2: "stereo"}.get(channels, f"{channels} channels")
    return f"{hertz / 1000:g} kHz", named


def stated(data: bytes, mime: str, length: int) -> tuple[str, ...]:
    """Return the facts that the beginning of a file of ``length`` bytes states."""
    with opened(data, mime, length) as container:
        track = container.streams.audio[0]
        context = track.codec_context
        form = _form(context.sample_rate, context.layout.nb_channels)
        seconds = (container.duration or 0) / 1_000_000
        is_known = seconds and mime not in _COUNTED
        return (length_of(seconds), *form) if is_known else form


# duration, samples per second, channels, levels, codec name, note
_Sound = tuple[str, int, int, "Levels", list[str], str]


def _decoded(data: bytes, mime: str) -> _Sound:
    """Decode to one channel with FFmpeg: all of a short file, sampled points of a long file."""
    with opened(data, mime) as container:
        track = next(iter(container.streams.audio), None)
        context = track.codec_context if track is not None else None
        if track is None:
            raise UnshowableError("no sound inside")
        if context is None or context.name not in DECODERS:
            name = "unknown" if context is None else context.name
            raise UnshowableError(f"{OTHER_CODEC} {name}")
        context.thread_count = 1
        hertz, channels = context.sample_rate, context.layout.nb_channels
        seconds = (container.duration or 0) / 1_000_000
        note = ""
        if mime in (*_COUNTED, *_STATED) or (mime == "audio/mpeg" and _STATED_IN_MP3.search(data)):
            with opened(data, mime) as counted:
                parts = (packet.duration or 0 for packet in counted.demux(audio=0))
                found = float(sum(parts) * (track.time_base or 0))
            if mime in _COUNTED:
                seconds = found
            elif found < seconds - _TOLERANCE:
                note = ENDS_EARLY
        if seconds <= _SHORT:
            limit = min((_SHORT + 1) * hertz, _MOST)
            samples = _samples(container, track, limit=limit)
            more = "over " if len(samples) >= limit else ""  # the file is longer than it states
            length = more + length_of(len(samples) / (hertz or 1))
            levels = _columns(samples)
        else:
            length = length_of(seconds)
            levels = _moments(container, track, seconds)
        return length, hertz, channels, levels, [DECODERS[context.name]], note


def _samples(container: InputContainer, track: AudioStream, *, limit: int) -> Samples:
    """Return samples of one channel, until there are at least ``limit`` or the file ends."""
    from av import AudioResampler

    mixer = AudioResampler(format="flt", layout="mono")
    parts: list[Samples] = []
    count = 0
    try:
        for frame in container.decode(track):
            parts += [mixed.to_ndarray()[0] for mixed in mixer.resample(frame)]
            count += frame.samples
            if count >= limit:
                break
    except FAILURES as error:
        if not parts:
            raise UnshowableError(refusal_of(error)) from None
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _moments(container: InputContainer, track: AudioStream, seconds: float) -> Levels:
    """Return levels at points spread over a long file, because decoding all of it takes seconds."""
    levels = np.zeros((COLUMNS // 2, 2), np.float32)
    for column in range(len(levels)):
        try:
            container.seek(int(seconds * 1_000_000 * column / len(levels)))
            levels[column] = _columns(_samples(container, track, limit=_MOMENT), 1)
        except FAILURES:
            continue  # leave a gap in the drawing
    return levels


def _columns(samples: Samples, columns: int = COLUMNS) -> Levels:
    """Return the minimum and maximum sample of each column."""
    starts = np.linspace(0, len(samples), min(columns, len(samples)), endpoint=False, dtype=int)
    if not len(starts):
        return np.zeros((0, 2), np.float32)
    ends = np.minimum.reduceat(samples, starts), np.maximum.reduceat(samples, starts)
    return np.stack(ends, axis=1)
