"""Claims: a folder is written by one process at a time, and whether it can be written at all is known before any work.

A claim is a file in the folder with the process and the machine that hold it. It is locked, so that the claim of a process that
was killed is void; where a file system has no locks, the process is looked for.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from conoscope.common.errors import OutputError
from conoscope.common.writing import BESIDE, as_output_error

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

CLAIM = f"{BESIDE}claim"
"""The name of the file."""
Held = dict[str, int]
"""Open files by folder."""
_held: ContextVar[tuple[Held, ...]] = ContextVar("held", default=())


@contextmanager
def claims() -> Iterator[None]:
    """Context manager, or with @ a decorator of a function, that gives back at its end what was claimed within."""
    mine: Held = {}
    token = _held.set((*_held.get(), mine))
    try:
        yield
    finally:
        _held.reset(token)
        for folder, file in mine.items():
            _give_back(folder, file)


def hold(folder: Path) -> None:
    """Claim a folder until the end of `claims`; OutputError if it cannot be written, or another process holds it.

    What was claimed by the same call, or by one around it, stays claimed. Outside of `claims` the claim is given back at once.
    """
    key, all_held = os.path.realpath(folder), _held.get()
    if any(key in held for held in all_held):
        return
    file = _claimed(key)
    for path in Path(key).glob(f"{BESIDE}*"):  # what a killed process left
        if path.name != CLAIM:
            with suppress(OSError):
                _remove(path)
    if all_held:
        all_held[-1][key] = file
    else:
        _give_back(key, file)


def is_held(folder: Path) -> bool:
    """Whether another process holds a folder."""
    key = os.path.realpath(folder)
    if any(key in held for held in _held.get()) or not os.path.exists(os.path.join(key, CLAIM)):
        return False
    try:
        file = os.open(os.path.join(key, CLAIM), os.O_RDWR | _CLOSED)
    except OSError:
        return False
    try:
        return not _lock(file)
    finally:
        os.close(file)


_CLOSED = getattr(os, "O_CLOEXEC", 0)


def _claimed(folder: str) -> int:
    path = os.path.join(folder, CLAIM)
    while True:
        with as_output_error(folder):
            file = os.open(path, os.O_RDWR | os.O_CREAT | _CLOSED, 0o666)
        if not _lock(file):
            holder = _holder(file)
            os.close(file)
            raise OutputError(f"{folder} is being written by {holder}; wait until it ends, or give -o another folder")
        # Its last holder may have removed the file between the two calls.
        if os.path.exists(path) and os.path.samestat(os.fstat(file), os.stat(path)):
            break
        os.close(file)
    try:
        with as_output_error(folder):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    except OutputError:
        _give_back(folder, file)
        raise
    return file


def _lock(file: int) -> bool:
    """Lock an open file; False if another process has it."""
    try:
        if fcntl is None:
            raise OSError
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        number, _, host = os.pread(file, 300, 0).decode(errors="replace").strip().partition(" ")
        return not number.isdecimal() or (host == socket.gethostname() and not _is_alive(int(number)))
    return True


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _holder(file: int) -> str:
    number, _, host = os.pread(file, 300, 0).decode(errors="replace").strip().partition(" ")
    return f"another process ({number} on {host})" if number and host else "another process"


def _give_back(folder: str, file: int) -> None:
    with suppress(OSError):
        os.unlink(os.path.join(folder, CLAIM))
    with suppress(OSError):
        os.close(file)


def _remove(path: Path) -> None:
    import shutil

    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
