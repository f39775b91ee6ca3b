"""Pictures: a matrix as one image, where a mark for each of its numbers would be too many."""

import base64
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

COLOURS = bytes.fromhex("440154481a6c472f7d41448739568c31688e2a788e23888e1f988b22a88435b77954c5687ad151a5db36d2e21bfde725")
"""Sixteen steps of viridis, the scheme of numbers from low to high."""


def picture(shares: "np.ndarray", least: int) -> str:
    """Numbers from 0 to 1 as an image in a data: address, at least so many pixels wide.

    Each number is a square of pixels, so that nothing is blurred where the image is drawn at that width.
    """
    import numpy as np

    # An even number of pixels: two of them, of four bits each, make a byte.
    scale = 2 * max(1, -(-least // (2 * shares.shape[1])))
    steps = (shares * 16).clip(0, 15).astype(np.uint8).repeat(scale, axis=1)
    lines = [line.tobytes() for line in steps[:, ::2] << 4 | steps[:, 1::2]]
    same = b"\2" + bytes(len(lines[0]))
    pixels = b"".join(b"\0" + line + same * (scale - 1) for line in lines)
    size = struct.pack(">IIBBBBB", steps.shape[1], len(lines) * scale, 4, 3, 0, 0, 0)
    parts = ((b"IHDR", size), (b"PLTE", COLOURS), (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, held) for name, held in parts)
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(name: bytes, held: bytes) -> bytes:
    return struct.pack(">I", len(held)) + name + held + struct.pack(">I", zlib.crc32(name + held))
