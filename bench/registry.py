"""Which benches and peers there are: every module in `cases/` has a BENCH, every one in `peers/` has PEERS."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType

from . import cases, peers
from .bench import Bench
from .peer import Peer


def all_benches() -> dict[str, Bench]:
    """Every bench, by name."""
    return {bench.name: bench for module in _modules(cases.__path__, cases.__name__) for bench in [module.BENCH]}


def all_peers() -> dict[str, Peer]:
    """Every peer, by name."""
    return {peer.name: peer for module in _modules(peers.__path__, peers.__name__) for peer in module.PEERS}


def _modules(path: Iterable[str], package: str) -> Iterator[ModuleType]:
    for found in sorted(pkgutil.iter_modules(path), key=lambda each: each.name):
        yield import_module(f"{package}.{found.name}")
