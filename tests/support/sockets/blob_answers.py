"""Numbered blobs, and responses that contain them: complete, truncated, or with a flipped bit."""

from __future__ import annotations

import random

from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.calls import HTTP_CODINGS, ReadBlobs, decode_request
from odps_nb.wire.codings import encoder
from odps_nb.wire.frames import FrameHeader, encode_frame
from tests.support.sockets.scripted import fail, wire_of

SIZES = [0, 1, 4095, 4096, 4097, 20_000, 0, 300_000]


def content(n: int) -> bytes:
    return random.Random(n).randbytes(SIZES[n % len(SIZES)])


def reference(n: int) -> BlobReference:
    return BlobReference.from_raw(f"blob-{n}".encode())


def number(ref: BlobReference) -> int:
    return int(ref.raw.decode().removeprefix("blob-"))


def references(count: int) -> list[BlobReference]:
    return [reference(n) for n in range(count)]


def body_of(refs, coding: Compression = Compression.NONE) -> bytes:
    if len(refs) == 1:
        payload = content(number(refs[0]))
    else:
        payload = b"".join(
            encode_frame(
                content(n), FrameHeader(content_type=f"text/{n}", custom_file_name=f"{n}.txt")
            )
            for n in map(number, refs)
        )
    squeeze = encoder(coding)
    return encode_blocks(squeeze.feed(payload) + squeeze.finish())


def asked(seen) -> ReadBlobs:
    """Return the references in one request; ``calls`` may include other connections."""
    request = decode_request(wire_of(seen))
    assert isinstance(request, ReadBlobs)
    return request


def serve(line, seen) -> None:
    """Respond with the requested blobs; numbers from 1000 are unknown."""
    request = asked(seen)
    if any(number(ref) >= 1000 for ref in request.references):
        fail(404, "NoSuchObject", "no such blob")(line, seen)
        return
    headers = {}
    if request.compression is not Compression.NONE:
        headers["Content-Encoding"] = HTTP_CODINGS[request.compression]
    line.answer(body_of(request.references, request.compression), **headers)


def cut_at(share: float):
    def step(line, seen) -> None:
        body = body_of(asked(seen).references)
        line.send(
            line.headline(**{"Content-Length": str(len(body))}) + body[: int(len(body) * share)]
        )
        raise ConnectionError

    return step


def flip_at(share: float):
    def step(line, seen) -> None:
        body = bytearray(body_of(asked(seen).references))
        body[int(len(body) * share)] ^= 4
        line.answer(bytes(body))

    return step


def asked_refs(service) -> list[list[int]]:
    return [[number(ref) for ref in call.references] for call in service.calls["ReadBlobs"]]
