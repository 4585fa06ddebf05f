"""Many of something, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(many: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size`, in order; none is empty."""
    left = iter(many)
    while batch := list(islice(left, size)):
        yield batch
