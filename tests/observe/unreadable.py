"""Values that fail whoever reads them, as user code has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class Gone(Mapping[str, object]):
    """A row whose database has gone."""

    def __getitem__(self, key: str) -> object:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Odd(str):
    """A text that cannot be looked through."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        raise RuntimeError

    def __str__(self) -> str:
        return self
