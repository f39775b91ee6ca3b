"""Processes that die, or whose disk refuses, at the n-th change of a file: a shim over what Python calls to change files."""

import builtins
import errno
import io
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

DIED = 86
"""The exit code of a process that the shim ended."""
CALLS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "truncate", "ftruncate", "fsync", "chmod", "pwrite")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Changes:
    """Counts the changes of files under a folder; `at` is called before the change with the number `number`, counted from 1."""

    def __init__(self, under: Path, number: int | None, at: Callable[[str], None]) -> None:
        self.under, self.number, self.at, self.count = os.path.realpath(under), number, at, 0
        self.log: list[str] = []

    def __call__(self, what: str, path: Any) -> None:
        if not self._is_under(path):
            return
        self.count += 1
        self.log.append(f"{what} {path}")
        if self.count == self.number:
            self.at(self.log[-1])

    def _is_under(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        return os.path.realpath(os.fspath(path)).startswith(self.under)


def end_here(_: str) -> None:
    """Die as by SIGKILL: nothing that would tidy up runs."""
    os._exit(DIED)


def no_space(what: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), what.partition(" ")[2])


@contextmanager
def watching(changes: Changes, after_opening: bool = True) -> Iterator[None]:
    """Context manager in which the changes of files are counted: before each, and after a file was opened to be written."""
    before: list[tuple[Any, str, Any]] = []

    def patch(module: Any, name: str, function: Any) -> None:
        before.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            at = path
            if (folder := kwargs.get("dir_fd")) is not None:
                at = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
            changes(name, at)
            return real(path, *args, **kwargs)

        return call

    real_open, real_low = io.open, os.open

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = bool(set("wax+") & set(mode))
        if writes and not isinstance(file, int):
            changes("open", file)
        found = real_open(file, mode, *args, **kwargs)
        if writes and after_opening and not isinstance(file, int):
            changes("opened", file)
        return found

    def low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & WRITES:
            changes("open", path)
        return real_low(path, flags, *args, **kwargs)

    for name in CALLS:
        patch(os, name, counted(name, getattr(os, name)))
    patch(os, "open", low)
    patch(io, "open", opened)
    patch(builtins, "open", opened)
    try:
        yield
    finally:
        for module, name, function in reversed(before):
            setattr(module, name, function)


def in_child(work: Callable[[], int], told: Path | None = None) -> int:
    """The exit code of some work in a forked process; what it prints goes to the file `told`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        torch.set_num_threads(1)
        output = os.open(os.devnull if told is None else told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(number, "wb", 0, closefd=False), "utf-8", write_through=True) for number in (1, 2)
        )
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
    except BaseException:
        os.write(output, traceback.format_exc().encode())
    finally:
        os._exit(code)
