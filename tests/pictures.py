"""Tiny pictures for tests, written byte by byte."""

from __future__ import annotations

import base64
import struct
import zlib


def png(width: int = 2, height: int = 2, colour: tuple[int, int, int] = (255, 0, 0)) -> bytes:
    """A PNG of one colour."""
    pixels = (b"\0" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(pixels)), (b"IEND", b""))
    written = (
        struct.pack(">I", len(data)) + kind + data + _sum(kind + data) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def _sum(data: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(data))


def data_url(data: bytes, kind: str = "image/png") -> str:
    """A picture as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
