"""Servers that belong together, up when handed out: a primary that sentinels watch, a cluster of three nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.stores.redis.servers import SERVER, Server, free_port

CLUSTERED = (
    "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no",
    "--cluster-port",
)  # fmt: skip
_SLOTS = ((0, 5460), (5461, 10922), (10923, 16383))
_UP_S = 60
MakeFolder = Callable[[str], Path]
"""Makes a new folder each time; `tmp_path_factory.mktemp`."""


@dataclass(frozen=True)
class Watched:
    """A primary, its replica, and the sentinels that know both."""

    primary: Server
    replica: Server
    sentinels: tuple[Server, ...]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/main/0"


@contextmanager
def running(servers: Sequence[Server]) -> Iterator[None]:
    """Servers that are started, and stopped whatever happens."""
    try:
        for each in servers:
            each.start()
        yield
    finally:
        for each in servers:
            each.stop()


@contextmanager
def watched(
    folder: MakeFolder, *, sentinels: int = 1, binary: Path | str = SERVER, down_after_ms: int = 500
) -> Iterator[Watched]:
    """More than half of the sentinels have to agree before the replica takes over."""
    primary = Server(folder("r"), binary=binary)
    replica = Server(folder("r"), "--replicaof", "127.0.0.1", str(primary.port), binary=binary)
    quorum = sentinels // 2 + 1
    watching = tuple(_sentinel(folder("r"), primary, quorum, binary, down_after_ms) for _ in range(sentinels))
    made = Watched(primary, replica, watching)
    with running([primary, replica, *made.sentinels]):
        _until(lambda: all(_knows(each, replica, sentinels) for each in made.sentinels), "the sentinels know them all")
        yield made


def _sentinel(folder: Path, primary: Server, quorum: int, binary: Path | str, down_after_ms: int) -> Server:
    rules = folder / "sentinel.conf"
    rules.write_text(
        f"sentinel monitor main 127.0.0.1 {primary.port} {quorum}\n"
        f"sentinel down-after-milliseconds main {down_after_ms}\n"
        "sentinel failover-timeout main 2000\n"
    )
    return Server(folder, sentinel=rules, binary=binary)


def _knows(sentinel: Server, replica: Server, sentinels: int) -> bool:
    replicas = sentinel.ask("SENTINEL", "REPLICAS", "main")
    others = sentinel.ask("SENTINEL", "SENTINELS", "main")
    return str(replica.port) in str(replicas) and isinstance(others, list) and len(others) == sentinels - 1


@contextmanager
def clustered(folder: MakeFolder, *, binary: Path | str = SERVER) -> Iterator[list[Server]]:
    """Three nodes that share the slots, without replicas."""
    buses = [free_port() for _ in _SLOTS]
    nodes = [Server(folder("r"), *CLUSTERED, str(bus), binary=binary) for bus in buses]
    with running(nodes):
        for node, (first, last) in zip(nodes, _SLOTS, strict=True):
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
            for other, bus in zip(nodes, buses, strict=True):
                node.ask("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
        _until(lambda: all(_is_up(node) for node in nodes), "the nodes form a cluster")
        yield nodes


def _is_up(node: Server) -> bool:
    said = str(node.ask("CLUSTER", "INFO"))
    return "cluster_state:ok" in said and f"known_nodes:{len(_SLOTS)}" in said


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _UP_S
    while not true():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)
