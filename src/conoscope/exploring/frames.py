"""Frames: answers as bytes, a header of JSON and then the arrays as they lie in memory (`explorer/PROTOCOL.md`)."""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from conoscope.exploring.replies import Reply

STEP = 8
"""Arrays begin at multiples of this, so that the page reads them where they lie, without a copy."""
KINDS: dict[str, np.dtype[Any]] = {"f4": np.dtype("<f4"), "f2": np.dtype("<f2"), "i4": np.dtype("<i4"), "u1": np.dtype("u1")}


def answer_frame(number: int, reply: Reply) -> bytes:
    """The frame of a reply to the request of this number."""
    arrays, listed, end = [], [], 0
    for name, given in reply.arrays.items():
        kind, array = _plain(given)
        listed.append({"name": name, "dtype": kind, "shape": array.shape, "offset": end, "bytes": array.nbytes})
        arrays += [array.tobytes(), bytes(-array.nbytes % STEP)]
        end += array.nbytes + -array.nbytes % STEP
    return b"".join((_header({"id": number, "ok": True, "data": _finite(reply.data), "arrays": listed}), *arrays))


def error_frame(number: int | None, line: str) -> bytes:
    """The frame that says in one line why there is no answer; the number is None for what could not be read."""
    return _header({"id": number, "ok": False, "error": line})


def cancelled_frame(number: int) -> bytes:
    """The frame that says that a request was taken back."""
    return _header({"id": number, "cancelled": True})


def progress_frame(number: int, share: float, doing: str) -> bytes:
    """The frame that says which share of a request is done, and what is being done."""
    return _header({"id": number, "progress": _finite(share), "doing": doing})


def decoded(frame: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a frame."""
    (length,) = struct.unpack_from("<I", frame)
    header: dict[str, Any] = json.loads(frame[4 : 4 + length])
    arrays = {}
    for one in header.get("arrays", ()):
        begin = 4 + length + one["offset"]
        arrays[one["name"]] = np.frombuffer(frame[begin : begin + one["bytes"]], KINDS[one["dtype"]]).reshape(one["shape"])
    return header, arrays


def _header(header: Mapping[str, Any]) -> bytes:
    # Half of an emoji has no UTF-8: in ASCII it is an escape, which JSON allows.
    written = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    padded = written + b" " * (-(4 + len(written)) % STEP)
    return struct.pack("<I", len(padded)) + padded


def _plain(array: np.ndarray) -> tuple[str, np.ndarray]:
    """An array as one of the kinds that a frame has: numbers with a point as f4 unless they are f2, others as i4 unless u1."""
    array = np.asarray(array)
    if array.dtype.kind == "b":
        kind = "u1"
    elif array.dtype.kind == "f":
        kind = "f2" if array.dtype.itemsize == 2 else "f4"
    else:
        kind = "u1" if array.dtype == np.uint8 else "i4"
    return kind, np.ascontiguousarray(array, dtype=KINDS[kind])


def _finite(value: Any) -> Any:
    """A value as JSON has it: numbers of numpy as Python's, and null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(name): _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, np.generic | np.ndarray):
        return _finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
