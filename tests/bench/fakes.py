"""Subjects, peers and benches that measure nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.bench import Bench, BenchError, Figures, Subject, Trial, Turn
from bench.environments import Npm, Pip
from bench.peer import Peer

FAKE = Pip("fake", ("fake==1",))


def gives(*values: float, order: list[str] | None = None, who: str = "") -> Subject:
    """A subject whose turns give these figures, one after the other."""

    @contextmanager
    def opened(_trial: Trial) -> Iterator[Turn]:
        left = iter(values)

        def turn() -> Figures:
            if order is not None:
                order.append(who)
            value = next(left)
            return {"rate": value, "extra": value * 10}

        yield turn

    return opened


def breaks(after: int, reason: str) -> Subject:
    """A subject that measures so many turns and then cannot. It must not be asked again."""
    told: list[str] = []

    @contextmanager
    def opened(_trial: Trial) -> Iterator[Turn]:
        turns = iter(range(after))

        def turn() -> Figures:
            if next(turns, None) is None:
                assert not told, "it was asked again after it had broken"
                told.append(reason)
                raise BenchError(reason)
            return {"rate": 1.0, "extra": 1.0}

        yield turn

    return opened


def bench_of(ours: Subject, **options: object) -> Bench:
    bench = Bench("fake-bench", "a fake", "jobs/s", "rate", ours, size=7, size_is="jobs", runs=3)
    return replace(bench, **options)  # type: ignore[arg-type]


def peer_of(name: str, subject: Subject, environment: Pip | Npm = FAKE) -> Peer:
    return Peer(name, f"{name} as it is", environment, {"fake-bench": subject})
