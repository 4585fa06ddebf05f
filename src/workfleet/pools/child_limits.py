"""The limit that a child sets itself: its address space, before any user code is imported. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

if sys.platform != "win32":
    import resource


@contextmanager
def address_space(most: int | None) -> Iterator[None]:
    """From now on an allocation beyond `most` bytes raises MemoryError. None is no limit.

    What fails within this block for want of it is raised as a MemoryError that says so, with the limit lifted again, so
    that it can be told.
    """
    if most is None:
        yield
        return
    held = _address_space()
    if held >= most:
        raise MemoryError(f"address_space: {_mb(most)} is less than the {_mb(held)} of a child without any object")
    before = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    except (OSError, ValueError) as error:
        raise OSError(f"address_space: this system does not limit it here: {error}") from error
    try:
        yield
    except (MemoryError, OSError, ImportError) as error:
        resource.setrlimit(resource.RLIMIT_AS, before)
        if not isinstance(error, MemoryError) and "annot allocate memory" not in str(error):
            raise
        said = f": {error}" if str(error) else ""
        raise MemoryError(f"address_space: {_mb(most)} are not enough for the object of this pool{said}") from error


def _address_space() -> int:
    """What this process has now, in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
